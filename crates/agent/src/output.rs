//! The shape that the answer of a run must have.

use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use bowline_llm::{Part, RawJson, UserMessage};

/// At most so many complaints are told to the model at once.
const COMPLAINTS: usize = 10;

/// A JSON Schema that the answer of a run must fit.
///
/// The model is told of it with the prompt, its provider is asked to hold it to the schema where it
/// can, the answer is checked, and one that does not fit may be mended once.
///
/// ```
/// use bowline_agent::output::OutputSchema;
/// use bowline_agent::schemars::{self, JsonSchema};
///
/// #[derive(JsonSchema, serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Count {
///     n: u32,
/// }
///
/// let schema = OutputSchema::of::<Count>()?;
/// assert_eq!(schema.check("{\"n\": 1}"), Ok("{\"n\": 1}"));
/// assert!(schema.check("{\"n\": \"one\"}").is_err());
/// # Ok::<(), bowline_agent::output::SchemaError>(())
/// ```
#[derive(Clone)]
pub struct OutputSchema {
    schema: RawJson,
    validator: Arc<Validator>,
}

/// A schema that cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("no JSON Schema: {0}")]
pub struct SchemaError(String);

impl OutputSchema {
    /// Takes a schema; its text is sent as it is. References to other documents are not followed.
    ///
    /// # Errors
    /// [`SchemaError`] if it is none.
    pub fn new(schema: RawJson) -> Result<Self, SchemaError> {
        let value: Value = schema.read().map_err(|error| SchemaError(error.to_string()))?;
        let validator = jsonschema::validator_for(&value);
        let validator = validator.map_err(|error| SchemaError(error.to_string()))?;
        Ok(Self { schema, validator: Arc::new(validator) })
    }

    /// Reads the text of a schema. Blanks that only please the eye are left out, because they would
    /// be paid for; the order of its keys stays, because models write in that order.
    ///
    /// # Errors
    /// [`SchemaError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        let schema = RawJson::parse(text).map_err(|error| SchemaError(error.to_string()))?;
        Self::new(RawJson::parse(without_blanks(schema.as_str())).unwrap_or(schema))
    }

    /// Makes the schema of a type. More providers hold a model to one of a type that denies unknown
    /// fields.
    ///
    /// # Errors
    /// [`SchemaError`] if what the type says of itself is none.
    pub fn of<T: JsonSchema>() -> Result<Self, SchemaError> {
        let mut schema = schemars::schema_for!(T);
        // How a number is kept in memory is no form of text, and servers refuse forms they do not
        // know.
        let mut without_width = RecursiveTransform(|schema: &mut Schema| {
            let kind = schema.get("type").and_then(Value::as_str);
            if matches!(kind, Some("integer" | "number")) {
                schema.remove("format");
            }
        });
        without_width.transform(&mut schema);
        Self::new(RawJson::of(&schema).map_err(|error| SchemaError(error.to_string()))?)
    }

    /// Returns the schema.
    pub fn schema(&self) -> &RawJson {
        &self.schema
    }

    /// Returns the answer as JSON, without the fence that some models put around it.
    ///
    /// # Errors
    /// What is wrong with it, one complaint each.
    pub fn check<'a>(&self, answer: &'a str) -> Result<&'a str, Vec<String>> {
        let json = without_fence(answer);
        let value: Value = serde_json::from_str(json)
            .map_err(|error| vec![format!("the answer is no JSON: {error}")])?;
        let complaints = self.misfits(&value, "the answer");
        if complaints.is_empty() { Ok(json) } else { Err(complaints) }
    }

    /// Returns what of a value does not fit, a few complaints at most; `whole` is what the value as
    /// a whole is called in them.
    pub fn misfits(&self, value: &Value, whole: &str) -> Vec<String> {
        let complaints = self.validator.iter_errors(value).map(|error| {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { whole } else { &at };
            format!("{at}: {error}")
        });
        complaints.take(COMPLAINTS).collect()
    }
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.schema).finish()
    }
}

/// What a run was asked for, as its log keeps it: whoever goes on with the run keeps to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// The schema that the answer must fit.
    pub schema: RawJson,
    /// The name under which a tool records what the agent tells the user, if that is the answer and
    /// not its text: see [`Agent::tells_with`](crate::Agent::tells_with).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_with: Option<String>,
}

impl Shape {
    /// Returns a prompt with what the model must know of the shape of its answer.
    pub(crate) fn asked_for(&self, prompt: &UserMessage) -> UserMessage {
        let mut content = prompt.content.clone();
        match content.last_mut() {
            // One text stays one: some servers know nothing else.
            Some(Part::Text(text)) => {
                text.push_str("\n\n");
                text.push_str(&self.instruction());
            }
            Some(_) | None => content.push(Part::Text(self.instruction())),
        }
        UserMessage { content }
    }

    /// Returns what is wrong with an answer, one complaint each; nothing if it fits.
    pub(crate) fn complaints(&self, answer: &str) -> Vec<String> {
        match OutputSchema::new(self.schema.clone()) {
            Ok(schema) => schema.check(answer).err().unwrap_or_default(),
            Err(error) => vec![error.to_string()],
        }
    }

    /// Returns what the model is told when its answer was wrong.
    pub(crate) fn repair(&self, complaints: &[String]) -> String {
        format!(
            "Your answer is not as it must be:\n- {}\nAnswer again. {}",
            complaints.join("\n- "),
            self.instruction()
        )
    }

    fn instruction(&self) -> String {
        let what = match &self.told_with {
            Some(_) => "The last thing you tell the user",
            None => "Your final answer",
        };
        format!(
            "{what} must be one JSON value and nothing else, no prose and no code fence. It must \
             fit this JSON Schema:\n{}",
            self.schema.as_str()
        )
    }
}

/// Returns JSON without the blanks between its tokens.
fn without_blanks(json: &str) -> String {
    let (mut in_text, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        let is_kept = in_text || !c.is_ascii_whitespace();
        in_text ^= *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_kept
    };
    json.chars().filter(is_kept).collect()
}

/// Returns what stands within the fence that some models put around JSON.
pub(crate) fn without_fence(text: &str) -> &str {
    let text = text.trim();
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

    #[test]
    fn an_answer_fits_with_and_without_a_fence() {
        let schema = OutputSchema::parse(r#"{"type": "object", "required": ["n"]}"#).unwrap();
        assert_eq!(schema.check(" {\"n\": 1}\n"), Ok("{\"n\": 1}"));
        assert_eq!(schema.check("```json\n{\"n\": 1}\n```"), Ok("{\"n\": 1}"));
        assert_eq!(schema.check("```\n{\"n\": 1}\n```"), Ok("{\"n\": 1}"));
    }

    #[test]
    fn complaints_say_where_and_what() {
        let schema = r#"{"properties": {"a": {"items": {"type": "string"}}}}"#;
        let schema = OutputSchema::parse(schema).unwrap();
        let complaints = schema.check(r#"{"a": ["x", 1]}"#).unwrap_err();
        assert_eq!(complaints, ["/a/1: 1 is not of type \"string\""]);
        assert!(schema.check("Done!").unwrap_err()[0].starts_with("the answer is no JSON"));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        assert!(OutputSchema::parse("{").is_err());
        assert!(OutputSchema::parse(r#"{"type": "thing"}"#).is_err());
        let elsewhere = r#"{"$ref": "https://example.invalid/schema.json"}"#;
        let elsewhere = OutputSchema::parse(elsewhere).unwrap_err();
        assert!(elsewhere.to_string().contains("example.invalid"), "{elsewhere}");
    }

    #[test]
    fn a_schema_is_told_in_its_order_and_without_blanks() {
        let pretty = r#"{ "type": "object",
            "description": "a \" or \\",  "properties": {"b": {}, "a": {}} }"#;
        let text = r#"{"type":"object","description":"a \" or \\","properties":{"b":{},"a":{}}}"#;
        let schema = OutputSchema::parse(pretty).unwrap().schema().clone();
        let shape = Shape { schema, told_with: None };
        let told = shape.asked_for(&UserMessage::text("count"));
        let [Part::Text(told)] = told.content.as_slice() else { unreachable!("{told:?}") };
        assert!(told.starts_with("count\n\nYour final answer") && told.ends_with(text), "{told}");
    }

    #[test]
    fn the_schema_of_a_type_names_no_widths() {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only its schema is wanted")]
        struct Count {
            n: Vec<u32>,
        }
        let schema = OutputSchema::of::<Count>().unwrap();
        assert!(!schema.schema().as_str().contains("format"), "{schema:?}");
    }
}
