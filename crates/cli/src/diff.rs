//! `bowline diff`: what a session changed in files.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use bowline_agent::id::SessionId;
use bowline_agent::visible;
use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_store::Files;
use bowline_tools::undo::{Plan, Undo, UndoError, View};
use serde_json::{Value, json};

use crate::args;
use crate::args::undo::Diff;
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

/// Runs the command.
pub(crate) fn run(args: &Diff) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    let store = runtime.sessions();
    let id = session(&runtime, &store, args.session.as_deref())?;
    let Some(mut undo) = recorded(&runtime, id)? else {
        return printed(match args.json {
            true => writeln!(screen::out(), "{}", json!({ "session": id, "files": [] })),
            false => Ok(()),
        });
    };
    let all = undo.all();
    let plan = undo.plan(&all).map_err(failed)?;
    for left_out in &plan.left_out {
        let shown = shown(Path::new(&left_out.path));
        // Nobody is left to tell if that fails.
        let _ = writeln!(screen::err(), "bowline: not recorded: {shown}: {}", left_out.why);
    }
    if args.json {
        let numbers = undo.diff(&plan, View::Numbers).map_err(failed)?;
        let root = undo.root().to_string_lossy();
        let left_out = &plan.left_out;
        let files = files(&plan, &numbers);
        let line = json!({ "session": id, "root": root, "files": files, "left_out": left_out });
        return printed(writeln!(screen::out(), "{line}"));
    }
    let view = if args.stat { View::Stat } else { View::Patch };
    let text = undo.diff(&plan, view).map_err(failed)?;
    // A diff has colours, and whoever does not look at it gets it as it is.
    let mut out = screen::as_it_is();
    printed(match out.is_terminal() {
        true => out.write_all(coloured(&String::from_utf8_lossy(&text)).as_bytes()),
        // So that it can be applied.
        false => out.write_all(&text),
    })
}

/// Finds the session that is meant.
pub(crate) fn session(
    runtime: &Runtime,
    store: &Files,
    name: Option<&str>,
) -> Result<SessionId, Failure> {
    if let Some(name) = name {
        return args::resolve(store, name);
    }
    let cwd = runtime.environment.cwd.to_string_lossy();
    let none = || Failure::Usage(format!("there is no session of {cwd}"));
    Ok(store.newest(&cwd)?.ok_or_else(none)?.id)
}

/// Opens what is recorded of a session's files, if anything is.
pub(crate) fn recorded(runtime: &Runtime, id: SessionId) -> Result<Option<Undo>, Failure> {
    let none = || Failure::Failed("git is not installed".to_owned());
    let git = runtime.git().ok_or_else(none)?;
    Undo::existing(&runtime.undo_of(id), &git).map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` has")]
pub(crate) fn failed(error: UndoError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Returns a path on one line, with nothing in it that cannot be seen.
pub(crate) fn shown(path: &Path) -> String {
    visible::on_one_line(&path.to_string_lossy()).into_owned()
}

fn coloured(text: &str) -> String {
    let colour = |line: &str| match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => Some(1),
        [b'+', ..] => Some(32),
        [b'-', ..] => Some(31),
        [b'@', b'@', ..] => Some(36),
        _ => None,
    };
    let lines = text.lines().map(|line| match colour(line) {
        Some(colour) => format!("\u{1b}[{colour}m{}\u{1b}[0m\n", visible::on_a_terminal(line)),
        None => format!("{}\n", visible::on_a_terminal(line)),
    });
    lines.collect()
}

/// Returns what is told of each file.
fn files(plan: &Plan, numbers: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(numbers);
    let mut lines: HashMap<&str, [Option<u64>; 2]> = HashMap::new();
    for line in text.split('\0') {
        let mut words = line.splitn(3, '\t');
        let (added, removed) = (words.next(), words.next());
        // What is no text has no lines.
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
        if let Some(path) = words.next() {
            lines.insert(path, [number(added), number(removed)]);
        }
    }
    let file = |change: &bowline_tools::undo::Change| {
        let path = change.path.to_string_lossy();
        let [added, removed] = lines.get(&*path).copied().unwrap_or_default();
        json!({
            "path": path,
            "status": change.kind.letter(),
            "added": added,
            "removed": removed,
            "changed_since": change.is_changed_since,
        })
    };
    plan.changes.iter().map(file).collect()
}
