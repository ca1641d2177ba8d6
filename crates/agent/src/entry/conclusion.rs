//! What a call can conclude: that the agent's task is over, or is another agent's.

use serde::{Deserialize, Serialize};

use crate::redact::Redaction;

/// What a call concludes. Its run ends when the other calls of the same reply are over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// The task is over.
    Completed(Completion),
    /// Another agent is to go on with the task.
    HandedOff(Handoff),
}

impl Conclusion {
    /// Returns it without secrets.
    pub(crate) fn redacted(self, redaction: &Redaction) -> Self {
        let clean = |text: String| redaction.apply(&text).into_owned();
        let all = |texts: Vec<String>| texts.into_iter().map(clean).collect();
        match self {
            Self::Completed(completion) => Self::Completed(Completion {
                status: completion.status,
                summary: clean(completion.summary),
                files_modified: all(completion.files_modified),
                tests_run: all(completion.tests_run),
                caveats: completion.caveats.map(clean),
            }),
            Self::HandedOff(handoff) => Self::HandedOff(Handoff {
                target: handoff.target,
                reason: clean(handoff.reason),
                context: clean(handoff.context),
            }),
        }
    }
}

/// What an agent says of a task that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Whether it was done.
    pub status: CompletionStatus,
    /// What was done, or why it was not.
    pub summary: String,
    /// The files it changed, as it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// The tests it ran, as it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests_run: Vec<String>,
    /// What is left open, or must be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveats: Option<String>,
}

/// Whether a task was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionStatus {
    /// It was.
    Completed,
    /// It was not.
    Failed,
}

impl CompletionStatus {
    /// Returns the status as it is written: `completed` or `failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Who is to go on with a task, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// The configuration of the agent that is to go on.
    pub target: String,
    /// Why.
    pub reason: String,
    /// What it must know.
    pub context: String,
}
