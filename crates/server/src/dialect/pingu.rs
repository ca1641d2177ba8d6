//! The events of pingu's runner: `Event{Type, Data}`.
//!
//! They tell of the session's first agent only, and of its text what is for the user. A token is a
//! whole text: what is streamed and then void could not be taken back.

use bowline_agent::entry::CallStatus;
use bowline_agent::event::{Event, EventBody};
use bowline_llm::text_of;
use serde::Serialize;

use super::{Lines, Translator};
use crate::ending::complaint;
use crate::said::Said;

#[derive(Debug, Default)]
pub(super) struct Pingu {
    said: Said,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
enum Line<'a> {
    Token(&'a str),
    ToolCall { name: &'a str, arguments: &'a str },
    ToolResult { name: &'a str, content: String },
    Done,
    Error(&'a str),
}

impl Translator for Pingu {
    fn event(&mut self, event: &Event, lines: &mut Lines) {
        if event.agent.depth > 0 {
            return;
        }
        if let Some(message) = self.said.hear(event) {
            lines.say(&Line::Token(message));
            return;
        }
        match &event.body {
            // Whoever sends messages writes the rest for nobody.
            EventBody::Text { text, .. } if self.said.last().is_none() => {
                lines.say(&Line::Token(text));
            }
            EventBody::ToolCall { name, arguments } => {
                lines.say(&Line::ToolCall { name, arguments });
            }
            EventBody::ToolEnd { name, status, content, .. } => {
                let content = match (*status, text_of(content)) {
                    (CallStatus::Ok, text) => text,
                    (_, text) => format!("error: {text}"),
                };
                lines.say(&Line::ToolResult { name, content });
            }
            EventBody::RunEnd(end) => match complaint(&end.outcome) {
                None => lines.say(&Line::Done),
                Some(complaint) => lines.say(&Line::Error(&complaint)),
            },
            EventBody::Rejected { error } | EventBody::RunLost { error } => {
                lines.say(&Line::Error(error));
            }
            EventBody::AgentStart { .. }
            | EventBody::AgentEnd { .. }
            | EventBody::RunStart { .. }
            | EventBody::Text { .. }
            | EventBody::Reasoning { .. }
            | EventBody::ToolStart { .. }
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
