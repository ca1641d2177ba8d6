//! What the user sees.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use bowline_agent::entry::CallStatus;
use bowline_agent::event::{Event, EventBody};
use bowline_agent::visible;
use bowline_llm::{CallId, text_of};
use bowline_server::dialect::{Dialect, Lines, Scene, Translator};

use crate::args::{Events, Format};
use crate::screen;
use bowline_runtime::plain;

/// At most so many characters of what a tool does are shown.
const LINE: usize = 160;

/// Prints a run: its answer or its events on stdout, everything else on stderr.
#[derive(Debug)]
pub(crate) struct Printer {
    dialect: Option<(Dialect, Box<dyn Translator>)>,
    events: Events,
    // What calls were announced with.
    calls: HashMap<CallId, String>,
    // A reader that went away ends the printing, not the run.
    is_closed: bool,
}

/// Says something to a person.
pub(crate) fn note(text: &str) {
    // Where it cannot be said nobody is left to hear it.
    let _ = writeln!(screen::err(), "bowline: {}", plain::text(text));
}

impl Printer {
    pub(crate) fn new(format: Format, events: Events) -> Self {
        let dialect = match format {
            Format::Text => None,
            Format::Lines(dialect) => Some((dialect, dialect.translator())),
        };
        Self { dialect, events, calls: HashMap::new(), is_closed: false }
    }

    /// Tells where what is printed happens.
    pub(crate) fn set_scene(&mut self, scene: &Scene) {
        if let Some((_, translator)) = &mut self.dialect {
            translator.set_scene(scene);
        }
    }

    /// Tells whether a run is printed from its beginning, even one that began elsewhere. Our own
    /// events have positions, and whoever reads them knows where they were.
    pub(crate) fn wants_whole_runs(&self) -> bool {
        self.dialect.as_ref().is_some_and(|(dialect, _)| *dialect != Dialect::Bowline)
    }

    /// Says something to a person.
    #[expect(clippy::unused_self, reason = "what is printed goes through the printer")]
    pub(crate) fn note(&self, text: &str) {
        note(text);
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Arc<Event>) {
        if self.dialect.is_some() {
            self.translated(event);
        } else {
            self.progress(event);
        }
    }

    /// Shows an event of a run that is over: for programs only.
    pub(crate) fn replayed(&mut self, event: &Event) {
        self.translated(event);
    }

    /// Prints the answer.
    pub(crate) fn answer(&mut self, text: &str) {
        if self.dialect.is_none() {
            self.out(|out| writeln!(out, "{}", text.trim_end()));
        }
    }

    /// Shows a text that is not the answer.
    pub(crate) fn aside(&self, text: &str) {
        if self.dialect.is_none() {
            let _ = writeln!(screen::err(), "{}", plain::text(text.trim_end()));
        }
    }

    fn translated(&mut self, event: &Event) {
        let Some((dialect, translator)) = &mut self.dialect else { return };
        let is_lifecycle =
            matches!(event.body, EventBody::AgentStart { .. } | EventBody::AgentEnd { .. });
        // Others say themselves what they tell of sub-agents.
        let is_brief = *dialect == Dialect::Bowline && self.events == Events::Lifecycle;
        if is_brief && event.agent.depth > 0 && !is_lifecycle {
            return;
        }
        let mut lines = Lines::default();
        translator.event(event, &mut lines);
        for line in lines.drain() {
            self.out(|out| writeln!(out, "{line}"));
        }
    }

    fn progress(&mut self, event: &Event) {
        let indent = "  ".repeat(usize::try_from(event.agent.depth).unwrap_or_default());
        let line = match &event.body {
            EventBody::ToolCall { name, arguments } => {
                if let Some(call) = &event.call_id {
                    self.calls.insert(call.clone(), announce(name, arguments));
                }
                return;
            }
            EventBody::ToolStart { name, passed_to, .. } => {
                let call = event.call_id.as_ref().and_then(|call| self.calls.remove(call));
                let call = passed_to.clone().or(call);
                format!("{indent}> {}", call.unwrap_or_else(|| name.clone()))
            }
            EventBody::ToolEnd { name, status, content, .. } if *status != CallStatus::Ok => {
                let text = text_of(content);
                // What the model is told may begin with the same word.
                let status = status.as_str();
                let why = text.strip_prefix(status).and_then(|rest| rest.strip_prefix(": "));
                format!("{indent}! {name} {status}: {}", one_line(why.unwrap_or(&text)))
            }
            EventBody::PlanCreated { steps, .. } if !steps.is_empty() => {
                let tools: Vec<&str> = steps.iter().map(|step| step.tool.as_str()).collect();
                format!("{indent}* plan: {}", tools.join(", "))
            }
            EventBody::Text { text, finalizing: false } => format!("{indent}{}", text.trim_end()),
            EventBody::Retry { delay_ms, reason, .. } => {
                format!("{indent}~ trying again in {:.1} s: {reason}", *delay_ms as f64 / 1000.0)
            }
            EventBody::Warning { message } => format!("{indent}! {message}"),
            EventBody::LimitHit { limit } => format!("{indent}! limit {} reached", limit.as_str()),
            _ => return,
        };
        let _ = writeln!(screen::err(), "{}", plain::text(&line));
    }

    fn out(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.is_closed {
            return;
        }
        let mut line = Vec::new();
        let written = write(&mut line).and_then(|()| {
            let mut out = screen::out();
            out.write_all(&line)?;
            out.flush()
        });
        if let Err(error) = written {
            self.is_closed = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.note(&format!("cannot write to stdout: {error}"));
            }
        }
    }
}

/// Says what a call is about to do: its tool and the first thing it names.
fn announce(name: &str, arguments: &str) -> String {
    let arguments = serde_json::from_str::<serde_json::Value>(arguments).unwrap_or_default();
    let told = ["command", "path", "pattern", "url", "id"]
        .iter()
        .find_map(|key| arguments.get(key).and_then(serde_json::Value::as_str));
    match told {
        Some(told) => format!("{name} {}", visible::on_one_line(&one_line(told))),
        None => name.to_owned(),
    }
}

fn one_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let mut line: String = first.chars().take(LINE).collect();
    if line.len() < first.len() || lines.next().is_some() {
        line.push_str(" …");
    }
    line
}
