//! Models in this process: GGUF files, where bowline is built with the feature `local`.
//!
//! They are kept in a folder of the cache and called `local/NAME`, NAME being that of the file
//! without `.gguf`, its beginning, or a path.

#[cfg(feature = "local")]
mod built_in;
#[cfg(feature = "local")]
use built_in as way;
#[cfg(not(feature = "local"))]
mod left_out;
#[cfg(not(feature = "local"))]
use left_out as way;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_llm::http::Proxy;
use bowline_llm::{Model, ModelInfo};

use crate::environment::Folders;

/// The provider of models in this process.
pub const PROVIDER: &str = "local";

/// Whether this bowline can run models in its own process.
pub const IS_BUILT_IN: bool = way::IS_BUILT_IN;

/// A model in this process, opened.
pub(crate) struct Embedded {
    pub(crate) model: Arc<dyn Model>,
    /// Whether it talks in plain lines: it then knows few tools and takes no system text.
    pub(crate) in_lines: bool,
}

/// What is wanted of a pull.
#[derive(Debug, Clone)]
pub struct Pull<'a> {
    /// A path or an address; `None` is the model for demonstrations.
    pub source: Option<&'a str>,
    /// The SHA-256 that the file must have, in hex.
    pub sha256: Option<&'a str>,
    /// Where models are kept.
    pub folder: PathBuf,
    /// The proxies for addresses.
    pub proxy: Proxy,
}

/// A model that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// By what it is called: `local/NAME`.
    pub model: String,
    /// The file.
    pub path: PathBuf,
    /// How long the file is, in bytes.
    pub bytes: u64,
    /// The SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// Whether it was there before.
    pub was_there: bool,
}

/// Returns the folder in which models are kept.
pub fn folder(folders: &Folders) -> PathBuf {
    folders.cache.join("models")
}

/// Returns the names of the models that are there and can be run, the one that runs by itself first.
pub fn models(folder: &Path) -> Vec<String> {
    way::models(folder)
}

/// Returns what has to be said of a model when it is taken because none was named.
pub fn note(model: &str) -> String {
    if way::is_tiny(model) {
        format!(
            "no model is named; taking {PROVIDER}/{model}, a tiny model for demonstrations that \
             really runs; connect a real one for work"
        )
    } else {
        format!("no model is named; taking {PROVIDER}/{model}")
    }
}

/// Opens a model.
///
/// # Errors
/// What is wrong, and what to do.
pub(crate) fn open(name: &str, folder: &Path, info: ModelInfo) -> Result<Embedded, String> {
    way::open(name, folder, info)
}

/// Fetches a model and keeps it.
///
/// `progress` is told how many bytes have come, and how many there are where that is known.
///
/// # Errors
/// What is wrong, and what to do; then nothing has changed.
pub async fn pull(
    pull: Pull<'_>,
    progress: &mut (dyn FnMut(u64, Option<u64>) + Send),
) -> Result<Pulled, String> {
    way::pull(pull, progress).await
}
