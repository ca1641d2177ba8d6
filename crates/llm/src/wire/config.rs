//! How a model behind a server is reached.

use std::time::Duration;

use crate::{ModelInfo, Secret};

/// How a model is reached; `D` is what servers of its wire do differently.
///
/// Each wire has its own name for its configuration, such as
/// [`chat::Config`](crate::chat::Config), and says there what its address is and where its key goes.
#[derive(Debug, Clone)]
pub struct Config<D> {
    /// What is known of the model; provider and model names are needed.
    pub info: ModelInfo,
    /// The address below which the wire's own path lies.
    pub base_url: String,
    /// The key; servers on the same machine need none.
    pub api_key: Option<Secret>,
    /// Headers sent with every request. They come last, so that they can replace any other, and
    /// are taken for secrets.
    pub headers: Vec<(String, String)>,
    /// Whether answers are streamed.
    pub stream: bool,
    /// How long nothing may come, before or within an answer. Without streaming nothing comes
    /// until the whole answer is there, so this bounds the time of an answer.
    pub idle_timeout: Duration,
    /// What this server and model do differently from others.
    pub dialect: D,
}

impl<D> Config<D> {
    /// Makes a configuration with the defaults of all wires.
    pub(crate) fn with(base_url: String, dialect: D) -> Self {
        Self {
            info: ModelInfo::default(),
            base_url,
            api_key: None,
            headers: Vec::new(),
            stream: true,
            idle_timeout: Duration::from_secs(120),
            dialect,
        }
    }
}
