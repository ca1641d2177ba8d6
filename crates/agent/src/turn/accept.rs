//! Taking what comes from outside: commands and operations.

use crate::agent::Busy;
use crate::entry::{
    Answered, Canceled, Custom, Decided, EntryKind, Head, UserSaid, Via, Wake, Woken,
};
use crate::error::AgentError;
use crate::event::{EventBody, Phase};
use crate::id::{EntryId, OpId, RunId};
use crate::mailbox::{Command, Mail, Own, Reply, Seat};
use crate::op::{CancelReason, Input, Op, OpKind};
use crate::outcome::Outcome;

use super::prompt_gate::Admitted;
use super::{Halt, Turn};
use crate::conversation::CallState;

impl Turn {
    /// Takes mail that comes while a run is open.
    pub(crate) async fn accept(&mut self, mail: Mail) -> Result<(), Halt> {
        match mail {
            Mail::Command(command) => self.accept_command(command).await,
            Mail::Inbox => self.collect_inbox().await,
            // The run goes on without an audience.
            Mail::Deserted => Ok(()),
        }
    }

    pub(super) async fn accept_command(&mut self, command: Command) -> Result<(), Halt> {
        match command {
            Command::Prompt { op, busy, reply } => self.accept_prompt(op, busy, reply).await,
            Command::Post { op, reply } => {
                if let Err(not_waiting) = self.is_waited_for(&op.kind) {
                    let _ = reply.send(Err(not_waiting));
                    return Ok(());
                }
                let done = self.accept_op(op).await;
                let _ = reply.send(done.clone().map_err(|halt| halt.0.into()));
                done
            }
            Command::Inbox { op } => {
                let id = op.id;
                self.accept_op(op).await?;
                self.session.inbox().forget(&[id]).await?;
                Ok(())
            }
            Command::Custom { name, data, reply } => {
                let custom = Custom { name, call: None, data };
                let done = self.commit(vec![EntryKind::Custom(custom)]).await;
                match (&done, self.conversation.head()) {
                    (Ok(()), Some(id)) => drop(reply.send(Ok(id))),
                    (Ok(()), None) => {}
                    (Err(halt), _) => drop(reply.send(Err(halt.0.clone().into()))),
                }
                done
            }
            Command::AddTurn { id, reply, .. } if self.conversation.knows(id) => {
                let _ = reply.send(Ok(()));
                Ok(())
            }
            Command::CancelOwn { own, reason } => {
                let is_own = self.conversation.run().is_some_and(|run| match own {
                    Own::Prompt(op) => run.prompt == Some(op),
                    Own::Run(id) => run.id == id,
                });
                if is_own { self.cancel(reason, None).await } else { Ok(()) }
            }
            Command::FailOwn { run, error } => self.fail(run, error).await,
            Command::BackgroundOver { call, said } => {
                self.background_over(&call, said);
                Ok(())
            }
            Command::DecideAlike { call, decision } => self.decide_alike(call, decision).await,
            Command::Reconsider { call } => self.reconsider(call).await,
            Command::Granted { call } => self.look_again(call).await,
            Command::Close { reason } => {
                self.closing = true;
                self.cancel(reason, None).await
            }
            Command::LetGo { error } => {
                self.closing = true;
                Err(Halt(error))
            }
            command @ (Command::Continue { .. }
            | Command::AddTurn { .. }
            | Command::Rewind { .. }) => {
                command.refuse(AgentError::AlreadyRunning);
                Ok(())
            }
        }
    }

    /// Takes a prompt while a run is open.
    async fn accept_prompt(&mut self, op: Op, busy: Busy, reply: Reply<Seat>) -> Result<(), Halt> {
        // A prompt that is in the log already is this very run: its tool runs again.
        let is_this = self.conversation.run().is_some_and(|run| run.prompt == Some(op.id));
        let kind = match (busy, op.kind.clone()) {
            _ if is_this => None,
            // It waits for the next boundary, whatever a prompt would do.
            (_, kind @ OpKind::Compact { .. }) => Some(kind),
            (Busy::Reject, _) => {
                let _ = reply.send(Err(AgentError::AlreadyRunning));
                return Ok(());
            }
            (Busy::CancelPrevious, _) => {
                let done = self.cancel(CancelReason::User, None).await;
                match &done {
                    Ok(()) => self.mailbox.keep(Command::Prompt { op, busy, reply }),
                    Err(halt) => drop(reply.send(Err(halt.0.clone().into()))),
                }
                return done;
            }
            (Busy::Queue, OpKind::Prompt(input)) => Some(OpKind::Queue(input)),
            (Busy::Steer, OpKind::Prompt(input)) => Some(OpKind::Steer(input)),
            (Busy::Queue | Busy::Steer, kind) => Some(kind),
        };
        let done = match kind {
            Some(kind) => self.accept_op(Op { kind, ..op }).await,
            None => Ok(()),
        };
        match &done {
            Ok(()) => drop(self.seat().map(|seat| reply.send(Ok(seat)))),
            Err(halt) => drop(reply.send(Err(halt.0.clone().into()))),
        }
        done
    }

    /// Takes a command while no run is driven; returns the place of whoever asked for one to be.
    pub(crate) async fn accept_at_rest(&mut self, command: Command) -> Result<(), Halt> {
        match command {
            Command::Prompt { op, busy, reply } => {
                self.accept_prompt_at_rest(op, busy, reply).await
            }
            Command::Continue { reply } => {
                let _ = reply.send(Ok(self.seat()));
                Ok(())
            }
            Command::Post { op, reply }
                if self.has_open_run() || matches!(op.kind, OpKind::Pin(_)) =>
            {
                self.accept_command(Command::Post { op, reply }).await
            }
            Command::Post { op, reply } => {
                // A tool that runs again says again what it had said.
                let is_known = self.conversation.knows(op.id);
                let _ = reply.send(if is_known { Ok(()) } else { Err(AgentError::NotRunning) });
                Ok(())
            }
            command @ Command::AddTurn { id, .. }
                if self.has_open_run() || self.conversation.knows(id) =>
            {
                self.accept_command(command).await
            }
            Command::AddTurn { id, input, reply } => {
                let said = UserSaid { message: input.0, via: Via::Turn, op: Some(id) };
                let done = self.commit(vec![EntryKind::User(said)]).await;
                let _ = reply.send(done.clone().map_err(|halt| halt.0.into()));
                done
            }
            Command::Rewind { to, reply } => {
                let done = self.rewind(to).await;
                let (result, halt) = match done {
                    Ok(result) => (result, Ok(())),
                    Err(halt) => (Err(halt.0.clone().into()), Err(halt)),
                };
                let _ = reply.send(result);
                halt
            }
            command @ (Command::Inbox { .. }
            | Command::Custom { .. }
            | Command::CancelOwn { .. }
            | Command::FailOwn { .. }
            | Command::BackgroundOver { .. }
            | Command::DecideAlike { .. }
            | Command::Reconsider { .. }
            | Command::Granted { .. }) => self.accept_command(command).await,
            Command::Close { .. } | Command::LetGo { .. } => {
                self.closing = true;
                Ok(())
            }
        }
    }

    async fn accept_prompt_at_rest(
        &mut self,
        op: Op,
        busy: Busy,
        reply: Reply<Seat>,
    ) -> Result<(), Halt> {
        if let Some(outcome) = self.conversation.totals().outcome(op.id) {
            let _ = reply.send(Ok(Seat::of(outcome.clone())));
            return Ok(());
        }
        let is_known = self.conversation.knows(op.id) && !self.has_open_run();
        if let (true, Some(outcome)) = (is_known, &self.conversation.totals().latest) {
            // It was said in a run that is over, or left undelivered by it: its tool runs again.
            let _ = reply.send(Ok(Seat::of((**outcome).clone())));
            return Ok(());
        }
        if self.only_ends(op.id) {
            // Nothing more is said in that run: it ends, then the prompt starts its own.
            self.mailbox.keep(Command::Prompt { op, busy, reply });
            return Ok(());
        }
        let Admitted { before, warnings } = match self.admit(&op).await? {
            Ok(admitted) => admitted,
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return Ok(());
            }
        };
        if self.has_open_run() {
            for input in before {
                let op = self.own_op(OpKind::Queue(input));
                self.accept_op(op).await?;
            }
            self.warn_all(warnings);
            // Found open: the prompt waits for its next boundary, and the run goes on.
            let busy = if busy == Busy::Reject { Busy::Queue } else { busy };
            return self.accept_prompt(op, busy, reply).await;
        }
        let run = RunId::new(&*self.session.source);
        let seat = self.seat_for(run);
        let done = self.start_run(run, op, before).await;
        self.warn_all(warnings);
        match &done {
            Ok(()) => drop(reply.send(Ok(seat))),
            Err(halt) => drop(reply.send(Err(halt.0.clone().into()))),
        }
        done
    }

    /// Tells whether the open run will only end, and is not the one that a prompt started.
    fn only_ends(&self, prompt: OpId) -> bool {
        let Some(run) = self.conversation.run() else { return false };
        run.prompt != Some(prompt) && (run.is_ending() || self.has_failed())
    }

    async fn rewind(&mut self, to: Option<EntryId>) -> Result<Result<(), AgentError>, Halt> {
        if self.has_open_run() {
            return Ok(Err(AgentError::AlreadyRunning));
        }
        if let Some(id) = to {
            let log = self.journal.read().await?;
            if !log.iter().any(|(_, entry)| entry.id == id) {
                return Ok(Err(AgentError::NotFound(format!("entry {id}"))));
            }
        }
        self.commit(vec![EntryKind::Head(Head { to })]).await?;
        self.reload().await?;
        Ok(Ok(()))
    }

    /// Takes what was posted while nobody owned the log.
    pub(crate) async fn open(&mut self) -> Result<(), Halt> {
        if self.conversation.seq().0 == 0 {
            return Ok(());
        }
        self.collect_inbox().await?;
        self.ask_again().await
    }

    /// Takes what was posted to the session's inbox.
    pub(crate) async fn collect_inbox(&mut self) -> Result<(), Halt> {
        let (inbox, root) = (self.session.inbox(), self.session.id.root());
        let mut taken = Vec::new();
        for op in inbox.take().await? {
            let to = op.to.unwrap_or(root);
            if to == self.meta.id {
                taken.push(op.id);
                self.accept_op(op).await?;
            } else if self.meta.id == root {
                // A sub-agent takes and forgets its own, now if it lives, or else when it does.
                self.session.tell(to, Command::Inbox { op });
            }
        }
        if !taken.is_empty() {
            inbox.forget(&taken).await?;
        }
        Ok(())
    }

    /// Takes an operation: delivers what can be delivered at once, keeps the rest.
    async fn accept_op(&mut self, op: Op) -> Result<(), Halt> {
        if self.conversation.knows(op.id) {
            return Ok(());
        }
        let id = Some(op.id);
        let entry = match op.kind {
            OpKind::Cancel { reason, run } => {
                let open = self.conversation.run().map(|run| run.id);
                if run.is_some() && run != open {
                    // It was meant for a run that is over.
                    return Ok(());
                }
                return self.cancel(reason, id).await;
            }
            OpKind::Decide { call, decision, waiting } => {
                EntryKind::Decided(Decided { call, decision, waiting, op: id })
            }
            OpKind::Answer { call, text, waiting } => {
                EntryKind::Answered(Answered { call, text, waiting, op: id })
            }
            OpKind::Wake { call, waiting } => EntryKind::Woken(Woken { call, waiting, op: id }),
            // Nothing has to be waited for.
            OpKind::Pin(input) if !self.has_open_run() => pinned(input, id),
            OpKind::Prompt(_)
            | OpKind::Steer(_)
            | OpKind::Queue(_)
            | OpKind::FollowUp(_)
            | OpKind::Pin(_)
            | OpKind::Compact { .. } => EntryKind::Posted(op),
        };
        self.commit(vec![entry]).await
    }

    /// Cancels the open run, once.
    pub(crate) async fn cancel(
        &mut self,
        reason: CancelReason,
        op: Option<OpId>,
    ) -> Result<(), Halt> {
        let Some(run) = self.conversation.run() else { return Ok(()) };
        if run.canceled.is_none() {
            self.commit(vec![EntryKind::Canceled(Canceled { reason, op })]).await?;
        }
        self.stop.cancel();
        self.stop_children_aside();
        Ok(())
    }

    /// Tells whether a call waits for what an operation brings.
    fn is_waited_for(&self, kind: &OpKind) -> Result<(), AgentError> {
        let (call, waiting, fits): (_, _, fn(&Wake) -> bool) = match kind {
            OpKind::Decide { call, waiting, .. } => {
                (call, waiting, |wake| matches!(wake, Wake::Decision { .. }))
            }
            OpKind::Answer { call, waiting, .. } => {
                (call, waiting, |wake| matches!(wake, Wake::Answer { .. } | Wake::Parent { .. }))
            }
            OpKind::Wake { call, waiting } => (call, waiting, |wake| {
                matches!(wake, Wake::Agent { .. } | Wake::Job(_) | Wake::At(_))
            }),
            OpKind::Prompt(_)
            | OpKind::Steer(_)
            | OpKind::Queue(_)
            | OpKind::FollowUp(_)
            | OpKind::Pin(_)
            | OpKind::Compact { .. }
            | OpKind::Cancel { .. } => return Ok(()),
        };
        match self.conversation.open_call(call).map(|call| &call.state) {
            Some(CallState::Waiting(now)) if now.is_meant_by(*waiting) && fits(&now.wake) => Ok(()),
            // What has happened already counts as soon as the call waits.
            Some(CallState::New | CallState::Started)
                if matches!(kind, OpKind::Wake { waiting: None, .. }) =>
            {
                Ok(())
            }
            Some(_) | None => Err(AgentError::NotWaiting(call.to_string())),
        }
    }

    /// Says that the run could not go on, to everybody who waits for it, unless its end is in the
    /// log.
    pub(crate) fn lose(&mut self, halt: &Halt) {
        let latest = self.conversation.totals().latest.clone();
        if let Some(outcome) = latest.filter(|latest| Some(latest.run) == self.driven) {
            for waiter in self.waiters.drain(..) {
                let _ = waiter.send(Ok(Outcome::clone(&outcome)));
            }
            return;
        }
        self.phase = Phase::Idle;
        // A run that has never begun is not lost: it was refused.
        if self.driven.is_some() || self.has_open_run() {
            self.say(EventBody::RunLost { error: halt.0.to_string() });
        }
        for waiter in self.waiters.drain(..) {
            let _ = waiter.send(Err(halt.0.clone().into()));
        }
        // What was to begin after it would only try in vain to end it.
        while let Some(command) = self.mailbox.kept() {
            command.refuse(halt.0.clone().into());
        }
    }
}

/// Says something that is never to be forgotten.
fn pinned(input: Input, op: Option<OpId>) -> EntryKind {
    EntryKind::User(UserSaid { message: input.0, via: Via::Pin, op })
}

impl Seat {
    /// Makes a place from which to watch a run that is over.
    fn of(outcome: crate::outcome::Outcome) -> Self {
        let (_, events) = tokio::sync::mpsc::unbounded_channel();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let run = outcome.run;
        let _ = sender.send(Ok(outcome));
        Self { run, events, outcome: receiver }
    }
}
