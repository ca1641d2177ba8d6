//! Calls that ask the very same: one of them asks, all hear of the decision.

use bowline_llm::CallId;

use crate::conversation::{Call, CallState, Waiting};
use crate::entry::{CallEnded, CallWaiting, Decided, Entry, EntryKind, Wake, Woken};
use crate::id::EntryId;
use crate::mailbox::Command;
use crate::op::Decision;
use crate::questions::{Asker, Wanted};
use crate::tool::Waked;

use super::{Halt, Turn};

impl Turn {
    /// Names in calls that are about to wait for a decision those that have asked the same.
    pub(super) fn find_twins(&self, kinds: &mut [EntryKind]) {
        for kind in kinds {
            let EntryKind::CallWaiting(CallWaiting {
                call, wake: Wake::Decision { twin, .. }, ..
            }) = kind
            else {
                continue;
            };
            if let Some(open) = self.conversation.open_call(call) {
                *twin = self.session.questions.ask(wanted(open), self.asker(call));
            }
        }
    }

    /// Tells those that ask the same of what was committed: a decision, or that one does not ask any
    /// more.
    pub(super) fn tell_who_asks_the_same(&self, entries: &[Entry]) {
        for entry in entries {
            match &entry.kind {
                EntryKind::Decided(decided) => self.tell_of_decision(decided),
                EntryKind::CallEnded(CallEnded { call, .. }) => {
                    if let Some(next) = self.session.questions.withdraw(&self.asker(call)) {
                        self.tell(&next, |call| Command::Reconsider { call });
                    }
                }
                _ => {}
            }
        }
    }

    fn tell_of_decision(&self, decided: &Decided) {
        let is_for_it = |call: &Call| matches!(&call.state, CallState::Woken(Waked::Decided(own)) if *own == decided.decision);
        // One that came too late, or for another wait, has decided nothing.
        if !self.conversation.open_call(&decided.call).is_some_and(is_for_it) {
            return;
        }
        let asker = self.asker(&decided.call);
        let (same, others) = self.session.questions.decided(&asker, &decided.decision);
        for asker in &same {
            let decision = decided.decision.clone();
            self.tell(asker, |call| Command::DecideAlike { call, decision });
        }
        others.iter().for_each(|asker| self.tell(asker, |call| Command::Granted { call }));
    }

    fn tell(&self, asker: &Asker, command: impl FnOnce(CallId) -> Command) {
        // Who is gone meanwhile asks anew when it comes back.
        self.session.tell(asker.agent, command(asker.call.clone()));
    }

    /// Takes over what was decided about a call that asked the same.
    pub(super) async fn decide_alike(
        &mut self,
        call: CallId,
        decision: Decision,
    ) -> Result<(), Halt> {
        let Some(waiting) = self.waits_for_decision(&call) else { return Ok(()) };
        let decided = Decided { call, decision, waiting: Some(waiting), op: None };
        self.commit(vec![EntryKind::Decided(decided)]).await
    }

    /// Has the gate asked again about a call that waits for a decision.
    pub(super) async fn reconsider(&mut self, call: CallId) -> Result<(), Halt> {
        let Some(waiting) = self.waits_for_decision(&call) else { return Ok(()) };
        let woken = Woken { call, waiting: Some(waiting), op: None };
        self.commit(vec![EntryKind::Woken(woken)]).await
    }

    /// Lets a call go on that waits for a decision, if it needs none any more.
    pub(super) async fn look_again(&mut self, call: CallId) -> Result<(), Halt> {
        let waits = self.waits_for_decision(&call).is_some();
        let Some(open) = self.conversation.open_call(&call).filter(|_| waits) else {
            return Ok(());
        };
        let (reviewer, open) = (self.reviewer(), open.clone());
        match reviewer.lets_pass(&open).await {
            true => self.reconsider(call).await,
            false => Ok(()),
        }
    }

    /// Asks again what was asked when the agent was left: who asked the same may be gone for good.
    pub(super) async fn ask_again(&mut self) -> Result<(), Halt> {
        let mut alone = Vec::new();
        for call in self.conversation.open_calls() {
            let CallState::Waiting(waiting) = &call.state else { continue };
            let Wake::Decision { twin, .. } = &waiting.wake else { continue };
            // A tool that asks for itself is nobody's twin.
            if call.started {
                continue;
            }
            let known = self.session.questions.ask(wanted(call), self.asker(call.id()));
            if twin.is_some() && known.is_none() {
                alone.push(call.id().clone());
            }
        }
        for call in alone {
            self.reconsider(call).await?;
        }
        Ok(())
    }

    /// Returns the wait of a call for a decision.
    fn waits_for_decision(&self, call: &CallId) -> Option<EntryId> {
        match &self.conversation.open_call(call)?.state {
            CallState::Waiting(Waiting { entry, wake: Wake::Decision { .. }, .. }) => Some(*entry),
            _ => None,
        }
    }

    fn asker(&self, call: &CallId) -> Asker {
        Asker { agent: self.meta.id, call: call.clone() }
    }
}

fn wanted(call: &Call) -> Wanted {
    (call.call.name.clone(), call.arguments().to_owned())
}
