//! `bowline hooks`: the commands that run at moments of a session.

use std::io::Write as _;
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_runtime::hooks::Hook;
use serde_json::{Value, json};

use crate::args::{HookCommand, Hooks};
use crate::exit::Failure;
use crate::print;
use crate::screen;
use crate::sessions::printed;
use bowline_runtime::plain;

/// Runs a command about hooks.
pub(crate) fn run(args: &Hooks) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    match args.command {
        HookCommand::List { json } => list(&runtime, json),
    }
}

fn list(runtime: &Runtime, json: bool) -> Result<ExitCode, Failure> {
    let (hooks, mut out) = (runtime.hooks(), screen::out());
    if json {
        let all: Vec<Value> = hooks.iter().map(about).collect();
        return printed(writeln!(out, "{}", json!({ "hooks": all })));
    }
    runtime.loaded.notes.iter().for_each(|note| print::note(note));
    if hooks.is_empty() {
        return printed(writeln!(out, "no hooks"));
    }
    let lines = hooks.iter().map(|hook| {
        let off = hook.off.map_or_else(String::new, |why| format!("  (does not run: {why})"));
        let command = plain::line(&hook.command);
        format!(
            "{:18}  {:20}  {command}  {}s{}  {}, {}{off}",
            hook.event.as_str(),
            plain::line(hook.matcher.as_str()),
            hook.timeout.as_secs_f64(),
            if hook.is_async { ", async" } else { "" },
            hook.layer.as_str(),
            plain::line(&hook.place),
        )
    });
    printed(writeln!(out, "{}", lines.collect::<Vec<_>>().join("\n")))
}

fn about(hook: &Hook) -> Value {
    json!({
        "event": hook.event,
        "matcher": hook.matcher.as_str(),
        "command": hook.command,
        "timeout": hook.timeout.as_secs_f64(),
        "async": hook.is_async,
        "layer": hook.layer.as_str(),
        "place": hook.place,
        "active": hook.off.is_none(),
        "off": hook.off,
    })
}
