//! What becomes of the answer besides being printed: its shape, and the file it goes to.

use std::path::{Path, PathBuf};

use bowline_agent::entry::{Ending, RunErrorKind};
use bowline_agent::event::Event;
use bowline_agent::{Outcome, OutputSchema};
use bowline_server::said::Said;

use crate::exit::Failure;

/// What was asked for, and what the agent has sent of it already.
#[derive(Debug)]
pub(crate) struct Output {
    file: Option<PathBuf>,
    schema: Option<OutputSchema>,
    said: Said,
}

impl Output {
    /// Reads the schema and looks whether the file can be there, before anything is spent.
    pub(crate) fn new(file: Option<&Path>, schema: Option<&Path>) -> Result<Self, Failure> {
        let usage = |text: String| Failure::Usage(text);
        let schema = schema.map(read_schema).transpose().map_err(usage)?;
        let Some(path) = file else {
            return Ok(Self { file: None, schema, said: Said::default() });
        };
        let file = std::path::absolute(path)
            .map_err(|error| usage(format!("-o {}: {error}", path.display())))?;
        if file.is_dir() {
            return Err(usage(format!("-o {}: it is a directory", path.display())));
        }
        if !file.parent().is_some_and(Path::is_dir) {
            return Err(usage(format!("-o {}: its directory does not exist", path.display())));
        }
        Ok(Self { file: Some(file), schema, said: Said::default() })
    }

    /// Returns the shape that was asked for.
    pub(crate) fn schema(&self) -> Option<&OutputSchema> {
        self.schema.as_ref()
    }

    /// Takes note of an event; returns the message of the agent to print now, if it is one. One that
    /// must have a shape is looked at when the run is over.
    pub(crate) fn hear(&mut self, event: &Event) -> Option<&str> {
        self.said.hear(event).filter(|_| self.schema.is_none())
    }

    /// Returns the whole answer: what the agent has sent, the last of it if it must have a shape, or
    /// else the text of its last reply.
    pub(crate) fn answer(&self, outcome: &Outcome) -> String {
        let said = match &self.schema {
            Some(_) => self.said.last().map(str::to_owned),
            None => self.said.text(),
        };
        said.unwrap_or_else(|| outcome.text())
    }

    /// Tells whether [`Output::hear`] has returned the whole answer.
    pub(crate) fn is_told(&self) -> bool {
        self.schema.is_none() && self.said.last().is_some()
    }

    /// Returns the text of a run's last reply if it is not for the user, who was sent messages.
    pub(crate) fn aside(&self, outcome: &Outcome) -> Option<String> {
        let text = outcome.text();
        let is_aside = outcome.is_done() && self.said.last().is_some() && !text.trim().is_empty();
        is_aside.then_some(text)
    }

    /// Returns the text to print at the end, if any, or a complaint about its shape.
    ///
    /// A run holds its answer to the schema that it began with; it may have been asked for with
    /// another one.
    pub(crate) fn text(&self, outcome: &Outcome) -> Result<Option<String>, String> {
        if let Ending::Failed(error) = &outcome.ending
            && error.kind == RunErrorKind::OutputInvalid
        {
            return Err(error.message.clone());
        }
        let has_said = self.said.last().is_some();
        if !outcome.is_done() && outcome.answer.is_empty() && !has_said {
            return Ok(None);
        }
        let text = self.answer(outcome);
        match &self.schema {
            Some(schema) if outcome.is_done() => match schema.check(&text) {
                Ok(json) => Ok(Some(json.to_owned())),
                Err(complaints) => {
                    let first = complaints.into_iter().next().unwrap_or_default();
                    Err(format!("the answer does not fit the schema: {first}"))
                }
            },
            Some(_) | None => Ok(Some(outcome.json.as_deref().map_or(text, str::to_owned))),
        }
    }

    /// Writes the last message to the file.
    pub(crate) fn write(&self, outcome: &Outcome) -> Result<(), Failure> {
        let Some(file) = &self.file else { return Ok(()) };
        let text = match self.text(outcome) {
            Ok(text) => text.unwrap_or_default(),
            Err(_) => self.answer(outcome),
        };
        std::fs::write(file, text).map_err(|error| {
            Failure::Failed(format!("cannot write the answer to {}: {error}", file.display()))
        })
    }
}

fn read_schema(path: &Path) -> Result<OutputSchema, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--output-schema: cannot read {shown}: {error}"))?;
    OutputSchema::parse(&text).map_err(|error| format!("--output-schema: {shown} is {error}"))
}
