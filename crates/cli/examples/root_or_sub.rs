//! One function that works as a root agent or as a sub-agent, whichever it is given.
//!
//! `cargo run --example root_or_sub [-- provider/model]`
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::agent::{Agent, AgentCreator, RunFailure};
use bowline::llm::scripted::Reply;

/// Researches a question. It neither knows nor cares whether it works inside somebody's tool call.
async fn research(creator: &dyn AgentCreator, question: &str) -> Result<String, RunFailure> {
    let researcher =
        creator.new_with_default_model("Answer in one sentence.", Toolbox::default()).await?;
    researcher.prompt(question).text().await
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Question {
    question: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    let model = support::model([
        Reply::text("It is a loop that does not slip."),
        Reply::call("research", r#"{"question":"What is a sheet bend?"}"#),
        Reply::text("It joins two ropes."),
        Reply::text("A sheet bend joins two ropes."),
    ])?;

    // As a root agent, in a session of its own.
    let root = Agent::new(model);
    println!("root: {}", research(&root, "What is a bowline?").await?);

    // As a sub-agent, within a tool call of another agent.
    let tool =
        tool_fn("research", "Researches a question.", async |q: Question, cx: ToolContext| {
            Ok(research(&cx.children, &q.question).await?.into())
        });
    let agent = Agent { tools: Toolbox::default().with(tool)?, ..root };
    println!("sub:  {}", agent.prompt("What is a sheet bend? Research it.").text().await?);
    Ok(())
}
