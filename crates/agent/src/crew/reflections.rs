//! What is remembered of tasks that failed.

use jiff::Timestamp;

use crate::id::AgentId;

/// Remembers tasks that failed, so that the next agent with a task of the kind can do better.
#[async_trait::async_trait]
pub trait Reflections: Send + Sync {
    /// Returns what is known of failures at tasks like this one.
    async fn prior(&self, task: &str) -> Option<String>;

    /// Remembers a failure. It may be told twice, by the same [`Failure::id`]. What cannot be
    /// remembered is no reason to fail.
    async fn note(&self, failure: Failure);
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The agent that failed: it fails once.
    pub id: AgentId,
    /// Its name.
    pub agent: String,
    /// When.
    pub at: Timestamp,
    /// The task.
    pub task: String,
    /// What it did, step by step.
    pub approach: Option<String>,
    /// Why it failed.
    pub summary: String,
    /// What is left open, or must be known.
    pub caveats: Option<String>,
    /// The files it changed, as it says.
    pub files_modified: Vec<String>,
}
