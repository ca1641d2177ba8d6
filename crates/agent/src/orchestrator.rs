//! The shape of the loop: from what has happened to what to do next.

use serde::{Deserialize, Serialize};

use bowline_llm::CallId;

use crate::conversation::{CallState, Conversation, Last};
use crate::entry::Wake;

/// Decides what an agent does next.
///
/// It is a pure function of the conversation: asked twice, it answers twice the same, in any
/// process. It cannot corrupt a history: while calls are open the loop does [`open_calls`] and does
/// not ask, and an open run in which there is nothing to do settles.
pub trait Orchestrator: Send + Sync {
    /// Returns a name for the log.
    fn name(&self) -> &str {
        "custom"
    }

    /// Returns the next step.
    fn next(&self, conversation: &Conversation) -> NextStep;
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Ask the model.
    CallModel(Purpose),
    /// Go on with the open calls.
    CallTools,
    /// The turn is over: deliver what waits for that, or end the run.
    Settle,
    /// Nothing can be done before one of these has happened.
    Wait(Vec<(CallId, Wake)>),
    /// There is nothing to do: no run is open.
    Rest,
}

/// Why a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To go on with the work.
    Turn,
    /// To sum up, because a limit was reached.
    WrapUp,
    /// To shorten the conversation.
    Compact,
    /// To go on with an answer that was cut at its greatest length.
    Continue,
    /// To mend an answer that did not have the required shape.
    Repair,
    /// To make a plan.
    Plan,
}

/// Reason and act: ask the model, run what it calls, until it calls nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct React;

impl Orchestrator for React {
    fn name(&self) -> &str {
        "react"
    }

    fn next(&self, conversation: &Conversation) -> NextStep {
        if conversation.run().is_none() {
            return NextStep::Rest;
        }
        if let Some(step) = open_calls(conversation) {
            return step;
        }
        match conversation.last() {
            Last::Nothing => NextStep::Settle,
            Last::Said | Last::Results => NextStep::CallModel(Purpose::Turn),
            Last::Cut => NextStep::CallModel(Purpose::Continue),
            Last::Answer | Last::Broken => NextStep::Settle,
        }
    }
}

/// Returns what to do about calls that are open, if any are: what the loop does before it asks an
/// orchestrator.
pub fn open_calls(conversation: &Conversation) -> Option<NextStep> {
    let open = conversation.open_calls();
    if open.iter().any(|call| !matches!(call.state, CallState::Waiting(_))) {
        return Some(NextStep::CallTools);
    }
    let waits: Vec<_> = open
        .iter()
        .filter_map(|call| match &call.state {
            CallState::Waiting(waiting) => Some((call.id().clone(), waiting.wake.clone())),
            CallState::New | CallState::Started | CallState::Woken(_) | CallState::Ended(_) => None,
        })
        .collect();
    (!waits.is_empty()).then_some(NextStep::Wait(waits))
}
