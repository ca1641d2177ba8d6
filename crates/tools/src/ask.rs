//! Asking a person.

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::entry::Wake;
use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput, Waked};

/// The tool `ask_user`: the call waits until somebody answers, also across the end of the process.
///
/// Where nobody is there to answer, the call ends the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct AskUser;

/// Asks the user what you cannot find out yourself, and waits for the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct AskUserInput {
    question: String,
    /// Answers to choose from.
    options: Option<Vec<String>>,
}

impl Tool for AskUser {
    const NAME: &'static str = "ask_user";
    type Input = AskUserInput;

    fn access(&self, _: &AskUserInput) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &AskUserInput) -> Recovery {
        Recovery::Reattach
    }

    async fn run(&self, input: AskUserInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        match &cx.wake {
            Some(Waked::Answered(answer)) if answer.trim().is_empty() => {
                Ok("(the user gave an empty answer)".into())
            }
            Some(Waked::Answered(answer)) => Ok(answer.as_str().into()),
            // A decision is about whether the question may be asked.
            None | Some(Waked::Decided(_) | Waked::Happened) => {
                if input.question.trim().is_empty() {
                    return Err(ToolError::failed("the question is empty"));
                }
                let mut options = input.options.unwrap_or_default();
                options.retain(|option| !option.trim().is_empty());
                Ok(ToolOutput::Waiting(Wake::Answer { question: input.question, options }))
            }
        }
    }
}
