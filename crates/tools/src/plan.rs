//! Keeping a plan that a person can follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};

/// The tool `update_plan`: it records each plan as a whole under the name `plan`.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpdatePlan;

/// Shows the user your plan for work of several steps. Send all steps each time.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct UpdatePlanInput {
    steps: Vec<Step>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Step {
    step: String,
    status: Status,
}

// How far a step is; a doc comment would only repeat to the model what it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Pending,
    InProgress,
    Completed,
}

impl Tool for UpdatePlan {
    const NAME: &'static str = "update_plan";
    type Input = UpdatePlanInput;

    fn access(&self, _: &UpdatePlanInput) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &UpdatePlanInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, plan: UpdatePlanInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if let Some(at) = plan.steps.iter().position(|step| step.step.trim().is_empty()) {
            return Err(ToolError::Failed(format!(
                "step {} has no text; the plan was not changed",
                at + 1
            )));
        }
        let active = plan.count(Status::InProgress);
        if active > 1 {
            return Err(ToolError::Failed(format!(
                "{active} steps are in_progress, at most one may be; the plan was not changed"
            )));
        }
        cx.record("plan", &plan)?;
        let (completed, total) = (plan.count(Status::Completed), plan.steps.len());
        Ok(format!("plan updated: {completed} of {total} steps completed").into())
    }
}

impl UpdatePlanInput {
    fn count(&self, status: Status) -> usize {
        self.steps.iter().filter(|step| step.status == status).count()
    }
}
