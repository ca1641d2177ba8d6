//! What a running tool sees of the agent that runs it.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use bowline_llm::{CallId, RawJson, Usage};

use crate::children::Children;
use crate::event::AgentMeta;
use crate::id::{SessionId, Source};
use crate::op::Decision;

use super::ToolError;

/// What a running tool sees of the agent that runs it, and its only way to be heard.
///
/// A clone may outlive the call; what it says then is dropped.
#[derive(Clone)]
pub struct ToolContext {
    /// The session.
    pub session: SessionId,
    /// The agent whose call this is; `depth` is 0 for the session's first agent.
    pub agent: Arc<AgentMeta>,
    /// The call.
    pub call: CallId,
    /// Fires when the call should stop: the run was cancelled or the call's time is up.
    pub cancel: CancellationToken,
    /// How long a call may take; `None` for no limit.
    pub tool_time: Option<Duration>,
    /// How many bytes of output the model gets to see; 0 for no limit.
    pub output_bytes: u64,
    /// The folder for what tools keep of this session, if its store has one; it may not exist yet.
    pub folder: Option<PathBuf>,
    /// What woke the call, if it had been waiting.
    pub wake: Option<Waked>,
    /// Makes sub-agents, which live as long as the call.
    pub children: Children,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) scope: Arc<CallScope>,
}

/// What woke a waiting call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waked {
    /// A person decided.
    Decided(Decision),
    /// A person answered.
    Answered(String),
    /// What it waited for has happened.
    Happened,
}

impl ToolContext {
    /// Shows a person what the tool is doing; the model never sees it.
    pub fn output(&self, text: impl Into<String>) {
        self.scope.say(ScopeMessage::Output(text.into()));
    }

    /// Reports what the tool itself spent on models. It counts as the agent's, but not as part of
    /// its context.
    pub fn report_usage(&self, usage: Usage, cost_usd: Option<f64>) {
        // What is no number cannot be written down.
        let cost_usd = cost_usd.filter(|cost| cost.is_finite());
        self.scope.say(ScopeMessage::Usage(usage, cost_usd));
    }

    /// Records state under a name; it is kept with the call's result.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if the value cannot be written as JSON.
    pub fn record(&self, name: &str, value: &impl Serialize) -> Result<(), ToolError> {
        let data = RawJson::of(value)
            .map_err(|error| ToolError::Failed(format!("cannot record {name}: {error}")))?;
        self.scope.record(name, data);
        Ok(())
    }

    /// Returns what was recorded under a name along this conversation, oldest first, as of the
    /// start of the call, followed by what this call recorded.
    pub fn recorded(&self, name: &str) -> Vec<RawJson> {
        let before = self.scope.recorded.get(name);
        let own = self.scope.lock();
        before.into_iter().flatten().chain(own.named(name)).cloned().collect()
    }

    /// Returns the first thing that `find` makes of what was recorded under a name, latest first:
    /// what is further back is not read.
    pub fn last_recorded<T>(
        &self,
        name: &str,
        mut find: impl FnMut(&RawJson) -> Option<T>,
    ) -> Option<T> {
        // `find` is no code of ours: it does not run under the lock.
        let own: Vec<_> = self.scope.lock().named(name).cloned().collect();
        own.iter().rev().find_map(&mut find).or_else(|| {
            let before = self.scope.recorded.get(name)?;
            before.iter().rev().find_map(find)
        })
    }

    /// Returns the folder for what tools keep of this session.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the time of day.
    pub fn now(&self) -> Timestamp {
        self.source.now()
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("session", &self.session)
            .field("agent", &self.agent)
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

/// After so many messages that nobody has heard yet, more output joins the last one.
const UNHEARD: usize = 256;

/// What a tool says while it runs.
#[derive(Debug)]
pub(crate) enum ScopeMessage {
    Output(String),
    Usage(Usage, Option<f64>),
}

/// Something recorded: its name and its content.
pub(crate) type Record = (Arc<str>, RawJson);

/// What was recorded along a conversation, by name, oldest first. A clone costs nothing.
pub(crate) type Records = rpds::HashTrieMapSync<Arc<str>, rpds::VectorSync<RawJson>>;

/// The lifetime of a call as its tool sees it: closed when the tool has returned.
pub(crate) struct CallScope {
    call: CallId,
    // Says that there is something to hear of the call.
    speaks: mpsc::UnboundedSender<CallId>,
    recorded: Records,
    own: Mutex<Own>,
}

/// What a call has said and recorded so far.
#[derive(Default)]
struct Own {
    is_closed: bool,
    records: Vec<Record>,
    // Kept here and not in the channel, so that all of it is at hand when the call ends.
    said: VecDeque<ScopeMessage>,
}

impl Own {
    fn named(&self, name: &str) -> impl DoubleEndedIterator<Item = &RawJson> {
        self.records.iter().filter(move |(known, _)| **known == *name).map(|(_, data)| data)
    }
}

impl CallScope {
    pub(crate) fn new(
        call: CallId,
        speaks: mpsc::UnboundedSender<CallId>,
        recorded: Records,
    ) -> Self {
        Self { call, speaks, recorded, own: Mutex::default() }
    }

    /// Closes the scope and returns what the tool recorded.
    pub(crate) fn close(&self) -> Vec<Record> {
        let mut own = self.lock();
        own.is_closed = true;
        std::mem::take(&mut own.records)
    }

    /// Takes the first thing said and not yet heard.
    pub(crate) fn hear(&self) -> Option<ScopeMessage> {
        self.lock().said.pop_front()
    }

    /// Takes all that was said and not yet heard.
    pub(crate) fn hear_all(&self) -> VecDeque<ScopeMessage> {
        std::mem::take(&mut self.lock().said)
    }

    fn say(&self, message: ScopeMessage) {
        let mut own = self.lock();
        // A tool that talks faster than the loop listens is heard in larger pieces.
        if own.said.len() >= UNHEARD
            && !own.is_closed
            && let ScopeMessage::Output(more) = &message
            && let Some(ScopeMessage::Output(last)) = own.said.back_mut()
        {
            last.push_str(more);
            return;
        }
        // The loop that listens may be gone; then nobody is left to tell.
        if !own.is_closed && self.speaks.send(self.call.clone()).is_ok() {
            own.said.push_back(message);
        }
    }

    fn record(&self, name: &str, data: RawJson) {
        let mut own = self.lock();
        if !own.is_closed {
            own.records.push((name.into(), data));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolContext {
    /// Makes a context that belongs to no agent, to try or test a tool by itself.
    ///
    /// What the tool records it finds again in later calls with clones of this context. Sub-agents
    /// cannot be made.
    pub fn standalone(source: Arc<dyn Source>, folder: Option<PathBuf>) -> Self {
        let session = SessionId::new(&*source);
        let meta = AgentMeta {
            id: session.root(),
            name: "standalone".to_owned(),
            config: "standalone".to_owned(),
            depth: 0,
            parent: None,
            label: None,
            ancestors: Arc::new([]),
        };
        let call = CallId::from("call");
        let (speaks, _) = mpsc::unbounded_channel();
        Self {
            session,
            agent: Arc::new(meta),
            call: call.clone(),
            cancel: CancellationToken::new(),
            tool_time: None,
            output_bytes: 65_536,
            folder,
            wake: None,
            children: Children::none(),
            source,
            scope: Arc::new(CallScope::new(call, speaks, Records::default())),
        }
    }
}
