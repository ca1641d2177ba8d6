//! What becomes of the answer besides being printed: its shape, and the file it goes to.

use std::path::{Path, PathBuf};

use bowline_agent::Outcome;
use bowline_runtime::output_schema::OutputSchema;

use crate::exit::Failure;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Output {
    file: Option<PathBuf>,
    schema: Option<OutputSchema>,
}

impl Output {
    /// Reads the schema and looks whether the file can be there, before anything is spent.
    pub(crate) fn new(file: Option<&Path>, schema: Option<&Path>) -> Result<Self, Failure> {
        let usage = |text: String| Failure::Usage(text);
        let schema = schema.map(OutputSchema::read).transpose();
        let schema = schema.map_err(|error| usage(format!("--output-schema: {error}")))?;
        let Some(path) = file else { return Ok(Self { file: None, schema }) };
        let file = std::path::absolute(path)
            .map_err(|error| usage(format!("-o {}: {error}", path.display())))?;
        if file.is_dir() {
            return Err(usage(format!("-o {}: it is a directory", path.display())));
        }
        if !file.parent().is_some_and(Path::is_dir) {
            return Err(usage(format!("-o {}: its directory does not exist", path.display())));
        }
        Ok(Self { file: Some(file), schema })
    }

    /// Adds to a prompt what the model must know of the shape of its answer.
    pub(crate) fn ask(&self, prompt: String) -> String {
        match &self.schema {
            Some(schema) => format!("{prompt}\n\n{}", schema.instruction()),
            None => prompt,
        }
    }

    /// Returns what to say to the model if its answer has the wrong shape.
    pub(crate) fn repair(&self, outcome: &Outcome) -> Option<String> {
        let schema = self.schema.as_ref().filter(|_| outcome.is_done())?;
        let complaints = schema.check(&outcome.text()).err()?;
        Some(schema.repair(&complaints))
    }

    /// Returns the text to print, if any, or the first complaint about its shape.
    pub(crate) fn text(&self, outcome: &Outcome) -> Result<Option<String>, String> {
        if !outcome.is_done() && outcome.answer.is_empty() {
            return Ok(None);
        }
        let text = outcome.text();
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
            Err(_) => outcome.text(),
        };
        std::fs::write(file, text).map_err(|error| {
            Failure::Failed(format!("cannot write the answer to {}: {error}", file.display()))
        })
    }
}
