//! The shape of the loop: from what has happened to what to do next.

mod plan_execute;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use bowline_llm::CallId;

use crate::conversation::{CallState, Conversation, Last};
use crate::entry::{Plan, Wake};

pub(crate) use plan_execute::question;
pub use plan_execute::{PlanExecute, Replan, read_plan};

/// Decides what an agent does next.
///
/// It is a pure function of the conversation: asked twice, it answers twice the same, in any
/// process. It cannot corrupt a history: while calls are open the loop does [`open_calls`] and does
/// not ask, an open run in which there is nothing to do settles, a model that has answered is not
/// asked for more before somebody has said something, and limits, cancelling and what users say are
/// the loop's affair.
///
/// `docs/orchestrators.md` has a complete one.
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
    /// Ask the model, as [`Purpose::Turn`] unless it is for a plan: the other purposes are the loop's
    /// own. An answer that was cut goes on, and behind one that is whole this is as good as `Settle`:
    /// there is nothing to be answered. A plan can be asked for there too.
    CallModel(Purpose),
    /// Make this the plan that counts. It says nothing to the model.
    Plan(Plan),
    /// Have the next step of the plan done: a call that the model sees as one of its own. Without
    /// such a step it is as good as `Settle`.
    Step,
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
    /// To make a plan. The loop puts the question behind the conversation; neither it nor the reply
    /// becomes a part of that, and calls in the reply are not run. The reply is in
    /// [`Planning::proposal`](crate::conversation::Planning::proposal).
    Plan,
}

impl Purpose {
    /// Tells whether it counts as one of the model turns of its run: what the loop asks on its own, to
    /// sum up or to shorten, does not.
    pub fn is_turn(self) -> bool {
        match self {
            Self::Turn | Self::Continue | Self::Repair | Self::Plan => true,
            Self::WrapUp | Self::Compact => false,
        }
    }

    /// Tells whether what the model says is a part of the conversation.
    pub fn is_said(self) -> bool {
        match self {
            Self::Turn | Self::WrapUp | Self::Continue | Self::Repair => true,
            Self::Compact | Self::Plan => false,
        }
    }
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

/// Returns the orchestrator of this crate that has a name; `agentic` is another one for `react`.
pub fn named(name: &str) -> Option<Arc<dyn Orchestrator>> {
    let fixed = PlanExecute { replan: Replan::Off };
    let all: [Arc<dyn Orchestrator>; 3] =
        [Arc::new(React), Arc::new(PlanExecute::default()), Arc::new(fixed)];
    let name = if name == "agentic" { "react" } else { name };
    all.into_iter().find(|orchestrator| orchestrator.name() == name)
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
