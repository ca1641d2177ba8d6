//! What is asked of a session from outside.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use bowline_llm::{CallId, Part, UserMessage};

use crate::id::{AgentId, EntryId, OpId, RunId};

/// An operation posted to a session, by any process, delivered exactly once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Op {
    /// Posting the same id again changes nothing.
    pub id: OpId,
    /// The agent it is for; `None` for the session's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    /// When it was posted.
    pub at: Timestamp,
    /// What is asked.
    pub kind: OpKind,
}

/// What an [`Op`] asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// Start a run with this input; on a running agent it waits like [`OpKind::Queue`].
    Prompt(Input),
    /// Say this before the next model call; calls that have not started are skipped.
    Steer(Input),
    /// Say this at the next boundary; nothing is skipped.
    Queue(Input),
    /// Say this when the agent would otherwise have finished.
    FollowUp(Input),
    /// Say this at the next boundary, never to be forgotten: no summary stands for it.
    Pin(Input),
    /// Summarise the conversation at the next boundary, however short it is.
    Compact {
        /// What the summary should not leave out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
    },
    /// End the run.
    Cancel {
        /// Why.
        reason: CancelReason,
        /// The run; `None` for whichever is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
    },
    /// Decide about a call that waits for permission.
    Decide {
        /// The waiting call.
        call: CallId,
        /// What was decided.
        decision: Decision,
        /// The entry of the wait it is for; `None` for whatever the call waits for now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<EntryId>,
    },
    /// Answer a question that a call asked.
    Answer {
        /// The waiting call.
        call: CallId,
        /// The answer.
        text: String,
        /// The entry of the wait it is for; `None` for whatever the call waits for now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<EntryId>,
    },
    /// Tell a call that what it waits for has happened: its job ended, its time has come.
    Wake {
        /// The waiting call.
        call: CallId,
        /// The entry of the wait it is for; `None` for whatever the call waits for now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<EntryId>,
    },
}

impl OpKind {
    /// Returns what is to be said to the model, if anything.
    pub fn input(&self) -> Option<&Input> {
        match self {
            Self::Prompt(input)
            | Self::Steer(input)
            | Self::Queue(input)
            | Self::FollowUp(input)
            | Self::Pin(input) => Some(input),
            Self::Compact { .. }
            | Self::Cancel { .. }
            | Self::Decide { .. }
            | Self::Answer { .. }
            | Self::Wake { .. } => None,
        }
    }
}

/// What a user says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Input(pub Arc<UserMessage>);

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self(Arc::new(UserMessage::text(text)))
    }
}

impl From<Vec<Part>> for Input {
    fn from(content: Vec<Part>) -> Self {
        Self(Arc::new(UserMessage { content }))
    }
}

/// Why a run was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A person asked for it.
    User,
    /// A deadline set from outside passed.
    Timeout,
    /// The agent's parent ended.
    Parent,
    /// The process is shutting down.
    Shutdown,
    /// The provider of the model cancelled the reply.
    Provider,
}

/// A decision about a call that waits for permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run it.
    Allow {
        /// For how long that holds.
        #[serde(default, skip_serializing_if = "Scope::is_once")]
        scope: Scope,
    },
    /// Do not run it, and tell the model why.
    Deny {
        /// The reason, for the model.
        reason: String,
    },
}

impl Decision {
    /// Lets a call run, this once.
    pub const ONCE: Self = Self::Allow { scope: Scope::Once };
}

/// For how long something is allowed.
///
/// A rule says what is allowed beyond the call, in the language of the gate that asked: the one it
/// offered, or another that a person wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For this call, and those that ask the very same now.
    #[default]
    Once,
    /// For all agents of the session, as long as there is one, in whatever process.
    Session {
        /// What is allowed.
        rule: String,
    },
    /// For good: the gate keeps the rule where it keeps such rules.
    Always {
        /// What is allowed.
        rule: String,
    },
}

impl Scope {
    fn is_once(&self) -> bool {
        *self == Self::Once
    }
}
