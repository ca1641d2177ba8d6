//! What becomes of the answer besides being printed: its shape, and the file it goes to.

use std::path::{Path, PathBuf};

use bowline_agent::Outcome;
use bowline_agent::event::Event;
use bowline_runtime::output_schema::OutputSchema;

use crate::exit::Failure;
use crate::said::Said;

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
        let schema = schema.map(OutputSchema::read).transpose();
        let schema = schema.map_err(|error| usage(format!("--output-schema: {error}")))?;
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

    /// Adds to a prompt what the model must know of the shape of its answer.
    pub(crate) fn ask(&self, prompt: String) -> String {
        match &self.schema {
            Some(schema) => format!("{prompt}\n\n{}", schema.instruction()),
            None => prompt,
        }
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

    /// Returns what to say to the model if its answer has the wrong shape.
    pub(crate) fn repair(&self, outcome: &Outcome) -> Option<String> {
        let schema = self.schema.as_ref().filter(|_| outcome.is_done())?;
        let complaints = schema.check(&self.answer(outcome)).err()?;
        Some(schema.repair(&complaints))
    }

    /// Returns the text to print at the end, if any, or the first complaint about its shape.
    pub(crate) fn text(&self, outcome: &Outcome) -> Result<Option<String>, String> {
        let has_said = self.said.last().is_some();
        if !outcome.is_done() && outcome.answer.is_empty() && !has_said {
            return Ok(None);
        }
        let text = self.answer(outcome);
        match &self.schema {
            Some(schema) if outcome.is_done() => match schema.check(&text) {
                Ok(json) => Ok(Some(json.to_owned())),
                Err(complaints) => Err(complaints.into_iter().next().unwrap_or_default()),
            },
            Some(_) | None => Ok(Some(text)),
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
