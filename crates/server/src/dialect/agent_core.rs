//! The events of agent-core as its server sends them: `{"type", "payload"}`, and `done` at the end.
//!
//! A turn is theirs: from a prompt, or from what was said after an answer, to the next answer. They
//! tell of the session's first agent only.

use bowline_agent::entry::Ending;
use bowline_agent::event::{Event, EventBody};
use bowline_agent::journal::Pos;
use bowline_llm::{Message, StopReason, Usage, text_of};
use jiff::Timestamp;
use serde::Serialize;

use super::answer::Answer;
use super::calls::Arguments;
use super::side::Side;
use super::{Lines, Translator};
use crate::ending::complaint;

#[derive(Debug, Default)]
pub(super) struct AgentCore {
    model: String,
    began: Option<Timestamp>,
    draft: Draft,
    whole: Answer,
    side: Side,
    // An empty reply, told once it is clear that it was no plan.
    empty: Option<(Option<Usage>, StopReason)>,
    // The step of a plan that is under way.
    step: Option<Step>,
    // The latest answer: its turn ends when it turns out that nothing more is said.
    answer: Option<AssistantMessage>,
    delivered: Option<Pos>,
}

/// A step of a plan: its call is told at once, as there, and its end with its result.
#[derive(Debug)]
struct Step {
    index: usize,
    count: usize,
    tool: String,
}

/// What a reply has said so far.
#[derive(Debug, Default)]
struct Draft {
    thinking: Vec<String>,
    text: String,
    calls: Vec<ToolCall>,
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.thinking.is_empty() && self.text.is_empty() && self.calls.is_empty()
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
#[serde(rename_all_fields = "PascalCase")]
enum Line<'a> {
    TurnStart {
        timestamp: i64,
    },
    SteeringMode {
        mode: &'a str,
        queue_size: usize,
        next_action: &'a str,
    },
    Thinking {
        text: &'a str,
    },
    ToolCall(ToolCall),
    ToolResult {
        tool_call_id: &'a str,
        tool_name: &'a str,
        result: Option<&'a str>,
        error: &'a str,
    },
    TextDelta {
        text: &'a str,
        index: u32,
    },
    PlanCreated {
        count: usize,
        steps: Vec<PlannedCall<'a>>,
    },
    PlanStepStart {
        index: usize,
        count: usize,
        tool: &'a str,
        args: Arguments,
    },
    PlanStepEnd {
        index: usize,
        count: usize,
        tool: &'a str,
        result: Option<&'a str>,
        error: &'a str,
    },
    TurnEnd {
        message: AssistantMessage,
        duration: i64,
    },
    Done,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ToolCall {
    tool_call_id: String,
    tool_name: String,
    args: Arguments,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct PlannedCall<'a> {
    tool: &'a str,
    args: Arguments,
}

#[derive(Debug, Serialize)]
struct AssistantMessage {
    #[serde(rename = "Content")]
    content: Vec<TextContent>,
    #[serde(rename = "Provider")]
    provider: String,
    #[serde(rename = "Model")]
    model: String,
    #[serde(rename = "Usage")]
    usage: Option<Tokens>,
    #[serde(rename = "StopReason")]
    stop_reason: &'static str,
    #[serde(rename = "ErrorMessage", skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct TextContent {
    text: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Tokens {
    input: u64,
    output: u64,
    total: u64,
}

impl Translator for AgentCore {
    fn event(&mut self, event: &Event, lines: &mut Lines) {
        if event.agent.depth > 0 || self.side.hear(event) {
            return;
        }
        self.whole.hear(event);
        if !matches!(event.body, EventBody::PlanCreated { .. }) && event.pos.is_some() {
            self.tell_empty(lines);
        }
        match &event.body {
            EventBody::RunStart { model } => {
                *self = Self { model: model.clone(), ..Self::default() };
                self.begin(event, lines);
            }
            EventBody::Text { text, .. } => self.draft.text.push_str(text),
            EventBody::Reasoning { text } if text.is_empty() => {}
            EventBody::Reasoning { text } => self.draft.thinking.push(text.clone()),
            EventBody::ToolCall { name, arguments } => {
                let id = event.call_id.as_ref().map(ToString::to_string);
                let call = ToolCall {
                    tool_call_id: id.unwrap_or_default(),
                    tool_name: name.clone(),
                    args: arguments.as_str().into(),
                };
                match self.step {
                    Some(_) => lines.say(&Line::ToolCall(call)),
                    None => self.draft.calls.push(call),
                }
            }
            EventBody::PlanCreated { count, steps } => {
                self.empty = None;
                let steps = steps
                    .iter()
                    .map(|step| PlannedCall { tool: &step.tool, args: step.args.as_str().into() });
                lines.say(&Line::PlanCreated { count: *count, steps: steps.collect() });
            }
            EventBody::PlanStepStart { index, count, tool, args } => {
                let (index, count) = (*index, *count);
                self.step = Some(Step { index, count, tool: tool.clone() });
                let args = args.as_str().into();
                lines.say(&Line::PlanStepStart { index, count, tool, args });
            }
            EventBody::TurnEnd { usage, finish, .. } => self.decided(*usage, finish, lines),
            EventBody::Delivered { .. } => self.delivered = event.pos,
            EventBody::MessageAdded { message } => self.message(event, message, lines),
            EventBody::RunEnd(end) => {
                let stop_reason = match &end.outcome {
                    Ending::Done => "stop",
                    Ending::Canceled(_) => "aborted",
                    Ending::Failed(_) | Ending::Limit(_) | Ending::NeedsApproval => "error",
                };
                self.end(event, complaint(&end.outcome), stop_reason, lines);
            }
            EventBody::Rejected { error } | EventBody::RunLost { error } => {
                self.end(event, Some(error.clone()), "error", lines);
            }
            EventBody::AgentStart { .. }
            | EventBody::AgentEnd { .. }
            | EventBody::ToolStart { .. }
            | EventBody::ToolOutput { .. }
            | EventBody::ToolEnd { .. }
            | EventBody::PlanStepEnd { .. }
            | EventBody::Queued { .. }
            | EventBody::PermissionRequest { .. }
            | EventBody::PermissionDecision { .. }
            | EventBody::LimitHit { .. }
            | EventBody::Retry { .. }
            | EventBody::Warning { .. }
            | EventBody::CompactionStart { .. }
            | EventBody::CompactionEnd { .. }
            | EventBody::Custom { .. }
            | EventBody::Gap { .. }
            | EventBody::Question { .. }
            | EventBody::Answer { .. }
            | untold!() => {}
        }
    }
}

impl AgentCore {
    fn begin(&mut self, event: &Event, lines: &mut Lines) {
        // Durations count from the first turn, as they do there.
        self.began.get_or_insert(event.ts);
        lines.say(&Line::TurnStart { timestamp: event.ts.as_millisecond() });
    }

    /// Tells what a reply was: to respond, or to steer to tools. What it says beside its calls is the
    /// thought that leads to them.
    fn decided(&mut self, usage: Option<Usage>, finish: &StopReason, lines: &mut Lines) {
        if self.draft.is_empty() {
            self.empty = Some((usage, finish.clone()));
            return;
        }
        self.tell(usage, finish, lines);
    }

    /// Tells of an empty reply that was no plan.
    fn tell_empty(&mut self, lines: &mut Lines) {
        if let Some((usage, finish)) = self.empty.take() {
            self.tell(usage, &finish, lines);
        }
    }

    fn tell(&mut self, usage: Option<Usage>, finish: &StopReason, lines: &mut Lines) {
        let Draft { mut thinking, text, calls } = std::mem::take(&mut self.draft);
        let steers = !calls.is_empty();
        let mode = if steers { "steer" } else { "respond" };
        lines.say(&Line::SteeringMode { mode, queue_size: calls.len(), next_action: "" });
        let text = Some(text).filter(|text| !text.is_empty());
        if steers {
            self.answer = None;
            thinking.extend(text);
            thinking.iter().for_each(|text| lines.say(&Line::Thinking { text }));
            calls.into_iter().for_each(|call| lines.say(&Line::ToolCall(call)));
            return;
        }
        self.answer = Some(self.reply(self.whole.replies(), usage, finish));
        thinking.iter().for_each(|text| lines.say(&Line::Thinking { text }));
        text.iter().for_each(|text| lines.say(&Line::TextDelta { text, index: 0 }));
    }

    fn message(&mut self, event: &Event, message: &Message, lines: &mut Lines) {
        match message {
            Message::Results(results) => {
                for answer in results {
                    let text = text_of(&answer.content);
                    let result = (!answer.is_error).then_some(text.as_str());
                    let error = if answer.is_error { text.as_str() } else { "" };
                    let (tool_call_id, tool_name) = (answer.call.as_str(), answer.name.as_str());
                    lines.say(&Line::ToolResult { tool_call_id, tool_name, result, error });
                    if let Some(Step { index, count, tool }) = self.step.take() {
                        lines.say(&Line::PlanStepEnd { index, count, tool: &tool, result, error });
                    }
                }
            }
            // What is said after an answer begins another turn.
            Message::User(_) if event.pos.is_some() && self.delivered == event.pos => {
                if let Some(answer) = self.answer.take() {
                    lines.say(&self.turn_end(event, answer));
                    self.begin(event, lines);
                }
            }
            Message::User(_) | Message::Assistant(_) => {}
        }
    }

    fn end(
        &mut self,
        event: &Event,
        complaint: Option<String>,
        stop_reason: &'static str,
        lines: &mut Lines,
    ) {
        if self.began.is_none() {
            self.begin(event, lines);
        }
        self.tell_empty(lines);
        let answer = self.answer.take();
        let mut answer =
            answer.unwrap_or_else(|| self.reply(String::new(), None, &StopReason::EndTurn));
        if complaint.is_some() {
            (answer.stop_reason, answer.error_message) = (stop_reason, complaint);
        }
        lines.say(&self.turn_end(event, answer));
        lines.say(&Line::Done);
        self.began = None;
    }

    fn turn_end<'a>(&self, event: &Event, message: AssistantMessage) -> Line<'a> {
        let began = self.began.unwrap_or(event.ts);
        let duration = event.ts.as_millisecond().saturating_sub(began.as_millisecond());
        Line::TurnEnd { message, duration }
    }

    fn reply(&self, text: String, usage: Option<Usage>, finish: &StopReason) -> AssistantMessage {
        let (provider, model) = self.model.split_once('/').unwrap_or(("", &self.model));
        let stop_reason = match finish {
            StopReason::EndTurn
            | StopReason::Paused
            | StopReason::Refused
            | StopReason::Other(_) => "stop",
            StopReason::ToolUse => "toolUse",
            StopReason::MaxTokens => "length",
            StopReason::Canceled => "aborted",
            StopReason::Error => "error",
        };
        AssistantMessage {
            content: Some(TextContent { text })
                .filter(|said| !said.text.is_empty())
                .into_iter()
                .collect(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            usage: usage.map(Tokens::from),
            stop_reason,
            error_message: None,
        }
    }
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self { input: usage.input, output: usage.output, total: usage.total() }
    }
}
