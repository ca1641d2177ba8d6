//! The hub of a session: every commit becomes events here, in order of positions, for whoever
//! listens.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::mpsc;

use bowline_llm::{CallId, Spent};

use crate::entry::{Entry, EntryKind};
use crate::event::{AgentMeta, Event, EventBody};
use crate::id::{AgentId, RunId, SessionId};
use crate::journal::Pos;
use crate::ledger::{Ahead, Ledger, Reached};
use crate::projection::Projection;

/// The one place where entries become events and money is counted. Its lock is held for moments,
/// never while anything is awaited.
pub(crate) struct Hub {
    session: SessionId,
    inner: Mutex<Inner>,
}

struct Inner {
    projection: Projection,
    ledger: Ledger,
    // By whose events they hear: an agent's and those of all agents below it. An event is handed to
    // those of its agent and of the agents above, however many others there are.
    listeners: HashMap<AgentId, Vec<Listener>>,
    // The position that is published next, and what is ready for later ones: two agents may return
    // from their appends in the other order than they were written.
    next: Pos,
    parked: BTreeMap<Pos, Parked>,
}

struct Parked {
    end: Pos,
    events: Vec<Arc<Event>>,
}

struct Listener {
    // The run of its agent with whose end the stream ends.
    run: Option<RunId>,
    to: Channel,
}

enum Channel {
    Lossless(mpsc::UnboundedSender<Arc<Event>>),
    Bounded { to: mpsc::Sender<Arc<Event>>, gap: Option<Gap> },
}

/// What a slow reader has missed so far.
#[derive(Clone, Copy)]
struct Gap {
    missed: u64,
    // The positions of which something is missing, the second one not among them.
    from: Pos,
    until: Pos,
}

/// Places kept free for the two events that tell of a gap, where it begins and where it ends.
const KEPT: usize = 2;

/// The parts of a live event that its agent fills in.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) attempt: Option<u32>,
    pub(crate) n: Option<u64>,
    pub(crate) call_id: Option<CallId>,
    pub(crate) body: EventBody,
}

impl From<EventBody> for Live {
    fn from(body: EventBody) -> Self {
        Self { attempt: None, n: None, call_id: None, body }
    }
}

impl Hub {
    /// Makes the hub of a session whose log holds these entries.
    pub(crate) fn new(session: SessionId, log: &[(Pos, Entry)], tip: Pos) -> Self {
        let mut projection = Projection::new(session);
        let mut ledger = Ledger::default();
        for (_, entry) in log {
            projection.pass(entry);
            ledger.apply(entry);
        }
        let inner = Inner {
            projection,
            ledger,
            listeners: HashMap::new(),
            next: tip,
            parked: BTreeMap::new(),
        };
        Self { session, inner: Mutex::new(inner) }
    }

    /// Returns the sub-agents of a call whose runs are open.
    pub(crate) fn open_children(&self, parent: AgentId, call: &CallId) -> Vec<Arc<AgentMeta>> {
        self.lock().projection.open_children(parent, call)
    }

    /// Publishes a commit that was appended at `pos`.
    pub(crate) fn publish(&self, pos: Pos, entries: &[Entry]) {
        self.lock().publish(pos, entries);
    }

    /// Publishes what is in the log and was never published.
    pub(crate) fn catch_up(&self, log: &[(Pos, Entry)]) {
        let mut inner = self.lock();
        for (pos, entry) in log {
            inner.publish(*pos, std::slice::from_ref(entry));
        }
    }

    /// Publishes an event that follows from no entry.
    pub(crate) fn live(&self, meta: &Arc<AgentMeta>, ts: Timestamp, live: Live) {
        let mut inner = self.lock();
        if !inner.is_heard(meta) {
            return;
        }
        let (run, turn) = inner.projection.place(meta.id);
        let mut event = Event {
            session: self.session,
            run,
            turn,
            agent: Arc::clone(meta),
            ts,
            pos: None,
            after: inner.next.0.checked_sub(1).map(Pos),
            attempt: live.attempt,
            n: live.n,
            call_id: live.call_id,
            body: live.body,
        };
        // Behind what waits for its turn, so that it does not overtake its own agent's commits.
        if let Some(mut last) = inner.parked.last_entry() {
            event.after = last.get().end.0.checked_sub(1).map(Pos);
            last.get_mut().events.push(Arc::new(event));
        } else {
            inner.dispatch(&Arc::new(event));
        }
    }

    /// Announces a model call.
    pub(crate) fn begin_turn(&self, meta: &Arc<AgentMeta>, ts: Timestamp) {
        self.lock().projection.begin_turn(meta.id);
        self.live(meta, ts, EventBody::TurnStart {}.into());
    }

    /// Returns a stream that loses nothing: the events of an agent and those below it, up to the
    /// end of a run. What is in the log before the position that comes with it was told before.
    pub(crate) fn listen(
        &self,
        of: AgentId,
        run: RunId,
    ) -> (Pos, mpsc::UnboundedReceiver<Arc<Event>>) {
        let (to, from) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        inner.add(of, Listener { run: Some(run), to: Channel::Lossless(to) });
        (inner.next, from)
    }

    /// Returns a stream for a reader that may be slow: what does not fit is counted and reported in
    /// a gap.
    pub(crate) fn subscribe(&self, of: AgentId, buffer: usize) -> mpsc::Receiver<Arc<Event>> {
        let (to, from) = mpsc::channel(buffer.max(1) + KEPT);
        let to = Channel::Bounded { to, gap: None };
        self.lock().add(of, Listener { run: None, to });
        from
    }

    /// Returns what an agent and all agents below it have spent.
    pub(crate) fn total(&self, agent: AgentId) -> Spent {
        self.lock().ledger.total(agent)
    }

    /// Returns what an agent's latest run has spent, with all agents below it.
    pub(crate) fn run(&self, agent: AgentId) -> Spent {
        self.lock().ledger.run(agent)
    }

    /// Returns a limit of an agent's open run, or of one above it, that is used up.
    pub(crate) fn reached(&self, agent: AgentId) -> Option<Reached> {
        self.lock().ledger.reached(agent)
    }

    /// Sets aside what a model call is going to use.
    ///
    /// # Errors
    /// The limit that forbids it.
    pub(crate) fn reserve(&self, agent: AgentId, ahead: Ahead) -> Result<(), Reached> {
        self.lock().ledger.reserve(agent, ahead)
    }

    /// Gives back what is set aside for a model call that was not made.
    pub(crate) fn release(&self, agent: AgentId) {
        self.lock().ledger.release(agent);
    }

    /// Tells whether an agent in the log has this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.lock().projection.has_name(name)
    }

    /// Tells whether the name of an agent of a configuration in the log ends with a number.
    pub(crate) fn has_number(&self, config: &str, number: u64) -> bool {
        self.lock().projection.has_number(config, number)
    }

    /// Tells the context window of an agent's model.
    pub(crate) fn set_window(&self, agent: AgentId, window: Option<u64>) {
        self.lock().projection.set_window(agent, window);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn publish(&mut self, pos: Pos, entries: &[Entry]) {
        if self.has(pos) {
            return;
        }
        // Whoever begins to listen later finds in the log what was committed by then.
        let is_heard = self.tells(entries);
        let mut events = Vec::new();
        for (at, entry) in (pos.0..).map(Pos).zip(entries) {
            self.ledger.apply(entry);
            if is_heard {
                events.extend(self.projection.apply_live(at, entry).into_iter().map(Arc::new));
            } else {
                self.projection.pass(entry);
            }
        }
        let end = Pos(pos.0 + entries.len() as u64);
        self.parked.insert(pos, Parked { end, events });
        while let Some(ready) = self.take_ready() {
            self.next = ready.end;
            for event in &ready.events {
                self.dispatch(event);
            }
        }
    }

    /// Tells whether an entry was published or is ready to be.
    fn has(&self, pos: Pos) -> bool {
        let parked = self.parked.range(..=pos).next_back();
        pos < self.next || parked.is_some_and(|(_, parked)| pos < parked.end)
    }

    fn take_ready(&mut self) -> Option<Parked> {
        let first = self.parked.first_entry()?;
        (*first.key() <= self.next).then(|| first.remove())
    }

    fn add(&mut self, of: AgentId, listener: Listener) {
        self.listeners.entry(of).or_default().push(listener);
    }

    /// Tells whether somebody hears what a commit tells.
    fn tells(&mut self, entries: &[Entry]) -> bool {
        let Some(first) = entries.first().filter(|_| !self.listeners.is_empty()) else {
            return false;
        };
        // The end of a call is the end of its sub-agents, which they who listen to those hear.
        let ends = |entry: &Entry| {
            matches!(entry.kind, EntryKind::CallEnded(_) | EntryKind::BackgroundEnded(_))
        };
        let parent = match &first.kind {
            EntryKind::Created(created) => created.parent.as_ref().map(|parent| parent.agent),
            _ => None,
        };
        let known = self.projection.meta(parent.unwrap_or(first.agent));
        entries.iter().any(ends)
            || self.has_listener(first.agent)
            || known.is_some_and(|known| self.is_heard(&known))
    }

    /// Tells whether somebody listens to an agent or to one above it.
    fn is_heard(&mut self, agent: &AgentMeta) -> bool {
        !self.listeners.is_empty()
            && (self.has_listener(agent.id)
                || agent.ancestors.iter().any(|above| self.has_listener(*above)))
    }

    /// Tells whether somebody listens to an agent, and lets go of those who do not any more.
    fn has_listener(&mut self, of: AgentId) -> bool {
        self.retain(of, |listener| !listener.to.is_closed());
        self.listeners.contains_key(&of)
    }

    fn dispatch(&mut self, event: &Arc<Event>) {
        self.retain(event.agent.id, |listener| listener.hear_own(event));
        for above in event.agent.ancestors.iter() {
            self.retain(*above, |listener| listener.to.send(event));
        }
    }

    fn retain(&mut self, of: AgentId, stays: impl FnMut(&mut Listener) -> bool) {
        let Some(listeners) = self.listeners.get_mut(&of) else { return };
        listeners.retain_mut(stays);
        if listeners.is_empty() {
            self.listeners.remove(&of);
        }
    }
}

impl Listener {
    /// Hands on an event of the agent that is listened to; returns whether the listener stays.
    fn hear_own(&mut self, event: &Arc<Event>) -> bool {
        let is_last = event.body.is_terminal() && self.run.is_some() && event.run == self.run;
        self.to.send(event) && !is_last
    }
}

impl Channel {
    fn is_closed(&self) -> bool {
        match self {
            Self::Lossless(to) => to.is_closed(),
            Self::Bounded { to, .. } => to.is_closed(),
        }
    }

    fn send(&mut self, event: &Arc<Event>) -> bool {
        match self {
            Self::Lossless(to) => to.send(Arc::clone(event)).is_ok(),
            Self::Bounded { to, gap } => {
                if to.is_closed() {
                    return false;
                }
                if to.capacity() <= KEPT {
                    // The reader learns of the gap here, even if nothing ever follows it.
                    if Gap::miss(gap, event) {
                        let _ = to.try_send(Gap::first(event));
                    }
                    return true;
                }
                if let Some(gap) = gap.take() {
                    let _ = to.try_send(gap.told(event));
                }
                let _ = to.try_send(Arc::clone(event));
                true
            }
        }
    }
}

impl Gap {
    /// Counts an event that did not fit; returns whether the gap begins with it.
    fn miss(gap: &mut Option<Self>, event: &Event) -> bool {
        let (from, until) = Self::span(event);
        match gap {
            Some(gap) => {
                gap.missed += 1;
                gap.until = until.max(gap.until);
                false
            }
            None => {
                *gap = Some(Self { missed: 1, from, until });
                true
            }
        }
    }

    /// Returns the positions that are missing with an event: none with a live one.
    fn span(event: &Event) -> (Pos, Pos) {
        let next = |pos: Pos| Pos(pos.0 + 1);
        match event.pos {
            Some(pos) => (pos, next(pos)),
            None => {
                let here = event.after.map_or(Pos(0), next);
                (here, here)
            }
        }
    }

    /// Returns the event that tells that a gap begins with `event`.
    fn first(event: &Event) -> Arc<Event> {
        let (from, _) = Self::span(event);
        Self::event(event, from, EventBody::Gap { missed: 1, from, until: None })
    }

    /// Returns the event that tells of the whole gap before `event`.
    fn told(self, event: &Event) -> Arc<Event> {
        let Self { missed, from, until } = self;
        Self::event(event, until, EventBody::Gap { missed, from, until: Some(until) })
    }

    fn event(beside: &Event, at: Pos, body: EventBody) -> Arc<Event> {
        Arc::new(Event {
            session: beside.session,
            run: beside.run,
            turn: beside.turn,
            agent: Arc::clone(&beside.agent),
            ts: beside.ts,
            pos: None,
            after: at.0.checked_sub(1).map(Pos),
            attempt: None,
            n: None,
            call_id: None,
            body,
        })
    }
}
