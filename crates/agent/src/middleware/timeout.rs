//! A deadline set from outside.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::AgentError;
use crate::op::CancelReason;
use crate::outcome::Outcome;

use super::{Activation, GRACE, Middleware, Next};

/// A middleware that cancels a run that is not over after a time: it ends as canceled, with the
/// reason timeout.
///
/// The time of each activation counts anew, and whatever the run waits for counts too. A run that may
/// only work so long, and is to sum up then, has a [limit](crate::limits::Limits::run_time_ms).
#[derive(Debug, Clone, Copy)]
pub struct Timeout(pub Duration);

#[async_trait]
impl Middleware for Timeout {
    async fn run(&self, activation: &Activation, next: Next<'_>) -> Result<Outcome, AgentError> {
        let mut inner = std::pin::pin!(next.run());
        tokio::select! {
            biased;
            result = &mut inner => return result,
            () = tokio::time::sleep(self.0) => activation.cancel(CancelReason::Timeout),
        }
        let outcome = activation.ended().await;
        tokio::select! {
            biased;
            result = &mut inner => result,
            () = tokio::time::sleep(GRACE) => outcome,
        }
    }
}
