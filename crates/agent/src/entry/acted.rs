//! What an effect did.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use bowline_llm::{CallId, Part, RawJson, UserMessage};

use crate::id::OpId;
use crate::limits::LimitKind;

use super::RunError;

/// An effect acted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Acted {
    /// The effect, by its name in its agent: its kind, numbered if there are several of it.
    pub effect: String,
    /// On which side of the model call.
    pub phase: Phase,
    /// How many replies the run had then. With `effect` and `phase` it names the step: an effect
    /// acts once in each.
    pub turn: u32,
    /// What it did.
    pub act: Act,
    /// The operation that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpId>,
}

impl Acted {
    /// Tells whether an effect of a kind did it, of which an agent may have several.
    pub(crate) fn is_of(&self, kind: &str) -> bool {
        match self.effect.strip_prefix(kind) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok()),
            None => false,
        }
    }
}

/// On which side of a model call an effect acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the request is made.
    Before,
    /// After the reply is in, before its calls start.
    After,
}

/// What an effect does: the only ways in which it can change anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Says something to the model. While calls are open it is said behind their results.
    Say {
        /// What.
        message: Arc<UserMessage>,
    },
    /// Shows the model differently what it has seen before.
    Rewrite(Rewrite),
    /// Asks a model on the side to summarise the conversation. The effect gets to see what it says,
    /// and then acts again.
    Ask {
        /// The tokens of the next request, as estimated.
        tokens: u64,
    },
    /// Remembers something; it is for the effect's own fold.
    Note(RawJson),
    /// Tells those who watch, not the model.
    Warn {
        /// What.
        message: String,
    },
    /// Ends the run at a limit, with a last call to sum up if the run's limits say so.
    Stop {
        /// Which limit.
        limit: LimitKind,
    },
    /// Ends the run with an error.
    Fail(RunError),
}

impl Act {
    /// Makes an act that says something to the model.
    pub fn say(text: impl Into<String>) -> Self {
        Self::Say { message: Arc::new(UserMessage::text(text)) }
    }

    /// Makes an act that tells those who watch.
    pub fn warn(message: impl Into<String>) -> Self {
        Self::Warn { message: message.into() }
    }

    /// Returns the word for it in events.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Say { .. } => "say",
            Self::Rewrite(_) => "rewrite",
            Self::Ask { .. } => "ask",
            Self::Note(_) => "note",
            Self::Warn { .. } => "warn",
            Self::Stop { .. } => "stop",
            Self::Fail(_) => "fail",
        }
    }
}

/// A change to what the model has seen before: the provider's cache is lost from there on.
///
/// The log keeps what was there; going back to an entry before this one brings it back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rewrite {
    /// The summary that stands for the beginning of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Results that are shown otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Shown>,
    /// The tokens of the next request as estimated before the change.
    pub before: u64,
    /// The tokens of the next request as estimated with the change.
    pub after: u64,
}

/// A summary of the first messages of a view.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many messages, from the first, it stands for. It ends where a turn ends: a cut between a
    /// call and its result is moved before the call.
    pub up_to: usize,
    /// Which of these stay as they are, by their places; they come before the summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<usize>,
    /// What the model gets to see in place of the others.
    pub message: Arc<UserMessage>,
    /// The summary alone, to be brought up to date by the next one.
    pub text: String,
    /// Files that were read up to here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Files that were changed up to here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<String>,
}

/// A result as it is shown from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The call.
    pub call: CallId,
    /// What the model gets to see.
    pub content: Arc<[Part]>,
}
