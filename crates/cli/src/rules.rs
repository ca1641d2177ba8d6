//! `bowline rules`: what agents may do, and why.

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_agent::tool::{Access, PathSet};
use bowline_runtime::Runtime;
use bowline_runtime::agents::overview;
use bowline_runtime::config::Said;
use bowline_runtime::environment::Environment;
use bowline_runtime::permission::{self, Asked, Entry};
use serde_json::json;

use crate::args::{Explain, RuleCommand, Rules};
use crate::exit::{self, Failure};
use crate::screen;
use crate::sessions::printed;

/// Runs a command about rules.
pub(crate) fn run(args: &Rules) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    match &args.command {
        RuleCommand::Explain(asked) => {
            explain(&runtime(environment, &asked.rules.said(&args.settings))?, asked)
        }
        RuleCommand::List { agent, json } => {
            list(&runtime(environment, &args.settings.said())?, agent.as_deref(), *json)
        }
        RuleCommand::Check => check(&environment, &args.settings.said()),
    }
}

fn runtime(environment: Environment, said: &Said) -> Result<Runtime, Failure> {
    let runtime = Runtime::new(environment, said)?;
    for note in &runtime.loaded.notes {
        let _ = writeln!(screen::err(), "bowline: {note}");
    }
    Ok(runtime)
}

fn explain(runtime: &Runtime, asked: &Explain) -> Result<ExitCode, Failure> {
    let agent = runtime.agent_config(asked.agent.as_deref().unwrap_or(runtime.entry_agent()))?;
    let engine = runtime.engine(&agent, &[], false)?;
    let explained = permission::explain(&engine, &call(asked));
    let mode = runtime.mode_of(&agent, false).as_str();
    let mut out = screen::out();
    let result = match asked.json {
        true => {
            let mut value = json!(explained);
            value["mode"] = mode.into();
            writeln!(out, "{value}")
        }
        false => write!(out, "{explained}"),
    };
    drop(out);
    printed(result)
}

/// Makes up the call that is asked about.
fn call(asked: &Explain) -> Asked {
    let default = match (&asked.line, &asked.path, &asked.host) {
        (Some(_), _, _) => "bash",
        (None, Some(_), _) => "read",
        (None, None, Some(_)) => "fetch",
        (None, None, None) => "",
    };
    let tool = asked.tool.clone().unwrap_or_else(|| default.to_owned());
    let writes = ["write", "edit", "apply_patch"].contains(&tool.as_str());
    let paths: PathSet = asked.path.iter().cloned().collect();
    let (reads, writes) = match writes {
        true => (PathSet::default(), paths),
        false => (paths, PathSet::default()),
    };
    let network: Vec<String> = asked.host.iter().cloned().collect();
    let is_nothing = asked.line.is_none() && asked.path.is_none() && network.is_empty();
    // What is known of a tool alone is its name, and of tools of servers the worst is assumed.
    let exclusive = is_nothing && tool.starts_with("mcp__");
    let access = Access { reads, writes, execute: asked.line.clone(), network, exclusive };
    Asked { tool, access }
}

fn list(runtime: &Runtime, agent: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let agent = runtime.agent_config(agent.unwrap_or(runtime.entry_agent()))?;
    let policy = runtime.policy(&agent, false)?;
    let place = |entry: &Entry| entry.place.as_ref().map(ToString::to_string);
    let mut out = screen::out();
    let result = match json {
        true => {
            let rules = policy.entries().iter().map(|entry| {
                json!({
                    "rule": entry.rule.to_string(),
                    "decision": entry.decision,
                    "layer": entry.layer,
                    "place": place(entry),
                    "reason": entry.reason,
                    "agent": entry.is_of_agent.then_some(&agent.name),
                })
            });
            let rules: Vec<_> = rules.collect();
            let value = json!({ "mode": policy.mode().as_str(), "rules": rules });
            writeln!(out, "{value}")
        }
        false => lines(policy.entries(), policy.mode().as_str(), &mut out),
    };
    drop(out);
    printed(result)
}

fn lines(entries: &[Entry], mode: &str, out: &mut impl Write) -> io::Result<()> {
    let widest = entries.iter().map(|entry| entry.rule.to_string().chars().count()).max();
    let widest = widest.unwrap_or(0).min(48);
    for entry in entries {
        let (decision, layer) = (entry.decision.as_str(), entry.layer.as_str());
        let rule = entry.rule.to_string();
        write!(out, "{decision:5}  {rule:widest$}  {layer}")?;
        if let Some(place) = &entry.place {
            write!(out, "  {place}")?;
        }
        match &entry.reason {
            Some(reason) => writeln!(out, "  # {reason}")?,
            None => writeln!(out)?,
        }
    }
    writeln!(out, "else the permission mode {mode}")
}

/// Checks the whole configuration: rules are a part of it.
fn check(environment: &Environment, said: &Said) -> Result<ExitCode, Failure> {
    let checked = overview::check(environment, said)?;
    for fault in &checked.faults {
        let _ = writeln!(screen::err(), "bowline: {fault}");
    }
    for line in &checked.rules {
        let _ = writeln!(screen::err(), "bowline: {line}");
    }
    match checked.faults.is_empty() && checked.rules.is_empty() {
        true => printed(writeln!(screen::out(), "all rules are right")),
        false => Ok(ExitCode::from(exit::USAGE)),
    }
}
