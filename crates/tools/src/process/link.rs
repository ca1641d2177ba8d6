//! The way from those who want commands to the task that has them.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::protocol::{CommandId, Start, Status};
use super::{ProcessError, plain};

/// What the rest of bowline wants done.
#[derive(Debug)]
pub(super) enum Order {
    Start { start: Box<Start>, pipes: Option<Ends>, exited: Exited },
    Write { id: CommandId, text: String, close: bool },
    End { id: CommandId, grace: Duration, done: Option<oneshot::Sender<()>> },
    EndOwner { owner: String, grace: Duration, done: oneshot::Sender<()> },
    Close,
}

/// A command's ends of its pipes: standard input, output and error.
pub(super) type Ends = [OwnedFd; 3];

/// Whom to tell how a command ended.
pub(super) type Exited = oneshot::Sender<Result<Status, ProcessError>>;

/// The way to those who start commands; dropping it ends them all.
#[derive(Debug)]
pub(super) struct Link {
    orders: mpsc::Sender<Order>,
    task: AbortOnDropHandle<()>,
}

impl Link {
    /// Starts a helper process.
    #[cfg(target_os = "linux")]
    pub(super) fn to_helper(
        program: std::path::PathBuf,
        refused: std::sync::Arc<crate::proxy::Refused>,
    ) -> Result<Self, ProcessError> {
        let (orders, taken) = mpsc::channel(64);
        let line = match super::line::Line::open(&program, refused) {
            Ok(line) => line,
            Err(source) => return Err(ProcessError::Helper { program, source }),
        };
        Ok(Self { orders, task: AbortOnDropHandle::new(tokio::spawn(line.run(taken))) })
    }

    /// Starts commands without a helper.
    pub(super) fn plain() -> Self {
        let (orders, taken) = mpsc::channel(64);
        Self { orders, task: AbortOnDropHandle::new(tokio::spawn(plain::run(taken))) }
    }

    pub(super) fn is_live(&self) -> bool {
        !self.orders.is_closed()
    }

    pub(super) fn orders(&self) -> mpsc::Sender<Order> {
        self.orders.clone()
    }

    /// Ends everything and waits for it.
    pub(super) async fn close(self) {
        let _ = self.orders.send(Order::Close).await;
        // It only fails by a panic, and then everything has ended as well.
        let _ = self.task.await;
    }
}
