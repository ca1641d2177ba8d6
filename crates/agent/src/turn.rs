//! The owner of one agent's log while the agent lives: the one commit point, and one step at a
//! time.

mod accept;
mod admission;
mod asking;
mod background;
mod batch;
pub(crate) mod body;
mod effects;
mod feeds;
mod limits;
mod model_call;
mod orphans;
mod plan;
mod prompt_gate;
mod request;
mod result;
mod secrets;
mod settle;
mod stopping;
mod tool_calls;
mod wait;
mod wrapping;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use bowline_llm::CallId;

use crate::agent::Agent;
use crate::children::{Children, Work};
use crate::conversation::{
    self, CallState, Conversation, Last, OpenRun, Repair, hash_text, hash_tools,
};
use crate::entry::{
    Created, Entry, EntryKind, Recorded, RunStarted, SystemChanged, Tools, ToolsChanged, UserSaid,
    Via,
};
use crate::error::AgentError;
use crate::event::{AgentMeta, EventBody, Phase};
use crate::fork::{Copied, Loose};
use crate::handle::State;
use crate::hub::Live;
use crate::id::{AgentId, EntryId, RunId};
use crate::journal::{Journal, JournalError, Pos, SessionLog};
use crate::limits::LimitKind;
use crate::mailbox::{Mailbox, Seat};
use crate::op::{Input, Op, OpKind};
use crate::orchestrator::{self, NextStep, Purpose};
use crate::outcome::Outcome;
use crate::session::{Birth, Session};
use crate::tool::Toolbox;

/// A live agent. It alone writes its log.
pub(crate) struct Turn {
    session: Arc<Session>,
    agent: Agent,
    meta: Arc<AgentMeta>,
    journal: Arc<dyn Journal>,
    log: Arc<dyn SessionLog>,
    conversation: Conversation,
    bodies: body::Bodies,
    converted: request::Converted,
    effects: effects::Effects,
    feeds: feeds::Feeds,
    // What the agent can call, with what its effects bring.
    tools: Toolbox,
    // The reply about which the effects were asked in this process.
    heeded: Option<(RunId, u32)>,
    pub(crate) mailbox: Mailbox,
    state: watch::Sender<Arc<State>>,
    phase: Phase,
    // What the first commit begins with.
    created: Created,
    copy: Option<Copied>,
    // What is said before the first prompt.
    briefing: Vec<Input>,
    // Fires when the run is to end.
    stop: CancellationToken,
    // Who waits for the outcome of the open run.
    waiters: Vec<oneshot::Sender<Result<Outcome, AgentError>>>,
    // Sub-agents of calls that wait: they live until their calls end.
    waiting: HashMap<CallId, Children>,
    // What goes on behind calls that are over.
    background: HashMap<CallId, background::Background>,
    // The run that was last seen open.
    driven: Option<RunId>,
    // Set when a handle asked to close.
    pub(crate) closing: bool,
    // Where a sub-agent notes when it is at work.
    work: Option<Arc<Work>>,
}

/// Why a live agent must let go of what it has in memory: the log is no longer what it thinks.
#[derive(Debug, Clone)]
pub(crate) struct Halt(pub(crate) JournalError);

impl From<JournalError> for Halt {
    fn from(error: JournalError) -> Self {
        Self(error)
    }
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to do.
    Stepped,
    /// No run is open.
    Rests,
}

/// Returns how the agent whose log this is was made.
pub(crate) fn created(log: &[(Pos, Entry)]) -> Option<Created> {
    match &log.first()?.1.kind {
        EntryKind::Created(created) => Some(created.clone()),
        _ => None,
    }
}

impl Turn {
    pub(crate) fn new(
        session: Arc<Session>,
        birth: Birth,
        mailbox: Mailbox,
    ) -> (Self, watch::Receiver<Arc<State>>) {
        let Birth { agent, created, meta, log, store, copy, briefing, work } = birth;
        let conversation = Conversation::replay(log.iter().map(|(_, entry)| entry));
        let mut effects = effects::Effects::new(&agent.effects);
        effects.replay(path(&log));
        let tools = effects.tools(&agent.toolbox());
        let feeds = feeds::Feeds::new(&agent);
        session.hub.set_window(meta.id, agent.model.info().context_window);
        let journal = store.journal(meta.id);
        let mut shown = look(&conversation, &agent, Phase::Idle);
        if let (Some(copy), 0) = (&copy, log.len()) {
            // None of it is in the log yet, but it can be seen.
            let copied = foretell(&session, meta.id, &created, copy);
            shown = State { head: None, ..look(&copied, &agent, Phase::Idle) };
        }
        let (state, watched) = watch::channel(Arc::new(shown));
        let turn = Self {
            session,
            agent,
            meta,
            journal,
            log: store,
            conversation,
            bodies: body::Bodies::default(),
            converted: request::Converted::default(),
            effects,
            feeds,
            tools,
            heeded: None,
            mailbox,
            state,
            phase: Phase::Idle,
            created,
            copy,
            briefing,
            stop: CancellationToken::new(),
            waiters: Vec::new(),
            waiting: HashMap::new(),
            background: HashMap::new(),
            driven: None,
            closing: false,
            work,
        };
        (turn, watched)
    }

    /// Does exactly one step: a model call, a set of calls that may overlap, a delivery, the end of
    /// the run, or a wait.
    pub(crate) async fn advance(&mut self) -> Result<Progress, Halt> {
        self.collect_inbox().await?;
        self.poll_steering().await?;
        self.resume_background();
        self.act_after().await?;
        self.deliver().await?;
        self.deliver_background(None).await?;
        if self.heed().await? || self.act_on_demand().await? {
            return Ok(Progress::Stepped);
        }
        match self.next_step() {
            NextStep::Rest => return Ok(Progress::Rests),
            // A reply that was stopped and not cancelled ran out of time.
            NextStep::Settle if self.is_out_of_time() => self.hit(LimitKind::RunTime).await?,
            NextStep::Settle => {
                if !self.act_on_overflow().await? {
                    self.settle().await?;
                }
            }
            NextStep::Wait(wakes) => self.wait(wakes).await?,
            step => {
                let done = match self.limit_for(&step) {
                    Some(reached) if self.is_aside(&step) => {
                        self.leave_unasked(reached.limit).await
                    }
                    Some(reached) => self.reach(reached).await,
                    None => self.work(step).await,
                };
                // Of a call that was not made, nothing is used.
                self.session.hub.release(self.meta.id);
                done?;
            }
        }
        Ok(Progress::Stepped)
    }

    /// Does what counts against the limits.
    async fn work(&mut self, step: NextStep) -> Result<(), Halt> {
        match step {
            NextStep::CallModel(purpose) => match self.act_before(purpose).await? {
                true => Ok(()),
                false => self.call_model(purpose).await,
            },
            NextStep::CallTools => self.call_tools().await,
            NextStep::Plan(plan) => self.adopt(plan).await,
            NextStep::Step => self.take_step().await,
            NextStep::Settle | NextStep::Wait(_) | NextStep::Rest => Ok(()),
        }
    }

    /// Returns what to do next: what ends the run comes before what the orchestrator says.
    fn next_step(&self) -> NextStep {
        let Some(run) = self.conversation.run() else { return NextStep::Rest };
        if !run.is_ending() {
            // What was steered in skips what has not started, calls that wait for permission too.
            let skips = run.is_steered();
            if skips && self.conversation.open_calls().iter().any(|call| !call.started) {
                return NextStep::CallTools;
            }
            // What is open comes first, whatever the orchestrator says: a reply or an end over
            // calls without results would corrupt the history.
            if let Some(step) = orchestrator::open_calls(&self.conversation) {
                return step;
            }
            if !run.asked.is_empty() {
                return NextStep::CallModel(Purpose::Compact);
            }
            if !run.is_prompted || run.is_concluded() {
                return NextStep::Settle;
            }
            // The loop asked for the repair, so the loop makes it, whatever the orchestrator says.
            if run.repair == Repair::Asked {
                return NextStep::CallModel(Purpose::Repair);
            }
            return self.asked_for(run);
        }
        if self.conversation.has_open_calls() {
            return NextStep::CallTools;
        }
        let sums_up = run.limit.as_ref().is_some_and(|hit| hit.wrap_up.is_some());
        if sums_up && !run.wrapped_up && !run.is_ending_at_once() {
            NextStep::CallModel(Purpose::WrapUp)
        } else {
            NextStep::Settle
        }
    }

    /// Returns what the orchestrator says, as far as it can be done now.
    fn asked_for(&self, run: &OpenRun) -> NextStep {
        let own = &self.agent.orchestrator;
        let began_with = run.orchestrator.as_deref().filter(|name| *name != own.name());
        // An open run goes on with what it began with, if that can be known.
        let began_with = began_with.and_then(orchestrator::named);
        let has_step = run.planning.course.as_ref().is_some_and(|course| course.next().is_some());
        match began_with.as_ref().unwrap_or(own).next(&self.conversation) {
            NextStep::CallModel(Purpose::Plan) => NextStep::CallModel(Purpose::Plan),
            // What was cut goes on.
            NextStep::CallModel(_) if self.conversation.last() == Last::Cut => {
                NextStep::CallModel(Purpose::Continue)
            }
            // A request that ends with what the model has said is refused by providers: where it
            // has said all it had to say, that is what the run ends with.
            NextStep::CallModel(_) if self.conversation.view().ends_with_reply() => {
                NextStep::Settle
            }
            // The others have their time, which the loop knows.
            NextStep::CallModel(_) => NextStep::CallModel(Purpose::Turn),
            NextStep::Plan(plan) => NextStep::Plan(plan),
            NextStep::Step if has_step => NextStep::Step,
            // No call is open, so there is nothing to run or to wait for; and an open run does
            // not rest.
            NextStep::Step
            | NextStep::Settle
            | NextStep::CallTools
            | NextStep::Wait(_)
            | NextStep::Rest => NextStep::Settle,
        }
    }

    /// Starts a run with an input, and with what is to be said before it.
    pub(crate) async fn start_run(
        &mut self,
        run: RunId,
        op: Op,
        before: Vec<Input>,
    ) -> Result<(), Halt> {
        self.driven = None;
        // What lies in the inbox was posted while the agent rested: it becomes drafts.
        self.collect_inbox().await?;
        self.stop = CancellationToken::new();
        let kinds = self.opening(run, op, &before);
        self.commit(kinds).await?;
        self.briefing.clear();
        Ok(())
    }

    /// Returns the entries with which a run begins.
    fn opening(&mut self, run: RunId, op: Op, before: &[Input]) -> Vec<EntryKind> {
        let (mut kinds, mut started) = self.run_started(run);
        let said = match op.kind {
            OpKind::Prompt(input) => {
                started.shape = self.agent.shape();
                let message = match &started.shape {
                    Some(shape) => Arc::new(shape.asked_for(&input.0)),
                    None => input.0,
                };
                EntryKind::User(UserSaid { message, via: Via::Prompt, op: Some(op.id) })
            }
            // The run does only this.
            kind => EntryKind::Posted(Op { kind, ..op }),
        };
        kinds.push(EntryKind::RunStarted(started));
        if !self.conversation.is_placed() && !self.agent.context.is_empty() {
            // Files that a project brings are told so.
            let context = self.agent.redaction.apply(&self.agent.context).into_owned();
            let message = Input::from(context).0;
            kinds.push(EntryKind::User(UserSaid { message, via: Via::Context, op: None }));
        }
        kinds.extend(self.briefing.iter().chain(before).map(|Input(message)| {
            let message = Arc::clone(message);
            EntryKind::User(UserSaid { message, via: Via::Briefing, op: None })
        }));
        kinds.push(said);
        // A summary that somebody wanted, and that there was no opportunity for, is wanted still. What
        // was to be said is not: whoever wrote it may have thought better of it.
        let drafts = self.conversation.totals().drafts.iter();
        let missed = drafts.filter(|op| matches!(op.kind, OpKind::Compact { .. }));
        kinds.extend(missed.cloned().map(EntryKind::Posted));
        kinds
    }

    /// Returns the beginning of a run, behind what of the system text and the tools has changed since the
    /// last one; the first run says them whole.
    fn run_started(&mut self, run: RunId) -> (Vec<EntryKind>, RunStarted) {
        let system: Arc<str> = self.agent.redaction.apply(&self.agent.instructions).into();
        if self.agent.more_tools.is_some() {
            self.tools = self.effects.tools(&self.agent.toolbox());
        }
        let tools = self.effects.block(&self.tools);
        let (system_hash, tools_hash) = (hash_text(&system), hash_tools(&tools));
        let is_new = self.conversation.totals().runs == 0;
        let mut kinds = Vec::new();
        let mut started = RunStarted {
            run,
            model: self.agent.model.info().id(),
            effort: self.agent.effort,
            system: Recorded { hash: system_hash, value: None },
            tools: Recorded { hash: tools_hash, value: None },
            limits: self.agent.limits.sane(),
            context_window: self.agent.model.info().context_window,
            orchestrator: Some(self.agent.orchestrator.name().to_owned()),
            shape: None,
        };
        if is_new {
            started.system.value = Some(system);
            started.tools.value = Some(Tools(tools));
        } else {
            if self.conversation.system().1 != started.system.hash {
                kinds.push(EntryKind::SystemChanged(SystemChanged { text: system }));
            }
            if self.conversation.tools().1 != started.tools.hash {
                kinds.push(EntryKind::ToolsChanged(ToolsChanged { tools: Tools(tools) }));
            }
        }
        (kinds, started)
    }

    /// Returns a place from which to watch the open run.
    pub(crate) fn seat(&mut self) -> Option<Seat> {
        let run = self.conversation.run()?.id;
        Some(self.seat_for(run))
    }

    /// Returns a place from which to watch a run that may be about to begin.
    fn seat_for(&mut self, run: RunId) -> Seat {
        let (waiter, outcome) = oneshot::channel();
        self.waiters.push(waiter);
        let (_, events) = self.session.hub.listen(self.meta.id, run);
        Seat { run, events, outcome }
    }

    /// Ends what belongs to the agent and to none of its calls.
    pub(crate) async fn leave(&self) {
        if let Some(on_end) = &self.agent.on_end {
            on_end.on_end(self.session.id, &self.meta).await;
        }
    }

    /// Tells whether somebody waits for the open run to go on, or for its end.
    pub(crate) fn is_awaited(&self) -> bool {
        self.has_open_run() && (!self.waiters.is_empty() || self.mailbox.keeps_any())
    }

    /// The one commit point: journal, then memory, then events. There is no other way to change a
    /// conversation.
    pub(crate) async fn commit(&mut self, kinds: Vec<EntryKind>) -> Result<(), Halt> {
        self.commit_after(kinds, None).await
    }

    /// Commits entries that end a piece of work which took `active`.
    async fn commit_after(
        &mut self,
        kinds: Vec<EntryKind>,
        active: Option<Duration>,
    ) -> Result<(), Halt> {
        if kinds.is_empty() {
            return Ok(());
        }
        self.driven = self.conversation.run().map(|run| run.id);
        let entries = self.entries(kinds, active).await?;
        let pos = self.journal.append(self.conversation.seq(), &entries).await?;
        // The log has it now.
        self.copy = None;
        for entry in &entries {
            self.conversation.apply(entry);
            self.effects.fold(entry);
        }
        self.session.shared.committed(&entries);
        self.session.hub.publish(pos, &entries);
        self.publish();
        self.tell_who_asks_the_same(&entries);
        Ok(())
    }

    /// Makes entries of what they say; before the first of a log, that the agent exists.
    async fn entries(
        &mut self,
        kinds: Vec<EntryKind>,
        active: Option<Duration>,
    ) -> Result<Vec<Entry>, Halt> {
        let ids = &*self.session.source;
        let mut all = Vec::with_capacity(kinds.len() + 1);
        if self.conversation.seq().0 == 0 {
            all.push(Loose::new(EntryKind::Created(self.created.clone()), ids));
            all.extend(self.copy.iter().flat_map(|copy| copy.entries.iter().cloned()));
        }
        for kind in kinds {
            let kind = body::put_aside(kind, &*self.log.blobs()).await?;
            all.push(Loose::new(kind, ids));
        }
        let mut entries = follow(self.conversation.head(), all, self.meta.id, ids.now());
        if let (Some(last), Some(active)) = (entries.last_mut(), active) {
            last.active_ms = Some(u64::try_from(active.as_millis()).unwrap_or(u64::MAX));
        }
        Ok(entries)
    }

    /// Forgets memory and reads the log again.
    pub(crate) async fn reload(&mut self) -> Result<(), Halt> {
        let log = self.journal.read().await?;
        self.conversation = Conversation::replay(log.iter().map(|(_, entry)| entry));
        self.effects.replay(path(&log));
        self.heeded = None;
        self.publish();
        Ok(())
    }

    /// Ends what still runs of a lost run, and takes everything from the log again.
    pub(crate) async fn recover(&mut self, halt: &Halt) -> Result<(), Halt> {
        for (_, children) in self.waiting.drain().collect::<Vec<_>>() {
            children.let_go(&halt.0);
            children.close().await;
        }
        self.let_go_of_background(&halt.0).await;
        self.phase = Phase::Idle;
        self.reload().await?;
        // A commit may be in the log although its answer never came.
        self.session.hub.catch_up(&self.log.read(Pos(0)).await?);
        Ok(())
    }

    /// Tells those who watch what the agent does now.
    fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.publish();
            self.say(EventBody::Status { phase });
        }
    }

    /// Publishes an event that follows from no entry.
    fn say(&self, live: impl Into<Live>) {
        self.session.hub.live(&self.meta, self.session.source.now(), live.into());
    }

    fn publish(&self) {
        if let Some(work) = &self.work {
            work.note(self.meta.id, self.phase != Phase::Idle);
        }
        self.state.send_replace(Arc::new(look(&self.conversation, &self.agent, self.phase)));
    }

    pub(crate) fn has_open_run(&self) -> bool {
        self.conversation.run().is_some()
    }

    /// Returns when the run's time is up.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let run = self.conversation.run()?;
        if run.limit.is_some() {
            return None;
        }
        let left = run.limits.run_time()?.saturating_sub(Duration::from_millis(run.active_ms));
        Some(Instant::now() + left)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.note(self.meta.id, false);
        }
    }
}

/// Returns the entries of the conversation in a log.
fn path(log: &[(Pos, Entry)]) -> Vec<&Entry> {
    conversation::path(log.iter().map(|(_, entry)| entry), None).unwrap_or_default()
}

/// Waits until a time; for ever if there is none.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns the conversation of a fork as it will be with its first commit.
fn foretell(session: &Session, agent: AgentId, created: &Created, copy: &Copied) -> Conversation {
    let ids = &*session.source;
    let mut all = vec![Loose::new(EntryKind::Created(created.clone()), ids)];
    all.extend(copy.entries.iter().cloned());
    Conversation::replay(&follow(None, all, agent, ids.now()))
}

/// Puts entries into a log, one behind the other.
fn follow(
    mut parent: Option<EntryId>,
    entries: Vec<Loose>,
    agent: AgentId,
    at: Timestamp,
) -> Vec<Entry> {
    let place = |Loose { id, v, critical, kind }| {
        let parent = parent.replace(id);
        Entry { v, id, parent, at, agent, critical, active_ms: None, kind }
    };
    entries.into_iter().map(place).collect()
}

fn look(conversation: &Conversation, agent: &Agent, phase: Phase) -> State {
    State {
        phase,
        run: conversation.run().map(|run| run.id),
        pending_calls: conversation
            .open_calls()
            .into_iter()
            .map(|call| call.id().clone())
            .collect(),
        waiting_calls: conversation
            .open_calls()
            .into_iter()
            .filter_map(|call| match &call.state {
                CallState::Waiting(waiting) => Some((call.id().clone(), waiting.clone())),
                CallState::New | CallState::Started | CallState::Woken(_) | CallState::Ended(_) => {
                    None
                }
            })
            .collect(),
        snapshot: conversation.snapshot(),
        head: conversation.head(),
        context_tokens: conversation.context_tokens(),
        context_window: agent.model.info().context_window,
        drafts: Arc::clone(&conversation.totals().drafts),
        finished: conversation.totals().finished.clone(),
        latest: conversation.totals().latest.clone(),
    }
}
