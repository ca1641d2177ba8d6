//! `bowline demo`: a small task, really done in a scratch folder, with every step shown.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::{SessionId, SystemSource};
use bowline_agent::tool::{Toolbox, ToolboxError};
use bowline_agent::{Agent, AgentError};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{CallId, Message, Model, Request, text_of};
use bowline_runtime::prompt;
use bowline_store::{Durability, Files};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{Editing, Environment, Workspace, toolbox};
use futures::StreamExt as _;

use crate::args::{Demo, Demonstration};
use crate::exit::{self, Failure};

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

/// Shows a demonstration.
pub(crate) async fn run(args: Demo) -> Result<ExitCode, Failure> {
    match args.which {
        Demonstration::Agentic => {}
        Demonstration::PlanExecute | Demonstration::Delegate => {
            return Err(Failure::Usage(
                "only the demonstration agentic is there yet; plan-execute and delegate come with \
                 the features they show"
                    .to_owned(),
            ));
        }
    }
    let id = SessionId::new(&SystemSource);
    let folder = std::env::temp_dir().join(format!("bowline-demo-{id}"));
    let cannot = |error: io::Error| {
        Failure::Failed(format!("cannot write to {}: {error}", folder.display()))
    };
    let work = prepare(&folder).map_err(cannot)?;
    let sessions = Files::new(folder.join("sessions"), Durability::Process);
    let processes = Arc::new(Processes::new(Helper::Own));
    let (model, what) = model();
    let tools =
        tools(&work, &folder, &processes).map_err(|error| Failure::Failed(error.to_string()))?;
    let agent = Agent {
        instructions: prompt::SYSTEM.into(),
        tools,
        store: Arc::new(sessions.clone()),
        ..Agent::new(model)
    };
    let mut out = io::stdout().lock();
    let shown = writeln!(
        out,
        "{what} Tools, files, commands and log are real.\nThey are in {}\n\n$ {TASK}\n",
        folder.display()
    );
    // A reader that went away does not end the work.
    let _ = shown;
    let handle = agent.start();
    let mut run = handle.prompt(TASK);
    let mut calls = HashMap::new();
    while let Some(event) = run.next().await {
        let _ = show(&mut out, &event, &mut calls);
    }
    let outcome = run.await.map_err(|error: AgentError| Failure::Agent(error))?;
    handle.close().await;
    processes.close().await;
    let report = sessions.verify(handle.session_id())?;
    let _ = writeln!(
        out,
        "\n{}: {} model calls\nlog: {} commits, {} entries, {}",
        outcome.ending.as_str(),
        outcome.model_turns,
        report.commits,
        report.entries,
        if report.is_sound() { "every hash fits" } else { "DAMAGED" },
    );
    if !report.is_sound() {
        return Err(Failure::Failed("the log of the demonstration is damaged".to_owned()));
    }
    Ok(exit::code_of(&outcome, &outcome.text()))
}

/// Makes the folder in which the task is to be done.
fn prepare(folder: &Path) -> io::Result<PathBuf> {
    let work = folder.join("work");
    fs::create_dir_all(&work)?;
    fs::write(work.join("average.sh"), AVERAGE)?;
    fs::write(work.join("test.sh"), TEST)?;
    fs::write(work.join("numbers.txt"), "3\n8\n10\n")?;
    Ok(work)
}

/// Returns the model at hand, and what to say of it.
fn model() -> (Arc<dyn Model>, &'static str) {
    (Arc::new(script()), "The model of this demonstration is a script.")
}

fn show(
    out: &mut impl Write,
    event: &Event,
    calls: &mut HashMap<CallId, String>,
) -> io::Result<()> {
    match &event.body {
        EventBody::ToolCall { name, arguments } => {
            if let Some(call) = &event.call_id {
                calls.insert(call.clone(), format!("{name} {arguments}"));
            }
            Ok(())
        }
        EventBody::ToolEnd { content, .. } => {
            let call = event.call_id.as_ref().and_then(|call| calls.remove(call));
            writeln!(out, "> {}", call.unwrap_or_default())?;
            let text = text_of(content);
            text.trim_end().lines().try_for_each(|line| writeln!(out, "  {line}"))
        }
        EventBody::Text { text, .. } => writeln!(out, "{text}"),
        _ => Ok(()),
    }
}

fn tools(work: &Path, folder: &Path, processes: &Arc<Processes>) -> Result<Toolbox, ToolboxError> {
    let workspace = Workspace {
        cwd: work.to_owned(),
        environment: Environment::allowed(std::env::vars_os()),
        processes: Arc::clone(processes),
        scratch: folder.join("scratch"),
    };
    toolbox(&workspace, Editing::Replace)
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
