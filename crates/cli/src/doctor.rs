//! `bowline doctor`: whether everything is there that is needed.

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_runtime::doctor::{self, Report, Status};
use bowline_runtime::environment::Environment;
use serde_json::json;

use crate::args::Doctor;
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

/// Looks at everything and prints what was found.
pub(crate) async fn run(args: &Doctor) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let report = doctor::examine(&environment, &args.settings.said()).await;
    let mut out = screen::out();
    let written = if args.json {
        let document = json!({ "ok": report.is_fine(), "checks": report.checks });
        writeln!(out, "{document}")
    } else {
        lines(&report, &mut out)
    };
    printed(written)?;
    Ok(if report.is_fine() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn lines(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for check in &report.checks {
        let status = match check.status {
            Status::Ok => "ok     ",
            Status::Note => "note   ",
            Status::Problem => "PROBLEM",
        };
        write!(out, "{status}  {}: {}", check.name, check.what)?;
        match &check.fix {
            Some(fix) => writeln!(out, "; {fix}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}
