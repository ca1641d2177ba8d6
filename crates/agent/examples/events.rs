//! Runs an agent with one tool and prints its events as JSON lines, as `bowline exec --json` does.
//!
//! `cargo run -p bowline-agent --example events`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::error::Error;
use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use futures::StreamExt;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Shout {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let shout = tool_fn("shout", "Says it louder.", async |input: Shout, _: ToolContext| {
        Ok(input.text.to_uppercase().into())
    });
    let model = ScriptedModel::new([
        Reply::call("shout", r#"{"text":"holds"}"#),
        Reply::text("It says: HOLDS."),
    ]);
    let agent = Agent { tools: Toolbox::default().with(shout)?, ..Agent::new(Arc::new(model)) };
    let mut run = agent.prompt("Shout that it holds.");
    let mut seq = 0;
    while let Some(event) = run.next().await {
        println!("{}", serde_json::to_string(&event.printed(seq))?);
        seq += 1;
    }
    Ok(())
}
