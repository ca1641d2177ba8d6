//! An orchestrator of one's own: no answer counts before the tests have passed.
#![expect(clippy::print_stdout, reason = "an example shows something")]
use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering::Relaxed};

use bowline::agent::conversation::{Conversation, Last};
use bowline::agent::orchestrator::{NextStep, Orchestrator, React, read_plan};
use bowline::agent::tool::{ToolError, Toolbox, tool_fn};
use bowline::agent::{Agent, schemars};
use bowline::llm::scripted::{Reply, ScriptedModel};

struct Tested;

impl Orchestrator for Tested {
    fn next(&self, conversation: &Conversation) -> NextStep {
        let tests = conversation.run().and_then(|run| run.planning.course.as_ref());
        match (React.next(conversation), tests) {
            (NextStep::Settle, Some(tests)) if !tests.is_answered => NextStep::Step,
            (NextStep::Settle, Some(tests)) if tests.failed().is_none() => NextStep::Settle,
            (NextStep::Settle, _) if conversation.last() == Last::Answer => {
                NextStep::Plan(read_plan(r#"{"steps":[{"tool":"test"}]}"#))
            }
            (step, _) => step,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_mended = AtomicBool::new(false); // By the second time.
    let test = tool_fn("test", "Runs the tests.", move |_: Nothing, _| {
        let is_mended = is_mended.swap(true, Relaxed);
        std::future::ready(is_mended.then(|| "passed".into()).ok_or(ToolError::failed("1 failed")))
    });
    let model = ScriptedModel::new(["Mended.", "Now it is.", "Tested."].map(Reply::text));
    let (tools, orchestrator) = (Toolbox::default().with(test)?, Arc::new(Tested));
    let agent = Agent { tools, orchestrator, ..Agent::new(Arc::new(model)) };
    println!("{}", agent.prompt("Mend it.").text().await?);
    Ok(())
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}
