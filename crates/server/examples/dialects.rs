//! Runs an agent with one tool and tells the run as others would.
//!
//! `cargo run -p bowline-server --example dialects -- codex`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::error::Error;
use std::sync::Arc;

use bowline_agent::Agent;
use bowline_agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use bowline_server::dialect::{Dialect, Lines};
use futures::StreamExt as _;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let named = std::env::args().nth(1);
    let dialects = match named {
        Some(name) => vec![name.parse()?],
        None => Dialect::ALL.to_vec(),
    };
    for dialect in dialects {
        println!("# {dialect}");
        tell(dialect).await?;
    }
    Ok(())
}

async fn tell(dialect: Dialect) -> Result<(), Box<dyn Error>> {
    let shout = tool_fn("shout", "Says it louder.", async |input: Value, _: ToolContext| {
        Ok(input.to_string().to_uppercase().into())
    });
    let model = ScriptedModel::new([
        Reply::call("shout", r#"{"text":"holds"}"#),
        Reply::text("It says: HOLDS."),
    ]);
    let agent = Agent { tools: Toolbox::default().with(shout)?, ..Agent::new(Arc::new(model)) };
    let mut run = agent.prompt("Shout that it holds.");
    let (mut translator, mut lines) = (dialect.translator(), Lines::default());
    while let Some(event) = run.next().await {
        translator.event(&event, &mut lines);
        lines.drain().for_each(|line| println!("{line}"));
    }
    Ok(())
}
