//! Delegating in other words: the tools of seed 001, `delegate_to_agent` and `spawn_agents`, and tools
//! that are each a task for one agent.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use bowline_llm::ToolSpec;

use crate::entry::Completion;
use crate::tool::{
    DynTool, Prepared, ToolContext, ToolError, ToolOutput, input_schema, parse_arguments,
};

use super::delegate::{Task, prepared, to_json};
use super::member::{OnError, Seat};
use super::report::Report;

/// Gives one task to another agent and returns its answer.
pub(super) struct DelegateToAgent(pub(super) Arc<Seat>);

/// Gives several tasks to other agents; when one fails the others are canceled.
pub(super) struct SpawnAgents(pub(super) Arc<Seat>);

/// Give a task to another agent and get its answer.
#[derive(Deserialize, schemars::JsonSchema)]
struct One {
    /// The name of the agent.
    agent: String,
    /// What it is to do.
    task: String,
}

/// Give several tasks to other agents, all at once. If one fails the others are canceled.
#[derive(Deserialize, schemars::JsonSchema)]
struct Several {
    tasks: Vec<One>,
}

#[derive(Serialize)]
struct Spawned {
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<One> for Task {
    fn from(one: One) -> Self {
        Self { agent: Some(one.agent), task: one.task, ..Self::default() }
    }
}

impl From<Report> for Spawned {
    fn from(report: Report) -> Self {
        let is_failure = report.is_failure();
        let summary = |completion: Completion| completion.summary;
        let error = report.error.or_else(|| report.completion.map(summary));
        let result = if is_failure { None } else { report.result };
        Self { agent: report.agent, result, error: error.filter(|_| is_failure) }
    }
}

/// A tool that is a task for one agent.
#[derive(Clone)]
pub struct TaskTool {
    /// What a model is told of it.
    pub spec: ToolSpec,
    /// The name of the agent.
    pub agent: String,
    /// Makes the task of the arguments of a call, or says what is wrong with them.
    pub task: MakeTask,
}

/// Makes a task of the arguments of a call.
pub type MakeTask = Arc<dyn Fn(&str) -> Result<String, ToolError> + Send + Sync>;

impl fmt::Debug for TaskTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskTool")
            .field("spec", &self.spec)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// Such a tool at its place.
pub(super) struct Placed(pub(super) Arc<Seat>, pub(super) TaskTool);

impl DynTool for Placed {
    fn spec(&self) -> ToolSpec {
        self.1.spec.clone()
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let task = (self.1.task)(arguments)?;
        let task = Task::from(One { agent: self.1.agent.clone(), task });
        Ok(prepared(move |cx| async move { self.0.answer(&cx, task).await }))
    }
}

impl Seat {
    /// Has one task done, and answers with what came of it.
    async fn answer(
        self: &Arc<Self>,
        cx: &ToolContext,
        task: Task,
    ) -> Result<ToolOutput, ToolError> {
        let tasks = [task];
        self.admits(cx, &tasks)?;
        let reports = self.delegate(cx, &tasks, OnError::Collect).await?;
        let spawned = reports.into_iter().map(Spawned::from).next();
        match spawned.map(|spawned| (spawned.result, spawned.error)) {
            Some((Some(result), _)) => Ok(result.into()),
            Some((None, error)) => Err(ToolError::Failed(error.unwrap_or_default())),
            None => Err(ToolError::failed("there is no task")),
        }
    }
}

impl DynTool for DelegateToAgent {
    fn spec(&self) -> ToolSpec {
        let (description, schema) = input_schema::<One>();
        let description = description.unwrap_or_default();
        ToolSpec { name: "delegate_to_agent".to_owned(), description, schema }
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let task = Task::from(parse_arguments::<One>(arguments)?);
        Ok(prepared(move |cx| async move { self.0.answer(&cx, task).await }))
    }
}

impl DynTool for SpawnAgents {
    fn spec(&self) -> ToolSpec {
        let (description, schema) = input_schema::<Several>();
        let description = description.unwrap_or_default();
        ToolSpec { name: "spawn_agents".to_owned(), description, schema }
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let several = parse_arguments::<Several>(arguments)?;
        let tasks: Vec<Task> = several.tasks.into_iter().map(Task::from).collect();
        Ok(prepared(move |cx| async move {
            self.0.admits(&cx, &tasks)?;
            let reports = self.0.delegate(&cx, &tasks, OnError::CancelSiblings).await?;
            to_json(&reports.into_iter().map(Spawned::from).collect::<Vec<_>>())
        }))
    }
}
