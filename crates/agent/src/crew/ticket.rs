//! A task's place on the board.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::board::{BoardError, TaskBoard, TaskStatus};

/// A task on a board.
pub(super) struct Ticket {
    pub(super) board: Arc<dyn TaskBoard>,
    pub(super) id: String,
}

impl Ticket {
    /// Gives the task to an agent. If whoever delegates it has it, the agent takes it over.
    pub(super) fn claim(&self, agent: &str, from: &str) -> Result<(), BoardError> {
        match self.board.claim_task(&self.id, agent) {
            Err(BoardError::Taken { assignee, .. }) if assignee == from => {
                self.board.reassign(&self.id, agent)
            }
            claimed => claimed,
        }
    }

    /// Gives the task to the agent to whom it was handed on; returns what is wrong if the board does not
    /// take it.
    pub(super) fn pass_on(&self, agent: &str) -> Option<String> {
        let passed_on = self.board.reassign(&self.id, agent);
        passed_on.err().map(|error| format!("the board did not take the handoff: {error}"))
    }

    /// Says how the task ended; returns what is wrong if the board does not take it.
    pub(super) fn settle(&self, status: TaskStatus) -> Option<String> {
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
