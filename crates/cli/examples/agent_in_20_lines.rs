//! An agent with one tool, in twenty lines.
//!
//! `cargo run --example agent_in_20_lines [-- provider/model]`
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use bowline::agent::Agent;
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::llm::scripted::Reply;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    let model =
        support::model([Reply::call("add", r#"{"a":19,"b":23}"#), Reply::text("19 + 23 is 42.")])?;
    let add = tool_fn("add", "Adds two numbers.", async |sum: Sum, _: ToolContext| {
        Ok((sum.a + sum.b).to_string().into())
    });
    let tools = Toolbox::default().with(add)?;
    let agent = Agent { instructions: "Use your tools.".into(), tools, ..Agent::new(model) };
    println!("{}", agent.prompt("What is 19 + 23?").text().await?);
    Ok(())
}
