//! The agent events of codalotl, of an agent and of all below it: `agent.Event`, field by field.

use bowline_agent::entry::Ending;
use bowline_agent::event::{AgentMeta, Event, EventBody};
use bowline_agent::journal::Pos;
use bowline_llm::{AssistantMessage, AssistantPart, Message, StopReason, Usage, text_of};
use serde::Serialize;

use super::calls::{Call, Calls};
use super::side::Side;
use super::{Lines, Translator};
use crate::ending::complaint;

/// The type of every call: what the model was given are functions.
pub(super) const FUNCTION_CALL: &str = "function_call";

#[derive(Debug, Default)]
pub(super) struct Codalotl {
    calls: Calls,
    side: Side,
    // Where an operation was delivered: the message at that place is the queued one.
    delivered: Option<Pos>,
    // The reply at this place, whose turn is about to be told complete.
    reply: Option<(Pos, Vec<ContentPart>)>,
}

/// `agent.Event`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Line<'a> {
    agent: Agent,
    #[serde(flatten)]
    what: What<'a>,
}

/// `agent.AgentMeta`.
#[derive(Debug, Serialize)]
struct Agent {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Depth")]
    depth: u32,
    #[serde(rename = "Parent")]
    parent: String,
}

/// The type of an event and the fields that go with it.
#[derive(Debug, Serialize)]
#[serde(tag = "Type", rename_all = "snake_case", rename_all_fields = "PascalCase")]
enum What<'a> {
    StartSubagent { start_subagent: StartSubagent },
    UserMessageQueued {},
    QueuedUserMessageSent { user_message: String },
    AssistantText { text_content: Content<'a>, assistant_text_finalizing: bool },
    AssistantReasoning { reasoning_content: Content<'a> },
    ToolCall { tool_call: ToolCall },
    ToolOutput { tool_call: ToolCall, tool_output: Content<'a> },
    ToolComplete { tool_call: ToolCall, tool_result: ToolResult },
    AssistantTurnComplete { turn: Turn<'a> },
    Warning { error: String },
    Retry { error: &'a str },
    DoneSuccess {},
    Canceled { error: String },
    Error { error: String },
}

#[derive(Debug, Serialize)]
struct StartSubagent {
    #[serde(rename = "CallingAgentID")]
    calling_agent_id: String,
    #[serde(rename = "ToolCallID")]
    tool_call_id: String,
    #[serde(rename = "Label")]
    label: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Content<'a> {
    content: &'a str,
}

/// `llmstream.ToolCall`.
#[derive(Debug, Clone, Serialize)]
struct ToolCall {
    #[serde(rename = "CallID")]
    call_id: String,
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Type")]
    kind: &'static str,
    #[serde(rename = "Input")]
    input: String,
}

/// `llmstream.ToolResult`.
#[derive(Debug, Serialize)]
struct ToolResult {
    #[serde(rename = "CallID")]
    call_id: String,
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Type")]
    kind: &'static str,
    #[serde(rename = "Result")]
    result: String,
    #[serde(rename = "IsError")]
    is_error: bool,
}

/// `llmstream.Turn`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Turn<'a> {
    role: &'static str,
    parts: Vec<ContentPart>,
    finish_reason: &'a str,
    token_usage: Option<TokenUsage>,
}

/// `llmstream.ContentPart`, under the name of what it is.
#[derive(Debug, Serialize)]
enum ContentPart {
    TextContent(Text),
    ReasoningContent(Text),
    ToolCall(ToolCall),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Text {
    content: String,
}

/// `llmstream.TokenUsage`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct TokenUsage {
    total_input_tokens: u64,
    cached_input_tokens: u64,
    cache_creation_input_tokens: u64,
    reasoning_tokens: u64,
    total_output_tokens: u64,
}

impl Translator for Codalotl {
    fn event(&mut self, event: &Event, lines: &mut Lines) {
        if let Some(what) = self.what(event) {
            lines.say(&Line { agent: agent(&event.agent), what });
        }
    }
}

impl Codalotl {
    fn what<'a>(&mut self, event: &'a Event) -> Option<What<'a>> {
        if self.side.hear(event) {
            return None;
        }
        match &event.body {
            EventBody::RunStart { .. } => {
                self.calls.forget(event.agent.id);
                None
            }
            EventBody::AgentStart { call } => Some(What::StartSubagent {
                start_subagent: StartSubagent {
                    calling_agent_id: parent(&event.agent),
                    tool_call_id: call.as_str().to_owned(),
                    label: event.agent.label.clone().unwrap_or_default(),
                },
            }),
            EventBody::Text { text, finalizing } => Some(What::AssistantText {
                text_content: Content { content: text },
                assistant_text_finalizing: *finalizing,
            }),
            EventBody::Reasoning { text } if text.is_empty() => None,
            EventBody::Reasoning { text } => {
                Some(What::AssistantReasoning { reasoning_content: Content { content: text } })
            }
            EventBody::ToolCall { .. }
            | EventBody::ToolStart { .. }
            | EventBody::ToolOutput { .. }
            | EventBody::ToolEnd { .. } => self.call(event),
            EventBody::MessageAdded { message } => self.message(event.pos?, message),
            EventBody::TurnEnd { usage, finish, .. } => self.turn(event.pos?, *usage, finish),
            EventBody::Queued { kind: "compact", .. } => None,
            EventBody::Queued { .. } => Some(What::UserMessageQueued {}),
            EventBody::Delivered { .. } => {
                self.delivered = event.pos;
                None
            }
            EventBody::Retry { reason, .. } => Some(What::Retry { error: reason }),
            EventBody::Warning { message } => Some(What::Warning { error: message.clone() }),
            EventBody::Gap { missed, .. } => Some(What::Warning { error: gap(*missed) }),
            EventBody::RunEnd(end) => Some(ended(&end.outcome)),
            EventBody::Rejected { error } | EventBody::RunLost { error } => {
                Some(What::Error { error: error.clone() })
            }
            EventBody::AgentEnd { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::PlanStepStart { .. }
            | EventBody::PlanStepEnd { .. }
            | EventBody::PermissionRequest { .. }
            | EventBody::PermissionDecision { .. }
            | EventBody::LimitHit { .. }
            | EventBody::CompactionStart { .. }
            | EventBody::CompactionEnd { .. }
            | EventBody::Custom { .. }
            | EventBody::Question { .. }
            | EventBody::Answer { .. }
            | untold!() => None,
        }
    }

    fn call<'a>(&mut self, event: &'a Event) -> Option<What<'a>> {
        match &event.body {
            EventBody::ToolCall { .. } => {
                Some(What::ToolCall { tool_call: self.calls.hear(event).into() })
            }
            EventBody::ToolOutput { text, .. } => Some(What::ToolOutput {
                tool_call: self.calls.hear(event).into(),
                tool_output: Content { content: text },
            }),
            EventBody::ToolEnd { status, content, .. } => {
                let tool_call = ToolCall::from(self.calls.end(event));
                let tool_result = ToolResult {
                    call_id: tool_call.call_id.clone(),
                    name: tool_call.name.clone(),
                    kind: FUNCTION_CALL,
                    result: text_of(content),
                    is_error: status.is_error(),
                };
                Some(What::ToolComplete { tool_call, tool_result })
            }
            _ => {
                self.calls.hear(event);
                None
            }
        }
    }

    fn message<'a>(&mut self, pos: Pos, message: &Message) -> Option<What<'a>> {
        match message {
            Message::User(said) if self.delivered == Some(pos) => {
                Some(What::QueuedUserMessageSent { user_message: text_of(&said.content) })
            }
            Message::Assistant(said) => {
                self.reply = Some((pos, parts(said)));
                None
            }
            Message::User(_) | Message::Results(_) => None,
        }
    }

    /// Tells a whole turn; one that broke off has no message and is not told.
    fn turn<'a>(
        &mut self,
        pos: Pos,
        usage: Option<Usage>,
        finish: &'a StopReason,
    ) -> Option<What<'a>> {
        let reply = self.reply.take().filter(|(at, _)| *at == pos);
        if reply.is_none() && matches!(finish, StopReason::Canceled | StopReason::Error) {
            return None;
        }
        let turn = Turn {
            role: "assistant",
            parts: reply.map(|(_, parts)| parts).unwrap_or_default(),
            finish_reason: finish_reason(finish),
            token_usage: usage.map(TokenUsage::from),
        };
        Some(What::AssistantTurnComplete { turn })
    }
}

/// Says that a reader was too slow.
pub(super) fn gap(missed: u64) -> String {
    format!("{missed} events were told faster than they were read")
}

fn agent(meta: &AgentMeta) -> Agent {
    Agent { id: meta.id.to_string(), depth: meta.depth, parent: parent(meta) }
}

fn parent(meta: &AgentMeta) -> String {
    meta.parent.map(|parent| parent.to_string()).unwrap_or_default()
}

fn ended<'a>(ending: &Ending) -> What<'a> {
    let error = complaint(ending).unwrap_or_default();
    match ending {
        Ending::Done => What::DoneSuccess {},
        Ending::Canceled(_) => What::Canceled { error },
        Ending::Failed(_) | Ending::Limit(_) | Ending::NeedsApproval => What::Error { error },
    }
}

fn parts(said: &AssistantMessage) -> Vec<ContentPart> {
    let part = |part: &AssistantPart| match part {
        AssistantPart::Text(text) => Some(ContentPart::TextContent(Text { content: text.clone() })),
        AssistantPart::Reasoning(reasoning) => {
            Some(ContentPart::ReasoningContent(Text { content: reasoning.text.clone() }))
        }
        AssistantPart::ToolCall(call) => Some(ContentPart::ToolCall(ToolCall {
            call_id: call.id.as_str().to_owned(),
            name: call.name.clone(),
            kind: FUNCTION_CALL,
            input: call.arguments.clone(),
        })),
        AssistantPart::Opaque(_) => None,
    };
    said.content.iter().filter_map(part).collect()
}

fn finish_reason(finish: &StopReason) -> &str {
    match finish {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Paused => "pause_turn",
        StopReason::Refused => "permission_denied",
        StopReason::Canceled => "canceled",
        StopReason::Error => "error",
        StopReason::Other(other) => other,
    }
}

impl From<Call> for ToolCall {
    fn from(call: Call) -> Self {
        Self { call_id: call.id, name: call.name, kind: FUNCTION_CALL, input: call.arguments }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        Self {
            total_input_tokens: usage.input,
            cached_input_tokens: usage.cache_read.unwrap_or(0),
            cache_creation_input_tokens: usage.cache_write.unwrap_or(0),
            reasoning_tokens: usage.reasoning.unwrap_or(0),
            total_output_tokens: usage.output,
        }
    }
}
