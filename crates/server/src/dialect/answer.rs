//! The answer of a run, from its events.

use bowline_agent::event::{Event, EventBody};
use bowline_llm::StopReason;

use super::side::Side;
use crate::said::Said;

/// What the run of the session's first agent has answered: what it sent the user on purpose, or
/// else the text of its last reply, with those before it that were cut and went on.
#[derive(Debug, Default)]
pub(super) struct Answer {
    said: Said,
    side: Side,
    before: String,
    text: String,
    // The next reply begins a new answer.
    has_ended: bool,
}

impl Answer {
    /// Takes note of an event; returns what it tells the user, if anything: a message, or while none
    /// was sent a text, with what was cut before it.
    pub(super) fn hear(&mut self, event: &Event) -> Option<String> {
        let message = self.said.hear(event).map(str::to_owned);
        if event.agent.depth > 0 || self.side.hear(event) {
            return None;
        }
        match &event.body {
            EventBody::RunStart { .. } => {
                self.has_ended = true;
                self.go_on();
            }
            EventBody::Text { text, .. } => {
                self.go_on();
                self.text.push_str(text);
                return message.or_else(|| self.said.last().is_none().then(|| self.whole(text)));
            }
            EventBody::TurnEnd { finish, .. } => {
                self.go_on();
                if *finish == StopReason::MaxTokens {
                    self.before.push_str(&std::mem::take(&mut self.text));
                } else {
                    self.has_ended = true;
                }
            }
            _ => {}
        }
        message
    }

    pub(super) fn text(&self) -> String {
        self.said.text().unwrap_or_else(|| self.replies())
    }

    /// Returns the text alone, whatever was sent.
    pub(super) fn replies(&self) -> String {
        self.whole(&self.text)
    }

    /// Returns a text of the reply with the replies before it that it goes on with.
    fn whole(&self, text: &str) -> String {
        format!("{}{text}", self.before)
    }

    fn go_on(&mut self) {
        if std::mem::take(&mut self.has_ended) {
            self.before.clear();
            self.text.clear();
        }
    }
}
