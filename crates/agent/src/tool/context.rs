//! What a running tool sees of the agent that runs it.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use bowline_llm::{CallId, Message, Messages, Part, RawJson, Usage, Usd};

use crate::children::Children;
use crate::conversation::Results;
use crate::crew::board::Watches;
use crate::crew::slots::{Desks, Lent};
use crate::effect::Bounds;
use crate::entry::{Behind, CallEnded, EntryKind};
use crate::event::AgentMeta;
use crate::id::{AgentId, SessionId, Source};
use crate::journal::{JournalError, SessionLog};
use crate::op::{Decision, Input};
use crate::redact::{Redaction, Veil};
use crate::shared::{self, Fold, Pending, Shared, Values};
use crate::turn::body;

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
    /// What the run concluded before the call started.
    pub concluded: Concluded,
    /// Makes sub-agents, which live as long as the call.
    pub children: Children,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) scope: Arc<CallScope>,
    pub(crate) shared: Arc<Values>,
    pub(crate) desks: Arc<Desks>,
    pub(crate) watches: Arc<Watches>,
    // The calls behind which work goes on; each fires when that is over.
    pub(crate) behind: HashMap<CallId, CancellationToken>,
    // A clone that outlives the call does not keep the session from being opened again.
    pub(crate) log: Option<Weak<dyn SessionLog>>,
    // Results for which the log need not be read.
    pub(crate) put_away: Results,
    pub(crate) bounds: Bounds,
}

/// Returns the end of a call from an agent's log. An id is never given twice, not even on a branch
/// that was left.
async fn ended(
    log: &dyn SessionLog,
    agent: AgentId,
    call: &CallId,
) -> Result<Option<CallEnded>, JournalError> {
    let entries = log.journal(agent).read().await?;
    Ok(entries.into_iter().find_map(|(_, entry)| match entry.kind {
        EntryKind::CallEnded(ended) if ended.call == *call => Some(ended),
        _ => None,
    }))
}

/// What calls of a run have concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Concluded {
    /// That the task is over.
    pub completed: bool,
    /// That another agent is to go on with it.
    pub handed_off: bool,
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
    /// Shows a person what the tool is doing; the model never sees it. Of what is said faster than
    /// anybody can hear it, only the newest part is shown.
    pub fn output(&self, text: impl Into<String>) {
        self.scope.say(ScopeMessage::Output(Piece { text: text.into(), omitted: 0 }));
    }

    /// Tells whether the model is not to know of a tool, because an effect of the agent hides it.
    pub fn is_hidden(&self, tool: &str) -> bool {
        self.bounds.hides(tool)
    }

    /// Reports what the tool itself spent on models. It counts as the agent's, but not as part of
    /// its context.
    pub fn report_usage(&self, usage: Usage, cost_usd: Option<f64>) {
        // What is no number is not known.
        let cost_usd = cost_usd.filter(|cost| cost.is_finite()).map(Usd::from_dollars);
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

    /// Returns what the conversation still shows of the result of an earlier call, as of the start of
    /// this one; `None` if it shows nothing of it.
    pub fn shown_of(&self, call: &CallId) -> Option<Arc<[Part]>> {
        let messages = self.scope.messages.iter();
        let results = messages.filter_map(|message| match &**message {
            Message::Results(results) => Some(results),
            Message::User(_) | Message::Assistant(_) => None,
        });
        let result = results.flatten().find(|result| result.call == *call);
        result.map(|result| Arc::clone(&result.content))
    }

    /// Returns a value that the agents of the session share. What of it is not in the log yet when
    /// the call ends is written with its end.
    pub fn shared<T: Fold>(&self) -> Shared<T> {
        Shared::new(&self.shared, &self.scope)
    }

    /// Returns the whole result of an earlier call of this agent, whatever the conversation still
    /// shows of it; `None` if no such call has ended, and where there is no log.
    ///
    /// # Errors
    /// As [`Journal::read`](crate::journal::Journal::read) and
    /// [`Blobs::get`](crate::journal::Blobs::get).
    pub async fn result_of(&self, call: &CallId) -> Result<Option<Vec<Part>>, JournalError> {
        let Some(log) = self.session_log() else { return Ok(None) };
        let parts = match self.put_away.get(call) {
            Some(parts) => Arc::clone(parts),
            None => match ended(&*log, self.agent.id, call).await? {
                Some(ended) => ended.whole(),
                None => return Ok(None),
            },
        };
        Ok(Some(body::fetch(&parts, &*log.blobs()).await?))
    }

    /// Lets work go on behind the call once its tool has returned content: its sub-agents live on until
    /// the work is over, and what it returns then is said to the model at the next boundary.
    ///
    /// What the work records, and what it changes of shared values, is written with its end. When the
    /// run ends first it is asked to stop by [`ToolContext::cancel`], and dropped if it does not.
    ///
    /// After a crash the tool runs again, with what it had made to be found, and leaves its work
    /// behind again; what it returns and records until then is not heard. A call that fails leaves
    /// nothing behind it.
    pub fn leave_behind(
        &self,
        behind: Behind,
        work: impl Future<Output = Option<Input>> + Send + 'static,
    ) {
        self.scope.leave(Rest { behind, work: Box::pin(work) });
    }

    /// Gives back the slot of the agent, if it has one, while the call waits for other agents.
    pub(crate) fn step_aside(&self) -> Lent {
        self.desks.lend(self.agent.id)
    }

    /// Returns the logs of the session, unless it is down or there are none.
    pub(crate) fn session_log(&self) -> Option<Arc<dyn SessionLog>> {
        self.log.as_ref().and_then(Weak::upgrade)
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

/// After so many bytes that nobody has heard yet, too. No piece that is heard is longer.
const UNHEARD_BYTES: usize = 65_536;

/// What a tool says while it runs.
#[derive(Debug)]
pub(crate) enum ScopeMessage {
    Output(Piece),
    Usage(Usage, Option<Usd>),
}

/// A piece of what a tool shows.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// How many bytes before the text were left out.
    pub(crate) omitted: u64,
}

impl Piece {
    /// Leaves out all but the newest part. Half a secret could not be recognised any more, so what
    /// is secret is replaced before.
    fn fit(&mut self, redaction: &Redaction) {
        if self.text.len() <= UNHEARD_BYTES {
            return;
        }
        if let Cow::Owned(clean) = redaction.apply(&self.text) {
            self.text = clean;
        }
        let mut from = self.text.len().saturating_sub(UNHEARD_BYTES);
        while !self.text.is_char_boundary(from) {
            from += 1;
        }
        self.text.drain(..from);
        self.omitted += from as u64;
    }
}

/// Something recorded: its name and its content.
pub(crate) type Record = (Arc<str>, RawJson);

/// What was recorded along a conversation, by name, oldest first. A clone costs nothing.
pub(crate) type Records = rpds::HashTrieMapSync<Arc<str>, rpds::VectorSync<RawJson>>;

/// What a call finds when it starts.
#[derive(Default)]
pub(crate) struct Before {
    pub(crate) recorded: Records,
    pub(crate) messages: Messages,
}

/// The lifetime of a call as its tool sees it: closed when the tool has returned, and what it leaves
/// behind is over.
pub(crate) struct CallScope {
    call: CallId,
    // Says that there is something to hear of the call.
    speaks: mpsc::UnboundedSender<CallId>,
    recorded: Records,
    // The messages that the model saw when it made the call.
    messages: Messages,
    redaction: Redaction,
    own: Mutex<Own>,
}

/// What a call leaves to go on behind it.
pub(crate) struct Rest {
    pub(crate) behind: Behind,
    pub(crate) work: BoxFuture<'static, Option<Input>>,
}

/// What a call has said and recorded so far.
#[derive(Default)]
struct Own {
    is_closed: bool,
    // The tool has returned: nobody listens any more to what is said.
    is_behind: bool,
    records: Vec<Record>,
    // The shared values it has looked at.
    shared: Vec<Arc<dyn Pending>>,
    // Kept here and not in the channel, so that all of it is at hand when the call ends.
    said: VecDeque<ScopeMessage>,
    // How many bytes of output are in there.
    unheard: usize,
    // What of the output is heard.
    veil: Veil,
    rest: Option<Rest>,
}

impl Own {
    fn named(&self, name: &str) -> impl DoubleEndedIterator<Item = &RawJson> {
        self.records.iter().filter(move |(known, _)| **known == *name).map(|(_, data)| data)
    }

    /// Joins more output to the last, if that is far from being heard: a tool that talks faster than
    /// the loop listens is heard in larger pieces, and then not whole. Tells whether it did.
    fn join(&mut self, more: &Piece, redaction: &Redaction) -> bool {
        if self.said.len() < UNHEARD && self.unheard < UNHEARD_BYTES {
            return false;
        }
        let last = self.said.iter_mut().rev().find_map(|message| match message {
            ScopeMessage::Output(last) => Some(last),
            ScopeMessage::Usage(..) => None,
        });
        let Some(last) = last else { return false };
        let before = last.text.len();
        last.text.push_str(&more.text);
        // Not each time, so that it costs nothing to speak of.
        if last.text.len() > 2 * UNHEARD_BYTES {
            last.fit(redaction);
        }
        self.unheard = self.unheard - before + last.text.len();
        true
    }
}

impl CallScope {
    pub(crate) fn new(
        call: CallId,
        speaks: mpsc::UnboundedSender<CallId>,
        before: Before,
        redaction: Redaction,
    ) -> Self {
        let Before { recorded, messages } = before;
        Self { call, speaks, recorded, messages, redaction, own: Mutex::default() }
    }

    /// Closes the scope and returns what is to be written.
    pub(crate) fn close(&self) -> Vec<Record> {
        self.lock().is_closed = true;
        self.records()
    }

    /// Returns what is to be written with the end of the call, behind which its work goes on: what
    /// that records is written with its own end.
    pub(crate) fn go_behind(&self) -> Vec<Record> {
        self.lock().is_behind = true;
        self.records()
    }

    /// Returns what was recorded since it was last asked, and what is not in the log yet of the shared
    /// values that were looked at.
    fn records(&self) -> Vec<Record> {
        let (mut records, shared) = {
            let mut own = self.lock();
            (std::mem::take(&mut own.records), own.shared.clone())
        };
        let changes = shared.iter().filter_map(|value| RawJson::of(&value.record()?).ok());
        records.extend(changes.map(|changes| (shared::RECORD.into(), changes)));
        records
    }

    /// Takes note that the call looks at a shared value.
    pub(crate) fn look_at(&self, value: Arc<dyn Pending>) {
        let mut own = self.lock();
        if !own.shared.iter().any(|known| known.name() == value.name()) {
            own.shared.push(value);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub(crate) fn redaction(&self) -> &Redaction {
        &self.redaction
    }

    /// Takes the first thing said and not yet heard, without what is secret in it. What may be the
    /// beginning of a secret is heard with what comes next.
    pub(crate) fn hear(&self) -> Option<ScopeMessage> {
        let mut own = self.lock();
        let mut piece = match own.said.pop_front()? {
            ScopeMessage::Output(piece) => piece,
            usage @ ScopeMessage::Usage(..) => return Some(usage),
        };
        own.unheard -= piece.text.len();
        piece.fit(&self.redaction);
        if piece.omitted > 0 {
            piece.omitted += own.veil.lose() as u64;
        }
        piece.text = own.veil.pass(&piece.text, &self.redaction);
        (!piece.text.is_empty() || piece.omitted > 0).then_some(ScopeMessage::Output(piece))
    }

    /// Takes all that was said and not yet heard. Nothing is said any more.
    pub(crate) fn hear_all(&self) -> VecDeque<ScopeMessage> {
        let mut all = VecDeque::new();
        while !self.lock().said.is_empty() {
            all.extend(self.hear());
        }
        let text = self.lock().veil.rest(&self.redaction);
        if !text.is_empty() {
            all.push_back(ScopeMessage::Output(Piece { text, omitted: 0 }));
        }
        all
    }

    fn say(&self, mut message: ScopeMessage) {
        let mut own = self.lock();
        if own.is_closed || own.is_behind {
            return;
        }
        if let ScopeMessage::Output(more) = &mut message {
            if own.join(more, &self.redaction) {
                return;
            }
            more.fit(&self.redaction);
        }
        // The loop that listens may be gone; then nobody is left to tell.
        if self.speaks.send(self.call.clone()).is_ok() {
            if let ScopeMessage::Output(piece) = &message {
                own.unheard += piece.text.len();
            }
            own.said.push_back(message);
        }
    }

    fn leave(&self, rest: Rest) {
        let mut own = self.lock();
        if !own.is_closed && !own.is_behind {
            own.rest = Some(rest);
        }
    }

    /// Tells whether the call leaves work behind it.
    pub(crate) fn has_rest(&self) -> bool {
        self.lock().rest.is_some()
    }

    /// Takes what the call leaves to go on behind it.
    pub(crate) fn take_rest(&self) -> Option<Rest> {
        self.lock().rest.take()
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
            concluded: Concluded::default(),
            children: Children::none(),
            source,
            scope: Arc::new(CallScope::new(call, speaks, Before::default(), Redaction::default())),
            shared: Arc::default(),
            desks: Arc::default(),
            watches: Arc::default(),
            behind: HashMap::new(),
            log: None,
            put_away: Results::default(),
            bounds: Bounds::default(),
        }
    }
}
