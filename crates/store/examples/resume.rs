//! Keeps a session in files, opens it again as another process would, and verifies it.
//!
//! `cargo run -p bowline-store --example resume`
#![expect(clippy::print_stdout, reason = "an example shows something")]

use std::error::Error;
use std::sync::Arc;

use bowline_agent::Agent;
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::Reply;
use bowline_store::{Durability, Files};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let agent = |answer: &str| Agent {
        store: Arc::new(Files::new(folder.path(), Durability::Process)),
        ..Agent::new(Arc::new(ScriptedModel::new([Reply::text(answer)])))
    };

    let first = agent("Hello, Ada.").start();
    println!("{}", first.prompt("I am Ada.").text().await?);
    let id = first.session_id();
    first.close().await;

    let second = agent("You are Ada.").resume(id).await?;
    println!("{} messages are known", second.messages().len());
    println!("{}", second.prompt("Who am I?").text().await?);
    second.close().await;

    let report = Files::new(folder.path(), Durability::Process).verify(id)?;
    println!("{} commits, sound: {}", report.commits, report.is_sound());
    Ok(())
}
