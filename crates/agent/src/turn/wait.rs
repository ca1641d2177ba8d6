//! Waiting: for a person, for another agent, for a job, for a time.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, select_all};
use tokio::time::Instant;

use bowline_llm::CallId;

use crate::entry::{CallEnded, CallStatus, Ending, EntryKind, Wake, Woken};
use crate::event::Phase;
use crate::limits::LimitKind;
use crate::orchestrator::NextStep;

use super::{Halt, Turn, until};

/// What a call is told that needed somebody who is not there.
const NOBODY: &str =
    "denied: this needs a person's decision or answer, and nobody is there to give it";

impl Turn {
    /// Waits until one of these has happened, or mail has come.
    pub(super) async fn wait(&mut self, wakes: Vec<(CallId, Wake)>) -> Result<(), Halt> {
        let asks = |wake: &Wake| matches!(wake, Wake::Decision { .. } | Wake::Answer { .. });
        if !self.agent.attended && wakes.iter().any(|(_, wake)| asks(wake)) {
            return self.give_up().await;
        }
        self.enter(Phase::Waiting);
        // Time that only somebody else can end is not the agent's.
        let counts =
            wakes.iter().all(|(_, wake)| !asks(wake) && !matches!(wake, Wake::Parent { .. }));
        let deadline = if counts { self.deadline() } else { None };
        let began = Instant::now();
        let mut happened = self.happens(wakes.clone());
        let same = NextStep::Wait(wakes);
        let call = loop {
            tokio::select! {
                call = &mut happened => break call,
                mail = self.mailbox.next() => {
                    self.accept(mail).await?;
                    // Mail that changes nothing about the wait does not set its clock back.
                    if self.next_step() != same {
                        return Ok(());
                    }
                }
                () = until(deadline) => return self.hit(LimitKind::RunTime).await,
            }
        };
        let active = counts.then(|| began.elapsed());
        let woken = EntryKind::Woken(Woken { call, waiting: None, op: None });
        self.commit_after(vec![woken], active).await
    }

    /// Returns the first call whose wake happens by itself.
    fn happens(&self, wakes: Vec<(CallId, Wake)>) -> BoxFuture<'static, CallId> {
        let now = self.session.source.now();
        let waits: Vec<BoxFuture<'static, CallId>> = wakes
            .into_iter()
            .filter_map(|(call, wake)| match wake {
                Wake::At(at) => {
                    let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                    Some(tokio::time::sleep(left).map(|()| call).boxed())
                }
                Wake::Agent { agent, prompt } => {
                    let state = self.session.watch(agent);
                    Some(
                        async move {
                            // An agent that does not live here is found again by the tool.
                            if let Some(mut state) = state {
                                let _ = state.wait_for(|state| state.has_finished(prompt)).await;
                            }
                            call
                        }
                        .boxed(),
                    )
                }
                Wake::Decision { .. }
                | Wake::Answer { .. }
                | Wake::Parent { .. }
                | Wake::Job(_) => None,
            })
            .collect();
        if waits.is_empty() {
            return std::future::pending().boxed();
        }
        select_all(waits).map(|(call, ..)| call).boxed()
    }

    /// Ends the run because nobody can give what it waits for.
    async fn give_up(&mut self) -> Result<(), Halt> {
        self.end_children().await?;
        let denied = self.conversation.open_calls().into_iter().map(|call| {
            let denied = CallEnded::unheard(call.id().clone(), CallStatus::Denied, NOBODY);
            EntryKind::CallEnded(denied)
        });
        let kinds = denied.collect();
        self.finish(Ending::NeedsApproval, kinds).await
    }
}
