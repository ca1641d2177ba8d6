//! The task board: what is to be done in a session, and who does it.
//!
//! [`Board`] is the board that lives in the session's log, as a [shared value](crate::shared): every
//! agent of the session sees the same tasks, and a session that is opened again has them as they
//! were. [`TaskBoard`] is the part of it that delegation needs; who keeps tasks elsewhere implements
//! that.
//!
//! The rules, beside those that the methods name: a task that has ended stays so until it is
//! [reopened](Board::reopen). No task waits, directly or through others, for itself. One that waits
//! for a task that failed or was canceled cannot go on, and says so. No agent watches a task that
//! waits for one of its own, so no two watch each other's.

mod rules;
mod task;
mod watches;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Map, Value};

use crate::shared::{Shared, SharedError};
use crate::tool::{ToolContext, ToolError};

use rules::{Change, Made, Tasks};
pub use task::{Blocked, Maker, Task, TaskStatus, TaskView};
pub(crate) use watches::Watches;

/// How long a task may be watched that could be done and that nobody has.
const NOBODY_HAS_IT: Duration = Duration::from_secs(15);

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

    /// Returns who works on a task, if the board can tell: a process that goes on with a session asks
    /// whether an agent had begun.
    fn at_work(&self, _id: &str) -> Option<String> {
        None
    }

    /// Comes when a task is canceled, at once if it is already; never for a task that is not there.
    fn watch_canceled(&self, id: &str) -> BoxFuture<'static, ()>;
}

/// The board of a session, as one call sees it.
///
/// What a call changes on it is kept with the end of the call.
#[derive(Debug)]
pub struct Board {
    tasks: Shared<Tasks>,
    cx: ToolContext,
    // How many tasks were made through it, so that a call that runs again makes the same ones.
    made: AtomicU32,
}

/// A task to be made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewTask {
    /// What it is called; not empty.
    pub title: String,
    /// What is to be done.
    pub description: String,
    /// The tasks that must be completed first.
    pub blocked_by: Vec<String>,
    /// Whatever else is to be known.
    pub metadata: Map<String, Value>,
}

/// What is to change of a task; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskUpdate {
    /// How far it is. `Pending` gives it back.
    pub status: Option<TaskStatus>,
    /// What is to be done.
    pub description: Option<String>,
    /// The tasks that must be completed first, all of them.
    pub blocked_by: Option<Vec<String>>,
    /// What is added to what else is to be known; null removes.
    pub metadata: Map<String, Value>,
    /// Whether the task has ended and is to be done again: it is pending first, and nobody's.
    pub reopen: bool,
}

/// Which tasks are wanted; `None` is any.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    /// Those so far.
    pub status: Option<TaskStatus>,
    /// Those of an agent.
    pub assignee: Option<String>,
    /// Those that wait for others, or those that do not.
    pub blocked: Option<bool>,
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
    /// A task must have a title.
    #[error("a task needs a title")]
    NoTitle,
    /// The task has ended.
    #[error("{id} is {status}; reopen it first")]
    Ended {
        /// The task.
        id: String,
        /// How it ended.
        status: TaskStatus,
    },
    /// The task has not ended.
    #[error("{id} is {status}, it needs no reopening")]
    NotEnded {
        /// The task.
        id: String,
        /// How far it is.
        status: TaskStatus,
    },
    /// Other tasks come first.
    #[error("{id} is {why}")]
    Blocked {
        /// The task.
        id: String,
        /// By what.
        why: String,
    },
    /// Another agent has the task.
    #[error("{id} belongs to {assignee}")]
    Taken {
        /// The task.
        id: String,
        /// Who has it.
        assignee: String,
    },
    /// Nobody has the task, and somebody must.
    #[error("{id} has no assignee; claim it first")]
    Unclaimed {
        /// The task.
        id: String,
    },
    /// Nobody took the task while it was watched.
    #[error("{id} has no assignee: nobody took it for {seconds} s")]
    NobodyHasIt {
        /// The task.
        id: String,
        /// For how long.
        seconds: u64,
    },
    /// Tasks would wait for each other.
    #[error("{id} would wait for itself: {path}")]
    Cycle {
        /// The task.
        id: String,
        /// By which way.
        path: String,
    },
    /// Agents would watch each other's tasks.
    #[error("{id} waits for you in turn: {way}")]
    Circle {
        /// The task that was to be watched.
        id: String,
        /// By which way it waits.
        way: String,
    },
    /// The call of the board has ended, or the change cannot be written.
    #[error("the board cannot be changed: {0}")]
    Shared(#[from] SharedError),
}

impl From<BoardError> for ToolError {
    fn from(error: BoardError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Board {
    /// Returns the board of the session to which a call belongs.
    pub fn of(cx: &ToolContext) -> Self {
        Self { tasks: cx.shared(), cx: cx.clone(), made: AtomicU32::new(0) }
    }

    /// Makes a task, pending and nobody's. A call that runs again finds the tasks that it had made.
    ///
    /// # Errors
    /// [`BoardError`] if it has no title or waits for a task that is not there.
    pub fn create(&self, new: NewTask) -> Result<TaskView, BoardError> {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        let maker = Maker { agent: self.cx.agent.id, call: self.cx.call.clone(), nth };
        let made = Made { by: self.agent().to_owned(), at: self.cx.now(), maker };
        self.change(|tasks| {
            if let Some(task) = tasks.made_by(&made.maker) {
                return Ok((None, task.id.clone()));
            }
            let task = tasks.new_task(new, made)?;
            let id = task.id.clone();
            Ok((Some(Change::Created(task)), id))
        })
    }

    /// Returns the tasks that are wanted, in the order in which they were made.
    pub fn list(&self, wanted: &TaskFilter) -> Vec<TaskView> {
        self.tasks.read(|tasks| tasks.list(wanted))
    }

    /// Returns a task.
    ///
    /// # Errors
    /// [`BoardError::Unknown`].
    pub fn get(&self, id: &str) -> Result<TaskView, BoardError> {
        self.tasks.read(|tasks| tasks.view(id))
    }

    /// Takes a task for the agent whose call this is.
    ///
    /// # Errors
    /// As [`TaskBoard::claim_task`].
    pub fn claim(&self, id: &str) -> Result<TaskView, BoardError> {
        self.change(|tasks| tasks.claim(id, self.agent()))
    }

    /// Changes a task. Its assignee may, who made it, and the session's first agent; what nobody
    /// has, everybody may change.
    ///
    /// # Errors
    /// [`BoardError`] if that is not so, or the change is none that is allowed.
    pub fn update(&self, id: &str, update: TaskUpdate) -> Result<TaskView, BoardError> {
        self.change(|tasks| {
            tasks.check_may_change(id, self.agent(), self.cx.agent.depth)?;
            tasks.update(id, update)
        })
    }

    /// Cancels a task that has not ended; who may, is as with [`Board::update`].
    ///
    /// # Errors
    /// As [`Board::update`].
    pub fn cancel(&self, id: &str) -> Result<TaskView, BoardError> {
        let status = Some(TaskStatus::Canceled);
        self.update(id, TaskUpdate { status, ..TaskUpdate::default() })
    }

    /// Has a task done again that has ended: it is pending then, and nobody's. Who may, is as with
    /// [`Board::update`].
    ///
    /// # Errors
    /// As [`Board::update`], and [`BoardError::NotEnded`].
    pub fn reopen(&self, id: &str) -> Result<TaskView, BoardError> {
        self.update(id, TaskUpdate { reopen: true, ..TaskUpdate::default() })
    }

    /// Waits until a task has ended, or cannot go on because one that it waits for has failed or was
    /// canceled; or until time is up, if there is a limit.
    ///
    /// # Errors
    /// [`BoardError::Unknown`], [`BoardError::NobodyHasIt`] if nobody takes it for fifteen seconds in a
    /// row in which somebody could, and without a limit [`BoardError::Circle`] if it waits, through
    /// others that watch without one, for a task of the agent whose call this is.
    pub async fn watch(&self, id: &str, time: Option<Duration>) -> Result<TaskView, BoardError> {
        let watches = &self.cx.watches;
        let circle = |way| BoardError::Circle { id: id.to_owned(), way };
        let _watching = match time {
            Some(_) => None,
            None => Some(watches.begin(&self.tasks, self.agent(), id).map_err(circle)?),
        };
        // Who is to do it may wait for the slot of who waits for it.
        let slot = self.cx.step_aside();
        let watched = self.watch_aside(id);
        let watched = match time {
            Some(time) => {
                tokio::time::timeout(time, watched).await.unwrap_or_else(|_| self.get(id))
            }
            None => watched.await,
        };
        slot.take_back().await;
        watched
    }

    async fn watch_aside(&self, id: &str) -> Result<TaskView, BoardError> {
        loop {
            // Whether somebody could take it, and nobody has.
            let seen = self.get(id)?;
            if seen.is_over() {
                return Ok(seen);
            }
            let is_idle = seen.is_idle();
            let changed = self.tasks.wait_for(|tasks| {
                let now =
                    tasks.view(id).ok().filter(|now| now.is_over() || now.is_idle() != is_idle);
                now.map(|_| ())
            });
            let seconds = NOBODY_HAS_IT.as_secs();
            match is_idle {
                false => changed.await,
                true => tokio::time::timeout(NOBODY_HAS_IT, changed)
                    .await
                    .map_err(|_| BoardError::NobodyHasIt { id: id.to_owned(), seconds })?,
            }
        }
    }

    /// Returns the name by which the board knows the agent whose call this is.
    fn agent(&self) -> &str {
        &self.cx.agent.name
    }

    fn change(
        &self,
        decide: impl FnOnce(&Tasks) -> Result<(Option<Change>, String), BoardError>,
    ) -> Result<TaskView, BoardError> {
        let id = self.tasks.change(decide)?;
        self.get(&id)
    }
}

impl TaskBoard for Board {
    fn claim_task(&self, id: &str, agent: &str) -> Result<(), BoardError> {
        self.change(|tasks| tasks.claim(id, agent)).map(|_| ())
    }

    fn reassign(&self, id: &str, agent: &str) -> Result<(), BoardError> {
        self.change(|tasks| tasks.reassign(id, agent)).map(|_| ())
    }

    fn update_task_status(&self, id: &str, status: TaskStatus) -> Result<(), BoardError> {
        let update = TaskUpdate { status: Some(status), ..TaskUpdate::default() };
        self.change(|tasks| tasks.update(id, update)).map(|_| ())
    }

    fn at_work(&self, id: &str) -> Option<String> {
        let task = self.get(id).ok()?.task;
        task.assignee.filter(|_| task.status == TaskStatus::InProgress)
    }

    fn watch_canceled(&self, id: &str) -> BoxFuture<'static, ()> {
        let (tasks, id) = (self.tasks.clone(), id.to_owned());
        async move {
            let is_canceled = |tasks: &Tasks| tasks.status(&id) == Some(TaskStatus::Canceled);
            tasks.wait_for(|tasks| is_canceled(tasks).then_some(())).await;
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
