//! `bowline config`: what is configured, and where it comes from.

use std::io::Write as _;
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::config::{self, Unset};
use bowline_runtime::environment::Environment;

use crate::args::{Config, ConfigCommand};
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

/// Runs a command about the configuration.
pub(crate) fn run(args: &Config) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let said = args.settings.said();
    let text = match &args.command {
        // This must work when the configuration is broken.
        ConfigCommand::Path { all } => {
            let folders = environment.folders().ok_or(bowline_runtime::ConfigError::NoHome)?;
            let sources = config::sources(&folders, &environment, said.profile(&environment))?;
            let shown = sources.iter().filter(|source| *all || source.kind == config::Kind::User);
            shown
                .map(|source| match all {
                    true => {
                        let state = if source.path.exists() { "" } else { ", absent" };
                        let kind = source.kind.as_str();
                        format!("{}  ({kind}{state})\n", source.path.display())
                    }
                    false => format!("{}\n", source.path.display()),
                })
                .collect()
        }
        ConfigCommand::Show => {
            let runtime = loaded(environment, &said)?;
            config::show(&runtime.loaded, &runtime.environment)
        }
        ConfigCommand::Explain { key } => {
            let runtime = loaded(environment, &said)?;
            match config::explain(&runtime.loaded, &runtime.environment, key.as_deref()) {
                Ok(text) => text,
                Err(Unset::Unknown(what)) => return Err(Failure::Usage(what)),
                Err(unset @ Unset::NotSet(_)) => format!("{unset}\n"),
            }
        }
    };
    printed(screen::out().write_all(text.as_bytes()))
}

fn loaded(environment: Environment, said: &config::Said) -> Result<Runtime, Failure> {
    let runtime = Runtime::new(environment, said)?;
    for note in &runtime.loaded.notes {
        let _ = writeln!(screen::err(), "bowline: {note}");
    }
    Ok(runtime)
}
