//! The task board: what is to be done in a session, and who does it.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// What delegation needs of a task board.
pub trait TaskBoard: Send + Sync {
    /// Gives a task to an agent, which begins to work on it. An agent may claim its own again.
    ///
    /// # Errors
    /// [`BoardError`] if there is no such task, it has ended, it is blocked, or another agent has it.
    fn claim_task(&self, id: &str, agent: &str) -> Result<(), BoardError>;

    /// Gives a task to an agent, whoever has it: as [`TaskBoard::claim_task`] otherwise.
    ///
    /// # Errors
    /// As [`TaskBoard::claim_task`].
    fn reassign(&self, id: &str, agent: &str) -> Result<(), BoardError>;

    /// Says how far a task is.
    ///
    /// # Errors
    /// [`BoardError`] if there is no such task or the change is none that is allowed.
    fn update_task_status(&self, id: &str, status: TaskStatus) -> Result<(), BoardError>;

    /// Comes when a task is canceled, at once if it is already; never for a task that is not there.
    fn watch_canceled(&self, id: &str) -> BoxFuture<'static, ()>;
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Pending,
    /// Somebody does.
    InProgress,
    /// It was done.
    Completed,
    /// It was tried, and not done.
    Failed,
    /// It is not to be done any more.
    Canceled,
}

impl std::fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        })
    }
}

/// What a board does not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// There is no such task.
    #[error("there is no task {id:?}; {known}")]
    Unknown {
        /// The id asked for.
        id: String,
        /// Which ones there are, in words.
        known: String,
    },
    /// The task has ended.
    #[error("{id} is {status}; reopen it first")]
    Ended {
        /// The task.
        id: String,
        /// How it ended.
        status: TaskStatus,
    },
    /// Another agent has the task.
    #[error("{id} belongs to {assignee}")]
    Taken {
        /// The task.
        id: String,
        /// Who has it.
        assignee: String,
    },
}
