//! A task's place on the board.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;

use super::board::{BoardError, TaskBoard, TaskStatus};

/// A task on a board. One that is dropped while an agent of ours has it has failed: whoever was to settle
/// it was stopped, and the agent with it.
pub(super) struct Ticket {
    pub(super) board: Arc<dyn TaskBoard>,
    pub(super) id: String,
    is_held: AtomicBool,
}

impl Ticket {
    /// Makes the ticket of a task for an agent, who may have had it in an earlier process.
    pub(super) fn new(board: Arc<dyn TaskBoard>, id: String, agent: &str) -> Self {
        let is_held = AtomicBool::new(board.at_work(&id).as_deref() == Some(agent));
        Self { board, id, is_held }
    }

    /// Gives the task to an agent. If whoever delegates it has it, the agent takes it over.
    pub(super) fn claim(&self, agent: &str, from: &str) -> Result<(), BoardError> {
        let claimed = match self.board.claim_task(&self.id, agent) {
            Err(BoardError::Taken { assignee, .. }) if assignee == from => {
                self.board.reassign(&self.id, agent)
            }
            claimed => claimed,
        };
        if claimed.is_ok() {
            self.is_held.store(true, Ordering::Relaxed);
        }
        claimed
    }

    /// Leaves the task as it is: whoever goes on with the session goes on with it.
    pub(super) fn leave(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }

    /// Gives the task to the agent to whom it was handed on; returns what is wrong if the board does not
    /// take it.
    pub(super) fn pass_on(&self, agent: &str) -> Option<String> {
        let passed_on = self.board.reassign(&self.id, agent);
        passed_on.err().map(|error| format!("the board did not take the handoff: {error}"))
    }

    /// Says how the task ended; returns what is wrong if the board does not take it.
    pub(super) fn settle(&self, status: TaskStatus) -> Option<String> {
        self.is_held.store(false, Ordering::Relaxed);
        match self.board.update_task_status(&self.id, status) {
            // It was said before the process died.
            Err(BoardError::Ended { status: known, .. }) if known == status => None,
            Err(error) => Some(format!("the board was not updated: {error}")),
            Ok(()) => None,
        }
    }

    /// Comes when the task is canceled.
    pub(super) fn canceled(&self) -> BoxFuture<'static, ()> {
        self.board.watch_canceled(&self.id)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if *self.is_held.get_mut() {
            // There is nobody left to be told what the board does not take.
            let _ = self.settle(TaskStatus::Failed);
        }
    }
}
