//! What the agent tells the user on purpose, with its tool `message`.

use bowline_agent::event::{Event, EventBody};

/// The tool whose calls speak to the user, and the name of the entry that keeps what it said.
pub(crate) const MESSAGE: &str = "message";

/// The messages of the latest run, in order.
#[derive(Debug, Default)]
pub struct Said {
    messages: Vec<String>,
    is_at_limit: bool,
}

impl Said {
    /// Takes note of an event; returns the message if it is one.
    pub fn hear(&mut self, event: &Event) -> Option<&str> {
        // What a sub-agent sends is for the agent that asked it.
        if event.agent.depth > 0 {
            return None;
        }
        let message = match &event.body {
            EventBody::RunStart { .. } => {
                *self = Self::default();
                return None;
            }
            EventBody::LimitHit { .. } => {
                self.is_at_limit = true;
                return None;
            }
            EventBody::Custom { name, data } if name == MESSAGE => {
                let data: serde_json::Value = serde_json::from_str(data.as_str()).ok()?;
                data.get("text")?.as_str()?.to_owned()
            }
            // Whoever may call no tools any more sums up with text.
            EventBody::Text { text, .. } if self.is_at_limit && !self.messages.is_empty() => {
                text.clone()
            }
            _ => return None,
        };
        self.messages.push(message.trim_end().to_owned());
        self.messages.last().map(String::as_str)
    }

    /// Returns all messages as one text; `None` if there is none.
    pub fn text(&self) -> Option<String> {
        (!self.messages.is_empty()).then(|| self.messages.join("\n"))
    }

    /// Returns the last message.
    pub fn last(&self) -> Option<&str> {
        self.messages.last().map(String::as_str)
    }
}
