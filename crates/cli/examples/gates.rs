//! Who decides about tool calls: allow, deny, rewrite, or have a person asked. `docs/gates.md` has this
//! file word for word.
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::sync::Arc;

use bowline::agent::event::EventBody;
use bowline::agent::gate::{Review, Verdict, gate_fn};
use bowline::agent::op::Decision;
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::agent::{Agent, Outcome};
use bowline::llm::scripted::{Reply, ScriptedModel};
use futures::StreamExt;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Mail {
    to: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let send = tool_fn("send", "Sends a mail.", async |mail: Mail, _: ToolContext| {
        Ok(format!("sent to {}", mail.to).into())
    });
    let careful = gate_fn(|review: &Review<'_>| {
        let arguments = &review.call.arguments;
        if arguments.contains("everybody") {
            return Verdict::Deny { reason: "not to everybody".to_owned() };
        }
        if arguments.contains("Bob") {
            return Verdict::Rewrite { arguments: arguments.replace("Bob", "bob@example.org") };
        }
        match review.decision {
            // Nobody has been asked yet.
            None if arguments.contains("boss") => {
                Verdict::Wait { question: format!("May I send {arguments}?"), rule: None }
            }
            _ => Verdict::Allow { rule: None },
        }
    });
    let model = ScriptedModel::new([
        Reply::call("send", r#"{"to":"everybody"}"#)
            .and_call("send", r#"{"to":"Bob"}"#)
            .and_call("send", r#"{"to":"the boss"}"#),
        Reply::text("Two mails are out."),
    ]);
    let agent = Agent {
        tools: Toolbox::default().with(send)?,
        gate: Arc::new(careful),
        ..Agent::new(Arc::new(model))
    };
    let handle = agent.start();
    let mut run = handle.prompt("Send them.");
    let mut ends = Vec::new();
    while let Some(event) = run.next().await {
        match (&event.body, &event.call_id) {
            (EventBody::PermissionRequest { .. }, Some(call)) => {
                handle.decide(call.clone(), Decision::ONCE).await?;
            }
            (EventBody::ToolEnd { content, .. }, _) => ends.push(bowline::llm::text_of(content)),
            _ => {}
        }
    }
    ends.sort();
    assert_eq!(ends, ["denied: not to everybody", "sent to bob@example.org", "sent to the boss"]);
    let outcome: Outcome = run.await?;
    assert_eq!(outcome.denials.len(), 1);
    println!("{}", outcome.text());
    Ok(())
}
