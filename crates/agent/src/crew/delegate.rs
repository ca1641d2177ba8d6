//! `delegate`: tasks for other agents, all at once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use bowline_llm::{RawJson, ToolSpec};

use crate::tool::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, ToolOutput,
    input_schema, parse_arguments,
};

use super::deeds;
use super::hire::AD_HOC;
use super::member::{Interaction, OnError, Seat};
use super::party::Party;
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
    /// `interactive` if its agent may ask you; `blocking` is the default.
    #[serde(default)]
    pub(super) mode: Option<Mode>,
    /// Whether you go on meanwhile and get what came of it later.
    #[serde(default)]
    pub(super) background: bool,
}

/// Who answers the questions of the agent of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Nobody.
    #[serde(alias = "auto", alias = "")]
    Blocking,
    /// The delegating model.
    Interactive,
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
        if member.interaction != Interaction::Interactive {
            unused.push("mode");
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
        let is_interactive = |task: &Task| task.mode == Some(Mode::Interactive);
        if tasks.iter().any(is_interactive) && tasks.iter().any(|task| task.background) {
            let why = "give tasks for the background and interactive ones in calls of their own";
            return Err(ToolError::failed(why));
        }
        Ok(())
    }

    /// Has tasks done, all at once, and returns what came of them, in their order. What is not over
    /// then, because its agent asks or because it is for the background, goes on behind the call.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if what was done cannot be recorded.
    pub(super) async fn delegate(
        self: &Arc<Self>,
        cx: &ToolContext,
        tasks: &[Task],
        on_error: OnError,
    ) -> Result<Vec<Report>, ToolError> {
        let mut party = Party::begin(self, cx, tasks, on_error).await;
        party.work().await;
        // Whoever delegated to this agent sees what was done on its behalf.
        let done = party.deeds();
        if cx.agent.depth > 0 && !done.is_empty() {
            cx.record(deeds::RECORD, &done)?;
        }
        party.leave()
    }
}
