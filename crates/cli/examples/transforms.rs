//! What the model gets to see: a window over the conversation, a reminder, and notes of the program's
//! own. `docs/transforms.md` has this file word for word.
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::sync::Arc;

use bowline::agent::Agent;
use bowline::agent::entry::{Entry, EntryKind};
use bowline::agent::transform::{At, inject, keep_first_and_recent};
use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::llm::{Message, RawJson, UserMessage};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new(["One.", "Two.", "Three."].map(Reply::text));
    let reminder = Message::user("Answer in one word.");
    let weather = |entry: &Entry| match &entry.kind {
        EntryKind::Custom(custom) if custom.name == "weather" => {
            Some(UserMessage::text(format!("The weather: {}", custom.data.as_str())))
        }
        _ => None,
    };
    let agent = Agent {
        transforms: vec![Arc::new(keep_first_and_recent(3)), Arc::new(inject([reminder], At::End))],
        convert: Some(Arc::new(weather)),
        ..Agent::new(Arc::new(model.clone()))
    };
    let handle = agent.start();
    handle.prompt("Count.").await?;
    handle.prompt("Go on.").await?;
    handle.record("weather", RawJson::of(&"rain")?).await?;
    handle.prompt("And on.").await?;

    // What the model saw last: the first message, the last three, and the reminder.
    let request = model.requests().pop().ok_or("no request")?;
    let shown: Vec<String> = request.messages.iter().map(said).collect();
    let expected = ["Count.", "Two.", "The weather: \"rain\"", "And on.", "Answer in one word."];
    assert_eq!(shown, expected);
    // What was said stays as it was.
    assert_eq!(handle.messages().len(), 6);
    println!("{shown:?}");
    Ok(())
}

fn said(message: &bowline::llm::MessageRef) -> String {
    match &**message {
        Message::User(said) => bowline::llm::text_of(&said.content),
        Message::Assistant(said) => said.to_text(),
        Message::Results(results) => format!("{} results", results.len()),
    }
}
