//! `bowline mcp`: the servers that bring tools.

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_runtime::mcp::Configured;
use bowline_tools::mcp::{Report, State};
use serde_json::json;

use crate::args::{Mcp, McpCommand};
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;
use bowline_runtime::plain;

/// Lists servers, or looks whether they can be used.
pub(crate) async fn run(args: &Mcp) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    match args.command {
        McpCommand::List { json } => list(&runtime.servers(), json),
        McpCommand::Check { json } => {
            let reports = runtime.check_servers().await;
            let code = check(&reports, json);
            runtime.close().await;
            code
        }
    }
}

fn list(servers: &[Configured], json: bool) -> Result<ExitCode, Failure> {
    let mut out = screen::out();
    printed(match json {
        true => writeln!(out, "{}", json!(servers)),
        false => servers.iter().try_for_each(|server| configured(server, &mut out)),
    })
}

fn configured(server: &Configured, out: &mut impl Write) -> io::Result<()> {
    let Configured { name, reach, enabled, place, is_applied } = server;
    let state = match (is_applied, enabled) {
        (false, _) => " (not applied: the folder is not trusted; see `bowline trust`)",
        (true, false) => " (disabled)",
        (true, true) => "",
    };
    writeln!(out, "{}", plain::text(&format!("{name}: {reach}{state}  # {place}")))
}

fn check(reports: &[Report], json: bool) -> Result<ExitCode, Failure> {
    let mut out = screen::out();
    printed(match json {
        true => writeln!(out, "{}", json!(reports)),
        false => reports.iter().try_for_each(|report| reported(report, &mut out)),
    })?;
    let is_fine = reports.iter().all(|report| report.state == State::Ready);
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Whatever a server says of itself is only text.
fn reported(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let Report { name, state, server, tools, left_out, changed, has_resources, took_ms, aside } =
        report;
    let mut lines = Vec::new();
    match state {
        State::Ready => {
            let bytes: usize = tools.iter().map(|tool| tool.bytes).sum();
            let resources = if *has_resources { ", resources" } else { "" };
            let count = tools.len();
            lines.push(format!(
                "ok       {name}: {server}, {count} tools ({bytes} bytes){resources}, after {took_ms} ms"
            ));
            lines.extend(tools.iter().map(|tool| format!("         {}", tool.name)));
            lines.extend(left_out.iter().chain(changed).map(|line| format!("         ! {line}")));
        }
        State::Failed(why) => lines.push(format!("PROBLEM  {name}: {why}")),
        State::Starting => lines.push(format!("PROBLEM  {name}: it is still starting")),
    }
    lines.extend(aside.lines().map(|line| format!("         | {line}")));
    lines.iter().try_for_each(|line| writeln!(out, "{}", plain::text(line)))
}
