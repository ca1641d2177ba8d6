//! Panics that stay where they happen.

use std::panic::AssertUnwindSafe;

use async_trait::async_trait;
use futures::FutureExt;

use crate::driver::panic_text;
use crate::entry::{RunError, RunErrorKind};
use crate::error::AgentError;
use crate::outcome::Outcome;

use super::{Activation, Middleware, Next};

/// A middleware that makes a panic of those inside of it the error of the run (seed 000's
/// `Recovery`), so that those around it get an outcome.
///
/// The run itself needs none: a panic of a tool is that call's failure, and one of the loop is the
/// error of the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct CatchPanic;

#[async_trait]
impl Middleware for CatchPanic {
    async fn run(&self, activation: &Activation, next: Next<'_>) -> Result<Outcome, AgentError> {
        match AssertUnwindSafe(next.run()).catch_unwind().await {
            Ok(result) => result,
            Err(panic) => {
                let message = format!("a middleware panicked: {}", panic_text(&*panic));
                activation.fail(RunError { kind: RunErrorKind::Panic, message });
                activation.ended().await
            }
        }
    }
}
