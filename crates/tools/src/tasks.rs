//! The task board of a session, as its agents use it.

mod shown;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use bowline_agent::crew::board::{Board, BoardError, NewTask, TaskFilter, TaskStatus, TaskUpdate};
use bowline_agent::tool::{
    Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput, Toolbox, ToolboxError,
};

use shown::{show, show_all};

/// Makes the tools of the task board.
///
/// # Errors
/// None in practice: the names differ.
pub(crate) fn toolbox() -> Result<Toolbox, ToolboxError> {
    Toolbox::default()
        .with(CreateTask)?
        .with(ListTasks)?
        .with(GetTask)?
        .with(ClaimTask)?
        .with(UpdateTask)?
        .with(WatchTask)?
        .with(CancelTask)
}

/// The tool `shared_tasks_create`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateTask;

/// Adds a task to the board that all agents of this session share. It is pending and nobody's.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::shorten)]
pub struct CreateTaskInput {
    title: String,
    description: Option<String>,
    /// Ids of tasks that must be completed first.
    blocked_by: Option<Vec<String>>,
    metadata: Option<Map<String, Value>>,
}

/// The tool `shared_tasks_list`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListTasks;

/// Lists the tasks of the shared board in order of creation.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct ListTasksInput {
    status: Option<Status>,
    assignee: Option<String>,
    blocked: Option<bool>,
}

/// The tool `shared_tasks_get`.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetTask;

/// Shows a task of the shared board.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetTaskInput {
    id: String,
}

/// The tool `shared_tasks_claim`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaimTask;

/// Takes a task of the shared board for yourself, before you work on it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ClaimTaskInput {
    id: String,
}

/// The tool `shared_tasks_update`.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpdateTask;

/// Changes a task of the shared board. Status pending gives it back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::shorten)]
pub struct UpdateTaskInput {
    id: String,
    status: Option<Status>,
    description: Option<String>,
    /// Replaces the ids it waits for.
    blocked_by: Option<Vec<String>>,
    /// Merged into what is there.
    metadata: Option<Map<String, Value>>,
    /// Have a task done again that has ended.
    reopen: Option<bool>,
}

/// The tool `shared_tasks_watch`.
#[derive(Debug, Clone, Copy, Default)]
pub struct WatchTask;

/// Waits until a task of the shared board has ended.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct WatchTaskInput {
    id: String,
    /// Seconds to wait at most.
    timeout: Option<u64>,
}

/// The tool `shared_tasks_cancel`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CancelTask;

/// Cancels a task of the shared board that has not ended.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CancelTaskInput {
    id: String,
}

// How far a task is; a doc comment would only repeat to the model what it sees.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Pending,
    InProgress,
    Completed,
    Failed,
    Canceled,
}

impl From<Status> for TaskStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::InProgress => Self::InProgress,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Canceled => Self::Canceled,
        }
    }
}

/// Says what all tools of the board have in common: they touch nothing but the board, and do nothing
/// a second time that they have done.
macro_rules! on_the_board {
    ($tool:ident, $input:ident, $name:literal, $work:expr) => {
        impl Tool for $tool {
            const NAME: &'static str = $name;
            type Input = $input;

            fn access(&self, _: &$input) -> Access {
                Access::none()
            }

            fn recovery(&self, _: &$input) -> Recovery {
                Recovery::Rerun
            }

            async fn run(&self, input: $input, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
                let work: fn($input, &Board) -> Result<String, BoardError> = $work;
                Ok(work(input, &Board::of(cx))?.into())
            }
        }
    };
}

on_the_board!(CreateTask, CreateTaskInput, "shared_tasks_create", |input, board| {
    let CreateTaskInput { title, description, blocked_by, metadata } = input;
    let new = NewTask {
        title,
        description: description.unwrap_or_default(),
        blocked_by: blocked_by.unwrap_or_default(),
        metadata: metadata.unwrap_or_default(),
    };
    board.create(new).map(|task| show(&task))
});

on_the_board!(ListTasks, ListTasksInput, "shared_tasks_list", |input, board| {
    let ListTasksInput { status, assignee, blocked } = input;
    let wanted = TaskFilter { status: status.map(Into::into), assignee, blocked };
    Ok(show_all(&board.list(&wanted)))
});

on_the_board!(GetTask, GetTaskInput, "shared_tasks_get", |input, board| {
    board.get(&input.id).map(|task| show(&task))
});

on_the_board!(ClaimTask, ClaimTaskInput, "shared_tasks_claim", |input, board| {
    board.claim(&input.id).map(|task| show(&task))
});

on_the_board!(UpdateTask, UpdateTaskInput, "shared_tasks_update", |input, board| {
    let UpdateTaskInput { id, status, description, blocked_by, metadata, reopen } = input;
    let update = TaskUpdate {
        status: status.map(Into::into),
        description,
        blocked_by,
        metadata: metadata.unwrap_or_default(),
        reopen: reopen.unwrap_or(false),
    };
    board.update(&id, update).map(|task| show(&task))
});

on_the_board!(CancelTask, CancelTaskInput, "shared_tasks_cancel", |input, board| {
    board.cancel(&input.id).map(|task| show(&task))
});

impl Tool for WatchTask {
    const NAME: &'static str = "shared_tasks_watch";
    type Input = WatchTaskInput;

    fn access(&self, _: &WatchTaskInput) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &WatchTaskInput) -> Recovery {
        Recovery::Rerun
    }

    fn deadline(&self) -> Deadline {
        Deadline::Own
    }

    async fn run(&self, input: WatchTaskInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let WatchTaskInput { id, timeout } = input;
        let board = Board::of(cx);
        let seen = board.get(&id)?;
        if seen.task.assignee.as_ref() == Some(&cx.agent.name) && !seen.is_over() {
            return Err(ToolError::Failed(format!("{id} is your own; do it instead of waiting")));
        }
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Err(ToolError::failed("canceled")),
            seen = board.watch(&id, timeout.map(Duration::from_secs)) => Ok(show(&seen?).into()),
        }
    }
}
