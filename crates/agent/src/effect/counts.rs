//! What effects count in a log: replies, the steps they begin, and how often something was said.

use bowline_llm::{AssistantMessage, CallId};

use crate::entry::{CallEnded, EntryKind, Via};
use crate::orchestrator::Purpose;

/// Returns a reply that is a part of the work.
pub(super) fn reply(kind: &EntryKind) -> Option<&AssistantMessage> {
    let EntryKind::Assistant(said) = kind else { return None };
    match said.purpose {
        Purpose::Turn | Purpose::Continue | Purpose::Repair => Some(&said.message),
        Purpose::WrapUp | Purpose::Compact | Purpose::Plan => None,
    }
}

/// Tells whether a user said something: what went wrong before says little about what comes now.
pub(super) fn is_from_user(kind: &EntryKind) -> bool {
    let EntryKind::User(said) = kind else { return false };
    match said.via {
        Via::Briefing
        | Via::Prompt
        | Via::Turn
        | Via::Steer
        | Via::Queue
        | Via::FollowUp
        | Via::Pin => true,
        Via::Context | Via::Continue | Via::WrapUp | Via::OnStop | Via::Repair => false,
    }
}

/// The calls of the latest reply, until all of them are over: then they are a step.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenStep {
    calls: Vec<Call>,
}

#[derive(Debug, Clone)]
struct Call {
    id: CallId,
    name: String,
    end: Option<CallEnded>,
}

impl OpenStep {
    /// Takes in an entry. Returns the names of the calls and how they ended, in call order, if the
    /// last of them is over with it.
    pub(super) fn fold(&mut self, kind: &EntryKind) -> Option<Vec<(String, CallEnded)>> {
        if let Some(reply) = reply(kind) {
            let calls = reply.tool_calls();
            let open = calls.map(|call| (call.id.clone(), call.name.clone()));
            self.calls = open.map(|(id, name)| Call { id, name, end: None }).collect();
            return None;
        }
        let EntryKind::CallEnded(ended) = kind else { return None };
        let call = self.calls.iter_mut().find(|call| call.id == ended.call)?;
        call.end.get_or_insert_with(|| ended.clone());
        if self.calls.iter().any(|call| call.end.is_none()) {
            return None;
        }
        let calls = std::mem::take(&mut self.calls).into_iter();
        Some(calls.filter_map(|call| Some((call.name, call.end?))).collect())
    }
}

/// The count that was last spoken of; 0 for none. It is spoken of again when it has doubled, so that
/// a model that does not listen is not told the same at every step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spoken(pub(super) u32);

impl Spoken {
    /// Tells whether a count is to be spoken of.
    pub(super) fn is_due(self, count: u32, threshold: u32) -> bool {
        count >= threshold.max(self.0.saturating_mul(2)).max(1)
    }
}
