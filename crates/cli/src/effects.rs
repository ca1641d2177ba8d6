//! `bowline effects`: what changes an agent's conversation, and with which parameters.

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::effects::{self, About, EffectConfig, Parameter};
use bowline_runtime::environment::Environment;
use serde_json::json;

use crate::args::Effects;
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

/// Prints the effects of the agent that takes the prompt, or all that there are.
pub(crate) fn run(args: &Effects) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    let effects: Vec<About> = match args.all {
        true => effects::known(),
        false => {
            let name = args.agent.as_deref().unwrap_or(runtime.entry_agent());
            runtime.agent_config(name)?.effects().iter().map(EffectConfig::about).collect()
        }
    };
    let mut out = screen::out();
    printed(match args.json {
        true => writeln!(out, "{}", json!(effects)),
        false => lines(&effects, &mut out),
    })
}

fn lines(effects: &[About], out: &mut impl Write) -> io::Result<()> {
    if effects.is_empty() {
        writeln!(out, "no effects")?;
    }
    for (at, effect) in effects.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}: {}", effect.kind, effect.what)?;
        let widest = effect.parameters.iter().map(|one| setting(one).chars().count()).max();
        let widest = widest.unwrap_or(0).min(40);
        for parameter in &effect.parameters {
            let is_default = parameter.value == parameter.default;
            let default = match is_default {
                true => String::new(),
                false => format!(" (default {})", parameter.default),
            };
            writeln!(out, "  {:widest$}  {}{default}", setting(parameter), parameter.what)?;
        }
    }
    Ok(())
}

fn setting(parameter: &Parameter) -> String {
    format!("{} = {}", parameter.name, parameter.value)
}
