//! `bowline agents`: which agents there are, what is configured of them, and whether it can be.

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::agents::overview::{self, Checked, Listed, Shown};
use bowline_runtime::environment::Environment;
use serde_json::json;

use crate::args::{AgentCommand, Agents};
use crate::exit::{self, Failure};
use crate::screen;
use crate::sessions::printed;
use bowline_runtime::plain::line;

/// Runs a command about agents.
pub(crate) fn run(args: &Agents) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let said = args.settings.said();
    if let AgentCommand::Check { json } = &args.command {
        // This must work when the configuration is broken.
        return check(&overview::check(&environment, &said)?, *json);
    }
    let runtime = Runtime::new(environment, &said)?;
    for note in &runtime.loaded.notes {
        let _ = writeln!(screen::err(), "bowline: {note}");
    }
    let mut out = screen::out();
    printed(match &args.command {
        AgentCommand::List { json: true } => writeln!(out, "{}", json!(overview::list(&runtime)?)),
        AgentCommand::List { json: false } => lines(&overview::list(&runtime)?, &mut out),
        AgentCommand::Show { name, json: true } => {
            writeln!(out, "{}", json!(overview::show(&runtime, name)?))
        }
        AgentCommand::Show { name, json: false } => {
            page(&overview::show(&runtime, name)?, &mut out)
        }
        AgentCommand::Check { .. } => Ok(()),
    })
}

fn lines(agents: &[Listed], out: &mut impl Write) -> io::Result<()> {
    let width = |text: fn(&Listed) -> &str| {
        agents.iter().map(|agent| text(agent).chars().count()).max().unwrap_or(0)
    };
    let (names, models) = (width(|agent| &agent.name), width(model));
    for agent in agents {
        let Listed { from, is_applied, is_entry, tools, .. } = agent;
        // What a project brings says what it likes.
        let (name, description) = (line(&agent.name), line(&agent.description));
        let mark = match (is_applied, is_entry) {
            (false, _) => " (does not count: the folder is not trusted)",
            (true, true) => " (takes the prompt)",
            (true, false) => "",
        };
        let (model, tools) = (model(agent), tools.len());
        let noun = if tools == 1 { "tool " } else { "tools" };
        writeln!(out, "{name:names$}  {model:models$}  {tools:2} {noun}  {from}{mark}")?;
        if !description.is_empty() {
            writeln!(out, "    {description}")?;
        }
    }
    Ok(())
}

/// Says which model an agent asks, as far as it is known before it runs.
fn model(agent: &Listed) -> &str {
    agent.model.as_deref().unwrap_or("-")
}

fn page(shown: &Shown, out: &mut impl Write) -> io::Result<()> {
    let Shown { listed, instructions, settings } = shown;
    writeln!(out, "# {}, {}", line(&listed.name), listed.from)?;
    if !listed.is_applied {
        writeln!(out, "# does not count: the folder is not trusted; see `bowline trust`")?;
    }
    writeln!(out, "# tools: {}", listed.tools.join(", "))?;
    for setting in settings {
        writeln!(out, "{} = {}  # {}", setting.key, setting.value, setting.from)?;
    }
    match instructions.trim() {
        "" => writeln!(out, "\n# instructions: bowline's own"),
        text => writeln!(out, "\n{text}"),
    }
}

fn check(checked: &Checked, json: bool) -> Result<ExitCode, Failure> {
    let Checked { agents, notes, faults, rules: _ } = checked;
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let mut out = screen::out();
    printed(match (json, faults.as_slice()) {
        (true, _) => {
            writeln!(out, "{}", json!({ "agents": agents, "notes": notes, "faults": faults }))
        }
        (false, []) => writeln!(out, "{}: nothing is wrong", agents.join(", ")),
        (false, _) => Ok(()),
    })?;
    if !json {
        for line in notes.iter().chain(&faults) {
            let _ = writeln!(screen::err(), "bowline: {line}");
        }
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::USAGE) })
}
