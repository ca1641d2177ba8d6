//! `bowline reflections`: what agents remember of tasks that failed.

use std::io::Write;
use std::process::ExitCode;

use bowline_agent::Redaction;
use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_runtime::reflections::{Note, Reflections};
use serde_json::{Value, json};

use crate::args::{self, ReflectionCommand};
use crate::exit::Failure;
use crate::print;
use crate::screen;
use crate::sessions::printed;
use crate::skills::first_words;
use bowline_runtime::plain::{self, line};

/// Runs a command about reflections.
pub(crate) fn run(args: &args::Reflections) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    // What is there is shown to whom it belongs.
    let reflections = runtime.reflections(Redaction::default());
    match &args.command {
        ReflectionCommand::List { json } => list(&reflections, *json),
        ReflectionCommand::Show { name, json } => show(&reflections, name, *json),
        ReflectionCommand::Delete { name, json } => delete(&reflections, name, *json),
    }
}

fn list(reflections: &Reflections, json: bool) -> Result<ExitCode, Failure> {
    let listed = reflections.list();
    let mut out = screen::out();
    if json {
        let document = json!({
            "folder": reflections.folder(),
            "reflections": listed.notes.iter().map(about).collect::<Vec<_>>(),
            "refused": listed.refused,
        });
        return printed(writeln!(out, "{document}"));
    }
    for refused in &listed.refused {
        let file = line(&refused.file.display().to_string());
        print::note(&format!("left out: {file}: {}", refused.what));
    }
    if listed.notes.is_empty() {
        return printed(writeln!(out, "no reflections"));
    }
    let widest =
        listed.notes.iter().map(|note| note.name.chars().count()).max().unwrap_or_default();
    let lines = listed.notes.iter().map(|note| {
        let task = first_words(&line(&note.task));
        format!("{:widest$}  {task}", line(&note.name)).trim_end().to_owned()
    });
    printed(writeln!(out, "{}", lines.collect::<Vec<_>>().join("\n")))
}

fn show(reflections: &Reflections, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let notes = reflections.list().notes;
    let note = notes.iter().find(|note| note.name == name).ok_or_else(|| unknown(name))?;
    let mut out = screen::out();
    printed(match json {
        true => writeln!(out, "{}", json!(note)),
        false => writeln!(out, "{}", plain::text(note.text.trim_end())),
    })
}

fn delete(reflections: &Reflections, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let is_deleted = reflections
        .delete(name)
        .map_err(|error| Failure::Failed(format!("cannot delete {name}: {error}")))?;
    if !is_deleted {
        return Err(unknown(name));
    }
    let mut out = screen::out();
    printed(match json {
        true => writeln!(out, "{}", json!({ "deleted": name })),
        false => writeln!(out, "deleted {}", line(name)),
    })
}

fn unknown(name: &str) -> Failure {
    Failure::Usage(format!("there is no reflection {name:?}; see `bowline reflections list`"))
}

/// Says what is known of a note, without its text.
fn about(note: &Note) -> Value {
    let mut about = json!(note);
    if let Some(about) = about.as_object_mut() {
        about.remove("text");
    }
    about
}
