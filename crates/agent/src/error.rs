//! What can go wrong with an agent, apart from how its runs end.

use crate::journal::JournalError;

/// Why an agent did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentError {
    /// A run is open.
    #[error("the agent is already running")]
    AlreadyRunning,
    /// No run is open.
    #[error("the agent is not running")]
    NotRunning,
    /// The call that made the sub-agent has ended, and so has the sub-agent.
    #[error("the sub-agent's scope is closed: the tool call that made it has ended")]
    ScopeClosed,
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// No open call has this id, or it does not wait for this.
    #[error("call {0} does not wait for this")]
    NotWaiting(String),
    /// There is no such thing in the log.
    #[error("{0} is not in the log")]
    NotFound(String),
    /// A factory cannot make the agent.
    #[error("{0}")]
    NotMade(String),
    /// The prompt was refused before a run began.
    #[error("{0}")]
    Refused(String),
    /// What wraps the run says that it has no outcome.
    #[error("{0}")]
    Middleware(String),
    /// The log could not be read or written.
    #[error("the session's log failed: {0}")]
    Journal(#[from] JournalError),
}
