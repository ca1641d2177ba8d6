//! Why a reply ended, and what that means for its run.

use bowline_llm::{ErrorKind, StopReason};

use crate::entry::{AssistantSaid, Broken, Ending, RunError, RunErrorKind};
use crate::op::CancelReason;

/// Why a reply ended, and whether it is whole.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    pub(super) reason: StopReason,
    /// Why it is not whole; `None` if it is.
    pub(super) broken: Option<Broken>,
}

impl Stop {
    pub(super) fn of(said: &AssistantSaid) -> Self {
        Self { reason: said.stop.clone(), broken: said.broken.clone() }
    }

    /// Tells whether the model goes on when it is sent what it has said.
    pub(super) fn is_paused(&self) -> bool {
        self.reason == StopReason::Paused && self.broken.is_none()
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        self.broken == Some(Broken::OutOfTime)
    }

    /// Tells whether the request was too long for the model.
    pub(super) fn is_overflow(&self) -> bool {
        matches!(self.broken, Some(Broken::Failed { kind: ErrorKind::ContextOverflow, .. }))
    }

    /// Tells whether the reply is none that counts: its calls are not to be run.
    pub(super) fn is_void(&self) -> bool {
        let is_none = match self.reason {
            StopReason::Refused
            | StopReason::Canceled
            | StopReason::Error
            | StopReason::Other(_) => true,
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::Paused => false,
        };
        is_none && self.broken.is_none()
    }

    /// Returns how a run ends that settles behind the reply.
    pub(super) fn ending(&self) -> Ending {
        let failed = |kind, message: String| Ending::Failed(RunError { kind, message });
        match (&self.reason, &self.broken) {
            (_, Some(Broken::Stopped | Broken::OutOfTime)) => Ending::Canceled(CancelReason::User),
            (_, Some(Broken::Failed { kind, message })) => {
                failed(RunErrorKind::Model(*kind), message.clone())
            }
            (StopReason::EndTurn, None) => Ending::Done,
            (StopReason::MaxTokens, None) => failed(
                RunErrorKind::MaxTokens,
                "the answer reached the model's output token limit twice in a row".to_owned(),
            ),
            (StopReason::ToolUse, None) => failed(
                RunErrorKind::Stop,
                "the model stopped to use tools but made no tool calls".to_owned(),
            ),
            (StopReason::Paused, None) => {
                failed(RunErrorKind::Stop, "the model paused and was not asked to go on".to_owned())
            }
            (StopReason::Refused, None) => {
                failed(RunErrorKind::Stop, "the model refused to answer".to_owned())
            }
            (StopReason::Canceled, None) => Ending::Canceled(CancelReason::Provider),
            (StopReason::Error, None) => {
                failed(RunErrorKind::Stop, "the provider ended the reply with an error".to_owned())
            }
            (StopReason::Other(reason), None) => {
                failed(RunErrorKind::Stop, format!("unsupported stop reason {reason:?}"))
            }
        }
    }
}
