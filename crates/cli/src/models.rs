//! `bowline models`: what can be used now, and why the rest cannot.

use std::io::{self, Write};
use std::process::ExitCode;

use bowline_runtime::Runtime;
use bowline_runtime::environment::Environment;
use bowline_runtime::models::{self, Usable};
use serde_json::json;

use crate::args::Models;
use crate::exit::Failure;
use crate::screen;
use crate::sessions::printed;

/// Looks at everything and prints what was found.
pub(crate) async fn run(args: &Models) -> Result<ExitCode, Failure> {
    let environment = Environment::read()
        .map_err(|error| Failure::Usage(format!("cannot tell the current directory: {error}")))?;
    let runtime = Runtime::new(environment, &args.settings.said())?;
    let models = models::list(&runtime).await;
    let mut out = screen::out();
    printed(match args.json {
        true => writeln!(out, "{}", json!(models)),
        false => lines(&models, &mut out),
    })
}

fn lines(models: &models::Models, out: &mut impl Write) -> io::Result<()> {
    let widest = models.usable.iter().map(|model| model.name.chars().count()).max().unwrap_or(0);
    for model in &models.usable {
        let mark = if model.is_default { '*' } else { ' ' };
        let facts = facts(model);
        writeln!(out, "{mark} {:widest$}  {facts}; {}", model.name, model.why)?;
    }
    if models.usable.is_empty() {
        writeln!(out, "no model can be used now")?;
    }
    for provider in &models.unusable {
        writeln!(out, "- {}: {}; {}", provider.provider, provider.why, provider.fix)?;
    }
    Ok(())
}

/// Returns what is known of a model, in one line.
fn facts(model: &Usable) -> String {
    let window = match model.context_window {
        Some(window) => format!("{window} tokens"),
        None => "window unknown".to_owned(),
    };
    let price = match model.price {
        Some(price) => format!("${} in, ${} out per million", price.input, price.output),
        None => "price unknown".to_owned(),
    };
    format!("{window}, {price}")
}
