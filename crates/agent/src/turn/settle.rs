//! Boundaries: delivering what waits, and ending a run.

use crate::conversation::{Last, OpenRun, Repair};
use crate::entry::{Ending, EntryKind, RunEnded, RunError, RunErrorKind, UserSaid, Via};
use crate::event::{EventBody, Phase};
use crate::op::{Input, Op, OpKind};

use super::{Halt, Turn};

/// What is said to a model whose answer is empty.
const SPEAK: &str = "You said nothing. Go on with the work, or say what came of it.";

impl Turn {
    /// Says what was steered and queued, if no call is open.
    pub(super) async fn deliver(&mut self) -> Result<(), Halt> {
        let Some(run) = self.conversation.run() else { return Ok(()) };
        if run.pending.is_empty() || !self.can_be_said() {
            return Ok(());
        }
        // What was steered comes first, then what was queued, each in its order.
        let steered = run.pending.iter().filter_map(|op| said(op, Via::Steer));
        let queued = run.pending.iter().filter_map(|op| said(op, Via::Queue));
        let pinned = run.pending.iter().filter_map(|op| said(op, Via::Pin));
        let kinds = steered.chain(queued).chain(pinned).collect();
        self.commit(kinds).await
    }

    /// Tells whether something can be said to the model now, if a run is open.
    pub(super) fn can_be_said(&self) -> bool {
        let Some(run) = self.conversation.run() else { return false };
        // What an effect has asked about must still be what it cuts when it gets the answer. And a run
        // that has failed is not to be talked on: what waits stays undelivered.
        !run.is_ending()
            && !self.conversation.has_open_calls()
            && run.asked.is_empty()
            && !self.has_failed()
    }

    /// Tells whether the last reply is no answer and calls nothing.
    pub(super) fn has_failed(&self) -> bool {
        let is_over = matches!(self.conversation.last(), Last::Answer | Last::Broken);
        is_over && !self.conversation.has_open_calls() && self.conversation.ending() != Ending::Done
    }

    /// Ends the turn: delivers what came in at the last moment or what follows up, or else ends the
    /// run.
    pub(super) async fn settle(&mut self) -> Result<(), Halt> {
        while let Some(command) = self.mailbox.now() {
            self.accept_command(command).await?;
        }
        self.collect_inbox().await?;
        let Some(run) = self.conversation.run() else { return Ok(()) };
        let mut ending = match (&run.fatal, run.canceled, &run.limit) {
            (Some(error), ..) => Ending::Failed(error.clone()),
            (None, Some(reason), _) => Ending::Canceled(reason),
            (None, None, Some(hit)) => Ending::Limit(hit.limit),
            (None, None, None) => self.conversation.ending(),
        };
        if ending == Ending::Done {
            let before = self.conversation.seq();
            self.deliver().await?;
            if self.conversation.seq() != before {
                return Ok(());
            }
            let pending = self.conversation.run().into_iter().flat_map(|run| &run.pending);
            if let Some(follow_up) = pending.filter_map(|op| said(op, Via::FollowUp)).next() {
                return self.commit(vec![follow_up]).await;
            }
            if self.awaits_background() {
                return self.wait_for_background().await;
            }
            // Where nothing was asked there is no answer to judge, and no work to go back to.
            if self.conversation.run().is_some_and(|run| !run.is_prompted) {
                return self.finish(ending, Vec::new()).await;
            }
            match self.mend() {
                Mend::Nothing => match self.before_done().await? {
                    Some(judged) => ending = judged,
                    None => return Ok(()),
                },
                Mend::Ask(said, complaint) => {
                    self.say(EventBody::Warning { message: complaint });
                    return self.commit(vec![EntryKind::User(said)]).await;
                }
                Mend::TooLate(error) => ending = Ending::Failed(error),
            }
        }
        self.finish(ending, Vec::new()).await
    }

    /// Holds the answer against the shape it must have, or, where it need have none, looks whether it is
    /// there at all; the model may mend it once.
    fn mend(&self) -> Mend {
        let Some(run) = self.conversation.run() else { return Mend::Nothing };
        let complaints = self.conversation.complaints();
        let (kind, complaint, what) = match (&run.shape, complaints.first()) {
            (Some(shape), Some(first)) => (
                RunErrorKind::OutputInvalid,
                format!("the answer does not fit the schema: {first}"),
                shape.repair(&complaints),
            ),
            (None, _) if self.is_silent(run) => {
                (RunErrorKind::Stop, "the model said nothing".to_owned(), SPEAK.to_owned())
            }
            (Some(_) | None, _) => return Mend::Nothing,
        };
        match run.repair {
            Repair::Unasked => {
                let message = Input::from(what).0;
                let said = UserSaid { message, via: Via::Repair, op: None };
                Mend::Ask(said, complaint)
            }
            Repair::Asked | Repair::Made => Mend::TooLate(RunError { kind, message: complaint }),
        }
    }

    /// Tells whether nothing came of a run: no call, and no text in its first reply, nor in the one after
    /// it was asked to speak. An agent that tells by a tool what it has to say may be silent.
    fn is_silent(&self, run: &OpenRun) -> bool {
        let asked = u32::from(run.repair != Repair::Unasked);
        run.tool_calls == 0
            && run.model_turns <= 1 + asked
            && self.agent.tells_with.is_none()
            && self.conversation.last() == Last::Answer
            && self.conversation.final_answer().trim().is_empty()
    }

    /// Ends the run, in one commit with what else ends with it.
    pub(crate) async fn finish(
        &mut self,
        ending: Ending,
        mut kinds: Vec<EntryKind>,
    ) -> Result<(), Halt> {
        let stopped = self.end_background().await?;
        kinds.extend(stopped);
        let Some(run) = self.conversation.run() else { return Ok(()) };
        let denied = kinds.iter().filter_map(|kind| match kind {
            EntryKind::CallEnded(ended) if ended.status == crate::entry::CallStatus::Denied => {
                Some(ended.call.clone())
            }
            _ => None,
        });
        let is_done = ending == Ending::Done;
        let ended = RunEnded {
            run: run.id,
            outcome: ending,
            completion: run.completion.clone().filter(|_| is_done),
            handoff: run.handoff.clone().filter(|_| is_done),
            spent: self.session.hub.run(self.meta.id),
            undelivered: run.pending.iter().map(|op| op.id).collect(),
            denials: run.denials.iter().cloned().chain(denied).collect(),
        };
        kinds.push(EntryKind::RunEnded(ended));
        self.phase = Phase::Idle;
        self.commit(kinds).await?;
        if self.meta.parent.is_none() {
            // The run is over and in the log; that it may not survive a loss of power is no reason
            // to keep its outcome back.
            if let Err(error) = self.log.sync().await {
                self.say(EventBody::Warning { message: error.to_string() });
            }
        }
        // What is around the run has its say first.
        if self.agent.middleware.is_empty()
            && let Some(outcome) = self.latest()
        {
            self.answer(&Ok(outcome));
        }
        Ok(())
    }
}

/// What there is to mend of an answer.
enum Mend {
    Nothing,
    /// The model is told what is wrong, and so is who watches.
    Ask(UserSaid, String),
    /// It was told before.
    TooLate(RunError),
}

/// Returns the entry that delivers an operation, if it is of the kind.
fn said(op: &Op, via: Via) -> Option<EntryKind> {
    let ((OpKind::Steer(input), Via::Steer)
    | (OpKind::Queue(input) | OpKind::Prompt(input), Via::Queue)
    | (OpKind::FollowUp(input), Via::FollowUp)
    | (OpKind::Pin(input), Via::Pin)) = (&op.kind, via)
    else {
        return None;
    };
    let message = std::sync::Arc::clone(&input.0);
    Some(EntryKind::User(UserSaid { message, via, op: Some(op.id) }))
}
