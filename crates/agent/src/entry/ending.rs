//! How a run comes to its end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use bowline_llm::{CallId, ErrorKind, Spent, UserMessage};

use super::{Completion, Handoff};
use crate::id::{OpId, RunId};
use crate::limits::LimitKind;
use crate::op::CancelReason;

/// A limit of the run was reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitHit {
    /// Which one.
    pub limit: LimitKind,
    /// What the model is asked to do now; `None` if the run ends without another word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap_up: Option<Arc<UserMessage>>,
    /// Whether it is that of an agent above, and not of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_others: bool,
}

/// The run is to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Canceled {
    /// Why.
    pub reason: CancelReason,
    /// The operation that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpId>,
}

/// The run is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub outcome: Ending,
    /// What the run has spent, its sub-agents and tools included.
    pub spent: Spent,
    /// Operations that were accepted but not delivered: they stay as drafts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undelivered: Vec<OpId>,
    /// Calls that were denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<CallId>,
    /// What the agent said of its task, if it said that it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Arc<Completion>>,
    /// Who is to go on with its task, if the agent said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Arc<Handoff>>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With an answer.
    Done,
    /// With an error.
    Failed(RunError),
    /// By being cancelled.
    Canceled(CancelReason),
    /// At a limit.
    Limit(LimitKind),
    /// Because a call needed a decision or an answer that nobody could give.
    NeedsApproval,
}

impl Ending {
    /// Returns the word for it in events: `done`, `error`, `canceled`, `limit`, `needs_approval`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed(_) => "error",
            Self::Canceled(_) => "canceled",
            Self::Limit(_) => "limit",
            Self::NeedsApproval => "needs_approval",
        }
    }

    /// Tells whether there was an answer that was refused.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Failed(RunError { kind: RunErrorKind::Guardrail, .. }))
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RunError {
    /// What kind of failure it was.
    pub kind: RunErrorKind,
    /// What was said about it.
    pub message: String,
}

/// What kind of failure ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorKind {
    /// The model call failed.
    Model(ErrorKind),
    /// The model stopped for a reason that is no answer.
    Stop,
    /// The answer was longer than the model's limit, twice.
    MaxTokens,
    /// A tool declared that the run cannot go on.
    Tool,
    /// An effect failed.
    Effect,
    /// A transform, or what makes messages of custom entries, failed.
    Transform,
    /// The conversation does not fit the model's context window any more, however shortened.
    ContextExhausted,
    /// The output guardrail refused the answer.
    Guardrail,
    /// Something in the loop itself panicked.
    Panic,
    /// The answer did not have the required shape, nor did the one that was to mend it.
    OutputInvalid,
}
