//! The shape an answer must have.

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

/// At most so many complaints are told to the model at once.
const COMPLAINTS: usize = 10;

/// A JSON Schema that the last answer of a run must fit.
#[derive(Debug)]
pub struct OutputSchema {
    schema: Value,
    validator: Validator,
}

/// A schema that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// Its file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no JSON Schema.
    #[error("{} is no JSON Schema: {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
}

impl OutputSchema {
    /// Reads a schema. References to other documents are not followed.
    ///
    /// # Errors
    /// [`SchemaError`] if it is none.
    pub fn read(path: &Path) -> Result<Self, SchemaError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SchemaError::Read { path: path.to_owned(), source })?;
        let invalid = |what: String| SchemaError::Invalid { path: path.to_owned(), what };
        let schema: Value =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let validator =
            jsonschema::validator_for(&schema).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { schema, validator })
    }

    /// Returns what the model is told before it starts.
    pub fn instruction(&self) -> String {
        format!(
            "Your final answer must be one JSON value and nothing else, no prose and no code \
             fence. It must fit this JSON Schema:\n{}",
            self.schema
        )
    }

    /// Returns the answer as JSON, without the fence that some models put around it.
    ///
    /// # Errors
    /// What is wrong with it, one complaint each.
    pub fn check<'a>(&self, answer: &'a str) -> Result<&'a str, Vec<String>> {
        let json = without_fence(answer.trim());
        let value: Value = serde_json::from_str(json)
            .map_err(|error| vec![format!("the answer is no JSON: {error}")])?;
        let complaints = self.validator.iter_errors(&value).map(|error| {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { "the answer" } else { &at };
            format!("{at}: {error}")
        });
        let complaints: Vec<_> = complaints.take(COMPLAINTS).collect();
        if complaints.is_empty() { Ok(json) } else { Err(complaints) }
    }

    /// Returns what the model is told when its answer was wrong.
    pub fn repair(&self, complaints: &[String]) -> String {
        format!(
            "Your answer is not as it must be:\n- {}\nAnswer again. {}",
            complaints.join("\n- "),
            self.instruction()
        )
    }
}

fn without_fence(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let inner = inner.and_then(|text| text.split_once('\n'));
    match inner {
        Some(("" | "json", inner)) => inner.trim(),
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Result<OutputSchema, SchemaError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schema.json");
        std::fs::write(&path, text).unwrap();
        OutputSchema::read(&path)
    }

    #[test]
    fn an_answer_fits_with_and_without_a_fence() {
        let schema = schema(r#"{"type": "object", "required": ["n"]}"#).unwrap();
        assert_eq!(schema.check(" {\"n\": 1}\n"), Ok("{\"n\": 1}"));
        assert_eq!(schema.check("```json\n{\"n\": 1}\n```"), Ok("{\"n\": 1}"));
        assert_eq!(schema.check("```\n{\"n\": 1}\n```"), Ok("{\"n\": 1}"));
    }

    #[test]
    fn complaints_say_where_and_what() {
        let schema = schema(r#"{"properties": {"a": {"items": {"type": "string"}}}}"#).unwrap();
        let complaints = schema.check(r#"{"a": ["x", 1]}"#).unwrap_err();
        assert_eq!(complaints, ["/a/1: 1 is not of type \"string\""]);
        assert!(schema.check("Done!").unwrap_err()[0].starts_with("the answer is no JSON"));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        assert!(schema("{").is_err());
        assert!(schema(r#"{"type": "thing"}"#).is_err());
        let elsewhere = schema(r#"{"$ref": "https://example.invalid/schema.json"}"#).unwrap_err();
        assert!(elsewhere.to_string().contains("example.invalid"), "{elsewhere}");
    }
}
