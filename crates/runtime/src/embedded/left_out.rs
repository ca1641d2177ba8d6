//! What a bowline without models of its own says.

use std::path::Path;

use bowline_llm::ModelInfo;

use super::{Embedded, Pull, Pulled};

pub(super) const IS_BUILT_IN: bool = false;

const LEFT_OUT: &str = "this bowline is built without models of its own; build it with them: cargo \
                        build --release -p bowline --features local (needs cmake, clang and \
                        libclang-dev)";

pub(super) fn models(_: &Path) -> Vec<String> {
    Vec::new()
}

pub(super) fn is_tiny(_: &str) -> bool {
    false
}

pub(super) fn open(_: &str, _: &Path, _: ModelInfo) -> Result<Embedded, String> {
    Err(LEFT_OUT.to_owned())
}

#[expect(clippy::unused_async, reason = "it stands in for one that waits")]
pub(super) async fn pull(
    _: Pull<'_>,
    _: &mut (dyn FnMut(u64, Option<u64>) + Send),
) -> Result<Pulled, String> {
    Err(LEFT_OUT.to_owned())
}
