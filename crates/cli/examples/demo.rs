//! What the README's first command shows until a small model is on board: a task that is really
//! done in a scratch folder, with real tools and a real log. Only the model is a script.
#![expect(clippy::print_stdout, reason = "a demonstration shows something")]

mod support;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bowline::agent::Agent;
use bowline::agent::event::EventBody;
use bowline::agent::tool::Toolbox;
use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::llm::{Message, Request, text_of};
use bowline::store::{Durability, Files};
use bowline::tools::process::{Helper, Processes};
use bowline::tools::{Editing, Environment, Workspace, toolbox};
use futures::StreamExt;

const TASK: &str = "`bash test.sh` fails. Find out why, mend it, and show that it passes.";

const AVERAGE: &str = r#"# Prints the average of the numbers in a file, one a line.
sum=0
count=1
while read -r number; do
  sum=$((sum + number))
  count=$((count + 1))
done < "$1"
echo $((sum / count))
"#;

const TEST: &str = r#"got=$(bash average.sh numbers.txt)
if [ "$got" = 7 ]; then echo "ok: the average is 7"; else echo "FAILED: $got is not 7"; exit 1; fi
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    // Commands run in a helper process of this program; see docs/embedding.md.
    bowline::tools::helper();

    let folder = tempfile::Builder::new().prefix("bowline-demo-").tempdir()?.keep();
    let work = folder.join("work");
    fs::create_dir(&work)?;
    fs::write(work.join("average.sh"), AVERAGE)?;
    fs::write(work.join("test.sh"), TEST)?;
    fs::write(work.join("numbers.txt"), "3\n8\n10\n")?;
    println!(
        "The model of this demonstration is a script. Tools, files, commands and log are real."
    );
    println!("They are in {}", folder.display());
    println!("\n$ {TASK}\n");

    let sessions = Files::new(folder.join("sessions"), Durability::Process);
    let agent = Agent {
        tools: tools(&work, &folder)?,
        store: Arc::new(sessions.clone()),
        ..Agent::new(Arc::new(script()))
    };
    let handle = agent.start();
    let mut run = handle.prompt(TASK);
    let mut calls = HashMap::new();
    while let Some(event) = run.next().await {
        match &event.body {
            EventBody::ToolCall { name, arguments } => {
                calls.insert(event.call_id.clone(), format!("{name} {arguments}"));
            }
            EventBody::ToolEnd { content, .. } => {
                println!("> {}", calls.remove(&event.call_id).unwrap_or_default());
                text_of(content).trim_end().lines().for_each(|line| println!("  {line}"));
            }
            EventBody::Text { text, .. } => println!("{text}"),
            _ => {}
        }
    }
    let outcome = run.await?;
    handle.close().await;
    let report = sessions.verify(handle.session_id())?;
    let (commits, entries) = (report.commits, report.entries);
    println!("\n{}: {} model calls", outcome.ending.as_str(), outcome.model_turns);
    println!("log: {commits} commits, {entries} entries, sound: {}", report.is_sound());
    if outcome.is_done() && report.is_sound() { Ok(()) } else { Err("the demo failed".into()) }
}

fn tools(work: &Path, folder: &Path) -> support::Result<Toolbox> {
    let workspace = Workspace {
        cwd: work.to_owned(),
        environment: Environment::allowed(std::env::vars_os()),
        processes: Arc::new(Processes::new(Helper::Own)),
        scratch: folder.join("scratch"),
    };
    Ok(toolbox(&workspace, Editing::Replace)?)
}

/// The script. Its answer depends on what the last command really printed.
fn script() -> ScriptedModel {
    ScriptedModel::new([
        Reply::text("I run the test and read what it tests.")
            .and_call("bash", r#"{"command":"bash test.sh"}"#)
            .and_call("read", r#"{"path":"average.sh"}"#),
        Reply::text("The count begins with 1, so one number too many is counted.").and_call(
            "edit",
            r#"{"path":"average.sh","old_string":"count=1\n","new_string":"count=0\n"}"#,
        ),
        Reply::call("bash", r#"{"command":"bash test.sh"}"#),
        Reply::from_fn(|request| match has_passed(request) {
            true => Reply::text("The average was divided by one too many; now the test passes."),
            false => Reply::text("I changed the count, but the test still fails."),
        }),
    ])
}

fn has_passed(request: &Request) -> bool {
    match request.messages.last().map(|message| &**message) {
        Some(Message::Results(results)) => {
            results.iter().any(|result| text_of(&result.content).starts_with("ok:"))
        }
        Some(Message::User(_) | Message::Assistant(_)) | None => false,
    }
}
