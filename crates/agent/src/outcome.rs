//! How a run came out.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use bowline_llm::{AssistantMessage, CallId, Spent};

use crate::entry::{Completion, Ending, Handoff};
use crate::id::{OpId, RunId};
use crate::output::without_fence;

/// How a run came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub ending: Ending,
    /// The replies that make up the answer: more than one if it was cut and went on; of a run that
    /// did not end with an answer, what had been said last; none if the answer was refused.
    pub answer: Vec<Arc<AssistantMessage>>,
    /// The answer as JSON, of a run that ended with one that had to fit a schema.
    pub json: Option<Arc<str>>,
    /// What the run has spent, its sub-agents and tools included.
    pub spent: Spent,
    /// How many model calls it made, a wrap-up call not counted.
    pub model_turns: u32,
    /// Operations that were accepted but not delivered.
    pub undelivered: Vec<OpId>,
    /// Calls that were denied.
    pub denials: Vec<CallId>,
    /// What the agent said of its task, if it said that it is over.
    pub completion: Option<Arc<Completion>>,
    /// Who is to go on with its task, if the agent said so.
    pub handoff: Option<Arc<Handoff>>,
}

impl Outcome {
    /// Tells whether the run ended with an answer.
    pub fn is_done(&self) -> bool {
        self.ending == Ending::Done
    }

    /// Returns the text of the answer; of a run that ended with a completion, its summary.
    pub fn text(&self) -> String {
        if let Some(completion) = &self.completion {
            return completion.summary.clone();
        }
        self.answer.iter().map(|message| message.to_text()).collect()
    }

    /// Reads the answer as a value, such as of the type whose
    /// [schema](crate::OutputSchema::of) it had to fit.
    ///
    /// # Errors
    /// If the answer is no such value.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.json {
            Some(json) => serde_json::from_str(json),
            None => serde_json::from_str(without_fence(&self.text())),
        }
    }
}
