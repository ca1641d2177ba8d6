//! What tools that a configuration makes have in common.

use bowline_agent::OutputSchema;
use bowline_agent::tool::{ToolError, parse_arguments};
use bowline_llm::ToolSpec;
use serde_json::{Map, Value};

/// What a model is told of a tool that a configuration makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What its arguments must fit: an object.
    pub arguments: OutputSchema,
}

impl Described {
    /// Returns what a model is told.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            schema: self.arguments.schema().clone(),
        }
    }

    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// [`ToolError::Failed`] with what does not fit the schema.
    pub fn read(&self, arguments: &str) -> Result<Map<String, Value>, ToolError> {
        let arguments = Value::Object(parse_arguments(arguments)?);
        let complaints = self.arguments.misfits(&arguments, "the arguments");
        match arguments {
            Value::Object(arguments) if complaints.is_empty() => Ok(arguments),
            _ => Err(ToolError::Failed(format!(
                "the arguments do not fit: {}",
                complaints.join("; ")
            ))),
        }
    }

    /// Returns the names of the arguments.
    pub fn names(&self) -> Vec<String> {
        let schema: Value = self.arguments.schema().read().unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect()
    }
}
