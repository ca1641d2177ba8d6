//! What changes a conversation at a step, and writes down that it did. `docs/effects.md` has this file
//! word for word.
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::sync::Arc;

use bowline::agent::Agent;
use bowline::agent::effect::{Act, Compact, Effect, EffectError, LoopDetect, Step, effect_fn};
use bowline::agent::entry::{CallStatus, Entry, EntryKind, Phase};
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, ToolError, Toolbox, tool_fn};
use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::llm::{Message, text_of};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Tells the model to look at its tools after two failures in a row.
struct Patience;

impl Effect for Patience {
    // How many calls in a row have failed: a fold of the log, so it survives a crash.
    type State = u32;

    fn kind(&self) -> &str {
        "patience"
    }

    fn fold(&self, failures: &mut u32, entry: &Entry) {
        if let EntryKind::CallEnded(ended) = &entry.kind {
            *failures = if ended.status == CallStatus::Ok { 0 } else { *failures + 1 };
        }
    }

    async fn before(&self, _: &Step, failures: &u32) -> Result<Vec<Act>, EffectError> {
        Ok(match failures {
            2 => vec![Act::say("That failed twice. Is it the right tool?")],
            _ => Vec::new(),
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broken = tool_fn("broken", "Never works.", async |_: Nothing, _: ToolContext| {
        Err(ToolError::failed("it does not work"))
    });
    let first = effect_fn("first", |step: &Step| {
        let is_first = step.phase == Phase::Before && step.turn == 0;
        Ok(if is_first { vec![Act::say("Be brief.")] } else { Vec::new() })
    });
    let call = || Reply::call("broken", "{}");
    let model = ScriptedModel::new([call(), call(), Reply::text("I give up.")]);
    let agent = Agent {
        tools: Toolbox::default().with(broken)?,
        effects: vec![
            Arc::new(Compact { threshold: 0.9, ..Compact::default() }),
            Arc::new(LoopDetect::default()),
            Arc::new(Patience),
            Arc::new(first),
        ],
        ..Agent::new(Arc::new(model.clone()))
    };
    let answer = agent.prompt("Mend it.").text().await?;
    let said = |message: &Message| match message {
        Message::User(said) => Some(text_of(&said.content)),
        Message::Assistant(_) | Message::Results(_) => None,
    };
    let requests = model.requests();
    let said: Vec<_> = requests[2].messages.iter().filter_map(|message| said(message)).collect();
    assert_eq!(said, ["Mend it.", "Be brief.", "That failed twice. Is it the right tool?"]);
    println!("{answer}");
    Ok(())
}
