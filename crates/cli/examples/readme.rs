//! The README's example, word for word; a test compares them.
#![expect(clippy::print_stdout, reason = "an example shows something")]

use bowline::agent::Agent;
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::llm::scripted::{Reply, ScriptedModel};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Reply::call("add", r#"{"a":19,"b":23}"#),
        Reply::text("19 + 23 is 42."),
    ]);
    let add = tool_fn("add", "Adds two numbers.", async |sum: Sum, _: ToolContext| {
        Ok((sum.a + sum.b).to_string().into())
    });
    let tools = Toolbox::default().with(add)?;
    let agent = Agent { tools, ..Agent::new(std::sync::Arc::new(model)) };
    println!("{}", agent.prompt("What is 19 + 23?").text().await?);
    Ok(())
}
