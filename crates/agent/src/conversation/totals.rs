//! The fold over all entries, whatever the head.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_llm::{AssistantMessage, Spent};

use crate::entry::{Ending, Entry, EntryKind, RunEnded};
use crate::id::OpId;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::output::without_fence;

use super::OpenRun;

/// What no rewind takes back.
#[derive(Debug, Default)]
pub struct Totals {
    /// What this agent itself has spent; its sub-agents keep their own books.
    pub spent: Spent,
    /// Milliseconds of work.
    pub active_ms: u64,
    /// Operations that were accepted but never delivered, in order.
    pub drafts: Arc<Vec<Op>>,
    /// How many runs there were.
    pub runs: u32,
    /// How the latest run came out.
    pub latest: Option<Arc<Outcome>>,
    /// The prompts whose runs are over.
    pub finished: rpds::HashTrieSetSync<OpId>,
    prompts: HashMap<OpId, Arc<Outcome>>,
    known: HashSet<OpId>,
    pending: Vec<Op>,
    open: bool,
    // Entries still to come that were copied from another log.
    pub(super) copies: u64,
}

impl Totals {
    pub(super) fn apply(&mut self, entry: &Entry) {
        if let EntryKind::Created(created) = &entry.kind {
            self.copies = created.from.as_ref().map_or(0, |from| from.entries);
            return;
        }
        let copied = self.copies > 0;
        self.copies = self.copies.saturating_sub(1);
        if !copied {
            self.spent += entry.kind.spent();
            self.active_ms += entry.active_ms.unwrap_or(0);
        }
        match &entry.kind {
            EntryKind::RunStarted(_) => {
                self.open = true;
                self.runs += 1;
            }
            EntryKind::Posted(op) => {
                // A draft may be posted anew.
                self.deliver(Some(op.id));
                let list =
                    if self.open { &mut self.pending } else { Arc::make_mut(&mut self.drafts) };
                list.push(op.clone());
            }
            EntryKind::RunEnded(_) => {
                self.open = false;
                if !self.pending.is_empty() {
                    Arc::make_mut(&mut self.drafts).append(&mut self.pending);
                }
            }
            EntryKind::User(said) => self.deliver(said.op),
            EntryKind::Decided(decided) => self.deliver(decided.op),
            EntryKind::Answered(answered) => self.deliver(answered.op),
            EntryKind::Woken(woken) => self.deliver(woken.op),
            EntryKind::Canceled(canceled) => self.deliver(canceled.op),
            EntryKind::Effect(acted) => self.deliver(acted.op),
            EntryKind::Created(_)
            | EntryKind::Assistant(_)
            | EntryKind::CallStarted(_)
            | EntryKind::CallWaiting(_)
            | EntryKind::CallEnded(_)
            | EntryKind::BackgroundEnded(_)
            | EntryKind::ExternalUsage(_)
            | EntryKind::LimitHit(_)
            | EntryKind::SystemChanged(_)
            | EntryKind::ToolsChanged(_)
            | EntryKind::Head(_)
            | EntryKind::Custom(_)
            | EntryKind::Planned(_)
            | EntryKind::StepTaken(_)
            | EntryKind::Unknown { .. } => {}
        }
        if copied && self.copies == 0 {
            // A run that was open where the copies come from goes on there.
            self.open = false;
        }
    }

    pub(super) fn finish(
        &mut self,
        ended: &RunEnded,
        run: Option<OpenRun>,
        answer: Vec<Arc<AssistantMessage>>,
    ) {
        let Some(run) = run else { return };
        let is_shaped = run.shape.is_some() && ended.outcome == Ending::Done;
        let outcome = Arc::new(Outcome {
            run: ended.run,
            ending: ended.outcome.clone(),
            json: is_shaped.then(|| without_fence(&run.answer(&answer)).into()),
            answer,
            spent: ended.spent,
            model_turns: run.model_turns,
            undelivered: ended.undelivered.clone(),
            denials: ended.denials.clone(),
            completion: ended.completion.clone(),
            handoff: ended.handoff.clone(),
        });
        if let Some(op) = run.prompt {
            self.finished.insert_mut(op);
            self.prompts.insert(op, Arc::clone(&outcome));
        }
        self.latest = Some(outcome);
    }

    /// Returns the outcome of the run that a prompt started, if it is over.
    pub fn outcome(&self, prompt: OpId) -> Option<&Outcome> {
        self.prompts.get(&prompt).map(|outcome| &**outcome)
    }

    pub(super) fn knows(&self, op: OpId) -> bool {
        self.known.contains(&op)
    }

    fn deliver(&mut self, op: Option<OpId>) {
        if let Some(op) = op {
            self.known.insert(op);
            self.pending.retain(|pending| pending.id != op);
            if self.drafts.iter().any(|draft| draft.id == op) {
                Arc::make_mut(&mut self.drafts).retain(|draft| draft.id != op);
            }
        }
    }
}
