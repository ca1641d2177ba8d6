//! From entries to events: one pure function for those who watch and for those who read the log.

mod effects;
mod plan;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_llm::{AssistantPart, CallId, Message, MessageRef, ToolResult, Usage};

use crate::entry::{
    Act, AssistantSaid, BackgroundEnded, Broken, CallEnded, CallStarted, CallStatus, CallWaiting,
    Created, Ending, Entry, EntryKind, RunEnded, StepTaken, UserSaid, Via, Wake,
};
use crate::event::{AgentMeta, Event, EventBody, RunEnd};
use crate::id::{AgentId, OpId, RunId, SessionId};
use crate::journal::Pos;
use crate::op::{Op, OpKind};

/// Turns the entries of a session into events. It must see every entry of an agent, in order.
#[derive(Debug)]
pub struct Projection {
    session: SessionId,
    agents: HashMap<AgentId, Agent>,
    names: HashSet<String>,
    // By configuration, the numbers with which the names of its agents end.
    numbers: HashMap<String, HashSet<u64>>,
    // The sub-agents of calls that have not ended.
    children: HashMap<(AgentId, CallId), Vec<AgentId>>,
    // Known before the agent is: its model is, and its log may be empty yet.
    windows: HashMap<AgentId, u64>,
}

/// What must be known of an agent to tell its events.
#[derive(Debug)]
struct Agent {
    meta: Arc<AgentMeta>,
    parent: Option<(AgentId, CallId)>,
    run: Option<RunId>,
    // Model calls of the run that are over, and whether one is being made in this process.
    turn: u32,
    in_turn: bool,
    has_run: bool,
    outcome: Option<Ending>,
    usage: Usage,
    window: Option<u64>,
    batch: Vec<(CallId, String, Option<CallEnded>)>,
    // Calls of the batch that have started.
    started: HashSet<CallId>,
    queued: Vec<OpId>,
    // The effects that ask a model on the side, one after the other.
    asking: Vec<String>,
    // The step of the plan that is under way.
    step: Option<StepTaken>,
    copies: u64,
}

/// The events of one entry, collected under its envelope.
struct Sheet<'a> {
    session: SessionId,
    agent: &'a Agent,
    entry: &'a Entry,
    pos: Pos,
    events: Vec<Event>,
}

impl Projection {
    /// Makes a projection for a reader of the log.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            agents: HashMap::new(),
            names: HashSet::new(),
            numbers: HashMap::new(),
            children: HashMap::new(),
            windows: HashMap::new(),
        }
    }

    /// Tells the context window of an agent's model, for the share of it in use.
    pub fn set_window(&mut self, agent: AgentId, window: Option<u64>) {
        match window {
            Some(window) => self.windows.insert(agent, window),
            None => self.windows.remove(&agent),
        };
        if let Some(agent) = self.agents.get_mut(&agent) {
            agent.window = window;
        }
    }

    /// Returns how an agent is presented.
    pub fn meta(&self, agent: AgentId) -> Option<Arc<AgentMeta>> {
        self.agents.get(&agent).map(|agent| Arc::clone(&agent.meta))
    }

    /// Tells whether an agent has this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Tells whether the name of an agent of a configuration ends with a number.
    pub(crate) fn has_number(&self, config: &str, number: u64) -> bool {
        self.numbers.get(config).is_some_and(|numbers| numbers.contains(&number))
    }

    /// Returns the number of an agent's latest model call and its open run.
    pub(crate) fn place(&self, agent: AgentId) -> (Option<RunId>, u32) {
        let place = |agent: &Agent| (agent.run, agent.turn + u32::from(agent.in_turn));
        self.agents.get(&agent).map(place).unwrap_or_default()
    }

    /// Announces a model call, which no entry does before it is over.
    pub(crate) fn begin_turn(&mut self, agent: AgentId) {
        if let Some(agent) = self.agents.get_mut(&agent) {
            agent.in_turn = true;
        }
    }

    /// Returns the events that follow from an entry.
    pub fn apply(&mut self, pos: Pos, entry: &Entry) -> Vec<Event> {
        self.project(pos, entry, false)
    }

    /// As [`Projection::apply`], for the process that makes the model calls: it has announced the
    /// turn itself, before the reply was in.
    pub(crate) fn apply_live(&mut self, pos: Pos, entry: &Entry) -> Vec<Event> {
        self.project(pos, entry, true)
    }

    /// Takes an entry in without telling of it.
    pub(crate) fn pass(&mut self, entry: &Entry) {
        if let Some((agent, ..)) = self.take_in(entry) {
            agent.after(&entry.kind);
        }
    }

    fn project(&mut self, pos: Pos, entry: &Entry, live: bool) -> Vec<Event> {
        let session = self.session;
        let Some((agent, before, ended)) = self.take_in(entry) else { return Vec::new() };
        let mut sheet = Sheet { session, agent, entry, pos, events: Vec::new() };
        for (meta, outcome, usage) in ended {
            sheet.push(None, EventBody::AgentEnd { outcome, usage });
            if let Some(event) = sheet.events.last_mut() {
                event.agent = meta;
                event.call_id = None;
            }
        }
        sheet.write(before, live);
        let events = sheet.events;
        agent.after(&entry.kind);
        events
    }

    /// Takes in what an entry changes before its events are told; `None` if it has none.
    fn take_in(&mut self, entry: &Entry) -> Option<(&mut Agent, Before, Vec<EndedChild>)> {
        if let EntryKind::Created(created) = &entry.kind {
            self.create(entry.agent, created);
            return None;
        }
        // Copies tell of what happened elsewhere.
        if let Some(agent) = self.agents.get_mut(&entry.agent).filter(|agent| agent.copies > 0) {
            agent.copies -= 1;
            return None;
        }
        let ended = match &entry.kind {
            EntryKind::CallEnded(ended) if ended.behind.is_none() => {
                self.end_children(entry.agent, &ended.call)
            }
            EntryKind::BackgroundEnded(ended) => self.end_children(entry.agent, &ended.call),
            _ => Vec::new(),
        };
        let agent = self.agents.get_mut(&entry.agent)?;
        let before = agent.before(&entry.kind);
        Some((agent, before, ended))
    }

    fn create(&mut self, id: AgentId, created: &Created) {
        let ancestors = created.parent.as_ref().map_or_else(Vec::new, |parent| {
            let above = self.agents.get(&parent.agent).map(|above| Arc::clone(&above.meta));
            let above = above.map(|meta| Arc::clone(&meta.ancestors));
            std::iter::once(parent.agent)
                .chain(above.iter().flat_map(|above| above.iter().copied()))
                .collect()
        });
        let meta = Arc::new(AgentMeta {
            id,
            name: created.name.clone(),
            config: created.config.clone(),
            depth: created.depth,
            parent: created.parent.as_ref().map(|parent| parent.agent),
            label: created.label.clone(),
            ancestors: ancestors.into(),
        });
        let parent = created.parent.as_ref().map(|parent| (parent.agent, parent.call.clone()));
        let copies = created.from.as_ref().map_or(0, |from| from.entries);
        self.names.insert(created.name.clone());
        let number = created.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        if let Some(number) = number {
            self.numbers.entry(created.config.clone()).or_default().insert(number);
        }
        if let Some(made_by) = parent.clone() {
            self.children.entry(made_by).or_default().push(id);
        }
        self.agents.insert(
            id,
            Agent {
                meta,
                parent,
                run: None,
                turn: 0,
                in_turn: false,
                has_run: false,
                outcome: None,
                usage: Usage::default(),
                window: self.windows.get(&id).copied(),
                batch: Vec::new(),
                started: HashSet::new(),
                queued: Vec::new(),
                asking: Vec::new(),
                step: None,
                copies,
            },
        );
    }

    /// Returns the sub-agents of a call whose runs are open, in order of their names.
    pub(crate) fn open_children(&self, parent: AgentId, call: &CallId) -> Vec<Arc<AgentMeta>> {
        let children = self.children.get(&(parent, call.clone())).into_iter().flatten();
        let open =
            children.filter_map(|id| self.agents.get(id)).filter(|child| child.run.is_some());
        let mut open: Vec<_> = open.map(|child| Arc::clone(&child.meta)).collect();
        open.sort_by(|a, b| a.name.cmp(&b.name));
        open
    }

    /// Returns the sub-agents that end with a call, in order of their names.
    fn end_children(&mut self, parent: AgentId, call: &CallId) -> Vec<EndedChild> {
        let children = self.children.remove(&(parent, call.clone())).unwrap_or_default();
        let mut ended: Vec<_> = children
            .iter()
            .filter_map(|id| self.agents.get(id))
            .filter(|child| child.has_run)
            .map(|child| (Arc::clone(&child.meta), child.outcome.clone(), child.usage))
            .collect();
        ended.sort_by(|(a, ..), (b, ..)| a.name.cmp(&b.name));
        ended
    }
}

/// A sub-agent that ends with its call: how its last run ended, and what it has spent.
type EndedChild = (Arc<AgentMeta>, Option<Ending>, Usage);

/// What an entry changes before its events are told.
#[derive(Default)]
struct Before {
    first_run: bool,
    was_queued: bool,
    starts_again: bool,
    batch_done: Vec<(CallId, String, Option<CallEnded>)>,
    // The effects whose questions are settled by this.
    asked: Vec<String>,
    // The step of the plan that is over with this.
    step: Option<StepTaken>,
}

impl Agent {
    fn before(&mut self, kind: &EntryKind) -> Before {
        let mut before = Before::default();
        match kind {
            EntryKind::RunStarted(started) => {
                before.first_run = !self.has_run && self.parent.is_some();
                self.has_run = true;
                self.run = Some(started.run);
                self.window = started.context_window;
                self.turn = 0;
                self.in_turn = false;
            }
            EntryKind::Assistant(said) => {
                self.turn += 1;
                self.in_turn = false;
                if said.purpose.is_said() && said.broken.is_none() {
                    let calls = said.message.tool_calls();
                    self.batch =
                        calls.map(|call| (call.id.clone(), call.name.clone(), None)).collect();
                }
            }
            EntryKind::StepTaken(taken) => {
                self.batch = vec![(taken.call.id.clone(), taken.call.name.clone(), None)];
                self.step = Some(taken.clone());
            }
            EntryKind::CallStarted(started) => {
                before.starts_again = !self.started.insert(started.call.clone());
            }
            EntryKind::Effect(acted) => {
                self.queued.retain(|queued| Some(*queued) != acted.op);
                before.asked = self.asking.extract_if(.., |by| *by == acted.effect).collect();
                if matches!(acted.act, Act::Ask { .. }) {
                    self.asking.push(acted.effect.clone());
                }
            }
            EntryKind::RunEnded(_) => before.asked = std::mem::take(&mut self.asking),
            EntryKind::Posted(op) => self.queued.push(op.id),
            EntryKind::User(UserSaid { op: Some(op), .. }) => {
                before.was_queued = self.queued.contains(op);
                self.queued.retain(|queued| queued != op);
            }
            EntryKind::CallEnded(ended) => {
                before.step = self.step.take_if(|step| step.call.id == ended.call);
                if let Some((_, _, slot)) = self.batch.iter_mut().find(|(id, ..)| *id == ended.call)
                {
                    slot.get_or_insert_with(|| ended.clone());
                }
                if self.batch.iter().all(|(_, _, ended)| ended.is_some()) {
                    before.batch_done = std::mem::take(&mut self.batch);
                    self.started.clear();
                }
            }
            _ => {}
        }
        before
    }

    fn after(&mut self, kind: &EntryKind) {
        if let EntryKind::RunEnded(ended) = kind {
            self.run = None;
            self.outcome = Some(ended.outcome.clone());
            self.usage += ended.spent.usage;
        }
    }

    fn tool(&self, call: &CallId, done: &[(CallId, String, Option<CallEnded>)]) -> String {
        let mut all = self.batch.iter().chain(done);
        all.find(|(id, ..)| id == call).map(|(_, name, _)| name.clone()).unwrap_or_default()
    }
}

impl Sheet<'_> {
    fn push(&mut self, call_id: Option<&CallId>, body: EventBody) {
        self.events.push(Event {
            session: self.session,
            run: self.agent.run,
            turn: self.agent.turn,
            agent: Arc::clone(&self.agent.meta),
            ts: self.entry.at,
            pos: Some(self.pos),
            after: None,
            attempt: None,
            n: None,
            call_id: call_id.cloned(),
            body,
        });
    }

    fn write(&mut self, before: Before, live: bool) {
        let entry = self.entry;
        match &entry.kind {
            EntryKind::RunStarted(started) => {
                if let (true, Some((_, call))) = (before.first_run, &self.agent.parent) {
                    self.push(None, EventBody::AgentStart { call: call.clone() });
                }
                self.push(None, EventBody::RunStart { model: started.model.clone() });
            }
            EntryKind::User(said) => self.user(said, before.was_queued),
            EntryKind::Posted(op) => self.posted(op),
            EntryKind::Assistant(said) => self.assistant(said, live),
            // A call that was woken starts again without saying so.
            EntryKind::CallStarted(_) if before.starts_again => {}
            EntryKind::CallStarted(started) => self.call_started(started),
            EntryKind::CallWaiting(waiting) => self.call_waiting(waiting),
            EntryKind::Decided(decided) => {
                let (decision, waiting) = (decided.decision.clone(), decided.waiting);
                self.push(Some(&decided.call), EventBody::PermissionDecision { decision, waiting });
            }
            EntryKind::Answered(answered) => {
                let (text, waiting) = (answered.text.clone(), answered.waiting);
                self.push(Some(&answered.call), EventBody::Answer { text, waiting });
            }
            EntryKind::CallEnded(ended) => self.call_ended(ended, before),
            EntryKind::BackgroundEnded(BackgroundEnded { message: Some(message), .. }) => {
                let message = MessageRef::from(Message::User(Arc::clone(message)));
                self.push(None, EventBody::MessageAdded { message });
            }
            EntryKind::Planned(plan) => self.planned(plan),
            EntryKind::StepTaken(taken) => self.step_taken(taken),
            EntryKind::LimitHit(hit) => self.push(None, EventBody::LimitHit { limit: hit.limit }),
            EntryKind::RunEnded(ended) => {
                for effect in before.asked {
                    self.push(None, EventBody::CompactionEnd { effect, done: false, tokens: None });
                }
                self.run_ended(ended);
            }
            EntryKind::Effect(acted) => self.acted(acted, !before.asked.is_empty()),
            EntryKind::SystemChanged(_) => {
                let reason = "system changed".to_owned();
                self.push(None, EventBody::CacheBreak { reason, tokens: None });
            }
            EntryKind::ToolsChanged(_) => {
                let reason = "tools changed".to_owned();
                self.push(None, EventBody::CacheBreak { reason, tokens: None });
            }
            EntryKind::Custom(custom) => {
                let (name, data) = (custom.name.clone(), custom.data.clone());
                self.push(custom.call.as_ref(), EventBody::Custom { name, data });
            }
            EntryKind::BackgroundEnded(BackgroundEnded { message: None, .. })
            | EntryKind::Created(_)
            | EntryKind::Woken(_)
            | EntryKind::ExternalUsage(_)
            | EntryKind::Canceled(_)
            | EntryKind::Head(_)
            | EntryKind::Unknown { .. } => {}
        }
    }

    fn user(&mut self, said: &UserSaid, was_queued: bool) {
        let kind = match said.via {
            Via::Steer => Some("steer"),
            Via::Queue => Some("queue"),
            Via::FollowUp => Some("follow_up"),
            Via::Pin => Some("pin"),
            Via::Context
            | Via::Briefing
            | Via::Prompt
            | Via::Turn
            | Via::Continue
            | Via::WrapUp
            | Via::OnStop
            | Via::Repair => None,
        };
        if let (Some(kind), Some(id)) = (kind, said.op) {
            if !was_queued {
                self.push(None, EventBody::Queued { kind, id });
            }
            self.push(None, EventBody::Delivered { id });
        }
        if said.via != Via::Context {
            let message = MessageRef::from(Message::User(Arc::clone(&said.message)));
            self.push(None, EventBody::MessageAdded { message });
        }
    }

    fn posted(&mut self, op: &Op) {
        let kind = match &op.kind {
            OpKind::Prompt(_) => "prompt",
            OpKind::Steer(_) => "steer",
            OpKind::Queue(_) => "queue",
            OpKind::FollowUp(_) => "follow_up",
            OpKind::Pin(_) => "pin",
            OpKind::Compact { .. } => "compact",
            OpKind::Cancel { .. }
            | OpKind::Decide { .. }
            | OpKind::Answer { .. }
            | OpKind::Wake { .. } => return,
        };
        self.push(None, EventBody::Queued { kind, id: op.id });
    }

    fn assistant(&mut self, said: &AssistantSaid, live: bool) {
        if !live {
            self.push(None, EventBody::TurnStart {});
        }
        let is_said = said.purpose.is_said();
        if is_said {
            self.parts(said);
        }
        if is_said && said.broken.is_none() && !said.message.content.is_empty() {
            let message = MessageRef::from(Message::Assistant(Arc::clone(&said.message)));
            self.push(None, EventBody::MessageAdded { message });
        }
        let input = said.usage.map(|usage| usage.input.saturating_sub(said.wasted.input));
        let context_percent = percent(input, self.agent.window);
        self.push(
            None,
            EventBody::TurnEnd {
                model: said.model.clone(),
                error: match &said.broken {
                    Some(Broken::Failed { kind, .. }) => Some(*kind),
                    Some(Broken::Stopped | Broken::OutOfTime) | None => None,
                },
                usage: said.usage,
                cost_usd: said.cost_usd.filter(|_| said.unpriced == 0),
                finish: said.stop.clone(),
                ms: self.entry.active_ms,
                context_percent,
            },
        );
    }

    /// Tells the parts of a reply. Neighbouring texts are one; the reply ends with the last one if
    /// nothing follows it.
    fn parts(&mut self, said: &AssistantSaid) {
        let mut text = String::new();
        for part in &said.message.content {
            if let AssistantPart::Text(more) = part {
                text.push_str(more);
                continue;
            }
            self.text(&mut text, false);
            match part {
                AssistantPart::Reasoning(reasoning) => {
                    self.push(None, EventBody::Reasoning { text: reasoning.text.clone() });
                }
                AssistantPart::ToolCall(call) => {
                    let (name, arguments) = (call.name.clone(), call.arguments.clone());
                    self.push(Some(&call.id), EventBody::ToolCall { name, arguments });
                }
                AssistantPart::Text(_) | AssistantPart::Opaque(_) => {}
            }
        }
        self.text(&mut text, said.broken.is_none());
    }

    fn text(&mut self, text: &mut String, finalizing: bool) {
        if !text.is_empty() {
            self.push(None, EventBody::Text { text: std::mem::take(text), finalizing });
        }
    }

    fn call_started(&mut self, started: &CallStarted) {
        let name = self.agent.tool(&started.call, &[]);
        let (arguments, passed_to) = (started.arguments.clone(), started.passed_to.clone());
        self.push(Some(&started.call), EventBody::ToolStart { name, arguments, passed_to });
    }

    fn call_waiting(&mut self, waiting: &CallWaiting) {
        let entry = self.entry.id;
        let body = match waiting.wake.clone() {
            Wake::Decision { question, rule, twin: None } => {
                EventBody::PermissionRequest { question, rule, waiting: entry }
            }
            // It is asked already.
            Wake::Decision { twin: Some(_), .. } => return,
            Wake::Answer { question, options } => {
                EventBody::Question { question, options, waiting: entry }
            }
            Wake::Parent { question } => {
                EventBody::Question { question, options: Vec::new(), waiting: entry }
            }
            Wake::Agent { .. } | Wake::Job(_) | Wake::At(_) => return,
        };
        self.push(Some(&waiting.call), body);
    }

    fn call_ended(&mut self, ended: &CallEnded, before: Before) {
        let batch = before.batch_done;
        let name = self.agent.tool(&ended.call, &batch);
        let body = EventBody::ToolEnd {
            name,
            status: ended.status,
            ms: ended.ms,
            content: Arc::clone(&ended.content),
            truncated: ended.full.is_some(),
            behind: ended.behind,
        };
        self.push(Some(&ended.call), body);
        if let Some(step) = before.step {
            self.step_ended(step, ended.status);
        }
        if batch.is_empty() {
            return;
        }
        let results = batch.into_iter().filter_map(|(call, name, ended)| {
            let ended = ended?;
            let is_error = ended.status != CallStatus::Ok;
            Some(ToolResult { call, name, content: ended.content, is_error })
        });
        let message = MessageRef::from(Message::Results(results.collect()));
        self.push(None, EventBody::MessageAdded { message });
    }

    fn run_ended(&mut self, ended: &RunEnded) {
        let end = RunEnd {
            outcome: ended.outcome.clone(),
            spent: ended.spent,
            undelivered: ended.undelivered.clone(),
            denials: ended.denials.clone(),
            completion: ended.completion.clone(),
            handoff: ended.handoff.clone(),
        };
        self.push(None, EventBody::RunEnd(end));
    }
}

/// Returns how much of a window is in use, rounded, from 0 to 100; `None` if either is unknown.
pub(crate) fn percent(tokens: Option<u64>, window: Option<u64>) -> Option<u8> {
    let (tokens, window) = (tokens?, window.filter(|window| *window > 0)?);
    let percent = (tokens.saturating_mul(200) / window).div_ceil(2).min(100);
    u8::try_from(percent).ok()
}
