//! The dialects: what they say of sessions (`golden`), that the log says the same (`live`), and that
//! they are total (`total`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod callbacks;
mod golden;
mod live;
mod scenes;
mod total;

use bowline_server::dialect::{Dialect, Lines, Scene, Translator};
use serde_json::Value;

/// Makes a translator that knows where its events happen.
fn translator(dialect: Dialect) -> Box<dyn Translator> {
    let mut translator = dialect.translator();
    let tools = vec!["bash".to_owned(), "edit".to_owned()];
    translator.set_scene(&Scene { cwd: Some("/work".to_owned()), tools });
    translator
}

/// Returns the lines that an event adds.
fn say(translator: &mut dyn Translator, event: &bowline_agent::event::Event) -> Vec<String> {
    let mut lines = Lines::default();
    translator.event(event, &mut lines);
    lines.drain().collect()
}

/// Tells whether a line ends a run of the session's first agent.
fn is_terminal(dialect: Dialect, line: &Value) -> bool {
    let is =
        |key: &str, names: &[&str]| line[key].as_str().is_some_and(|name| names.contains(&name));
    match dialect {
        Dialect::Bowline => {
            is("type", &["run_end", "rejected", "run_lost"]) && line["agent"]["depth"] == 0
        }
        Dialect::Shelly => is("kind", &["agent_end"]) && line["data"]["Parent"] == "",
        Dialect::Pingu => is("type", &["done", "error"]),
        Dialect::Codalotl => {
            is("Type", &["done_success", "canceled", "error"]) && line["Agent"]["Depth"] == 0
        }
        Dialect::CodalotlHeadless => {
            is("type", &["done"])
                || is("type", &["canceled", "error"]) && line["agent"]["depth"] == 0
        }
        Dialect::AgentCore => is("type", &["done"]),
        Dialect::Codex => is("type", &["turn.completed", "turn.failed"]),
        Dialect::Claude | Dialect::ClaudeResult => is("type", &["result"]),
    }
}
