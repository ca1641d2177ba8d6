//! `bowline demo`: small tasks, really done in a scratch folder, with every step shown.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use bowline_agent::entry::Ending;
use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::{SessionId, SystemSource};
use bowline_agent::orchestrator::{Orchestrator, PlanExecute, React};
use bowline_agent::tool::Tool as _;
use bowline_agent::{Agent, AgentError};
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{CallId, Message, Model as _, Request, text_of};
use bowline_runtime::config::DEFAULT_AGENT;
use bowline_runtime::environment::Environment;
use bowline_runtime::provider::ModelName;
use bowline_runtime::skills::Skills;
use bowline_runtime::{Choice, Runtime};
use bowline_store::{Durability, Files};
use bowline_tools::Bash;
use futures::StreamExt as _;

use crate::args::{Demo, Demonstration};
use crate::exit::{self, Failure};
use crate::screen;
use crate::trace::{self, Traced};

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
    let folder =
        std::env::temp_dir().join(format!("bowline-demo-{}", SessionId::new(&SystemSource)));
    let mut stage = Stage::set(&args, folder).await?;
    let mut out = screen::out();
    // A reader that went away does not end the work.
    let _ = writeln!(
        out,
        "{} Tools, files, commands and log are real.\nThey are in {}",
        stage.what,
        stage.folder.display()
    );
    let handle = stage.agent.start();
    let mut done = 0;
    let mut code = ExitCode::from(1);
    for task in stage.tasks {
        let _ = writeln!(out, "\n$ {}\n", task.prompt);
        let mut run = handle.prompt(task.prompt);
        let mut calls = HashMap::new();
        while let Some(event) = run.next().await {
            let _ = show(&mut out, &event, &mut calls);
        }
        let outcome = run.await.map_err(|error: AgentError| Failure::Agent(error))?;
        let answer = outcome.text();
        let is_done = (task.is_done)(&stage.work, &answer);
        done += usize::from(is_done);
        let verdict = if is_done { "checked: it is done" } else { "checked: it is NOT done" };
        let (ending, turns) = (outcome.ending.as_str(), outcome.model_turns);
        let _ = writeln!(out, "\n{ending}: {turns} model calls; {verdict}");
        if outcome.ending != Ending::Done {
            code = exit::code_of(&outcome, &answer);
        }
    }
    handle.close().await;
    stage.runtime.close().await;
    trace::end(stage.traced.take()).await;
    let report = stage.sessions.verify(handle.session_id())?;
    let state = if report.is_sound() { "every hash fits" } else { "DAMAGED" };
    let _ = writeln!(
        out,
        "{done} of {} tasks done\nlog: {} commits, {} entries, {state}",
        stage.tasks.len(),
        report.commits,
        report.entries,
    );
    if !report.is_sound() {
        return Err(Failure::Failed("the log of the demonstration is damaged".to_owned()));
    }
    Ok(if done >= stage.enough() { ExitCode::SUCCESS } else { code })
}

/// A task, and how to find out whether it was done.
struct Task {
    prompt: &'static str,
    is_done: fn(work: &Path, answer: &str) -> bool,
}

/// The task for a model that can do more than the small ones.
const MENDING: &[Task] = &[Task {
    prompt: "`bash test.sh` fails. Find out why, mend it, and show that it passes.",
    is_done: |work, _| {
        // The test as it was, for a time, and without keys: the model may have written anything.
        let test = fs::write(work.join("test.sh"), TEST).and_then(|()| {
            Command::new("timeout")
                .args(["10", "bash", "test.sh"])
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                .current_dir(work)
                .output()
        });
        test.is_ok_and(|test| test.status.success())
    },
}];

/// Tasks for a model that has nothing but reading and new files.
const SMALL: &[Task] = &[
    Task {
        prompt: "What is the port in config.toml?",
        is_done: |_, answer| answer.contains("8080"),
    },
    Task {
        prompt: "Create a file hello.txt with the text good morning",
        is_done: |work, _| {
            let text = fs::read_to_string(work.join("hello.txt"));
            text.is_ok_and(|text| text.trim() == "good morning")
        },
    },
    Task {
        prompt: "Which file mentions tomatoes?",
        is_done: |_, answer| answer.contains("garden.md"),
    },
];

/// Everything that a demonstration takes.
struct Stage {
    /// What is said of the model.
    what: String,
    folder: PathBuf,
    work: PathBuf,
    sessions: Files,
    tasks: &'static [Task],
    agent: Agent,
    runtime: Runtime,
    /// Whether the model is a script.
    is_scripted: bool,
    traced: Option<Traced>,
}

impl Stage {
    /// Makes the folder and the agent.
    async fn set(args: &Demo, folder: PathBuf) -> Result<Self, Failure> {
        let work = prepare(&folder).map_err(|error| {
            Failure::Failed(format!("cannot write to {}: {error}", folder.display()))
        })?;
        let sessions = Files::new(folder.join("sessions"), Durability::Process);
        let environment = Environment::read()
            .map_err(|error| Failure::Usage(format!("cannot tell the directory: {error}")))?;
        let environment = Environment { cwd: work.clone(), ..environment };
        let mut runtime = Runtime::new(environment, &args.settings.said())?;
        let model = match (&args.model, args.which) {
            (Some(name), _) => Some(runtime.pick(Some(name)).await?),
            (None, Demonstration::Agentic) => runtime.embedded(),
            (None, Demonstration::PlanExecute) => None,
        };
        let is_scripted = model.is_none();
        let (what, model) = match model {
            Some(model) => {
                (format!("The model is {}/{}.", model.name.provider, model.name.model), model)
            }
            None => {
                let script = Arc::new(match args.which {
                    Demonstration::Agentic => script(),
                    Demonstration::PlanExecute => planning_script(),
                });
                let name = ModelName::parse(&script.info().id())?;
                runtime = runtime.with_model(script);
                ("The model of this demonstration is a script.".to_owned(), name.into())
            }
        };
        let agent = runtime.agent(&Choice {
            agent: DEFAULT_AGENT.to_owned(),
            model,
            limits: runtime.config.limits.headless(),
            ephemeral: true,
            attended: false,
            instructions: String::new(),
            skills: Skills::default(),
            output_schema: None,
        })?;
        let orchestrator: Arc<dyn Orchestrator> = match args.which {
            Demonstration::Agentic => Arc::new(React),
            Demonstration::PlanExecute => Arc::new(PlanExecute::default()),
        };
        let mut agent = Agent { store: Arc::new(sessions.clone()), orchestrator, ..agent };
        let traced = trace::begin(&runtime, &mut agent);
        let has_commands = agent.tools.names().any(|name| name == Bash::NAME);
        let tasks = if has_commands { MENDING } else { SMALL };
        Ok(Self { what, folder, work, sessions, tasks, agent, runtime, is_scripted, traced })
    }

    /// Returns how many tasks must be done for the demonstration to have succeeded: of a script, which
    /// cannot be wrong, all; of a model, which may be, one.
    fn enough(&self) -> usize {
        if self.is_scripted { self.tasks.len() } else { 1 }
    }
}

/// Makes the folder in which the tasks are to be done.
fn prepare(folder: &Path) -> io::Result<PathBuf> {
    let work = folder.join("work");
    fs::create_dir_all(&work)?;
    for (name, text) in FILES {
        fs::write(work.join(name), text)?;
    }
    Ok(work)
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
        EventBody::PlanCreated { count, steps } => {
            writeln!(out, "* a plan of {count} steps")?;
            steps
                .iter()
                .try_for_each(|step| writeln!(out, "  {} {}", step.tool, step.args.as_str()))
        }
        EventBody::Text { text, .. } => writeln!(out, "{text}"),
        _ => Ok(()),
    }
}

/// The files of the scratch folder.
const FILES: [(&str, &str); 5] = [
    ("average.sh", AVERAGE),
    ("test.sh", TEST),
    ("numbers.txt", "3\n8\n10\n"),
    ("config.toml", "name = \"apollo\"\nport = 8080\nversion = \"2.3.1\"\n"),
    ("garden.md", "# Garden\nTomatoes by the wall.\nWater the tomatoes every evening.\n"),
];

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
        Reply::from_fn(report),
    ])
}

/// The script that plans. Its first plan misquotes the file, so that a step fails and it plans anew.
fn planning_script() -> ScriptedModel {
    ScriptedModel::new([
        Reply::text(
            r#"{"steps":[
            {"tool":"read","args":{"path":"average.sh"}},
            {"tool":"edit","args":{"path":"average.sh","old_string":"count = 1","new_string":"count = 0"}},
            {"tool":"bash","args":{"command":"bash test.sh"}}]}"#,
        ),
        Reply::text(
            r#"{"steps":[
            {"tool":"edit","args":{"path":"average.sh","old_string":"count=1\n","new_string":"count=0\n"}},
            {"tool":"bash","args":{"command":"bash test.sh"}}]}"#,
        ),
        Reply::from_fn(report),
    ])
}

fn report(request: &Request) -> Reply {
    match has_passed(request) {
        true => Reply::text("The average was divided by one too many; now the test passes."),
        false => Reply::text("I changed the count, but the test still fails."),
    }
}

fn has_passed(request: &Request) -> bool {
    match request.messages.last().map(|message| &**message) {
        Some(Message::Results(results)) => {
            results.iter().any(|result| text_of(&result.content).starts_with("ok:"))
        }
        Some(Message::User(_) | Message::Assistant(_)) | None => false,
    }
}
