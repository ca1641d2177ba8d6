//! A plan, and the steps of it that are taken.

use serde::{Deserialize, Serialize};

use bowline_llm::{AssistantMessage, AssistantPart, RawJson, ToolCall};

/// What is to be done, one step after the other. It takes the place of the plan before it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
}

/// A step of a plan: a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: RawJson,
}

/// A step of the plan has become a call, as if the model had just made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTaken {
    /// Which step, from 0.
    pub index: usize,
    /// How many steps the plan has.
    pub count: usize,
    /// The call; its arguments are those of the step.
    pub call: ToolCall,
}

impl StepTaken {
    /// Returns the call as the model sees it: as one of its own.
    pub fn message(&self) -> AssistantMessage {
        AssistantMessage { content: vec![AssistantPart::ToolCall(self.call.clone())] }
    }
}
