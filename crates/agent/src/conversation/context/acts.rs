//! What effects do to a conversation.

use std::sync::Arc;

use crate::conversation::{Asked, Last, Said};
use crate::entry::{Act, Acted, AssistantSaid};

use super::{Context, Whose};

impl Context {
    /// Takes in what an effect did.
    pub(super) fn act(&mut self, acted: &Acted) {
        self.deliver(acted.op);
        if let Some(run) = &mut self.run {
            run.acted.push((acted.effect.clone(), acted.phase));
            // Whatever an effect does next settles what it had asked.
            run.asked.retain(|asked| asked.effect != acted.effect);
        }
        match &acted.act {
            // It is said between turns, and is no new question: what was answered stays answered.
            Act::Say { message } => self.append_user(Arc::clone(message), Whose::Loop),
            Act::Rewrite(rewrite) => {
                self.put_away.rewrite(acted, rewrite, &self.view);
                self.view = self.view.rewritten(rewrite);
                self.forgive_overflow();
            }
            Act::Ask { .. } => {
                if let Some(run) = &mut self.run {
                    run.asked.push(Asked { effect: acted.effect.clone(), said: None });
                }
            }
            Act::Fail(error) => {
                if let Some(run) = &mut self.run {
                    run.fatal.get_or_insert_with(|| error.clone());
                }
            }
            // A stop stands beside the entry that says which limit was hit.
            Act::Note(_) | Act::Warn { .. } | Act::Stop { .. } => {}
        }
    }

    /// Keeps what a model said on the side for the effect that asked it.
    pub(super) fn answer_effect(&mut self, reply: &AssistantSaid) {
        let Some(run) = &mut self.run else { return };
        run.asides += 1;
        if let Some(asked) = run.asked.first_mut() {
            let said = Said {
                message: Arc::clone(&reply.message),
                stop: reply.stop.clone(),
                broken: reply.broken.clone(),
            };
            asked.said = Some(said);
        }
    }

    /// After a request that was too long for the model, a shorter view makes a new one worth while.
    fn forgive_overflow(&mut self) {
        if self.is_overflown() {
            self.stop = None;
            self.last = match self.view.places().last().map(|place| place.whose) {
                Some(Whose::Tools) => Last::Results,
                Some(Whose::User | Whose::Pinned | Whose::Loop | Whose::Summary) | None => {
                    Last::Said
                }
                Some(Whose::Model) => Last::Cut,
            };
        }
    }
}
