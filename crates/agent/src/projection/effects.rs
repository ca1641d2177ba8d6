//! The events of what effects do.

use std::sync::Arc;

use bowline_llm::{Message, MessageRef};

use crate::entry::{Act, Acted, Rewrite};
use crate::event::EventBody;

use super::Sheet;

impl Sheet<'_> {
    /// Tells what an effect did, and what follows from it.
    pub(super) fn acted(&mut self, acted: &Acted, is_answered: bool) {
        if let Some(id) = acted.op {
            self.push(None, EventBody::Delivered { id });
        }
        let (effect, act) = (acted.effect.clone(), acted.act.as_str());
        self.push(None, EventBody::Effect { effect: effect.clone(), act });
        let summarised = match &acted.act {
            Act::Rewrite(Rewrite { summary: Some(_), after, .. }) => Some(*after),
            _ => None,
        };
        if let (Act::Rewrite(rewrite), true, false) =
            (&acted.act, summarised.is_some(), is_answered)
        {
            // It was made without a model.
            let (effect, tokens) = (effect.clone(), rewrite.before);
            self.push(None, EventBody::CompactionStart { effect, tokens });
        }
        if is_answered || summarised.is_some() {
            let (effect, done) = (effect.clone(), summarised.is_some());
            self.push(None, EventBody::CompactionEnd { effect, done, tokens: summarised });
        }
        match &acted.act {
            Act::Say { message } => {
                let message = MessageRef::from(Message::User(Arc::clone(message)));
                self.push(None, EventBody::MessageAdded { message });
            }
            Act::Rewrite(rewrite) => {
                let tokens = Some(rewrite.after);
                self.push(None, EventBody::CacheBreak { reason: effect, tokens });
            }
            Act::Ask { tokens } => {
                self.push(None, EventBody::CompactionStart { effect, tokens: *tokens });
            }
            Act::Warn { message } => {
                let message = message.clone();
                self.push(None, EventBody::Warning { message });
            }
            // What ends the run has its own event.
            Act::Note(_) | Act::Stop { .. } | Act::Fail(_) => {}
        }
    }
}
