//! A lead, two workers and what they tell each other, with scripts in place of models.
//!
//! `cargo run -p bowline-agent --example crew`

use std::error::Error;
use std::sync::Arc;

use bowline_agent::crew::{Card, Member, Registry, Spawn};
use bowline_agent::tool::Toolbox;
use bowline_agent::{Agent, AgentError};
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use serde_json::json;

/// Makes a worker: what it can do itself, and what it needs at its place in the crew.
fn worker(spawn: &Spawn, replies: Vec<Reply>) -> Result<Agent, AgentError> {
    let own = Toolbox::default();
    let member = Member { max_depth: 1, max_handoffs: 1, ..spawn.member() };
    Ok(Agent {
        instructions: format!("You are {}.", spawn.name).into(),
        tools: Toolbox::layered([&own, &member.tools(spawn)]),
        ..Agent::new(Arc::new(ScriptedModel::new(replies)))
    })
}

fn call(tool: &str, arguments: &serde_json::Value) -> Reply {
    Reply::call(tool, arguments.to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Arc::new(Registry::default());
    registry.register(Card::new("coder", "Writes code."), |spawn| {
        let question = json!({ "question": "Which file?" });
        let completion = json!({
            "status": "completed",
            "summary": "The parser is fixed.",
            "files_modified": ["src/parser.rs"],
        });
        worker(spawn, vec![call("request_input", &question), call("task_complete", &completion)])
    });
    let two = Card { max_concurrency: 2, ..Card::new("tester", "Runs tests.") };
    registry.register(two, |spawn| worker(spawn, vec![Reply::text("All tests pass.")]));

    let tasks = json!({ "tasks": [
        { "agent": "coder", "task": "fix the parser", "context": "It is in src/parser.rs." },
        { "agent": "tester", "task": "run the tests" },
    ] });
    let model = ScriptedModel::new([call("delegate", &tasks), Reply::text("Both are done.")]);
    let lead = Agent {
        name: "lead".to_owned(),
        tools: Member::new("lead", registry).tools(&Spawn::root("lead")),
        ..Agent::new(Arc::new(model.clone()))
    };

    let answer = lead.prompt("Get the parser right.").text().await?;
    assert_eq!(answer, "Both are done.");
    // The coder claims a file that it never wrote, and the lead is told so.
    let told = format!("{:?}", model.requests()[1].messages.last());
    assert!(told.contains("src/parser.rs: nothing wrote it"), "{told}");
    assert!(told.contains("coder-fix-1") && told.contains("tester-run-1"), "{told}");
    Ok(())
}
