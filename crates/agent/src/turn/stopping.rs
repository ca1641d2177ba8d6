//! Who is asked before a run ends with an answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::driver::panic_text;
use crate::entry::{Ending, EntryKind, Phase, RunError, RunErrorKind, UserSaid, Via};
use crate::event::EventBody;
use crate::op::Input;

use super::feeds::Heard;
use super::{Halt, Turn};

impl Turn {
    /// Asks those who may keep the run from ending with its answer: who follows up, what decides
    /// whether it may stop, and who judges the answer. Returns how it ends; `None` if it does not yet,
    /// or what it would end with must be looked at anew.
    pub(super) async fn before_done(&mut self) -> Result<Option<Ending>, Halt> {
        let seq = self.conversation.seq();
        self.poll_follow_ups().await?;
        if self.conversation.seq() != seq || self.ask_on_stop().await? {
            return Ok(None);
        }
        let answer = self.conversation.final_answer();
        let ending = match self.judged(answer.into()).await? {
            Ok(()) => Ending::Done,
            Err(message) => Ending::Failed(RunError { kind: RunErrorKind::Guardrail, message }),
        };
        // Whatever came in while they thought.
        while let Some(command) = self.mailbox.now() {
            self.accept_command(command).await?;
        }
        self.collect_inbox().await?;
        Ok((self.conversation.seq() == seq).then_some(ending))
    }

    /// Tells whether the agent was sent back to work, or the run is to end otherwise.
    async fn ask_on_stop(&mut self) -> Result<bool, Halt> {
        let Some(on_stop) = self.agent.on_stop.clone() else { return Ok(false) };
        let Some(step) = self.step(Phase::After) else { return Ok(true) };
        let seq = self.conversation.seq();
        let answer = self.conversation.final_answer();
        let asked = async move { on_stop.on_stop(&answer, &step).await };
        let mut asked: BoxFuture<'static, Result<Option<Input>, _>> =
            AssertUnwindSafe(asked).catch_unwind().boxed();
        let message = match self.hear_out(&mut asked).await? {
            Heard::Said(Ok(None)) => return Ok(self.conversation.seq() != seq),
            Heard::Said(Ok(Some(message))) => message.0,
            Heard::Said(Err(panic)) => {
                let message = format!("on_stop panicked: {}", panic_text(&*panic));
                self.say(EventBody::Warning { message });
                return Ok(false);
            }
            Heard::Ended => return Ok(true),
            // The answer is there, and is returned.
            Heard::Late => return Ok(false),
        };
        if self.conversation.seq() != seq {
            // It may say something else in view of what came in.
            return Ok(true);
        }
        let said = UserSaid { message, via: Via::OnStop, op: None };
        self.commit(vec![EntryKind::User(said)]).await?;
        Ok(true)
    }

    /// Returns what those say who judge an answer, the innermost first.
    async fn judged(&mut self, answer: Arc<str>) -> Result<Result<(), String>, Halt> {
        for middleware in self.middleware().into_iter().rev() {
            let answer = Arc::clone(&answer);
            let asked = async move { middleware.judge(&answer).await };
            let mut asked = AssertUnwindSafe(asked).catch_unwind().boxed();
            match self.hear_out(&mut asked).await? {
                Heard::Said(Ok(Ok(()))) => {}
                Heard::Said(Ok(Err(why))) => return Ok(Err(why)),
                Heard::Said(Err(panic)) => {
                    return Ok(Err(format!("a guardrail panicked: {}", panic_text(&*panic))));
                }
                // What the run ends with now is looked at anew.
                Heard::Ended => return Ok(Ok(())),
                Heard::Late => {
                    let why = "the time of the run was up before the answer was judged";
                    return Ok(Err(why.to_owned()));
                }
            }
        }
        Ok(Ok(()))
    }
}
