//! How a run came out.

use std::sync::Arc;

use bowline_llm::{AssistantMessage, CallId};

use crate::entry::Ending;
use crate::id::{OpId, RunId};
use crate::ledger::Spent;

/// How a run came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub ending: Ending,
    /// The replies that make up the answer: more than one if it was cut and went on; of a run that
    /// did not end with an answer, what had been said last.
    pub answer: Vec<Arc<AssistantMessage>>,
    /// What the run has spent, its sub-agents and tools included.
    pub spent: Spent,
    /// How many model calls it made, a wrap-up call not counted.
    pub model_turns: u32,
    /// Operations that were accepted but not delivered.
    pub undelivered: Vec<OpId>,
    /// Calls that were denied.
    pub denials: Vec<CallId>,
}

impl Outcome {
    /// Tells whether the run ended with an answer.
    pub fn is_done(&self) -> bool {
        self.ending == Ending::Done
    }

    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        self.answer.iter().map(|message| message.to_text()).collect()
    }
}
