//! `send_message`: an agent says something to a sub-agent of its own, or to a sibling.

use std::sync::Arc;

use serde::Deserialize;
use uuid::Uuid;

use crate::id::OpId;
use crate::op::{Op, OpKind};
use crate::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use super::registry::Registry;
use crate::tags::within;

/// Sends messages between agents at work.
pub(super) struct SendMessage(pub(super) Arc<Registry>);

/// Send a message to an agent that is at work: one you delegated to, or one that works for the same
/// agent as you. It reads it before its next step.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Input {
    /// Its name, such as `coder-refactor-1`.
    to: String,
    message: String,
}

impl Tool for SendMessage {
    const NAME: &'static str = "send_message";
    type Input = Input;

    fn access(&self, _: &Input) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &Input) -> Recovery {
        // The message has the same id then, and is said once.
        Recovery::Rerun
    }

    async fn run(&self, input: Input, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let live = &self.0.live;
        let Some(to) = live.relative(cx.session, &cx.agent, &input.to) else {
            let names = live.relatives(cx.session, &cx.agent);
            let known = match names.is_empty() {
                true => "nobody you can write to is at work".to_owned(),
                false => format!("at work are {}", names.join(", ")),
            };
            return Err(ToolError::failed(format!("no agent {:?} is at work; {known}", input.to)));
        };
        let log = cx.session_log().ok_or_else(|| ToolError::failed("the session is closed"))?;
        let name = format!("message {}", cx.call);
        let message = within("message", &input.message);
        let text = format!("<message from={:?}>\n{message}\n</message>", cx.agent.name);
        let op = Op {
            id: OpId::from(Uuid::new_v5(&cx.agent.id.into(), name.as_bytes())),
            to: Some(to),
            at: cx.now(),
            kind: OpKind::Queue(text.into()),
        };
        let failed = |error| ToolError::failed(format!("it cannot be sent: {error}"));
        log.inbox().post(op).await.map_err(failed)?;
        Ok(format!("Sent to {}.", input.to).into())
    }
}
