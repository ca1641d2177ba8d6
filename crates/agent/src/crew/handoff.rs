//! `handoff`: an agent hands its task on to a peer.

use serde::Deserialize;

use bowline_llm::Part;

use crate::entry::{Conclusion, Handoff};
use crate::tool::{Recovery, Tool, ToolContext, ToolError, ToolOutput};

use super::complete::ignored;

/// Hands the task on; the run ends with it, and the parent's call goes on with the peer.
pub(super) struct HandOff;

/// Hand your task on to another agent that is fit for it, if you are not. It begins with your task,
/// what you tell it here, and a list of what you did; you are done then.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Input {
    /// The name of the other agent.
    target_agent: String,
    /// Why it should go on.
    reason: String,
    /// What it must know of what you found and did.
    context: String,
}

impl Tool for HandOff {
    const NAME: &'static str = "handoff";
    type Input = Input;

    fn recovery(&self, _: &Input) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: Input, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let fields = [
            ("target_agent", &input.target_agent),
            ("reason", &input.reason),
            ("context", &input.context),
        ];
        if let Some((name, _)) = fields.iter().find(|(_, text)| text.trim().is_empty()) {
            return Err(ToolError::failed(format!("{name} must not be empty")));
        }
        if let Some(ignored) = ignored(cx) {
            return Ok(ignored.into());
        }
        let content = vec![Part::Text(format!("Handed on to {}.", input.target_agent))];
        let conclusion = Conclusion::HandedOff(Handoff {
            target: input.target_agent,
            reason: input.reason,
            context: input.context,
        });
        Ok(ToolOutput::Concluded { content, conclusion })
    }
}
