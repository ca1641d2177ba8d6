//! Saying something to the user while the work goes on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};

/// The tool `message`, with which a model speaks to the user.
///
/// It is for agents whose own text is not for the user (output mode `message_tool`), and so is not part
/// of [`toolbox`](crate::toolbox): add it with `toolbox.with(Message)`.
///
/// Each message is recorded as `{"text": …}` under the name `message`. It is kept in the log with
/// the call's result and told as a `custom` event of that name: that is the message. It is shown as
/// output of the call too, at once, for whoever watches live.
#[derive(Debug, Clone, Copy, Default)]
pub struct Message;

/// Sends the user a message. They see nothing else of what you write.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct MessageInput {
    text: String,
}

impl Tool for Message {
    const NAME: &'static str = "message";
    type Input = MessageInput;

    fn access(&self, _: &MessageInput) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &MessageInput) -> Recovery {
        // What is recorded counts only with the call's result, so it is said once.
        Recovery::Rerun
    }

    async fn run(&self, message: MessageInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if message.text.trim().is_empty() {
            return Err(ToolError::failed("the text is empty"));
        }
        cx.record("message", &message)?;
        cx.output(message.text);
        Ok("message sent".into())
    }
}
