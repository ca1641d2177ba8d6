//! Looking again and again, where the system does not tell.

use std::path::Path;

/// Nothing needs to be kept to look again.
#[derive(Debug, Default)]
pub(crate) struct Watch;

/// Returns once something is so that depends on a file in a folder.
pub(crate) async fn until(_watch: &Watch, _folder: &Path, is_so: impl Fn() -> bool) {
    while !is_so() {
        super::pause().await;
    }
}
