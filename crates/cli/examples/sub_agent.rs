//! A sub-agent inside a tool: the call makes it, waits for it, and ends with it.
//!
//! `cargo run --example sub_agent [-- provider/model]`
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use bowline::agent::event::EventBody;
use bowline::agent::schemars;
use bowline::agent::tool::{Recovery, ToolContext, ToolError, Toolbox, tool_fn};
use bowline::agent::{Agent, AgentCreator};
use bowline::llm::scripted::Reply;
use futures::StreamExt;

/// What a colleague is asked.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Question {
    question: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    let model = support::model([
        Reply::call("ask_colleague", r#"{"question":"What is a bowline?"}"#)
            .with_usage(support::tokens(50, 10)),
        Reply::text("A knot that makes a fixed loop.").with_usage(support::tokens(30, 8)),
        Reply::text("My colleague says: a knot that makes a fixed loop.")
            .with_usage(support::tokens(80, 12)),
    ])?;
    let ask = tool_fn("ask_colleague", "Asks a colleague who knows knots.", ask_colleague)
        // After a crash the call runs again and finds the colleague it had made, who does not ask
        // the model a second time for what was already answered.
        .with_recovery(Recovery::Reattach);
    let agent = Agent { tools: Toolbox::default().with(ask)?, ..Agent::new(model) };

    // What a sub-agent says arrives in the parent's stream; the envelope tells who said it.
    let handle = agent.start();
    let mut run = handle.prompt("What is a bowline? Ask your colleague.");
    while let Some(event) = run.next().await {
        let who = &event.agent;
        match &event.body {
            EventBody::AgentStart { .. } => println!("{} starts, depth {}", who.name, who.depth),
            EventBody::AgentEnd { .. } => println!("{} is done", who.name),
            EventBody::Text { text, .. } => println!("{}: {text}", who.name),
            _ => {}
        }
    }
    println!("tokens, the colleague's included: {}", handle.token_usage().total());
    Ok(())
}

async fn ask_colleague(
    input: Question,
    cx: ToolContext,
) -> Result<bowline::agent::tool::ToolOutput, ToolError> {
    // The parent's model, a system text and no tools of its own.
    let colleague = cx
        .children
        .new_with_default_model("You know everything about knots.", Toolbox::default())
        .await?;
    Ok(colleague.prompt(input.question).text().await?.into())
}
