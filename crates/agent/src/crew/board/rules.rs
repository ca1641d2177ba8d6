//! The tasks, what happens to them, and what may.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::shared::Fold;

use super::task::{Blocked, Maker, Task, TaskStatus, TaskView};
use super::{BoardError, NewTask, TaskFilter, TaskUpdate};

/// The tasks of a session, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Tasks(Vec<Task>);

/// Who makes a task, and when.
pub(super) struct Made {
    pub(super) by: String,
    pub(super) at: Timestamp,
    pub(super) maker: Maker,
}

/// What happens to a task. The rules are asked before; a change only says what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    Created(Task),
    Updated(Updated),
}

/// What became of a task; what is absent is as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Updated {
    id: String,
    status: TaskStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assignee: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocked_by: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
}

impl Fold for Tasks {
    const NAME: &'static str = "tasks";
    type Change = Change;

    fn apply(&mut self, change: Change) {
        match change {
            Change::Created(task) => self.0.push(task),
            Change::Updated(updated) => {
                let Some(task) = self.0.iter_mut().find(|task| task.id == updated.id) else {
                    return;
                };
                (task.status, task.assignee) = (updated.status, updated.assignee);
                task.description =
                    updated.description.unwrap_or(std::mem::take(&mut task.description));
                task.blocked_by =
                    updated.blocked_by.unwrap_or(std::mem::take(&mut task.blocked_by));
                task.metadata.extend(updated.metadata);
                task.metadata.retain(|_, value| !value.is_null());
            }
        }
    }
}

impl Updated {
    fn of(task: &Task, status: TaskStatus, assignee: Option<&str>) -> Self {
        Self {
            id: task.id.clone(),
            status,
            assignee: assignee.map(str::to_owned),
            description: None,
            blocked_by: None,
            metadata: Map::new(),
        }
    }
}

/// A change that is allowed, and the task it is about.
type Decided = Result<(Option<Change>, String), BoardError>;

fn decided(updated: Updated) -> Decided {
    let id = updated.id.clone();
    Ok((Some(Change::Updated(updated)), id))
}

impl Tasks {
    pub(super) fn view(&self, id: &str) -> Result<TaskView, BoardError> {
        self.get(id).map(|task| self.view_of(task))
    }

    pub(super) fn status(&self, id: &str) -> Option<TaskStatus> {
        self.get(id).ok().map(|task| task.status)
    }

    /// Returns a task that has not ended.
    pub(super) fn open(&self, id: &str) -> Option<&Task> {
        self.get(id).ok().filter(|task| !task.status.is_terminal())
    }

    /// Returns the tasks that come first and are not completed.
    pub(super) fn open_before<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a String> {
        let is_open =
            |id: &&String| self.get(id).is_ok_and(|task| task.status != TaskStatus::Completed);
        task.blocked_by.iter().filter(is_open)
    }

    pub(super) fn list(&self, wanted: &TaskFilter) -> Vec<TaskView> {
        let is_wanted = |view: &TaskView| {
            let task = &view.task;
            wanted.status.is_none_or(|status| status == task.status)
                && (wanted.assignee.is_none() || wanted.assignee == task.assignee)
                && wanted.blocked.is_none_or(|blocked| blocked == view.blocked.is_some())
        };
        self.0.iter().map(|task| self.view_of(task)).filter(is_wanted).collect()
    }

    /// Returns the task that a call has made.
    pub(super) fn made_by(&self, maker: &Maker) -> Option<&Task> {
        self.0.iter().find(|task| task.maker == *maker)
    }

    /// Returns a task with the next id.
    pub(super) fn new_task(&self, new: NewTask, made: Made) -> Result<Task, BoardError> {
        let NewTask { title, description, blocked_by, metadata } = new;
        if title.trim().is_empty() {
            return Err(BoardError::NoTitle);
        }
        let blocked_by = self.known(blocked_by)?;
        let id = format!("task-{}", self.0.len() + 1);
        Ok(Task {
            id,
            title,
            description,
            status: TaskStatus::Pending,
            assignee: None,
            blocked_by,
            metadata,
            created_by: made.by,
            created_at: made.at,
            maker: made.maker,
        })
    }

    pub(super) fn claim(&self, id: &str, agent: &str) -> Decided {
        let task = self.claimable(id)?;
        match task.assignee.as_deref() {
            Some(assignee) if assignee != agent => {
                Err(BoardError::Taken { id: id.to_owned(), assignee: assignee.to_owned() })
            }
            Some(_) if task.status == TaskStatus::InProgress => Ok((None, id.to_owned())),
            Some(_) | None => decided(Updated::of(task, TaskStatus::InProgress, Some(agent))),
        }
    }

    pub(super) fn reassign(&self, id: &str, agent: &str) -> Decided {
        let task = self.claimable(id)?;
        decided(Updated::of(task, TaskStatus::InProgress, Some(agent)))
    }

    /// Fails unless an agent may change a task.
    pub(super) fn check_may_change(
        &self,
        id: &str,
        agent: &str,
        depth: u32,
    ) -> Result<(), BoardError> {
        let task = self.get(id)?;
        match task.assignee.as_deref() {
            Some(assignee) if ![assignee, &task.created_by].contains(&agent) && depth > 0 => {
                Err(BoardError::Taken { id: id.to_owned(), assignee: assignee.to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn update(&self, id: &str, update: TaskUpdate) -> Decided {
        let task = self.get(id)?;
        let TaskUpdate { status, description, blocked_by, metadata, reopen } = update;
        let task = if reopen { &reopened(task)? } else { task };
        let blocked_by = blocked_by.map(|blocked_by| self.allowed(task, blocked_by)).transpose()?;
        let status = status.unwrap_or(task.status);
        // What it is to wait for from now on counts.
        let after = Task {
            blocked_by: blocked_by.clone().unwrap_or(task.blocked_by.clone()),
            ..task.clone()
        };
        self.check_status(&after, status)?;
        let assignee = task.assignee.as_deref().filter(|_| status != TaskStatus::Pending);
        decided(Updated {
            description,
            blocked_by,
            metadata,
            ..Updated::of(task, status, assignee)
        })
    }

    fn get(&self, id: &str) -> Result<&Task, BoardError> {
        self.0.iter().find(|task| task.id == id).ok_or_else(|| {
            let known = match self.0.as_slice() {
                [] => "there are none yet".to_owned(),
                [one] => format!("there is {}", one.id),
                [first, .., last] => format!("there are {} to {}", first.id, last.id),
            };
            BoardError::Unknown { id: id.to_owned(), known }
        })
    }

    fn view_of(&self, task: &Task) -> TaskView {
        TaskView { task: task.clone(), blocked: self.blocked(task) }
    }

    /// Returns what a task waits for.
    fn blocked(&self, task: &Task) -> Option<Blocked> {
        if task.status.is_terminal() {
            return None;
        }
        if let Some(failed) = self.failed_before(task) {
            return Some(Blocked::ForGood { task: failed.id.clone(), status: failed.status });
        }
        let open: Vec<String> = self.open_before(task).cloned().collect();
        (!open.is_empty()).then_some(Blocked::By(open))
    }

    /// Returns a task that will never be completed, for which this one waits, directly or through
    /// others.
    fn failed_before(&self, task: &Task) -> Option<&Task> {
        let mut seen = HashSet::new();
        let mut next: Vec<&String> = task.blocked_by.iter().rev().collect();
        while let Some(id) = next.pop() {
            let Ok(before) = self.get(id) else { continue };
            match before.status {
                TaskStatus::Failed | TaskStatus::Canceled => return Some(before),
                TaskStatus::Completed => {}
                TaskStatus::Pending | TaskStatus::InProgress => {
                    if seen.insert(id) {
                        next.extend(before.blocked_by.iter().rev());
                    }
                }
            }
        }
        None
    }

    /// Returns a task on which somebody may begin to work.
    fn claimable(&self, id: &str) -> Result<&Task, BoardError> {
        let task = self.get(id)?;
        if task.status.is_terminal() {
            return Err(BoardError::Ended { id: id.to_owned(), status: task.status });
        }
        self.check_unblocked(task).map(|()| task)
    }

    fn check_unblocked(&self, task: &Task) -> Result<(), BoardError> {
        match self.blocked(task) {
            Some(why) => Err(BoardError::Blocked { id: task.id.clone(), why: why.to_string() }),
            None => Ok(()),
        }
    }

    /// Fails unless a task may be so far now.
    fn check_status(&self, task: &Task, status: TaskStatus) -> Result<(), BoardError> {
        let id = task.id.clone();
        if status == task.status {
            return Ok(());
        }
        if task.status.is_terminal() {
            return Err(BoardError::Ended { id, status: task.status });
        }
        match status {
            TaskStatus::InProgress if task.assignee.is_none() => Err(BoardError::Unclaimed { id }),
            TaskStatus::InProgress => self.check_unblocked(task),
            // What is being worked on may have been given something to wait for meanwhile.
            TaskStatus::Completed if task.status == TaskStatus::Pending => {
                self.check_unblocked(task)
            }
            TaskStatus::Pending
            | TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Canceled => Ok(()),
        }
    }

    /// Returns tasks that are there, each once.
    fn known(&self, ids: Vec<String>) -> Result<Vec<String>, BoardError> {
        let mut known: Vec<String> = Vec::with_capacity(ids.len());
        for id in ids {
            self.get(&id)?;
            if !known.contains(&id) {
                known.push(id);
            }
        }
        Ok(known)
    }

    /// Returns the tasks for which one is to wait, if none of them waits for it.
    fn allowed(&self, task: &Task, blocked_by: Vec<String>) -> Result<Vec<String>, BoardError> {
        let blocked_by = self.known(blocked_by)?;
        for first in &blocked_by {
            if let Some(path) = self.way(first, &task.id) {
                let path = format!("{} -> {}", task.id, path.join(" -> "));
                return Err(BoardError::Cycle { id: task.id.clone(), path });
            }
        }
        Ok(blocked_by)
    }

    /// Returns the way from a task to one for which it waits, both included.
    fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut seen = HashSet::new();
        let mut ways = vec![vec![from.to_owned()]];
        while let Some(way) = ways.pop() {
            let Some(last) = way.last() else { continue };
            if last == to {
                return Some(way);
            }
            if !seen.insert(last.clone()) {
                continue;
            }
            let Ok(task) = self.get(last) else { continue };
            ways.extend(
                task.blocked_by.iter().map(|next| [&*way, std::slice::from_ref(next)].concat()),
            );
        }
        None
    }
}

/// Returns a task that has ended as it is when it is to be done again.
fn reopened(task: &Task) -> Result<Task, BoardError> {
    if !task.status.is_terminal() {
        return Err(BoardError::NotEnded { id: task.id.clone(), status: task.status });
    }
    Ok(Task { status: TaskStatus::Pending, assignee: None, ..task.clone() })
}
