//! Calls that have ended and still do something.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use bowline_llm::{CallId, UserMessage};

/// What becomes of a call's work that goes on behind it when the run would end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behind {
    /// The run waits for it.
    Awaited,
    /// It is stopped.
    Dismissed,
}

/// What a call left to go on behind it is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackgroundEnded {
    /// The call.
    pub call: CallId,
    /// What it has to say; `None` if it was stopped, or has nothing to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<UserMessage>>,
}
