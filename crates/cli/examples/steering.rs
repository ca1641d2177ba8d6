//! Steering an agent while it works, and following up when it is about to end.
//!
//! `cargo run --example steering [-- provider/model]`
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::sync::Arc;

use bowline::agent::Agent;
use bowline::agent::event::EventBody;
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, ToolError, Toolbox, tool_fn};
use bowline::llm::scripted::Reply;
use futures::StreamExt;
use tokio::sync::Semaphore;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Page {
    number: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    let model = support::model([
        Reply::text("I read three pages.")
            .and_call("read_page", r#"{"number":1}"#)
            .and_call("read_page", r#"{"number":2}"#)
            .and_call("read_page", r#"{"number":3}"#),
        Reply::text("Page 1 was enough, then: it is about knots."),
        Reply::text("In German: Es geht um Knoten."),
    ])?;
    // The first page takes until somebody has had the time to interrupt.
    let interrupted = Arc::new(Semaphore::new(0));
    let reading = Arc::clone(&interrupted);
    let tool = tool_fn("read_page", "Reads a page.", move |page: Page, _: ToolContext| {
        let reading = Arc::clone(&reading);
        async move {
            let _permit =
                reading.acquire().await.map_err(|error| ToolError::Fatal(error.into()))?;
            Ok(format!("page {} is about knots", page.number).into())
        }
    });
    let agent = Agent { tools: Toolbox::default().with(tool)?, ..Agent::new(model) };

    let handle = agent.start();
    let mut run = handle.prompt("Read pages 1, 2 and 3 one after the other. What are they about?");
    let mut is_steered = false;
    while let Some(event) = run.next().await {
        match &event.body {
            // A running call finishes, calls that have not started are skipped, and the message
            // is said before the model is asked again.
            EventBody::ToolStart { .. } if !is_steered => {
                is_steered = true;
                handle.steer("One page is enough, hurry.").await?;
                handle.follow_up("Say it in German.").await?;
                interrupted.add_permits(100);
            }
            EventBody::ToolEnd { status, .. } => println!("tool: {}", status.as_str()),
            EventBody::Delivered { .. } => println!("delivered"),
            EventBody::Text { text, .. } => println!("text: {text}"),
            _ => {}
        }
    }
    Ok(())
}
