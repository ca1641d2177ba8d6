//! `bowline jobs`: what goes on when bowline ends.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use bowline_agent::id::SessionId;
use bowline_agent::journal::JournalError;
use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_store::Files;
use bowline_tools::process::{Fate, Survivor};
use bowline_tools::state_of;

use crate::args::{self, JobCommand, Jobs};
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;
use bowline_runtime::plain;

/// Runs a command about jobs.
pub(crate) async fn run(args: Jobs) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let store = Runtime::new(environment, &args.settings.said())?.sessions();
    let result = match args.command {
        JobCommand::List { session, json } => {
            let sessions = match session {
                Some(session) => vec![args::resolve(&store, &session)?],
                None => store.list(None)?.map(|(id, _)| id).collect(),
            };
            list(&store, &sessions, json)
        }
        JobCommand::Output { session, job } => {
            let session = args::resolve(&store, &session)?;
            let all = named(&store, session, job.as_deref())?;
            let [job] = all.as_slice() else {
                let ids: Vec<&str> = all.iter().map(|job| job.asked().id.as_str()).collect();
                return Err(Failure::Usage(format!("say which job: {}", ids.join(", "))));
            };
            copy(job)?
        }
        JobCommand::Kill { session, job } => {
            let session = args::resolve(&store, &session)?;
            let all = named(&store, session, job.as_deref())?;
            for job in &all {
                job.end().await;
            }
            all.iter().try_for_each(|job| tell(session, job, false))
        }
    };
    printed(result)
}

/// Returns the jobs of a session that still run.
pub(crate) fn running(store: &Files, session: SessionId) -> Result<Vec<Survivor>, JournalError> {
    let mut all = of(store, session)?;
    all.retain(|job| matches!(job.fate(), Fate::Running { .. }));
    Ok(all)
}

fn of(store: &Files, session: SessionId) -> Result<Vec<Survivor>, JournalError> {
    let all = Survivor::all_in(&store.folder(session)?).into_iter();
    Ok(all.filter(Survivor::has_begun).collect())
}

/// Finds the jobs that are meant.
fn named(store: &Files, session: SessionId, job: Option<&str>) -> Result<Vec<Survivor>, Failure> {
    let mut all = of(store, session)?;
    all.retain(|known| job.is_none_or(|job| known.asked().id == job));
    match (all.is_empty(), job) {
        (false, _) => Ok(all),
        (true, Some(job)) => {
            Err(Failure::Usage(format!("session {session} has no job {job} that survives it")))
        }
        (true, None) => {
            Err(Failure::Usage(format!("session {session} has no jobs that survive it")))
        }
    }
}

fn list(store: &Files, sessions: &[SessionId], json: bool) -> io::Result<()> {
    for session in sessions {
        // One that was deleted meanwhile has none.
        let jobs = of(store, *session).unwrap_or_default();
        jobs.iter().try_for_each(|job| tell(*session, job, json))?;
    }
    Ok(())
}

/// Writes one line about a job.
fn tell(session: SessionId, job: &Survivor, json: bool) -> io::Result<()> {
    let asked = job.asked();
    let state = state_of(job);
    if json {
        let is_running = matches!(job.fate(), Fate::Running { .. });
        let line = serde_json::json!({
            "session": session,
            "job": asked.id,
            "running": is_running,
            "state": state,
            "command": asked.command,
            "output": asked.output,
        });
        return writeln!(screen::out(), "{line}");
    }
    let (state, command) = (plain::line(&state), plain::line(&asked.command));
    writeln!(screen::out(), "{session}  {}  {state}  {command}", asked.id)
}

/// Writes what a job has written: as it is, unless a terminal would act upon it.
fn copy(job: &Survivor) -> Result<io::Result<()>, Failure> {
    let path = &job.asked().output;
    let mut output = std::fs::File::open(path)
        .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.display())))?;
    let copied = match io::stdout().is_terminal() {
        true => io::copy(&mut output, &mut screen::out()),
        false => io::copy(&mut output, &mut screen::as_it_is()),
    };
    Ok(copied.map(drop))
}
