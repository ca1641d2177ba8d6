//! The JSON lines of `codex exec --json`.
//!
//! They tell of the session's first agent; a sub-agent is one item. An item's number counts what
//! follows from the log, so that those of what is only told live disturb no others.

use std::collections::HashMap;

use bowline_agent::entry::Ending;
use bowline_agent::event::{Event, EventBody, RunEnd};
use bowline_agent::id::{AgentId, SessionId};
use bowline_llm::{CallId, Message, RawJson, Usage, text_of};
use serde::Serialize;

use self::item::{Collab, CollabAgent, CollabState, Details, Item, State};
use super::answer::Answer;
use super::calls::Calls;
use super::codalotl::gap;
use super::{Lines, Translator};
use crate::ending::complaint;

mod item;

#[derive(Debug, Default)]
pub(super) struct Codex {
    has_thread: bool,
    in_turn: bool,
    answer: Answer,
    calls: Calls,
    // How many items of the log, and how many that were only live.
    items: u64,
    live_items: u64,
    // The items of calls that have started, and of the plan.
    open: HashMap<CallId, String>,
    plan: Option<Item>,
    children: HashMap<AgentId, Spawned>,
}

/// A sub-agent that was told to have started.
#[derive(Debug)]
struct Spawned {
    item: String,
    prompt: Option<String>,
    answer: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type")]
enum Line<'a> {
    #[serde(rename = "thread.started")]
    ThreadStarted { thread_id: SessionId },
    #[serde(rename = "turn.started")]
    TurnStarted {},
    #[serde(rename = "item.started")]
    ItemStarted { item: &'a Item },
    #[serde(rename = "item.updated")]
    ItemUpdated { item: &'a Item },
    #[serde(rename = "item.completed")]
    ItemCompleted { item: &'a Item },
    #[serde(rename = "turn.completed")]
    TurnCompleted { usage: TokenUsage },
    #[serde(rename = "turn.failed")]
    TurnFailed { error: ThreadError<'a> },
    #[serde(rename = "error")]
    Error { message: &'a str },
}

#[derive(Debug, Serialize)]
struct ThreadError<'a> {
    message: &'a str,
}

/// Input tokens count those of caches, output tokens those of reasoning.
#[derive(Debug, Serialize)]
struct TokenUsage {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
    reasoning_output_tokens: u64,
}

impl Translator for Codex {
    fn event(&mut self, event: &Event, lines: &mut Lines) {
        // Readers take the last message for the answer.
        if let Some(text) = self.answer.hear(event) {
            return self.complete(Details::AgentMessage { text }, lines);
        }
        let is_child = event.agent.depth > 0;
        match &event.body {
            EventBody::AgentStart { .. } => self.spawn(event, lines),
            EventBody::AgentEnd { outcome, .. } => self.reap(event, outcome.as_ref(), lines),
            EventBody::MessageAdded { message } if is_child => self.ask(event, message),
            EventBody::Text { text, finalizing: true } if is_child => self.answered(event, text),
            // What else it does stays within it.
            _ if is_child => {}
            EventBody::RunStart { .. } => self.start(event, lines),
            EventBody::Reasoning { text } if text.is_empty() => {}
            EventBody::Reasoning { text } => {
                self.complete(Details::Reasoning { text: text.clone() }, lines);
            }
            EventBody::ToolCall { .. }
            | EventBody::ToolStart { .. }
            | EventBody::ToolEnd { .. } => {
                self.call(event, lines);
            }
            EventBody::Custom { name, data } if name == item::PLAN => self.todo(data, lines),
            EventBody::LimitHit { limit } => {
                let message = format!("limit {} reached", limit.as_str());
                self.complete(Details::Error { message }, lines);
            }
            EventBody::Retry { reason, .. } => lines.say(&Line::Error { message: reason }),
            EventBody::Warning { message } => self.warn(event, message.clone(), lines),
            EventBody::Gap { missed, .. } => self.warn(event, gap(*missed), lines),
            EventBody::RunEnd(end) => self.ended(event, end, lines),
            EventBody::Rejected { error } | EventBody::RunLost { error } => {
                self.fail(event, error, lines);
            }
            EventBody::Text { .. }
            | EventBody::ToolOutput { .. }
            | EventBody::MessageAdded { .. }
            | EventBody::TurnEnd { .. }
            | EventBody::Queued { .. }
            | EventBody::Delivered { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::PlanStepStart { .. }
            | EventBody::PlanStepEnd { .. }
            | EventBody::PermissionRequest { .. }
            | EventBody::PermissionDecision { .. }
            | EventBody::CompactionStart { .. }
            | EventBody::CompactionEnd { .. }
            | EventBody::Custom { .. }
            | EventBody::Question { .. }
            | EventBody::Answer { .. }
            | untold!() => {}
        }
    }
}

impl Codex {
    fn start(&mut self, event: &Event, lines: &mut Lines) {
        self.calls.forget(event.agent.id);
        self.open.clear();
        self.plan = None;
        if !std::mem::replace(&mut self.has_thread, true) {
            lines.say(&Line::ThreadStarted { thread_id: event.session });
        }
        lines.say(&Line::TurnStarted {});
        self.in_turn = true;
    }

    fn next(&mut self) -> String {
        self.items += 1;
        format!("item_{}", self.items - 1)
    }

    /// Tells an item that is complete as soon as it is there.
    fn complete(&mut self, details: Details, lines: &mut Lines) {
        let item = Item { id: self.next(), details };
        lines.say(&Line::ItemCompleted { item: &item });
    }

    fn warn(&mut self, event: &Event, message: String, lines: &mut Lines) {
        if event.pos.is_some() {
            return self.complete(Details::Error { message }, lines);
        }
        let id = format!("live_{}", self.live_items);
        self.live_items += 1;
        lines.say(&Line::ItemCompleted { item: &Item { id, details: Details::Error { message } } });
    }

    fn call(&mut self, event: &Event, lines: &mut Lines) {
        let EventBody::ToolEnd { status, content, .. } = &event.body else {
            let call = self.calls.hear(event);
            let details = Details::of_call(&call, &State::Running);
            if let (EventBody::ToolStart { .. }, Some(details), Some(id)) =
                (&event.body, details.filter(Details::is_told_at_start), &event.call_id)
            {
                let item = Item { id: self.next(), details };
                lines.say(&Line::ItemStarted { item: &item });
                self.open.insert(id.clone(), item.id);
            }
            return;
        };
        let call = self.calls.end(event);
        let text = text_of(content);
        if let Some(details) = Details::of_call(&call, &State::Ended(*status, &text)) {
            let open = event.call_id.as_ref().and_then(|id| self.open.remove(id));
            let item = Item { id: open.unwrap_or_else(|| self.next()), details };
            lines.say(&Line::ItemCompleted { item: &item });
        }
    }

    fn todo(&mut self, plan: &RawJson, lines: &mut Lines) {
        let Some(items) = item::todo(plan) else { return };
        let details = Details::TodoList { items };
        let is_new = self.plan.is_none();
        let id = self.plan.take().map_or_else(|| self.next(), |plan| plan.id);
        let item = self.plan.insert(Item { id, details });
        if is_new {
            lines.say(&Line::ItemStarted { item });
        } else {
            lines.say(&Line::ItemUpdated { item });
        }
    }

    /// Tells that a sub-agent has started.
    fn spawn(&mut self, event: &Event, lines: &mut Lines) {
        let child = Spawned { item: self.next(), prompt: None, answer: None };
        lines.say(&Line::ItemStarted { item: &child.item(event, CollabState::Running) });
        self.children.insert(event.agent.id, child);
    }

    fn ask(&mut self, event: &Event, message: &Message) {
        if let (Message::User(said), Some(child)) =
            (message, self.children.get_mut(&event.agent.id))
        {
            child.prompt.get_or_insert_with(|| text_of(&said.content));
        }
    }

    fn answered(&mut self, event: &Event, text: &str) {
        if let Some(child) = self.children.get_mut(&event.agent.id) {
            child.answer = Some(text.to_owned());
        }
    }

    /// Tells that a sub-agent is done, even one that nobody saw start.
    fn reap(&mut self, event: &Event, outcome: Option<&Ending>, lines: &mut Lines) {
        let child = self.children.remove(&event.agent.id);
        let unseen = || Spawned { item: self.next(), prompt: None, answer: None };
        let child = child.unwrap_or_else(unseen);
        let state = match outcome {
            Some(Ending::Done) => CollabState::Completed,
            Some(Ending::Canceled(_)) | None => CollabState::Shutdown,
            Some(Ending::Failed(_) | Ending::Limit(_) | Ending::NeedsApproval) => {
                CollabState::Errored
            }
        };
        lines.say(&Line::ItemCompleted { item: &child.item(event, state) });
    }

    fn ended(&mut self, event: &Event, end: &RunEnd, lines: &mut Lines) {
        match complaint(&end.outcome) {
            None => {
                self.settle(event, lines);
                lines.say(&Line::TurnCompleted { usage: end.spent.usage.into() });
            }
            Some(complaint) => self.fail(event, &complaint, lines),
        }
        self.in_turn = false;
    }

    fn fail(&mut self, event: &Event, message: &str, lines: &mut Lines) {
        self.settle(event, lines);
        lines.say(&Line::TurnFailed { error: ThreadError { message } });
        self.in_turn = false;
    }

    /// Tells what a turn has told before its end, even one that nobody saw begin.
    fn settle(&mut self, event: &Event, lines: &mut Lines) {
        if !self.in_turn {
            self.start(event, lines);
        }
        if let Some(item) = self.plan.take() {
            lines.say(&Line::ItemCompleted { item: &item });
        }
    }
}

impl Spawned {
    fn item(&self, event: &Event, status: CollabState) -> Item {
        let agent = &event.agent;
        let state = CollabAgent { status, message: self.answer.clone() };
        let sender = agent.parent.unwrap_or_else(|| event.session.root());
        let details = Details::CollabToolCall(Collab::spawned(
            (sender, agent.id),
            self.prompt.clone(),
            state,
        ));
        Item { id: self.item.clone(), details }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            cached_input_tokens: usage.cache_read.unwrap_or(0),
            cache_write_input_tokens: usage.cache_write.unwrap_or(0),
            output_tokens: usage.output,
            reasoning_output_tokens: usage.reasoning.unwrap_or(0),
        }
    }
}
