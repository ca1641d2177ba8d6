//! Agents that give each other tasks.

mod asking;
mod behind;
mod boards;
mod claims;
mod delegating;
mod handing_on;
mod messages;
mod reflecting;
mod registry;
mod seed_001;
mod stopping;
mod trees;
mod working;

use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::crew::{Card, Member, Registry, Spawn};
use bowline_agent::tool::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, Toolbox, tool_fn,
};
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use serde_json::{Value, json};

use crate::support::{Checked, Stage, Told, stage};

/// A lead at the root, and whom it can delegate to.
pub(crate) struct Crew {
    pub(crate) registry: Arc<Registry>,
    pub(crate) stage: Stage,
}

/// Changes how a worker takes part.
type Change = fn(&mut Member);

impl Crew {
    /// Makes a crew whose lead says these things.
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { registry: Arc::default(), stage: stage(replies) }
    }

    /// Makes a crew whose lead delegates these tasks and then is done.
    pub(crate) fn for_tasks(tasks: Value) -> Self {
        Self::new([delegate(tasks), Reply::text("done")])
    }

    /// Adds a worker whose instances play one script together.
    pub(crate) fn hire(
        &self,
        name: &str,
        replies: impl IntoIterator<Item = Reply>,
    ) -> ScriptedModel {
        self.hire_with(name, ScriptedModel::new(replies), Toolbox::default(), |_| {})
    }

    /// Adds a worker.
    pub(crate) fn hire_with(
        &self,
        name: &str,
        model: ScriptedModel,
        own: Toolbox,
        change: Change,
    ) -> ScriptedModel {
        self.hire_as(Card::new(name, format!("Does {name}.")), model, own, change)
    }

    pub(crate) fn hire_as(
        &self,
        card: Card,
        model: ScriptedModel,
        own: Toolbox,
        change: Change,
    ) -> ScriptedModel {
        let agent = Agent {
            instructions: format!("You are {}.", card.name).into(),
            model: Arc::new(Checked(model.clone())),
            tools: own,
            ..self.stage.agent.clone()
        };
        self.registry.register(card, move |spawn| Ok(employed(&agent, spawn, change)));
        model
    }

    /// Returns how the lead takes part if nothing else is said.
    pub(crate) fn member(&self) -> Member {
        Member::new("root", Arc::clone(&self.registry))
    }

    /// Lets the lead play its script.
    pub(crate) async fn play(self) -> Told {
        let member = self.member();
        self.play_as(member).await
    }

    pub(crate) async fn play_as(self, member: Member) -> Told {
        self.lead(&member).play().await
    }

    /// Returns the stage with the lead on it.
    pub(crate) fn lead(self, member: &Member) -> Stage {
        let Self { mut stage, .. } = self;
        stage.agent.tools.add_all(&member.tools(&Spawn::root("root"))).unwrap();
        stage
    }
}

/// Returns an agent with what it needs at its place.
pub(crate) fn employed(agent: &Agent, spawn: &Spawn, change: Change) -> Agent {
    let mut member = spawn.member();
    change(&mut member);
    let tools = Toolbox::layered([&agent.tools, &member.tools(spawn)]);
    Agent { tools, ..agent.clone() }
}

/// Makes a reply that delegates tasks.
pub(crate) fn delegate(tasks: Value) -> Reply {
    Reply::call("delegate", Value::from_iter([("tasks", tasks)]).to_string())
}

/// Makes a reply that says that a task is over.
pub(crate) fn complete(completion: &Value) -> Reply {
    Reply::call("task_complete", completion.to_string())
}

/// Makes a reply that says that a task is done.
pub(crate) fn done(summary: &str) -> Reply {
    complete(&json!({ "status": "completed", "summary": summary }))
}

/// Returns what the lead was told of its tasks.
pub(crate) fn reports(told: &Told) -> Vec<Value> {
    serde_json::from_str(&told.result("call_1")).unwrap()
}

/// Returns the only thing that the lead was told.
pub(crate) fn report(told: &Told) -> Value {
    let [report] = <[Value; 1]>::try_from(reports(told)).unwrap();
    report
}

/// Makes a tool that pretends to write a file.
pub(crate) fn writer() -> impl DynTool + 'static {
    Declaring {
        name: "write",
        access: |arguments| Access::write(format!("/home/{}", field(arguments, "path"))),
        answer: |_| Ok("written".to_owned()),
    }
}

/// Makes a tool that pretends to run a command: `fail` in it fails.
pub(crate) fn runner() -> impl DynTool + 'static {
    Declaring {
        name: "bash",
        access: |arguments| Access::execute(field(arguments, "command")),
        answer: |arguments| {
            let command = field(arguments, "command");
            Ok(match command.contains("fail") {
                true => "oh no\n[exit code 101]\n[took 12 s]".to_owned(),
                false => "ok".to_owned(),
            })
        },
    }
}

/// Makes a tool that may change anything, as its server does not say what.
pub(crate) fn stranger(name: &'static str) -> impl DynTool + 'static {
    Declaring { name, access: |_| Access::exclusive(), answer: |_| Ok("done".to_owned()) }
}

fn field(arguments: &str, name: &str) -> String {
    let value: Value = serde_json::from_str(arguments).unwrap();
    value[name].as_str().unwrap_or_default().to_owned()
}

/// A tool that declares what its arguments say.
struct Declaring {
    name: &'static str,
    access: fn(&str) -> Access,
    answer: fn(&str) -> Result<String, String>,
}

impl DynTool for Declaring {
    fn spec(&self) -> bowline_llm::ToolSpec {
        tool_fn(self.name, "A tool.", async |_: Value, _: ToolContext| Ok("".into())).spec()
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let answer = (self.answer)(arguments);
        Ok(Prepared {
            access: (self.access)(arguments),
            recovery: Recovery::Unknown,
            deadline: Deadline::Limit,
            run: Box::new(move |_| {
                Box::pin(async move { answer.map(Into::into).map_err(ToolError::Failed) })
            }),
        })
    }
}
