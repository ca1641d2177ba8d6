//! Telling that runs start and end.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::entry::Ending;
use crate::error::AgentError;
use crate::event::AgentMeta;
use crate::id::RunId;
use crate::outcome::Outcome;

use super::{Activation, Middleware, Next};

/// A middleware that tells a function that a run starts, and how it ended.
///
/// ```
/// use bowline_agent::middleware::Logger;
///
/// let logger = Logger::new(|logged| eprintln!("{logged}"));
/// ```
#[derive(Clone)]
pub struct Logger<F>(F);

/// What a [`Logger`] tells. As text it is one line.
#[derive(Debug, Clone, Copy)]
pub enum Logged<'a> {
    /// A run is taken up.
    Started {
        /// Whose run it is.
        agent: &'a AgentMeta,
        /// The run.
        run: RunId,
    },
    /// A run is let go.
    Ended {
        /// Whose run it is.
        agent: &'a AgentMeta,
        /// The run.
        run: RunId,
        /// How long it took.
        took: Duration,
        /// What those outside get.
        result: &'a Result<Outcome, AgentError>,
    },
}

impl<F: Fn(Logged<'_>) + Send + Sync> Logger<F> {
    /// Makes a logger that tells a function.
    pub fn new(tell: F) -> Self {
        Self(tell)
    }
}

#[async_trait]
impl<F: Fn(Logged<'_>) + Send + Sync> Middleware for Logger<F> {
    async fn run(&self, activation: &Activation, next: Next<'_>) -> Result<Outcome, AgentError> {
        let (agent, run, began) = (&*activation.agent, activation.run, Instant::now());
        (self.0)(Logged::Started { agent, run });
        let result = next.run().await;
        (self.0)(Logged::Ended { agent, run, took: began.elapsed(), result: &result });
        result
    }
}

impl<F> fmt::Debug for Logger<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").finish_non_exhaustive()
    }
}

impl Logged<'_> {
    /// Tells whether this is the end of a run that failed.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Started { .. } => false,
            Self::Ended { result, .. } => {
                let is_failure = |outcome: &Outcome| matches!(outcome.ending, Ending::Failed(_));
                result.as_ref().map_or(true, is_failure)
            }
        }
    }
}

impl fmt::Display for Logged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { agent, run } => write!(f, "{}: run {run} started", agent.name),
            Self::Ended { agent, run, took, result } => {
                let ms = took.as_millis();
                write!(f, "{}: run {run} ended after {ms} ms: ", agent.name)?;
                match result {
                    Ok(outcome) => match &outcome.ending {
                        Ending::Failed(error) => write!(f, "error: {error}"),
                        ending @ (Ending::Done
                        | Ending::Canceled(_)
                        | Ending::Limit(_)
                        | Ending::NeedsApproval) => f.write_str(ending.as_str()),
                    },
                    Err(error) => write!(f, "error: {error}"),
                }
            }
        }
    }
}
