//! A crew whose session is kept: killed at any moment, the next start goes on where it was.
//!
//! A lead has two others work at once, who run commands; scripts are in place of models, and say what
//! they say only by what they are told.
//!
//! `cargo run -p bowline --example lasting_crew [-- SESSIONS WORK]`
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use bowline::agent::crew::{Card, Member, Registry, Spawn};
use bowline::agent::event::EventBody;
use bowline::agent::tool::Toolbox;
use bowline::agent::{Agent, SessionHandle};
use bowline::llm::scripted::{Reply, ScriptedModel};
use bowline::llm::{Message, Request, ToolResult, text_of};
use bowline::store::{Durability, Files};
use bowline::tools::process::Processes;
use bowline::tools::{Bash, Environment, Workspace};
use futures::StreamExt;
use serde_json::json;

/// How many commands each worker runs.
const STEPS: usize = 6;

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    // This program is its own helper process, which ends the commands when it dies.
    bowline::tools::helper();
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let sessions = folders.next().unwrap_or_else(|| "lasting-crew/sessions".into());
    let work = folders.next().unwrap_or_else(|| "lasting-crew/work".into());
    let processes = Arc::new(Processes::default());
    let workspace = Workspace {
        cwd: std::path::absolute(work)?,
        environment: Environment::allowed(std::env::vars_os()),
        processes: Arc::clone(&processes),
        scratch: std::env::temp_dir(),
        guard: Arc::new(bowline_tools::guard::Open),
    };
    std::fs::create_dir_all(&workspace.cwd)?;
    let files = Files::new(std::path::absolute(sessions)?, Durability::Process);
    let lead = lead(workspace, &files)?;
    let known = files.list(None)?.next();
    let handle = match known {
        Some((session, _)) => lead.resume(session).await?,
        None => lead.start(),
    };
    println!("{}", answer(&handle).await?);
    handle.close().await;
    processes.close().await;
    Ok(())
}

/// Goes on with the run, begins it, or tells what came of it.
async fn answer(handle: &SessionHandle) -> support::Result<String> {
    let open = handle.continue_run().await?;
    if let (None, Some(outcome)) = (&open, &handle.state().latest) {
        return Ok(outcome.text());
    }
    let mut run = open.unwrap_or_else(|| handle.prompt("Have it written and reviewed."));
    while let Some(event) = run.next().await {
        if let EventBody::ToolEnd { name, status, .. } = &event.body {
            println!("{}: {name} {}", event.agent.name, status.as_str());
        }
    }
    Ok(run.text().await?)
}

fn lead(workspace: Workspace, files: &Files) -> support::Result<Agent> {
    let bash = Toolbox::default().with(Bash::new(workspace, Arc::default()))?;
    let registry = Arc::new(Registry::default());
    for (card, file) in [
        (Card::new("coder", "Writes a file."), "ledger"),
        (Card::new("reviewer", "Looks at a file."), "review"),
    ] {
        let bash = bash.clone();
        registry.register(card, move |spawn| {
            let member = Member { max_depth: 1, ..spawn.member() };
            Ok(Agent {
                tools: Toolbox::layered([&bash, &member.tools(spawn)]),
                ..Agent::new(Arc::new(ScriptedModel::answering(|request| works(request, file))))
            })
        });
    }
    Ok(Agent {
        name: "lead".to_owned(),
        tools: Member::new("lead", registry).tools(&Spawn::root("lead")),
        store: Arc::new(files.clone()),
        ..Agent::new(Arc::new(ScriptedModel::answering(leads)))
    })
}

/// Delegates, and then says what it was told.
fn leads(request: &Request) -> Reply {
    match results(request).last() {
        Some(told) => Reply::text(text_of(&told.content)),
        None => {
            let tasks = json!({ "tasks": [
                { "agent": "coder", "task": "write the ledger" },
                { "agent": "reviewer", "task": "review the ledger" },
            ] });
            Reply::call("delegate", tasks.to_string())
        }
    }
}

/// Adds line after line to a file. Of a command that was cut off nobody knows whether it did its
/// work, so it looks before it repeats it.
fn works(request: &Request, file: &str) -> Reply {
    let results = results(request);
    let step = results.iter().filter(|result| !result.is_error).count();
    if step == STEPS {
        let completion = json!({ "status": "completed", "summary": format!("{file} is there.") });
        return Reply::call("task_complete", completion.to_string());
    }
    let command = match results.last().is_some_and(|last| last.is_error) {
        true => format!("grep -qx {step} {file} || echo {step} >> {file}"),
        false => format!("sleep 0.01; echo {step} >> {file}; sleep 0.01"),
    };
    Reply::call("bash", json!({ "command": command }).to_string())
}

fn results(request: &Request) -> Vec<ToolResult> {
    let told = request.messages.iter().filter_map(|message| match &**message {
        Message::Results(results) => Some(results.iter().cloned()),
        Message::User(_) | Message::Assistant(_) => None,
    });
    told.flatten().collect()
}
