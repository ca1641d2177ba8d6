//! Asking whether a prompt may be taken, while nothing of it is written down.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::driver::panic_text;
use crate::error::AgentError;
use crate::event::EventBody;
use crate::mailbox::{Command, Mail, Own};
use crate::op::{Input, Op, OpKind};
use crate::prompt_gate::{Admission, PromptReview};

use super::{Halt, Turn};

/// What is said before a prompt, and what a person should know of it.
#[derive(Default)]
pub(super) struct Admitted {
    pub(super) before: Vec<Input>,
    pub(super) warnings: Vec<String>,
}

impl Turn {
    /// Asks who decides about prompts, if that is one which nobody has decided about.
    pub(super) async fn admit(&mut self, op: &Op) -> Result<Result<Admitted, AgentError>, Halt> {
        let (Some(gate), OpKind::Prompt(input)) = (self.agent.prompt_gate.clone(), &op.kind) else {
            return Ok(Ok(Admitted::default()));
        };
        if self.conversation.knows(op.id) {
            return Ok(Ok(Admitted::default()));
        }
        let (meta, session, input) = (self.meta(), self.session.id, input.clone());
        let is_first = self.conversation.totals().runs == 0;
        let asked = async move {
            let review = PromptReview { input: &input, session, agent: &meta, is_first };
            gate.review(&review).await
        };
        let mut asked = AssertUnwindSafe(asked).catch_unwind().boxed();
        let mut early = Vec::new();
        let decided = loop {
            let mail = tokio::select! {
                biased;
                decided = &mut asked => break decided,
                mail = self.mailbox.next() => mail,
            };
            match mail {
                Mail::Command(command) if takes_back(&command, op) => {
                    early.push(command);
                    self.mailbox.put_back(early);
                    let why = "canceled before it began".to_owned();
                    return Ok(Err(AgentError::Refused(why)));
                }
                Mail::Command(command) => early.push(command),
                Mail::Inbox => self.collect_inbox().await?,
                Mail::Deserted => {}
            }
        };
        self.mailbox.put_back(early);
        Ok(match decided {
            Ok(Admission::Admit { before, warnings }) => Ok(Admitted { before, warnings }),
            Ok(Admission::Refuse { reason }) => Err(AgentError::Refused(reason)),
            Err(panic) => {
                let why = format!("the gate of prompts panicked: {}", panic_text(&*panic));
                Err(AgentError::Refused(why))
            }
        })
    }

    /// Tells those who watch what a person should know.
    pub(super) fn warn_all(&self, warnings: Vec<String>) {
        for message in warnings {
            self.say(EventBody::Warning { message });
        }
    }
}

/// Tells whether whoever said a prompt does not want it any more.
fn takes_back(command: &Command, prompt: &Op) -> bool {
    match command {
        Command::CancelOwn { own: Own::Prompt(op), .. } => *op == prompt.id,
        Command::Post { op, .. } | Command::Inbox { op } => {
            matches!(op.kind, OpKind::Cancel { .. })
        }
        Command::Close { .. } | Command::LetGo { .. } => true,
        Command::CancelOwn { own: Own::Run(_), .. }
        | Command::Prompt { .. }
        | Command::Continue { .. }
        | Command::AddTurn { .. }
        | Command::Custom { .. }
        | Command::Rewind { .. }
        | Command::FailOwn { .. }
        | Command::BackgroundOver { .. }
        | Command::DecideAlike { .. }
        | Command::Reconsider { .. }
        | Command::Granted { .. } => false,
    }
}
