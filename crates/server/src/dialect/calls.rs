//! Calls between their announcement and their end: who tells the end often says again what was
//! called.

use std::collections::HashMap;

use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::AgentId;
use bowline_llm::{CallId, RawJson};
use serde::Serialize;

/// The calls that have not ended, of all agents.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<(AgentId, CallId), Call>);

/// What is known of a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments it runs with, as they were written.
    pub(super) arguments: String,
    pub(super) has_started: bool,
}

impl Calls {
    /// Takes note of what an event says of a call, and returns the call; for every event that is
    /// about one.
    pub(super) fn hear(&mut self, event: &Event) -> Call {
        let id = event.call_id.clone().unwrap_or_else(|| CallId::from(""));
        let call = self.0.entry((event.agent.id, id)).or_insert_with_key(|(_, id)| Call {
            id: id.as_str().to_owned(),
            arguments: "{}".to_owned(),
            ..Call::default()
        });
        match &event.body {
            EventBody::ToolCall { name, arguments } => {
                call.name.clone_from(name);
                call.arguments.clone_from(arguments);
            }
            EventBody::ToolStart { name, arguments, .. } => {
                call.name.clone_from(name);
                call.has_started = true;
                if let Some(rewritten) = arguments {
                    call.arguments.clone_from(rewritten);
                }
            }
            EventBody::ToolEnd { name, .. } => call.name.clone_from(name),
            _ => {}
        }
        call.clone()
    }

    /// As [`Calls::hear`], for the end of a call: it is forgotten.
    pub(super) fn end(&mut self, event: &Event) -> Call {
        let call = self.hear(event);
        if let Some(id) = &event.call_id {
            self.0.remove(&(event.agent.id, id.clone()));
        }
        call
    }

    /// Forgets what a run that was never ended has left behind.
    pub(super) fn forget(&mut self, agent: AgentId) {
        self.0.retain(|(of, _), _| *of != agent);
    }
}

/// Arguments as an object: what a model wrote may be anything.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Arguments {
    Object(RawJson),
    Other { arguments: String },
}

impl From<&str> for Arguments {
    fn from(arguments: &str) -> Self {
        match RawJson::parse(arguments) {
            Ok(object) if arguments.trim_start().starts_with('{') => Self::Object(object),
            Ok(_) | Err(_) => Self::Other { arguments: arguments.to_owned() },
        }
    }
}
