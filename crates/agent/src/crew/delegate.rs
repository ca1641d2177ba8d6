//! `delegate`: tasks for other agents, all at once.

use std::sync::Arc;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use bowline_llm::{RawJson, ToolSpec};

use crate::tool::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, ToolOutput,
    input_schema, parse_arguments,
};

use super::deeds::{self, Deeds};
use super::errand::Errand;
use super::hire::AD_HOC;
use super::member::{OnError, Seat};
use super::report::Report;

/// Gives tasks to other agents and waits for what comes of them.
pub(super) struct Delegate(pub(super) Arc<Seat>);

/// Give tasks to other agents, each in a fresh conversation, all at once. You get a list of what came
/// of them, in their order.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub(super) struct Input {
    tasks: Vec<Task>,
}

/// A task for another agent.
#[derive(Debug, Clone, Default, Deserialize, schemars::JsonSchema)]
pub(super) struct Task {
    /// The name of the agent.
    #[serde(default)]
    pub(super) agent: Option<String>,
    /// In place of an agent: the system text of one that is made for the task.
    #[serde(default)]
    pub(super) system_prompt: Option<String>,
    /// The names of the tools it may use, if not all of its own.
    #[serde(default)]
    pub(super) tools: Option<Vec<String>>,
    /// What it is to do.
    pub(super) task: String,
    /// What it must know: it sees nothing of your conversation.
    #[serde(default)]
    pub(super) context: Option<String>,
    /// The task on the board, if it is there.
    #[serde(default)]
    pub(super) task_id: Option<String>,
}

impl Task {
    /// Returns the configuration that it is for.
    pub(super) fn config(&self) -> Option<&str> {
        self.agent.as_deref().filter(|agent| !agent.trim().is_empty())
    }

    /// Returns what the agent asked for is called.
    pub(super) fn asked(&self) -> &str {
        self.config().unwrap_or(AD_HOC)
    }
}

impl DynTool for Delegate {
    fn spec(&self) -> ToolSpec {
        let (description, schema) = input_schema::<Input>();
        let member = &self.0.member;
        let mut unused = Vec::new();
        if !member.ad_hoc {
            unused.extend(["system_prompt"]);
        }
        if member.board.is_none() {
            unused.push("task_id");
        }
        ToolSpec {
            name: "delegate".to_owned(),
            description: description.unwrap_or_default(),
            schema: without(schema, &unused),
        }
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let input = parse_arguments::<Input>(arguments)?;
        Ok(prepared(move |cx| async move {
            self.0.admits(&cx, &input.tasks)?;
            let reports = self.0.delegate(&cx, &input.tasks, self.0.member.on_error).await?;
            to_json(&reports)
        }))
    }
}

/// Prepares a call that works through other agents: it touches nothing itself, watches the time of
/// its tasks itself, and finds its agents again when it runs again.
pub(super) fn prepared<R>(run: impl FnOnce(ToolContext) -> R + Send + 'static) -> Prepared
where
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    Prepared {
        access: Access::none(),
        recovery: Recovery::Reattach,
        deadline: Deadline::Own,
        run: Box::new(move |cx| Box::pin(run(cx))),
    }
}

pub(super) fn to_json(value: &impl Serialize) -> Result<ToolOutput, ToolError> {
    let json = serde_json::to_string(value);
    json.map(Into::into).map_err(|error| ToolError::failed(error.to_string()))
}

/// Removes properties of tasks that mean nothing here: they cost tokens in every request.
fn without(schema: RawJson, properties: &[&str]) -> RawJson {
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(schema.as_str()) else {
        return schema;
    };
    let place = value.pointer_mut("/properties/tasks/items/properties");
    if let Some(task) = place.and_then(|place| place.as_object_mut()) {
        task.retain(|name, _| !properties.contains(&name.as_str()));
    }
    RawJson::of(&value).unwrap_or(schema)
}

impl Seat {
    /// Tells whether tasks may be given at all.
    ///
    /// # Errors
    /// What is wrong with all of them.
    pub(super) fn admits(&self, cx: &ToolContext, tasks: &[Task]) -> Result<(), ToolError> {
        if tasks.is_empty() {
            return Ok(());
        }
        let names_self = |task: &Task| task.config().is_some_and(|name| self.member.is_self(name));
        if !self.member.allow_self && tasks.iter().any(names_self) {
            let name = &self.member.name;
            return Err(ToolError::Failed(format!("{name} cannot delegate to itself")));
        }
        if cx.agent.depth >= self.max_depth {
            let depth = self.max_depth;
            return Err(ToolError::Failed(format!("max delegation depth {depth} reached")));
        }
        Ok(())
    }

    /// Has tasks done, all at once, and returns what came of them, in their order.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if what was done cannot be recorded.
    pub(super) async fn delegate(
        &self,
        cx: &ToolContext,
        tasks: &[Task],
        on_error: OnError,
    ) -> Result<Vec<Report>, ToolError> {
        let siblings = CancellationToken::new();
        // One after the other, so that they are named and numbered in their order.
        let mut errands = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            errands.push(Errand::begin(self, cx, &siblings, (index, task)).await);
        }
        let slot = self.member.registry.slots.lend(cx.agent.id);
        let done = join_all(errands.into_iter().map(async |errand| {
            let (report, deeds) = match errand {
                Ok(errand) => errand.run().await,
                Err(report) => (report, Deeds::default()),
            };
            if on_error == OnError::CancelSiblings && report.is_failure() {
                siblings.cancel();
            }
            (report, deeds)
        }))
        .await;
        tokio::select! {
            () = slot.take_back() => {}
            () = cx.cancel.cancelled() => {}
        }
        let mut all = Deeds::default();
        let mut reports = Vec::new();
        for (report, deeds) in done {
            all.join(deeds);
            reports.push(report);
        }
        // Whoever delegated to this agent sees what was done on its behalf.
        if cx.agent.depth > 0 && !all.is_empty() {
            cx.record(deeds::RECORD, &all)?;
        }
        Ok(reports)
    }
}
