//! What a delegating model is told of a task.

use serde::Serialize;

use crate::entry::{Completion, CompletionStatus};

/// A question to the delegating model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PendingQuestion {
    pub(super) id: String,
    /// Who asks.
    pub(super) agent: String,
    pub(super) content: String,
}

/// What came of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    /// The configuration asked for.
    pub(super) agent: String,
    /// The agent that did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// What it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    /// What it said of its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completion: Option<Completion>,
    /// Where that contradicts what it did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) discrepancies: Vec<String>,
    /// What of it nothing shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unverified: Vec<String>,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// What went wrong beside the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warning: Option<String>,
    /// What it said last, if it did not come to an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partial: Option<String>,
    /// What it did, step by step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<String>,
    /// Of a task that is not over: how to answer its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delegation_id: Option<String>,
    /// What its agent asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pending_question: Option<PendingQuestion>,
    /// Of a task that is not over, and whose agent asks nothing: that it is in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
}

impl Report {
    /// Tells whether the task was not done.
    pub(super) fn is_failure(&self) -> bool {
        let failed = |completion: &Completion| completion.status == CompletionStatus::Failed;
        self.error.is_some() || self.completion.as_ref().is_some_and(failed)
    }
}
