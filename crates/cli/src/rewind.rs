//! `bowline rewind`: back to before a prompt, the conversation and the files.

mod prompts;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use bowline_agent::id::{EntryId, SessionId};
use bowline_agent::journal::JournalError;
use bowline_agent::{Agent, AgentError, SessionHandle};
use bowline_llm::ScriptedModel;
use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_store::Files;
use bowline_tools::undo::{Plan, Stretch, Turned, Undo};

use crate::args::undo::Rewind;
use crate::diff::{self, failed, shown};
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

use prompts::{Log, Point};

/// Where to go.
struct Target {
    /// What is to be taken back of the files; `None` for nothing.
    files: Option<Stretch>,
    /// From where the conversation is to go on; `None` for where it is.
    conversation: Option<Option<EntryId>>,
}

/// Runs the command.
pub(crate) async fn run(args: &Rewind) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    let store = runtime.sessions();
    let id = diff::session(&runtime, &store, args.session.as_deref())?;
    let log = Log::read(&store, id)?;
    if args.list {
        return printed(list(&log));
    }
    if !(args.yes || args.dry_run || io::stdin().is_terminal()) {
        let why = "nobody is there to be asked: say --yes, or --dry-run to look first";
        return Err(Failure::Usage(why.to_owned()));
    }
    // Whoever has it writes to no file meanwhile.
    let handle = match args.dry_run {
        true => None,
        false => Some(take(&store, id).await?),
    };
    let undo = match args.conversation_only {
        true => None,
        false => diff::recorded(&runtime, id)?,
    };
    let target = target(args, &log, undo.as_ref())?;
    let code = go(args, &target, undo, handle.as_ref()).await;
    if let Some(handle) = handle {
        handle.close().await;
    }
    code
}

fn list(log: &Log) -> io::Result<()> {
    let mut out = screen::out();
    for (index, prompt) in log.prompts.iter().enumerate() {
        let at = prompt.at.strftime("%Y-%m-%d %H:%M");
        let text: String =
            prompt.text.lines().next().unwrap_or_default().chars().take(80).collect();
        writeln!(out, "{:>3}  {at}  {}", index + 1, shown(text.as_ref()))?;
    }
    Ok(())
}

/// Takes the session, so that nobody else goes on with it; a run that a crash has left open is ended.
async fn take(store: &Files, id: SessionId) -> Result<SessionHandle, Failure> {
    // It is asked nothing.
    let model = Arc::new(ScriptedModel::new([]));
    let agent = Agent { store: Arc::new(store.clone()), ..Agent::new(model) };
    let handle = match agent.resume(id).await {
        Ok(handle) => handle,
        Err(AgentError::Journal(error @ JournalError::Busy { .. })) => {
            let way = format!("end it, or bowline sessions post {id} --cancel");
            return Err(Failure::Usage(format!("a run is open: {error}; {way}")));
        }
        Err(error) => return Err(error.into()),
    };
    if handle.state().run.is_some() {
        handle.cancel();
        if let Some(run) = handle.continue_run().await? {
            run.await?;
        }
    }
    Ok(handle)
}

fn target(args: &Rewind, log: &Log, undo: Option<&Undo>) -> Result<Target, Failure> {
    if args.undo {
        let none = || Failure::Usage("no rewind of this session is recorded".to_owned());
        let (files, turned) = undo.and_then(Undo::last_restored).ok_or_else(none)?;
        let conversation = turned.map(|turned| turned.from);
        return Ok(Target { files: Some(files), conversation });
    }
    let point: Point = match (&args.to, args.prompts) {
        (Some(name), _) => log.find(name)?,
        (None, prompts) => log.back(prompts.unwrap_or(1))?,
    };
    let is_after = |agent, call: &_| log.is_after(point, agent, call);
    Ok(Target {
        files: undo.map(|undo| undo.since(is_after)),
        conversation: (!args.files_only).then_some(point.entry),
    })
}

/// Shows what is to be done, and does it.
async fn go(
    args: &Rewind,
    target: &Target,
    undo: Option<Undo>,
    handle: Option<&SessionHandle>,
) -> Result<ExitCode, Failure> {
    let mut files = None;
    if let (Some(mut undo), Some(stretch)) = (undo, &target.files) {
        let plan = undo.plan(stretch).map_err(failed)?;
        tell(&plan, args.force).map_err(unprinted)?;
        files = Some((undo, plan));
    }
    if target.conversation.is_some() {
        writeln!(screen::out(), "the conversation goes back").map_err(unprinted)?;
    }
    let Some(handle) = handle else { return Ok(ExitCode::SUCCESS) };
    if !(args.yes || agreed().map_err(unprinted)?) {
        return Ok(ExitCode::from(1));
    }
    let from = handle.state().head;
    if let Some((undo, plan)) = &mut files {
        let turned = target.conversation.map(|to| Turned { from, to });
        let restored = undo.restore(plan, args.force, turned).map_err(failed)?;
        for path in &restored.blocked {
            let path = shown(path);
            writeln!(screen::err(), "bowline: something is in the way of {path}")
                .map_err(unprinted)?;
        }
    }
    if let Some(to) = target.conversation {
        handle.rewind(to).await?;
    }
    let id = handle.session_id();
    let back = match (&files, from) {
        (Some(_), _) => format!("bowline rewind {id} --undo"),
        (None, Some(from)) => format!("bowline rewind {id} --conversation-only --to {from}"),
        (None, None) => return Ok(ExitCode::SUCCESS),
    };
    printed(writeln!(screen::out(), "done; to take it back: {back}"))
}

/// Says what becomes of which file.
fn tell(plan: &Plan, is_forced: bool) -> io::Result<()> {
    let mut out = screen::out();
    for change in &plan.changes {
        let (letter, path) = (change.kind.reversed().letter(), shown(&change.path));
        match change.is_changed_since && !is_forced {
            true => writeln!(out, "left alone: {path} (changed since; --force takes it back too)")?,
            false => writeln!(out, "{letter} {path}")?,
        }
    }
    for left_out in &plan.left_out {
        let path = shown(left_out.path.as_ref());
        writeln!(out, "not recorded: {path} ({})", left_out.why)?;
    }
    Ok(())
}

fn agreed() -> io::Result<bool> {
    write!(screen::out(), "go back? [y/N] ")?;
    screen::out().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` has")]
fn unprinted(error: io::Error) -> Failure {
    Failure::Failed(format!("cannot speak to you: {error}"))
}
