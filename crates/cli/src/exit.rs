//! How the command ends.

use std::process::ExitCode;

use bowline_agent::entry::{Ending, RunErrorKind};
use bowline_agent::journal::JournalError;
use bowline_agent::op::CancelReason;
use bowline_agent::{AgentError, Outcome};
use bowline_llm::ErrorKind;
use bowline_runtime::ConfigError;
use bowline_server::ending;
use tokio::signal::unix;

/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;

/// Why the command did nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It was called wrongly.
    #[error("{0}")]
    Usage(String),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The agent could not do it.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A session could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The answer does not fit its schema.
    #[error("{0}")]
    Schema(String),
    /// Something else.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Config(ConfigError::NoKey { .. }) => ExitCode::from(5),
            Self::Config(ConfigError::Model(_)) => ExitCode::from(1),
            Self::Usage(_) | Self::Config(_) => ExitCode::from(2),
            Self::Schema(_) => ExitCode::from(8),
            Self::Agent(_) | Self::Journal(_) | Self::Failed(_) => ExitCode::from(1),
        }
    }
}

/// Hears what stops the command from outside.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            unix::signal(kind)
                .map_err(|error| Failure::Failed(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(unix::SignalKind::interrupt())?,
            terminate: listen(unix::SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupted,
            _ = self.terminate.recv() => Signal::Terminated,
        }
    }
}

/// What stopped the command from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Interrupted,
    Terminated,
}

impl Signal {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
        })
    }
}

/// Returns the exit code of a run: 0 only if it ended with an answer that is not empty.
pub(crate) fn code_of(outcome: &Outcome, answer: &str) -> ExitCode {
    ExitCode::from(match &outcome.ending {
        Ending::Done if answer.trim().is_empty() => 1,
        Ending::Done => 0,
        Ending::Limit(_) => 3,
        Ending::NeedsApproval => 4,
        Ending::Canceled(CancelReason::User) => 130,
        Ending::Canceled(CancelReason::Shutdown) => 143,
        Ending::Canceled(CancelReason::Timeout | CancelReason::Parent | CancelReason::Provider) => {
            1
        }
        Ending::Failed(error) => match error.kind {
            RunErrorKind::Model(kind) => model_code(kind),
            RunErrorKind::ContextExhausted => 7,
            RunErrorKind::Guardrail | RunErrorKind::OutputInvalid => 8,
            RunErrorKind::Effect
            | RunErrorKind::Transform
            | RunErrorKind::Stop
            | RunErrorKind::MaxTokens
            | RunErrorKind::Tool
            | RunErrorKind::Panic => 1,
        },
    })
}

fn model_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Auth => 5,
        ErrorKind::RateLimited
        | ErrorKind::Overloaded
        | ErrorKind::Timeout
        | ErrorKind::Transport
        | ErrorKind::Incomplete => 6,
        ErrorKind::ContextOverflow => 7,
        ErrorKind::Quota
        | ErrorKind::InvalidRequest
        | ErrorKind::Refused
        | ErrorKind::NotFound
        | ErrorKind::Decode => 1,
    }
}

/// Says in one line why a run gave no answer; `None` if it did.
pub(crate) fn complaint(outcome: &Outcome, answer: &str) -> Option<String> {
    let is_silent = outcome.is_done() && answer.trim().is_empty();
    let silence = is_silent.then(|| "the model ended without an answer".to_owned());
    silence.or_else(|| ending::complaint(&outcome.ending))
}
