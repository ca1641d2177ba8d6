//! `handoff`: an agent hands its task on to a peer.

use std::sync::Arc;

use serde::Deserialize;

use bowline_llm::{Part, ToolSpec};

use crate::entry::{Conclusion, Handoff};
use crate::tool::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, ToolOutput,
    input_schema, parse_arguments,
};

use super::complete::ignored;
use super::member::Member;
use super::text::line;

/// How many characters of what a peer is good for are told.
const LONGEST: usize = 80;

/// Hands the task on; the run ends with it, and the parent's call goes on with the peer.
pub(super) struct HandOff {
    /// The configuration of the agent.
    pub(super) own: String,
    /// Who gave it the task, and decides to whom it may go.
    pub(super) parent: Option<Arc<Member>>,
}

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

impl DynTool for HandOff {
    fn spec(&self) -> ToolSpec {
        let (description, schema) = input_schema::<Input>();
        let mut description = description.unwrap_or_default();
        let peers = self.parent.iter().flat_map(|parent| parent.peers_of(&self.own));
        let peers: Vec<String> = peers
            .map(|card| match card.description.trim() {
                "" => card.name,
                about => format!("{} ({})", card.name, line(about, LONGEST)),
            })
            .collect();
        if !peers.is_empty() {
            description.push_str(&format!(" There are: {}.", peers.join(", ")));
        }
        ToolSpec { name: "handoff".to_owned(), description, schema }
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let input = parse_arguments::<Input>(arguments)?;
        Ok(Prepared {
            access: Access::exclusive(),
            recovery: Recovery::Rerun,
            deadline: Deadline::Limit,
            run: Box::new(move |cx| Box::pin(async move { self.hand_on(input, &cx) })),
        })
    }
}

impl HandOff {
    fn hand_on(&self, input: Input, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
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
        let target = input.target_agent.trim().to_owned();
        // Here the agent can still do something else.
        if let Some(parent) = &self.parent {
            parent.admits_handoff(&self.own, &target).map_err(ToolError::Failed)?;
        }
        let content = vec![Part::Text(format!("Handed on to {target}."))];
        let (reason, context) = (input.reason, input.context);
        let conclusion = Conclusion::HandedOff(Handoff { target, reason, context });
        Ok(ToolOutput::Concluded { content, conclusion })
    }
}
