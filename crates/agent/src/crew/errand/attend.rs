//! The questions of an agent that works on a task.

use std::collections::HashSet;

use bowline_llm::CallId;

use crate::crew::report::PendingQuestion;
use crate::crew::slots::Slot;
use crate::entry::{Entry, EntryKind, Wake};
use crate::handle::{SessionHandle, State};
use crate::id::EntryId;
use crate::op::{Op, OpKind};

use super::{Errand, Stop};

impl Errand {
    /// Answers what the agent asks, or has it answered; comes when nobody does.
    pub(super) async fn attend(&self, slot: &Slot<'_>) -> Stop {
        let handle = &self.hired.handle;
        let mut seen: HashSet<EntryId> = HashSet::new();
        loop {
            let Some(asked) = asked(handle, &seen).await else {
                return std::future::pending().await;
            };
            seen.insert(asked.waiting);
            let nth = self.questions_before(asked.waiting).await + 1;
            let kind =
                |text| OpKind::Answer { call: asked.call, text, waiting: Some(asked.waiting) };
            let Some(delegation) = &self.delegation else {
                // What it does not wait for any more needs no answer.
                let _ = handle.submit(kind(self.own_answer(nth))).await;
                continue;
            };
            let question = PendingQuestion {
                id: format!("q-{nth}"),
                agent: handle.meta().name.clone(),
                content: asked.question,
            };
            // Whoever waits does not work; and who is to answer may need the slot for somebody else.
            let lent = slot.lend();
            let time = self.seat.member.question_timeout;
            let Some(answer) = delegation.ask(question, self.report(), time).await else {
                return Stop::Unanswered;
            };
            lent.take_back().await;
            let op = Op {
                id: answer.op,
                to: Some(handle.agent_id()),
                at: self.cx.now(),
                kind: kind(answer.text),
            };
            if let Some(log) = self.cx.session_log() {
                // If it cannot be kept, nothing else can.
                let _ = log.inbox().post(op).await;
            }
        }
    }

    /// Answers a question without asking anybody.
    fn own_answer(&self, nth: usize) -> String {
        const DECIDE: &str = "Decide it yourself, and say in your caveats what you assumed.";
        match &self.context {
            Some(context) if nth == 1 => {
                format!(
                    "Nobody can be asked. This is all that is known:\n{context}\nIf that is no \
                     answer: {DECIDE}"
                )
            }
            Some(_) | None => format!("Nobody can be asked. {DECIDE}"),
        }
    }

    /// Returns how often the agent had asked before.
    async fn questions_before(&self, waiting: EntryId) -> usize {
        let (log, _) = self.read().await;
        let before = log.iter().take_while(|entry| entry.id != waiting);
        let asks = |entry: &&Entry| match &entry.kind {
            EntryKind::CallWaiting(waiting) => matches!(waiting.wake, Wake::Parent { .. }),
            _ => false,
        };
        before.filter(asks).count()
    }
}

/// A question of an agent.
struct Asked {
    call: CallId,
    waiting: EntryId,
    question: String,
}

/// Waits until an agent asks something new; `None` if it is gone.
async fn asked(handle: &SessionHandle, seen: &HashSet<EntryId>) -> Option<Asked> {
    let find = |state: &State| {
        state.waiting_calls.iter().find_map(|(call, waiting)| match &waiting.wake {
            Wake::Parent { question } if !seen.contains(&waiting.entry) => Some(Asked {
                call: call.clone(),
                waiting: waiting.entry,
                question: question.clone(),
            }),
            _ => None,
        })
    };
    let state = handle.wait_for(|state| find(state).is_some()).await.ok()?;
    find(&state)
}
