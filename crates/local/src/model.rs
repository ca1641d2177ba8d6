//! The model as others see it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use bowline_llm::{CallId, Model, ModelError, ModelInfo, ModelStream, Request, StreamEvent};
use futures::stream;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::engine::{Engine, Listener, Load};
use crate::gguf::Header;
use crate::lines::Lines;
use crate::template::Template;

/// A model in this process.
///
/// The weights are loaded when the first request comes, and stay as long as the model. Requests are
/// answered one after the other, each beginning with what it shares with the one before it.
///
/// ```no_run
/// use std::path::Path;
///
/// use bowline_llm::{Model, ModelInfo};
/// use bowline_local::{Config, LocalModel};
///
/// let info = ModelInfo { provider: "local".into(), model: "mine".into(), ..ModelInfo::default() };
/// let model = LocalModel::open(Path::new("mine.gguf"), Config { info, threads: None })?;
/// assert_eq!(model.info().id(), "local/mine");
/// # Ok::<(), bowline_llm::ModelError>(())
/// ```
#[derive(Debug)]
pub struct LocalModel {
    info: ModelInfo,
    way: Way,
    engine: Arc<Engine>,
}

/// How a model is run.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// What is known of the model. Without a context window it takes what the file says, up to
    /// [`LINES_WINDOW`] or [`TEMPLATE_WINDOW`] tokens, because all of it is kept in memory.
    pub info: ModelInfo,
    /// How many threads compute; `None` takes the processors that are free.
    pub threads: Option<usize>,
}

/// How a model converses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// In plain lines, with the tools `read`, `list`, `grep` and `write` only, and without a system
    /// text: its file has no chat template with tools, or one that is not understood here.
    Lines,
    /// As its chat template says, with all tools.
    Template,
}

/// The context window of a model in plain lines, where nothing else is said, in tokens.
pub const LINES_WINDOW: u32 = 2048;

/// The context window of a model with a chat template, where nothing else is said, in tokens.
pub const TEMPLATE_WINDOW: u32 = 16_384;

impl LocalModel {
    /// Opens a file. Only what it says of itself is read.
    ///
    /// # Errors
    /// If the file is not there, is no GGUF, or is of a kind that cannot converse.
    pub fn open(path: &Path, config: Config) -> Result<Self, ModelError> {
        let header = Header::read(path)?;
        let Config { mut info, threads } = config;
        let template = header.chat_template.as_deref().and_then(Template::of);
        let (way, usual) = match template {
            Some(_) => (Way::Template, TEMPLATE_WINDOW),
            None => (Way::Lines, LINES_WINDOW),
        };
        let trained = header.context_length.unwrap_or(usual);
        let wanted = info.context_window.and_then(|window| u32::try_from(window).ok());
        let window = wanted.unwrap_or(usual).min(trained);
        info.context_window = Some(u64::from(window));
        let max_output = info.max_output_tokens;
        let load = Load { path: path.to_owned(), window, max_output, threads };
        let engine = match template {
            Some(template) => Engine::start(load, template)?,
            None => Engine::start(load, Lines::default())?,
        };
        Ok(Self { info, way, engine: Arc::new(engine) })
    }

    /// Returns how the model converses.
    pub fn way(&self) -> Way {
        self.way
    }
}

impl Model for LocalModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        let start = Stage::Unasked(Arc::clone(&self.engine), request);
        Box::pin(stream::unfold(start, async |stage| {
            let mut hearing = match stage {
                Stage::Unasked(engine, request) => {
                    let (sender, events) = mpsc::unbounded_channel();
                    engine.ask(request, Listener(sender));
                    Hearing { events, _engine: engine }
                }
                Stage::Hearing(hearing) => hearing,
            };
            let event = hearing.events.recv().await?;
            Some((event, Stage::Hearing(hearing)))
        }))
    }
}

enum Stage {
    Unasked(Arc<Engine>, Request),
    Hearing(Hearing),
}

/// A reply in the middle. Its fields are dropped in this order: an engine that goes with its last owner
/// ends what nobody hears.
struct Hearing {
    events: UnboundedReceiver<Result<StreamEvent, ModelError>>,
    _engine: Arc<Engine>,
}

/// Makes an id for a call: models in the process give none, and a session may meet several of them.
pub(crate) fn made_id() -> CallId {
    format!("call_{:016x}", RandomState::new().build_hasher().finish()).into()
}
