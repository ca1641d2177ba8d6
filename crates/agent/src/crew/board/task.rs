//! A task, as it is kept and as it is shown.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use bowline_llm::CallId;

use crate::id::AgentId;

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Names it: `task-1` is the first of the session.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How far it is.
    pub status: TaskStatus,
    /// The name of the agent that has it, or had it when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The tasks that must be completed first.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    /// Whatever else is to be known.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The name of the agent that made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// The call that made it.
    pub maker: Maker,
}

/// The call that made a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// Whose call.
    pub agent: AgentId,
    /// The call.
    pub call: CallId,
    /// How many tasks it had made before.
    pub nth: u32,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Pending,
    /// Somebody does.
    InProgress,
    /// It is done.
    Completed,
    /// It could not be done.
    Failed,
    /// It need not be done any more.
    Canceled,
}

impl TaskStatus {
    /// Returns the status as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// Tells whether a task that is so far has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A task and what follows for it from others.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    /// The task.
    pub task: Task,
    /// What it waits for, if it has not ended.
    pub blocked: Option<Blocked>,
}

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    /// Tasks that are not completed yet.
    By(Vec<String>),
    /// A task that never will be, unless it is reopened.
    ForGood {
        /// The task, which may be further up the line.
        task: String,
        /// How it ended.
        status: TaskStatus,
    },
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(tasks) => write!(f, "blocked by {}", tasks.join(", ")),
            Self::ForGood { task, status } => write!(f, "blocked by {status} task {task}"),
        }
    }
}

impl TaskView {
    /// Tells whether nothing more happens to it by itself: it has ended, or cannot go on.
    pub fn is_over(&self) -> bool {
        self.task.status.is_terminal() || matches!(self.blocked, Some(Blocked::ForGood { .. }))
    }

    /// Tells whether somebody could take it, and nobody has.
    pub fn is_idle(&self) -> bool {
        self.task.assignee.is_none() && self.blocked.is_none() && !self.task.status.is_terminal()
    }
}
