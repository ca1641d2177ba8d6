//! From the entries of a log to the tree.

use std::collections::{HashMap, HashSet, VecDeque};

use bowline_agent::entry::{
    Act, Acted, AssistantSaid, Broken, CallEnded, CallWaiting, Created, Custom, Decided, Ending,
    Entry, EntryKind, Parent, RunEnded, RunStarted, Wake,
};
use bowline_agent::event::AgentMeta;
use bowline_agent::id::AgentId;
use bowline_agent::op::Decision;
use bowline_llm::{AssistantPart, CallId, Part, ToolCall};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::super::shown;
use super::{Agent, Call, Exchange, Run, Step, Stretch, Used, used_by};

/// The tree as it grows, entry by entry.
#[derive(Debug, Default)]
pub(super) struct Fold {
    // In the order in which they were made: an agent comes after the one that made it.
    agents: Vec<Growing>,
    places: HashMap<AgentId, usize>,
    // Changes of shared values that were told, by value and number: the log may repeat them.
    told: HashSet<(String, u64)>,
}

#[derive(Debug)]
struct Growing {
    agent: Agent,
    parent: Option<Parent>,
    /// Entries still to come that were copied from another log, which tells of them.
    copies: u64,
    /// Where a call is: in which stretch, and which of its steps it is.
    calls: HashMap<CallId, (usize, usize)>,
}

impl Fold {
    pub(super) fn apply(&mut self, entry: &Entry) {
        if let EntryKind::Created(created) = &entry.kind {
            self.places.insert(entry.agent, self.agents.len());
            self.agents.push(Growing::new(entry.agent, created));
            return;
        }
        let place = self.places.get(&entry.agent).copied();
        let Some(agent) = place.and_then(|place| self.agents.get_mut(place)) else { return };
        if agent.copies > 0 {
            agent.copies -= 1;
            return;
        }
        if let EntryKind::Custom(custom) = &entry.kind {
            let changes = changes_in(custom);
            let new = changes.into_iter().filter(|(value, number, _)| {
                let change = (value.clone(), *number);
                self.told.insert(change)
            });
            for (value, number, change) in new {
                agent.push(Step::Shared { value, number, change });
            }
        }
        agent.apply(entry);
    }

    /// Puts every agent under the call that made it, and returns those that no call made.
    pub(super) fn finish(mut self) -> Vec<Agent> {
        let mut roots = VecDeque::new();
        while let Some(Growing { agent, parent, .. }) = self.agents.pop() {
            let above = parent.as_ref().and_then(|parent| self.places.get(&parent.agent));
            let above = above.and_then(|place| self.agents.get_mut(*place));
            match (above, parent) {
                (Some(above), Some(parent)) => above.adopt(agent, &parent.call),
                _ => roots.push_front(agent),
            }
        }
        roots.into()
    }
}

impl Growing {
    fn new(id: AgentId, created: &Created) -> Self {
        let meta = AgentMeta {
            id,
            name: created.name.clone(),
            config: created.config.clone(),
            depth: created.depth,
            parent: created.parent.as_ref().map(|parent| parent.agent),
            label: created.label.clone(),
            ancestors: [].into(),
        };
        let agent = Agent {
            meta,
            key: created.parent.as_ref().map(|parent| parent.key.clone()),
            fork_of: created.from.as_ref().map(|from| from.session),
            outcome: None,
            used: Used::default(),
            with_agents: Used::default().spent,
            stretches: Vec::new(),
        };
        Self {
            agent,
            parent: created.parent.clone(),
            copies: created.from.as_ref().map_or(0, |from| from.entries),
            calls: HashMap::new(),
        }
    }

    /// Takes in an agent with all that is below it.
    fn adopt(&mut self, child: Agent, call: &CallId) {
        self.agent.with_agents += child.with_agents;
        // They come last first.
        match self.call(call) {
            Some(call) => call.agents.insert(0, child),
            // Nothing says so, and it is to be seen all the same.
            None => {
                let call =
                    ToolCall { id: call.clone(), name: String::new(), arguments: String::new() };
                self.called(&call);
                if let Some(made) = self.call(&call.id) {
                    made.agents.push(child);
                }
            }
        }
    }

    fn apply(&mut self, entry: &Entry) {
        self.count(entry);
        match &entry.kind {
            EntryKind::RunStarted(started) => self.run_started(started, entry.at),
            EntryKind::User(said) => {
                let (via, text) = (word(&said.via), text_of(&said.message.content));
                self.push(Step::Said { via, text });
            }
            EntryKind::Posted(op) => {
                if let Some(input) = op.kind.input() {
                    self.push(Step::Posted { text: text_of(&input.0.content) });
                }
            }
            EntryKind::Assistant(said) => self.assistant(said),
            EntryKind::StepTaken(taken) => self.called(&taken.call),
            EntryKind::CallStarted(started) => self.set_status(&started.call, "running"),
            EntryKind::CallWaiting(waiting) => self.waits(waiting),
            EntryKind::Decided(decided) => self.decided(decided),
            EntryKind::Answered(answered) => {
                let text = answered.text.clone();
                self.exchange(&answered.call, Exchange::Answer { text });
            }
            EntryKind::CallEnded(ended) => self.call_ended(ended),
            EntryKind::BackgroundEnded(ended) => {
                let text = ended.message.as_ref().map(|message| text_of(&message.content));
                let (call, text) = (ended.call.clone(), text.unwrap_or_default());
                let tool = self.call(&call).map(|call| call.tool.clone()).unwrap_or_default();
                self.push(Step::Background { call, tool, text });
            }
            EntryKind::LimitHit(hit) => self.push(Step::Limit { limit: hit.limit.as_str() }),
            EntryKind::Canceled(canceled) => {
                self.push(Step::Canceled { reason: word(&canceled.reason) });
            }
            EntryKind::RunEnded(ended) => self.run_ended(ended, entry.at),
            EntryKind::Head(_) => self.push(Step::Rewound {}),
            EntryKind::Effect(acted) => self.acted(acted),
            EntryKind::Planned(plan) => {
                let tools = plan.steps.iter().map(|step| step.tool.clone()).collect();
                self.push(Step::Plan { tools });
            }
            EntryKind::Created(_)
            | EntryKind::Woken(_)
            | EntryKind::ExternalUsage(_)
            | EntryKind::SystemChanged(_)
            | EntryKind::ToolsChanged(_)
            | EntryKind::Custom(_)
            | EntryKind::Unknown { .. } => {}
        }
    }

    fn count(&mut self, entry: &Entry) {
        let used = used_by(&entry.kind, entry.active_ms);
        self.agent.used += used;
        self.agent.with_agents += used.spent;
        if let Some(run) = self.open_run() {
            run.used += used;
        }
    }

    fn open_run(&mut self) -> Option<&mut Run> {
        let run = self.agent.stretches.last_mut()?.run.as_mut()?;
        run.ended.is_none().then_some(run)
    }

    /// Returns the place of the next step: in the open run, or behind the last one.
    fn next_place(&mut self) -> (usize, usize) {
        let is_over = |run: &Run| run.ended.is_some();
        let is_behind = |last: &Stretch| last.run.as_ref().is_some_and(is_over);
        if self.agent.stretches.last().is_none_or(is_behind) {
            self.agent.stretches.push(Stretch::default());
        }
        let last = self.agent.stretches.len() - 1;
        (last, self.agent.stretches[last].steps.len())
    }

    fn push(&mut self, step: Step) {
        let (stretch, _) = self.next_place();
        self.agent.stretches[stretch].steps.push(step);
    }

    fn call(&mut self, id: &CallId) -> Option<&mut Call> {
        let (stretch, at) = *self.calls.get(id)?;
        match self.agent.stretches.get_mut(stretch)?.steps.get_mut(at) {
            Some(Step::Call(call)) => Some(call),
            _ => None,
        }
    }

    fn called(&mut self, call: &ToolCall) {
        let place = self.next_place();
        self.calls.insert(call.id.clone(), place);
        self.push(Step::Call(Box::new(Call {
            id: call.id.clone(),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            status: "called",
            ms: None,
            result: None,
            asked: Vec::new(),
            agents: Vec::new(),
        })));
    }

    fn set_status(&mut self, call: &CallId, status: &'static str) {
        if let Some(call) = self.call(call) {
            call.status = status;
        }
    }

    fn exchange(&mut self, call: &CallId, exchange: Exchange) {
        if let Some(call) = self.call(call) {
            call.asked.push(exchange);
        }
    }

    fn run_started(&mut self, started: &RunStarted, at: Timestamp) {
        self.agent.outcome = Some("open");
        let run = Run {
            id: started.run,
            model: started.model.clone(),
            started: at,
            ended: None,
            outcome: "open",
            why: None,
            used: Used::default(),
            completion: None,
            handoff: None,
        };
        self.agent.stretches.push(Stretch { run: Some(run), steps: Vec::new() });
    }

    fn run_ended(&mut self, ended: &RunEnded, at: Timestamp) {
        let outcome = ended.outcome.as_str();
        self.agent.outcome = Some(outcome);
        if let Some(run) = self.open_run() {
            run.outcome = outcome;
            run.ended = Some(at);
            run.why = why(&ended.outcome);
            run.completion = ended.completion.as_deref().cloned();
            run.handoff = ended.handoff.as_deref().cloned();
        }
    }

    fn assistant(&mut self, said: &AssistantSaid) {
        if said.purpose.is_said() {
            for part in &said.message.content {
                match part {
                    AssistantPart::Text(text) if text.trim().is_empty() => {}
                    AssistantPart::Text(text) => self.push(Step::Text { text: text.clone() }),
                    // Those of a reply that broke off are not run.
                    AssistantPart::ToolCall(call) if said.broken.is_none() => self.called(call),
                    AssistantPart::ToolCall(_)
                    | AssistantPart::Reasoning(_)
                    | AssistantPart::Opaque(_) => {}
                }
            }
        }
        let why = match &said.broken {
            Some(Broken::Stopped) => "stopped".to_owned(),
            Some(Broken::OutOfTime) => "out of time".to_owned(),
            Some(Broken::Failed { message, .. }) => message.clone(),
            None => return,
        };
        self.push(Step::Broken { why });
    }

    fn waits(&mut self, waiting: &CallWaiting) {
        self.set_status(&waiting.call, "waiting");
        let asked = match &waiting.wake {
            Wake::Decision { question, .. } => Exchange::Permission { text: question.clone() },
            Wake::Answer { question, .. } | Wake::Parent { question } => {
                Exchange::Question { text: question.clone() }
            }
            Wake::Agent { .. } | Wake::Job(_) | Wake::At(_) => return,
        };
        self.exchange(&waiting.call, asked);
    }

    fn decided(&mut self, decided: &Decided) {
        let decision = match &decided.decision {
            Decision::Allow { .. } => Exchange::Allowed {},
            Decision::Deny { reason } => Exchange::Denied { reason: reason.clone() },
        };
        self.exchange(&decided.call, decision);
    }

    fn call_ended(&mut self, ended: &CallEnded) {
        if let Some(call) = self.call(&ended.call) {
            call.status = ended.status.as_str();
            call.ms = ended.ms;
            call.result = Some(text_of(&ended.content));
        }
    }

    fn acted(&mut self, acted: &Acted) {
        let text = match &acted.act {
            Act::Say { message } => Some(text_of(&message.content)),
            Act::Warn { message } => Some(message.clone()),
            Act::Fail(error) => Some(error.message.clone()),
            Act::Rewrite(rewrite) => rewrite.summary.as_ref().map(|summary| summary.text.clone()),
            Act::Stop { limit } => Some(limit.as_str().to_owned()),
            // The one is for the effect alone, of the other something else comes.
            Act::Note(_) | Act::Ask { .. } => return,
        };
        let (effect, act) = (acted.effect.clone(), acted.act.as_str());
        self.push(Step::Effect { effect, act, text });
    }
}

/// Returns the changes of a shared value that an entry holds, with their numbers.
fn changes_in(custom: &Custom) -> Vec<(String, u64, Value)> {
    let read = || {
        if custom.name != "shared" {
            return None;
        }
        let mut data: Value = serde_json::from_str(custom.data.as_str()).ok()?;
        let (value, from) = (data["value"].as_str()?.to_owned(), data["from"].as_u64()?);
        let Value::Array(changes) = data["changes"].take() else { return None };
        Some(
            (from..).zip(changes).map(|(number, change)| (value.clone(), number, change)).collect(),
        )
    };
    read().unwrap_or_default()
}

fn why(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Failed(error) => Some(error.message.clone()),
        Ending::Canceled(reason) => Some(word(reason)),
        Ending::Limit(limit) => Some(limit.as_str().to_owned()),
        Ending::Done | Ending::NeedsApproval => None,
    }
}

/// Returns the word for something as it is in the log.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map(str::to_owned).unwrap_or_default()
}

fn text_of(parts: &[Part]) -> String {
    parts.iter().map(shown).collect::<Vec<_>>().join("\n")
}
