//! The handle: how everybody but its owner deals with a live agent.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use bowline_llm::{CallId, Messages, RawJson, Spent, Usage};

use crate::agent::Busy;
use crate::conversation::{Snapshot, Waiting};
use crate::error::AgentError;
use crate::event::{AgentMeta, Event, Phase};
use crate::id::{AgentId, EntryId, OpId, RunId, SessionId};
use crate::mailbox::{Command, Own, Reply};
use crate::op::{CancelReason, Decision, Input, Op, OpKind};
use crate::outcome::Outcome;
use crate::projection::percent;
use crate::run::Run;
use crate::session::Session;

/// A live agent: operations in, events out. Clones are the same agent.
///
/// Nothing here blocks, and everything may be called while the agent runs. The agent lives until a
/// running run has ended and the last handle is dropped.
#[derive(Clone)]
pub struct SessionHandle {
    shared: Arc<Shared>,
}

struct Shared {
    session: Arc<Session>,
    meta: Arc<AgentMeta>,
    commands: mpsc::UnboundedSender<Command>,
    state: watch::Receiver<Arc<State>>,
    busy: Busy,
    // What was said through this handle, for a sub-agent, to which it is numbered in call order.
    said: AtomicU32,
}

/// What can be seen of an agent at a moment.
#[derive(Debug, Clone)]
pub struct State {
    /// What it is doing.
    pub phase: Phase,
    /// The open run.
    pub run: Option<RunId>,
    /// Calls that are not over, in order.
    pub pending_calls: Vec<CallId>,
    /// Calls that wait, and for what.
    pub waiting_calls: Vec<(CallId, Waiting)>,
    /// What a model would be asked with; large bodies are named and not in it.
    pub snapshot: Snapshot,
    /// The last entry of the conversation.
    pub head: Option<EntryId>,
    /// Tokens of the latest request.
    pub context_tokens: u64,
    /// The model's context window, if known.
    pub context_window: Option<u64>,
    /// Operations that were accepted but never delivered.
    pub drafts: Arc<Vec<Op>>,
    /// The prompts whose runs are over.
    pub finished: rpds::HashTrieSetSync<OpId>,
    /// How the latest run came out.
    pub latest: Option<Arc<Outcome>>,
}

impl State {
    /// Tells whether the run of a prompt is over; without one, whether no run is open.
    pub fn has_finished(&self, prompt: Option<OpId>) -> bool {
        match prompt {
            Some(prompt) => self.finished.contains(&prompt),
            None => self.run.is_none(),
        }
    }
}

impl SessionHandle {
    pub(crate) fn new(
        session: Arc<Session>,
        meta: Arc<AgentMeta>,
        commands: mpsc::UnboundedSender<Command>,
        state: watch::Receiver<Arc<State>>,
        busy: Busy,
    ) -> Self {
        let said = AtomicU32::new(0);
        Self { shared: Arc::new(Shared { session, meta, commands, state, busy, said }) }
    }

    /// Starts a run. While one is open, does what the agent's [`Busy`] says.
    pub fn prompt(&self, input: impl Into<Input>) -> Run {
        self.prompt_with(input, self.shared.busy)
    }

    /// Starts a run; while one is open, does what `busy` says.
    pub fn prompt_with(&self, input: impl Into<Input>, busy: Busy) -> Run {
        let op = self.saying(OpKind::Prompt(input.into()));
        let own = Own::Prompt(op.id);
        let (reply, seat) = oneshot::channel();
        self.send(Command::Prompt { op, busy, reply });
        Run::new(self.clone(), own, seat)
    }

    /// Starts a run: the name by which seed 003 knows [`SessionHandle::prompt`].
    pub fn send_user_message(&self, text: impl Into<String>) -> Run {
        self.prompt(text.into())
    }

    /// Goes on with a run that was found open. Returns `None` if none is.
    ///
    /// # Errors
    /// [`AgentError::AlreadyRunning`] if it goes on already.
    pub async fn continue_run(&self) -> Result<Option<Run>, AgentError> {
        let (reply, seat) = oneshot::channel();
        self.send(Command::Continue { reply });
        let seat = self.reply(seat).await?;
        Ok(seat.map(|seat| Run::seated(self.clone(), seat)))
    }

    /// Adds a user message without asking the model.
    ///
    /// # Errors
    /// [`AgentError::AlreadyRunning`] while a run is open.
    pub async fn add_user_turn(&self, input: impl Into<Input>) -> Result<(), AgentError> {
        let input = input.into();
        let id = self.saying(OpKind::Queue(input.clone())).id;
        self.ask(|reply| Command::AddTurn { id, input, reply }).await
    }

    /// Says something at the next boundary of the open run; nothing is skipped.
    ///
    /// # Errors
    /// [`AgentError::NotRunning`] without an open run; nothing is kept then.
    pub async fn queue(&self, input: impl Into<Input>) -> Result<OpId, AgentError> {
        self.submit(OpKind::Queue(input.into())).await
    }

    /// Says something before the next model call; calls that have not started are skipped.
    ///
    /// # Errors
    /// As [`SessionHandle::queue`].
    pub async fn steer(&self, input: impl Into<Input>) -> Result<OpId, AgentError> {
        self.submit(OpKind::Steer(input.into())).await
    }

    /// Says something when the open run would otherwise end.
    ///
    /// # Errors
    /// As [`SessionHandle::queue`].
    pub async fn follow_up(&self, input: impl Into<Input>) -> Result<OpId, AgentError> {
        self.submit(OpKind::FollowUp(input.into())).await
    }

    /// Says something that is never to be forgotten: no summary will stand for it. While a run is
    /// open it is said at the next boundary, else at once, without asking the model.
    ///
    /// # Errors
    /// [`AgentError::Journal`] if it cannot be kept.
    pub async fn pin(&self, input: impl Into<Input>) -> Result<OpId, AgentError> {
        self.submit(OpKind::Pin(input.into())).await
    }

    /// Has the conversation summarised, however short it is: at the next boundary of the open run,
    /// or else in a run that does nothing more. It takes an effect that does so, such as `compact`.
    /// If the open run ends before it can be done, its outcome says so, and the next one does it.
    pub fn compact(&self, focus: Option<String>) -> Run {
        let op = self.op(OpKind::Compact { focus });
        let own = Own::Prompt(op.id);
        let (reply, seat) = oneshot::channel();
        self.send(Command::Prompt { op, busy: Busy::Queue, reply });
        Run::new(self.clone(), own, seat)
    }

    /// Cancels the open run, if there is one. The run's end tells when it is over.
    pub fn cancel(&self) {
        self.cancel_for(CancelReason::User);
    }

    /// Cancels the open run for a reason.
    pub fn cancel_for(&self, reason: CancelReason) {
        let (reply, _) = oneshot::channel();
        let op = self.op(OpKind::Cancel { reason, run: None });
        self.send(Command::Post { op, reply });
    }

    pub(crate) fn count_prompts_anew(&self) {
        self.shared.said.store(0, Ordering::Relaxed);
    }

    pub(crate) fn cancel_own(&self, own: Own) {
        self.send(Command::CancelOwn { own, reason: CancelReason::User });
    }

    /// Decides about a call that waits for permission, whatever it is asked now. The first decision
    /// counts.
    ///
    /// # Errors
    /// [`AgentError::NotWaiting`] if the call does not wait for it.
    pub async fn decide(&self, call: CallId, decision: Decision) -> Result<OpId, AgentError> {
        self.submit(OpKind::Decide { call, decision, waiting: None }).await
    }

    /// Answers a question that a call asked. The first answer counts.
    ///
    /// # Errors
    /// [`AgentError::NotWaiting`] if the call does not wait for it.
    pub async fn answer(&self, call: CallId, text: String) -> Result<OpId, AgentError> {
        self.submit(OpKind::Answer { call, text, waiting: None }).await
    }

    /// Tells a waiting call that what it waits for has happened.
    ///
    /// # Errors
    /// [`AgentError::NotWaiting`] if the call does not wait for it.
    pub async fn wake(&self, call: CallId) -> Result<OpId, AgentError> {
        self.submit(OpKind::Wake { call, waiting: None }).await
    }

    /// Asks something of the open run. [`SessionHandle::queue`], [`SessionHandle::decide`] and
    /// their like are short for this; an operation may say more, as which
    /// [`Waiting`] it answers.
    ///
    /// # Errors
    /// [`AgentError::NotRunning`] without an open run, [`AgentError::NotWaiting`] if no call waits
    /// for what it brings; nothing is kept then.
    pub async fn submit(&self, kind: OpKind) -> Result<OpId, AgentError> {
        let op = if kind.input().is_some() { self.saying(kind) } else { self.op(kind) };
        let id = op.id;
        self.ask(|reply| Command::Post { op, reply }).await?;
        Ok(id)
    }

    /// Posts an operation to the session's inbox, as another process would: it is kept when this
    /// returns, and on an agent without an open run it becomes a draft.
    ///
    /// # Errors
    /// [`AgentError::Journal`] if it cannot be kept.
    pub async fn post(&self, op: Op) -> Result<(), AgentError> {
        Ok(self.shared.session.inbox().post(op).await?)
    }

    /// Adds an entry of the embedding program's own to the log.
    ///
    /// # Errors
    /// [`AgentError::Journal`] if it cannot be kept.
    pub async fn record(&self, name: &str, data: RawJson) -> Result<EntryId, AgentError> {
        let name = name.to_owned();
        self.ask(|reply| Command::Custom { name, data, reply }).await
    }

    /// Goes back to an earlier entry; the entries after it stay in the log.
    ///
    /// # Errors
    /// [`AgentError::AlreadyRunning`] while a run is open, [`AgentError::NotFound`] for an unknown
    /// entry.
    pub async fn rewind(&self, to: Option<EntryId>) -> Result<(), AgentError> {
        self.ask(|reply| Command::Rewind { to, reply }).await
    }

    /// Cancels what runs, lets go of the log, and returns when everything is down.
    pub async fn close(&self) {
        self.send(Command::Close { reason: CancelReason::Shutdown });
        self.shared.commands.closed().await;
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> SessionId {
        self.shared.session.id
    }

    /// Returns the agent's id; the session's for its first agent.
    pub fn agent_id(&self) -> AgentId {
        self.shared.meta.id
    }

    /// Returns how the agent is presented in events.
    pub fn meta(&self) -> &Arc<AgentMeta> {
        &self.shared.meta
    }

    /// Returns what can be seen of the agent now.
    pub fn state(&self) -> Arc<State> {
        Arc::clone(&self.shared.state.borrow())
    }

    /// Returns what the agent is doing.
    pub fn status(&self) -> Phase {
        self.shared.state.borrow().phase
    }

    /// Waits until the state is as wanted, and returns it.
    ///
    /// # Errors
    /// [`AgentError::Closed`] if the agent ends before.
    pub async fn wait_for(
        &self,
        mut wanted: impl FnMut(&State) -> bool,
    ) -> Result<Arc<State>, AgentError> {
        let mut state = self.shared.state.clone();
        let state = state.wait_for(|state| wanted(state)).await;
        state.map(|state| Arc::clone(&state)).map_err(|_| self.gone())
    }

    /// Returns the messages a model would see now, the system text not among them. Large bodies in
    /// them are named by their hashes.
    pub fn messages(&self) -> Messages {
        self.shared.state.borrow().snapshot.messages.clone()
    }

    /// Returns the tokens spent so far, those of sub-agents and tools included.
    pub fn token_usage(&self) -> Usage {
        self.spent().usage
    }

    /// Returns the tokens and money spent so far, those of sub-agents and tools included.
    pub fn spent(&self) -> Spent {
        self.shared.session.hub.total(self.shared.meta.id)
    }

    /// Returns the tokens of the latest request and the model's context window, if known.
    pub fn context_usage(&self) -> (u64, Option<u64>) {
        let state = self.shared.state.borrow();
        (state.context_tokens, state.context_window)
    }

    /// Returns how much of the context window the latest request took, from 0 to 100; 0 if the
    /// window is unknown.
    pub fn context_usage_percent(&self) -> u8 {
        let (tokens, window) = self.context_usage();
        percent(Some(tokens), window).unwrap_or(0)
    }

    /// Subscribes to the events of this agent and those below it. A reader that falls more than
    /// `buffer` events behind gets a [`Gap`](crate::event::EventBody::Gap); a slow reader never
    /// delays an agent.
    pub fn subscribe(&self, buffer: usize) -> mpsc::Receiver<Arc<Event>> {
        self.shared.session.hub.subscribe(self.shared.meta.id, buffer)
    }

    fn op(&self, kind: OpKind) -> Op {
        let source = &*self.shared.session.source;
        let to = self.shared.meta.parent.map(|_| self.shared.meta.id);
        Op { id: OpId::new(source), to, at: source.now(), kind }
    }

    /// Makes an operation that says something. What a tool says to a sub-agent is numbered in call
    /// order, so that it is said once although the tool may run again.
    fn saying(&self, kind: OpKind) -> Op {
        let mut op = self.op(kind);
        if self.shared.meta.parent.is_some() {
            let ordinal = self.shared.said.fetch_add(1, Ordering::Relaxed);
            op.id = OpId::nth_prompt(self.shared.meta.id, ordinal);
        }
        op
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, AgentError> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply));
        self.reply(answer).await
    }

    async fn reply<T>(
        &self,
        answer: oneshot::Receiver<Result<T, AgentError>>,
    ) -> Result<T, AgentError> {
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    // A command that cannot be sent drops its reply, which tells the caller.
    fn send(&self, command: Command) {
        let _ = self.shared.commands.send(command);
    }

    /// Returns why the agent no longer answers.
    pub(crate) fn gone(&self) -> AgentError {
        if self.shared.meta.parent.is_some() { AgentError::ScopeClosed } else { AgentError::Closed }
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.shared.session.source.now()
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle")
            .field("session", &self.shared.session.id)
            .field("agent", &self.shared.meta.name)
            .finish_non_exhaustive()
    }
}
