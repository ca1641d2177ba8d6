//! `task_complete`: an agent says that its task is over.

use serde::Deserialize;

use bowline_llm::Part;

use crate::entry::{Completion, CompletionStatus, Conclusion};
use crate::tool::{Recovery, Tool, ToolContext, ToolError, ToolOutput};

/// Says that the task is over; the run ends with it.
pub(super) struct TaskComplete;

/// Say that your task is over. Call it last, exactly once, whether you are done or cannot be. What
/// you say is compared with what you did.
#[derive(Deserialize, schemars::JsonSchema)]
pub(super) struct Input {
    status: Status,
    /// What was done, or why it could not be.
    summary: String,
    /// The files you changed.
    #[serde(default)]
    files_modified: Vec<String>,
    /// The commands of the tests you ran.
    #[serde(default)]
    tests_run: Vec<String>,
    /// What is left open, what you assumed, what must be known.
    #[serde(default)]
    caveats: Option<String>,
}

#[derive(Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Completed,
    Failed,
}

impl Tool for TaskComplete {
    const NAME: &'static str = "task_complete";
    type Input = Input;

    fn recovery(&self, _: &Input) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: Input, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if let Some(ignored) = ignored(cx) {
            return Ok(ignored.into());
        }
        let status = match input.status {
            Status::Completed => CompletionStatus::Completed,
            Status::Failed => CompletionStatus::Failed,
        };
        let content = vec![Part::Text(format!("The task is {}.", status.as_str()))];
        let conclusion = Conclusion::Completed(Completion {
            status,
            summary: input.summary,
            files_modified: input.files_modified,
            tests_run: input.tests_run,
            caveats: input.caveats.filter(|caveats| !caveats.trim().is_empty()),
        });
        Ok(ToolOutput::Concluded { content, conclusion })
    }
}

/// Says why a conclusion does not count, if the run has come to one before.
pub(super) fn ignored(cx: &ToolContext) -> Option<&'static str> {
    if cx.concluded.completed {
        Some("Ignored: you have said already that the task is over.")
    } else if cx.concluded.handed_off {
        Some("Ignored: you have handed the task on already.")
    } else {
        None
    }
}
