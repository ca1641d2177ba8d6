//! The JSON lines of codalotl's `exec --json`.

use std::collections::HashMap;

use bowline_agent::entry::{CallStatus, Ending};
use bowline_agent::event::{AgentMeta, Event, EventBody, RunEnd};
use bowline_agent::id::AgentId;
use bowline_agent::journal::Pos;
use bowline_agent::op::Decision;
use bowline_llm::{CallId, Message, Usage, text_of};
use serde::Serialize;

use super::calls::{Call, Calls};
use super::codalotl::{FUNCTION_CALL, gap};
use super::{Lines, Scene, Translator};
use crate::ending::complaint;

#[derive(Debug, Default)]
pub(super) struct Headless {
    scene: Scene,
    calls: Calls,
    // What calls were asked about, until somebody decides or nobody can.
    prompts: HashMap<(AgentId, CallId), String>,
    // Where an operation was delivered, and whether the prompt is still to come: what else is said to
    // the model, nobody said but the loop.
    delivered: Option<Pos>,
    awaits_prompt: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Start { cwd: &'a str, package_path: &'a str, model_id: &'a str },
    UserMessage { text: String },
    AssistantText { agent: Agent, content: &'a str },
    AssistantReasoning { agent: Agent, content: &'a str },
    ToolCall { agent: Agent, tool: Tool },
    ToolOutput { agent: Agent, tool: Tool, content: &'a str },
    ToolComplete { agent: Agent, tool: Tool, result: ToolResult },
    Permission { prompt: String, decision: &'a str, automatic: bool },
    Warning { agent: Agent, message: &'a str },
    Retry { agent: Agent, message: &'a str },
    Canceled { agent: Agent, message: &'a str },
    Error { agent: Agent, message: &'a str },
    Done { token_usage: TokenUsage },
}

#[derive(Debug, Serialize)]
struct Agent {
    id: AgentId,
    depth: u32,
}

#[derive(Debug, Serialize)]
struct Tool {
    call_id: String,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
}

#[derive(Debug, Serialize)]
struct ToolResult {
    output: String,
    is_error: bool,
}

/// `input` is what came from no cache, `total` the sum of the other three.
#[derive(Debug, Serialize)]
struct TokenUsage {
    input: u64,
    cached_input: u64,
    cache_writes: u64,
    output: u64,
    total: u64,
}

impl Translator for Headless {
    fn set_scene(&mut self, scene: &Scene) {
        self.scene = scene.clone();
    }

    fn event(&mut self, event: &Event, lines: &mut Lines) {
        let agent = Agent::from(&*event.agent);
        match &event.body {
            EventBody::RunStart { model } => self.start(event, model, lines),
            EventBody::Text { text, .. } => {
                lines.say(&Line::AssistantText { agent, content: text });
            }
            EventBody::Reasoning { text } if text.is_empty() => {}
            EventBody::Reasoning { text } => {
                lines.say(&Line::AssistantReasoning { agent, content: text });
            }
            EventBody::ToolCall { .. }
            | EventBody::ToolStart { .. }
            | EventBody::ToolOutput { .. }
            | EventBody::ToolEnd { .. } => self.call(event, lines),
            EventBody::MessageAdded { message } => self.message(event, message, lines),
            EventBody::Delivered { .. } => self.delivered = event.pos,
            EventBody::PermissionRequest { question, .. } => {
                let call = event.call_id.clone().map(|call| (event.agent.id, call));
                self.prompts.extend(call.map(|call| (call, question.clone())));
            }
            EventBody::PermissionDecision { decision, .. } => {
                self.decided(event, decision, lines);
            }
            EventBody::Retry { reason, .. } => lines.say(&Line::Retry { agent, message: reason }),
            EventBody::Warning { message } => lines.say(&Line::Warning { agent, message }),
            EventBody::Gap { missed, .. } => {
                lines.say(&Line::Warning { agent, message: &gap(*missed) });
            }
            EventBody::RunEnd(end) => ended(&event.agent, end, lines),
            EventBody::Rejected { error } | EventBody::RunLost { error } => {
                lines.say(&Line::Error { agent, message: error });
            }
            EventBody::AgentStart { .. }
            | EventBody::AgentEnd { .. }
            | EventBody::TurnEnd { .. }
            | EventBody::PlanCreated { .. }
            | EventBody::PlanStepStart { .. }
            | EventBody::PlanStepEnd { .. }
            | EventBody::Queued { .. }
            | EventBody::LimitHit { .. }
            | EventBody::CompactionStart { .. }
            | EventBody::CompactionEnd { .. }
            | EventBody::Custom { .. }
            | EventBody::Question { .. }
            | EventBody::Answer { .. }
            | untold!() => {}
        }
    }
}

impl Headless {
    fn start(&mut self, event: &Event, model: &str, lines: &mut Lines) {
        self.calls.forget(event.agent.id);
        self.prompts.retain(|(agent, _), _| *agent != event.agent.id);
        if event.agent.depth == 0 {
            self.awaits_prompt = true;
            let cwd = self.scene.cwd.as_deref().unwrap_or_default();
            lines.say(&Line::Start { cwd, package_path: "", model_id: model });
        }
    }

    /// Tells what the user said: the prompt, which comes first, and what came while the agent worked.
    fn message(&mut self, event: &Event, message: &Message, lines: &mut Lines) {
        let Message::User(said) = message else { return };
        let was_delivered = event.pos.is_some() && self.delivered == event.pos;
        if event.agent.depth == 0 && (was_delivered || std::mem::take(&mut self.awaits_prompt)) {
            lines.say(&Line::UserMessage { text: text_of(&said.content) });
        }
    }

    fn call(&mut self, event: &Event, lines: &mut Lines) {
        let agent = Agent::from(&*event.agent);
        match &event.body {
            EventBody::ToolCall { .. } => {
                let call = self.calls.hear(event);
                let tool = Tool { input: Some(call.arguments.clone()), ..Tool::from(call) };
                lines.say(&Line::ToolCall { agent, tool });
            }
            EventBody::ToolOutput { text, .. } => {
                let tool = self.calls.hear(event).into();
                lines.say(&Line::ToolOutput { agent, tool, content: text });
            }
            EventBody::ToolEnd { status, content, .. } => {
                if *status == CallStatus::Denied {
                    // Nobody was there to decide.
                    self.permission(event, "disallow", true, lines);
                }
                let tool = self.calls.end(event).into();
                let result = ToolResult { output: text_of(content), is_error: status.is_error() };
                lines.say(&Line::ToolComplete { agent, tool, result });
            }
            _ => {
                self.calls.hear(event);
            }
        }
    }

    fn decided(&mut self, event: &Event, decision: &Decision, lines: &mut Lines) {
        let decision = match decision {
            Decision::Allow { .. } => "allow",
            Decision::Deny { .. } => "disallow",
        };
        self.permission(event, decision, false, lines);
    }

    /// Tells a decision about what was asked; one that came too late has nothing to be about.
    fn permission(&mut self, event: &Event, decision: &str, automatic: bool, lines: &mut Lines) {
        let call = event.call_id.clone().map(|call| (event.agent.id, call));
        if let Some(prompt) = call.and_then(|call| self.prompts.remove(&call)) {
            lines.say(&Line::Permission { prompt, decision, automatic });
        }
    }
}

/// Tells the end of a run; that of a sub-agent only if it went wrong.
fn ended(meta: &AgentMeta, end: &RunEnd, lines: &mut Lines) {
    let agent = Agent::from(meta);
    let complaint = complaint(&end.outcome).unwrap_or_default();
    let message = complaint.as_str();
    match &end.outcome {
        Ending::Done if meta.depth > 0 => {}
        Ending::Done => lines.say(&Line::Done { token_usage: end.spent.usage.into() }),
        Ending::Canceled(_) => lines.say(&Line::Canceled { agent, message }),
        Ending::Failed(_) | Ending::Limit(_) | Ending::NeedsApproval => {
            lines.say(&Line::Error { agent, message });
        }
    }
}

impl From<&AgentMeta> for Agent {
    fn from(meta: &AgentMeta) -> Self {
        Self { id: meta.id, depth: meta.depth }
    }
}

impl From<Call> for Tool {
    fn from(call: Call) -> Self {
        Self { call_id: call.id, name: call.name, kind: FUNCTION_CALL, input: None }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let cached_input = usage.cache_read.unwrap_or(0);
        let input = usage.input.saturating_sub(cached_input);
        Self {
            input,
            cached_input,
            cache_writes: usage.cache_write.unwrap_or(0),
            output: usage.output,
            total: input.saturating_add(cached_input).saturating_add(usage.output),
        }
    }
}
