//! `bowline sessions`: list, show, check and delete sessions, and say something to one.

mod decide;
mod tree;

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_agent::Projection;
use bowline_agent::entry::{CallStatus, Entry, EntryKind};
use bowline_agent::event::EventBody;
use bowline_agent::id::{OpId, SessionId, Source as _, SystemSource};
use bowline_agent::journal::{JournalError, Pos, Store as _};
use bowline_agent::op::{CancelReason, Input, Op, OpKind};
use bowline_agent::visible;
use bowline_llm::{Message, Part};
use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_server::dialect::{Dialect, Lines, Scene};
use bowline_store::Files;
use bowline_store::files::{RunState, Summary};

use crate::args::{self, Format, SessionCommand, Sessions};
use crate::exit::Failure;
use crate::jobs;
use crate::screen;
use bowline_runtime::plain;

/// Runs a command about sessions.
pub(crate) async fn run(args: Sessions) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    let store = runtime.sessions();
    let result = match args.command {
        SessionCommand::List { here, json } => {
            let cwd = here.then(|| runtime.environment.cwd.to_string_lossy());
            list(store.list(cwd.as_deref())?, json)
        }
        SessionCommand::Show { id, tree: true, json, .. } => {
            tree::show(&store, args::resolve(&store, &id)?, json)?
        }
        SessionCommand::Show { id, json, output_format, .. } => {
            let id = args::resolve(&store, &id)?;
            match args::format(json, output_format) {
                Format::Text => show(&store, id)?,
                Format::Lines(dialect) => translate(&store, id, dialect)?,
            }
        }
        SessionCommand::Delete { id } => {
            let id = args::resolve(&store, &id)?;
            let running = jobs::running(&store, id)?.len();
            if running > 0 {
                return Err(Failure::Usage(format!(
                    "{running} job(s) of session {id} still run; end them first: bowline jobs kill {id}"
                )));
            }
            store.delete(id)?;
            runtime.forget_undo(id).map_err(|error| Failure::Failed(error.to_string()))?;
            writeln!(screen::out(), "deleted {id}")
        }
        SessionCommand::Verify { id } => return verify(&store, id.as_deref()),
        SessionCommand::Post { id, text, steer, follow_up, pin, compact, cancel } => {
            let id = args::resolve(&store, &id)?;
            let input = || Input::from(text.clone().unwrap_or_default());
            let kind = if cancel {
                OpKind::Cancel { reason: CancelReason::User, run: None }
            } else if compact {
                OpKind::Compact { focus: text.clone() }
            } else if steer {
                OpKind::Steer(input())
            } else if follow_up {
                OpKind::FollowUp(input())
            } else if pin {
                OpKind::Pin(input())
            } else {
                OpKind::Queue(input())
            };
            let op = Op { id: OpId::new(&SystemSource), to: None, at: SystemSource.now(), kind };
            let posted = op.id;
            store.inbox(id).post(op).await?;
            writeln!(screen::out(), "posted {posted}")
        }
        SessionCommand::Decide(args) => decide::run(&store, args).await?,
    };
    printed(result)
}

/// A reader that went away is no failure.
pub(crate) fn printed(result: io::Result<()>) -> Result<ExitCode, Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("cannot write to stdout: {error}")))
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

fn list(
    sessions: impl Iterator<Item = (SessionId, Result<Summary, JournalError>)>,
    json: bool,
) -> io::Result<()> {
    let mut out = screen::out();
    for (id, session) in sessions {
        let session = match session {
            Ok(session) => session,
            Err(error) if json => {
                let line = serde_json::json!({ "id": id, "error": error.to_string() });
                writeln!(out, "{line}")?;
                continue;
            }
            Err(error) => {
                writeln!(out, "{id}  cannot be read: {error}")?;
                continue;
            }
        };
        let run = match &session.run {
            RunState::None => "-",
            RunState::Open => "open",
            RunState::Ended(ending) => ending.as_str(),
        };
        let preview = session.preview.as_deref().unwrap_or_default();
        if json {
            let line = serde_json::json!({
                "id": session.id,
                "created": session.created,
                "updated": session.updated,
                "cwd": session.cwd,
                "model": session.model,
                "run": run,
                "entries": session.entries,
                "bytes": session.bytes,
                "preview": preview,
            });
            writeln!(out, "{line}")?;
        } else {
            let updated = session.updated.strftime("%Y-%m-%d %H:%M");
            writeln!(out, "{}  {updated}  {run:<14}  {}", session.id, plain::line(preview))?;
        }
    }
    Ok(())
}

fn show(store: &Files, id: SessionId) -> Result<io::Result<()>, Failure> {
    let mut out = screen::out();
    let mut projection = Projection::new(id);
    for commit in store.read(id, Pos(0))? {
        let commit = commit?;
        for (pos, entry) in (commit.pos.0..).map(Pos).zip(&commit.entries) {
            let events = projection.apply(pos, entry);
            let depth = events.first().map_or(0, |event| event.agent.depth);
            let written = events
                .iter()
                .try_for_each(|event| tell(&mut out, depth, &event.body))
                .and_then(|()| note(&mut out, depth, entry));
            if let Err(error) = written {
                return Ok(Err(error));
            }
        }
    }
    Ok(Ok(()))
}

/// Writes a session as its events would have been written while it was lived.
fn translate(store: &Files, id: SessionId, dialect: Dialect) -> Result<io::Result<()>, Failure> {
    let mut out = screen::out();
    let mut projection = Projection::new(id);
    let (mut translator, mut scene) = (dialect.translator(), Scene::default());
    let mut lines = Lines::default();
    for commit in store.read(id, Pos(0))? {
        let commit = commit?;
        for (pos, entry) in (commit.pos.0..).map(Pos).zip(&commit.entries) {
            if scene.learn(id, entry) {
                translator.set_scene(&scene);
            }
            let events = projection.apply(pos, entry);
            events.iter().for_each(|event| translator.event(event, &mut lines));
            if let Err(error) = lines.drain().try_for_each(|line| writeln!(out, "{line}")) {
                return Ok(Err(error));
            }
        }
    }
    Ok(Ok(()))
}

/// Writes what an event tells a person.
fn tell(out: &mut impl Write, depth: u32, body: &EventBody) -> io::Result<()> {
    let indent = "  ".repeat(usize::try_from(depth).unwrap_or_default());
    match body {
        EventBody::MessageAdded { message } => match &**message {
            Message::User(said) => said
                .content
                .iter()
                .try_for_each(|part| writeln!(out, "{indent}user: {}", shown(part))),
            Message::Assistant(_) | Message::Results(_) => Ok(()),
        },
        EventBody::Text { text, .. } => {
            writeln!(out, "{indent}assistant: {}", plain::text(text.trim_end()))
        }
        EventBody::ToolCall { name, arguments } => {
            writeln!(out, "{indent}call: {} {}", plain::line(name), visible::in_lines(arguments))
        }
        EventBody::ToolEnd { name, status, content, .. } => {
            let what = if *status == CallStatus::Ok { "result" } else { status.as_str() };
            content.iter().try_for_each(|part| {
                writeln!(out, "{indent}{what} of {}: {}", plain::line(name), shown(part))
            })
        }
        EventBody::AgentStart { .. } => writeln!(out, "{indent}sub-agent starts"),
        EventBody::LimitHit { limit } => writeln!(out, "{indent}limit {}", limit.as_str()),
        EventBody::RunEnd(end) => {
            let usage = end.spent.usage;
            let cost = end.spent.cost().map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
            writeln!(
                out,
                "{indent}run {}: {} tokens in, {} out{cost}",
                end.outcome.as_str(),
                usage.input,
                usage.output
            )
        }
        _ => Ok(()),
    }
}

/// Writes what no event tells: what waits undelivered.
fn note(out: &mut impl Write, depth: u32, entry: &Entry) -> io::Result<()> {
    let indent = "  ".repeat(usize::try_from(depth).unwrap_or_default());
    let EntryKind::Posted(op) = &entry.kind else { return Ok(()) };
    let Some(input) = op.kind.input() else { return Ok(()) };
    input.0.content.iter().try_for_each(|part| writeln!(out, "{indent}posted: {}", shown(part)))
}

fn shown(part: &Part) -> String {
    match part {
        Part::Text(text) => plain::text(text.trim_end()),
        Part::Image(media) | Part::Document(media) => {
            format!("[{}]", plain::line(&media.media_type))
        }
        Part::Stored(stored) => format!("[{} bytes, sha256 {}]", stored.bytes, stored.hash),
    }
}

fn verify(store: &Files, id: Option<&str>) -> Result<ExitCode, Failure> {
    let reports: Vec<_> = match id {
        Some(id) => {
            let id = args::resolve(store, id)?;
            vec![(id, store.verify(id))]
        }
        None => store.verify_all()?.collect(),
    };
    let mut out = screen::out();
    let mut is_sound = true;
    for (id, report) in reports {
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                is_sound = false;
                if writeln!(out, "{id}  cannot be read: {error}").is_err() {
                    break;
                }
                continue;
            }
        };
        is_sound &= report.is_sound();
        let line = match &report.problem {
            Some(problem) => format!("CORRUPT line {}: {}", problem.line, problem.reason),
            None if !report.is_sound() => format!(
                "DAMAGED: {} large bodies missing, {} altered",
                report.missing_blobs.len(),
                report.altered_blobs.len()
            ),
            None => match report.torn_line {
                Some(line) => format!("ok; line {line} is torn and will be cut off on opening"),
                None => "ok".to_owned(),
            },
        };
        let (commits, entries) = (report.commits, report.entries);
        if writeln!(out, "{}  {commits} commits, {entries} entries  {line}", report.session)
            .is_err()
        {
            break;
        }
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
