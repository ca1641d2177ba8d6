//! An agent before it lives: what it is made of, as plain data.

use std::fmt;
use std::sync::Arc;

use bowline_llm::{Effort, Model};

use crate::effect::DynEffect;
use crate::error::AgentError;
use crate::feed::Feed;
use crate::fork;
use crate::gate::{Gate, Open};
use crate::handle::SessionHandle;
use crate::id::{EntryId, SessionId, Source, SystemSource};
use crate::journal::{Pos, Store};
use crate::limits::Limits;
use crate::memory::Memory;
use crate::middleware::Middleware;
use crate::on_end::OnEnd;
use crate::on_stop::OnStop;
use crate::op::Input;
use crate::orchestrator::{Orchestrator, React};
use crate::output::{OutputSchema, Shape};
use crate::prompt_gate::PromptGate;
use crate::redact::Redaction;
use crate::run::Run;
use crate::session;
use crate::tool::{ToolSource, Toolbox};
use crate::transform::{Convert, Transform};

/// What an agent is made of. [`Agent::start`] brings it to life, as often as wanted.
///
/// ```
/// # use std::sync::Arc;
/// # use bowline_agent::Agent;
/// # fn example(model: Arc<dyn bowline_llm::Model>) -> Agent {
/// Agent { instructions: "Answer in one word.".into(), ..Agent::new(model) }
/// # }
/// ```
#[derive(Clone)]
pub struct Agent {
    /// The name of the configuration; sub-agents made from it are called after it.
    pub name: String,
    /// The system text: it stays the same from request to request.
    pub instructions: Arc<str>,
    /// What the model is told with the first prompt: facts that change, such as the directory and
    /// the date. Empty for nothing.
    pub context: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// How hard the model should think; `None` leaves it to the provider.
    pub effort: Option<Effort>,
    /// What the model can do.
    pub tools: Toolbox,
    /// Where more tools come from. It is asked when a session is opened and when a run starts, so that
    /// a run keeps the tools it began with. Of tools with one name that of [`Agent::tools`] counts.
    pub more_tools: Option<Arc<dyn ToolSource>>,
    /// Which calls of one reply may overlap.
    pub tool_execution: ToolExecution,
    /// How much a run may use.
    pub limits: Limits,
    /// What the answer of a run must fit. A run that is open goes on with what it began with.
    pub output_schema: Option<OutputSchema>,
    /// The name under which a tool records what the agent tells the user, each as `{"text": …}`, if
    /// its own text is not for the user. Where such a thing was told in a run, the last of it is the
    /// answer that must fit.
    pub tells_with: Option<String>,
    /// The shape of the loop.
    pub orchestrator: Arc<dyn Orchestrator>,
    /// What changes the conversation at a step, in the order in which it is asked.
    pub effects: Vec<Arc<dyn DynEffect>>,
    /// What changes what the model gets to see, in the order in which it is applied.
    pub transforms: Vec<Arc<dyn Transform>>,
    /// What makes messages of entries that only the embedding program or a tool understands; without
    /// it the model does not see them.
    pub convert: Option<Arc<dyn Convert>>,
    /// What wraps a run, the outermost first.
    pub middleware: Vec<Arc<dyn Middleware>>,
    /// What decides whether a run may end with its answer.
    pub on_stop: Option<Arc<dyn OnStop>>,
    /// What is done when the agent is down.
    pub on_end: Option<Arc<dyn OnEnd>>,
    /// Where to look for what is to be steered in.
    pub steering: Option<Arc<dyn Feed>>,
    /// Where to look for what follows up on an answer.
    pub follow_ups: Option<Arc<dyn Feed>>,
    /// Who decides about tool calls.
    pub gate: Arc<dyn Gate>,
    /// Who decides about prompts; without anybody each is taken.
    pub prompt_gate: Option<Arc<dyn PromptGate>>,
    /// Secrets that no tool's output may carry to the model or the log.
    pub redaction: Redaction,
    /// Whether somebody is there who can decide and answer. If not, a run that needs it ends.
    pub attended: bool,
    /// What to do with a prompt while a run is open.
    pub busy: Busy,
    /// The directory in which the session works, for those who list sessions.
    pub cwd: Option<String>,
    /// Where sessions are kept.
    pub store: Arc<dyn Store>,
    /// Where ids and the time come from.
    pub source: Arc<dyn Source>,
}

/// Which calls of one reply may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolExecution {
    /// Those that do not conflict by what they touch, at most eight at once.
    #[default]
    Auto,
    /// All of them, at most so many at once.
    Parallel {
        /// How many at once.
        max: usize,
    },
    /// None.
    Sequential,
}

/// What to do with a prompt while a run is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Busy {
    /// Refuse it.
    #[default]
    Reject,
    /// Say it at the next boundary of the open run.
    Queue,
    /// Skip calls that have not started, and say it before the next model call.
    Steer,
    /// Cancel the open run, then start a new one with it.
    CancelPrevious,
}

impl Agent {
    /// Makes an agent with no instructions, no tools, the default limits, and a memory that
    /// forgets.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self {
            name: "default".to_owned(),
            instructions: "".into(),
            context: String::new(),
            model,
            effort: None,
            tools: Toolbox::default(),
            more_tools: None,
            tool_execution: ToolExecution::Auto,
            limits: Limits::default(),
            output_schema: None,
            tells_with: None,
            orchestrator: Arc::new(React),
            effects: Vec::new(),
            transforms: Vec::new(),
            convert: None,
            middleware: Vec::new(),
            on_stop: None,
            on_end: None,
            steering: None,
            follow_ups: None,
            gate: Arc::new(Open),
            prompt_gate: None,
            redaction: Redaction::default(),
            attended: true,
            busy: Busy::Reject,
            cwd: None,
            store: Arc::new(Memory::default()),
            source: Arc::new(SystemSource),
        }
    }

    /// Starts a new session. Nothing is kept before its first prompt.
    ///
    /// Must be called within a tokio runtime, like everything that returns a handle.
    pub fn start(&self) -> SessionHandle {
        session::start(self)
    }

    /// Opens a session again. A run that is open in it goes on when
    /// [`SessionHandle::continue_run`] or [`SessionHandle::prompt`] is called.
    ///
    /// # Errors
    /// [`AgentError::Journal`] if the session is not there, busy or broken.
    pub async fn resume(&self, id: SessionId) -> Result<SessionHandle, AgentError> {
        session::resume(self, id).await
    }

    /// Starts a new session that begins with a copy of another one's conversation, up to an entry
    /// or, without one, to where it stands. The other session may be in use.
    ///
    /// # Errors
    /// [`AgentError::Journal`] if the log has no such entry.
    pub async fn fork(&self, origin: ForkPoint) -> Result<SessionHandle, AgentError> {
        let id = SessionId::new(&*self.source);
        let copy = fork::copy_session(self, &origin, id)?;
        session::start_with(self, id, copy).await
    }

    /// Returns all tools that the agent has now.
    pub fn toolbox(&self) -> Toolbox {
        match &self.more_tools {
            Some(more) => Toolbox::layered([&self.tools, &more.tools()]),
            None => self.tools.clone(),
        }
    }

    /// Returns what the answer of a new run must be like.
    pub(crate) fn shape(&self) -> Option<Shape> {
        let schema = self.output_schema.as_ref()?.schema().clone();
        Some(Shape { schema, told_with: self.tells_with.clone() })
    }

    /// Asks the agent one thing in a session of its own.
    pub fn prompt(&self, input: impl Into<Input>) -> Run {
        self.start().prompt(input)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.name)
            .field("model", &self.model.info().id())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// Where a fork begins: in which conversation, and how far along it.
#[derive(Debug, Clone)]
pub struct ForkPoint {
    /// The session.
    pub session: SessionId,
    /// Its entries, as [`SessionLog::read`](crate::journal::SessionLog::read) gives them.
    pub entries: Vec<(Pos, crate::entry::Entry)>,
    /// The hash of its log, where its store keeps one.
    pub hash: Option<String>,
    /// The entry up to which to copy; `None` for the head.
    pub at: Option<EntryId>,
}
