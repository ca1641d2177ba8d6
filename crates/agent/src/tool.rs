//! Tools: what a model can do.

mod access;
mod context;
mod function;
mod toolbox;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use bowline_llm::{Part, RawJson, ToolSpec};

use crate::entry::{Conclusion, Wake};
use crate::error::AgentError;
use crate::run::RunFailure;

pub use access::{Access, PathSet};
pub(crate) use context::{Before, CallScope, Piece, Record, Records, Rest, ScopeMessage};
pub use context::{Concluded, ToolContext, Waked};
pub use function::{FunctionTool, tool_fn};
pub use toolbox::{Scope, ToolSource, Toolbox, ToolboxError, changed};

/// A tool with typed arguments.
///
/// Its arguments are what the model is told through their JSON Schema; the doc comments of the type
/// and its fields are the descriptions the model reads.
pub trait Tool: Send + Sync + 'static {
    /// The name by which the model calls it.
    const NAME: &'static str;

    /// The arguments: an object.
    type Input: DeserializeOwned + JsonSchema + Send + 'static;

    /// Tells the model what the tool does; by default the doc comment of [`Tool::Input`].
    fn description(&self) -> Option<String> {
        None
    }

    /// Declares what a call touches, which decides what it may overlap with.
    fn access(&self, input: &Self::Input) -> Access {
        let _ = input;
        Access::exclusive()
    }

    /// Declares what to do with a call that was cut off by the death of its process.
    fn recovery(&self, input: &Self::Input) -> Recovery {
        let _ = input;
        Recovery::Unknown
    }

    /// Declares who watches the clock while the tool runs.
    fn deadline(&self) -> Deadline {
        Deadline::Limit
    }

    /// Tells whether a placeholder in the arguments is replaced by the secret that it stands for before
    /// the tool runs: for tools that write what they are given to files of the user, and do nothing else
    /// with it.
    fn puts_secrets_back(&self) -> bool {
        false
    }

    /// Does the work.
    fn run(
        &self,
        input: Self::Input,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// A tool whose arguments are raw JSON: what an agent holds.
///
/// Every [`Tool`] is one.
pub trait DynTool: Send + Sync {
    /// Returns what the model is told.
    fn spec(&self) -> ToolSpec;

    /// Tells whether secrets are put back into the arguments: see [`Tool::puts_secrets_back`].
    fn puts_secrets_back(&self) -> bool {
        false
    }

    /// Reads the arguments of one call, once.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if the arguments do not fit; the model is told.
    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError>;

    /// Tells whether the tool only passes calls on to others: its arguments are [`PassedOn`] then, and
    /// whoever asks which tool is called, such as gates and effects, is told the one that they name.
    fn passes_on(&self) -> bool {
        false
    }
}

/// A call that one tool passes on to another: the arguments of a tool that does so.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PassedOn {
    /// The tool that is really called.
    pub name: String,
    /// Its arguments; none at all are an empty object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RawJson>,
}

impl PassedOn {
    /// Returns the arguments of the tool that is really called.
    pub fn arguments(&self) -> &str {
        self.arguments.as_ref().map_or("{}", RawJson::as_str)
    }

    /// Returns it with other arguments, as the tool that passes it on takes it.
    pub(crate) fn with(self, arguments: &str) -> Result<String, ToolError> {
        let passed = Self { arguments: Some(parse_arguments(arguments)?), ..self };
        serde_json::to_string(&passed).map_err(|error| ToolError::failed(error.to_string()))
    }
}

/// A call that is ready to run.
pub struct Prepared {
    /// What it touches.
    pub access: Access,
    /// What to do with it after a crash.
    pub recovery: Recovery,
    /// Who watches the clock.
    pub deadline: Deadline,
    /// Runs it.
    pub run: RunTool,
}

/// The work of a prepared call.
pub type RunTool =
    Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send>;

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("access", &self.access)
            .field("recovery", &self.recovery)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// What to do with a call that had started when its process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Run it again: it changes nothing.
    Rerun,
    /// Run it again: it finds what it had made and goes on from there.
    Reattach,
    /// Tell the model that nobody knows what it did.
    Unknown,
}

/// Who watches the clock while a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// The loop stops it at the limit `tool_time`.
    Limit,
    /// The tool itself keeps to [`ToolContext::tool_time`].
    Own,
}

/// What a tool hands back.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    /// What the model gets to see.
    Content(Vec<Part>),
    /// The call waits; the tool runs again when it is woken.
    Waiting(Wake),
    /// The run is to end once the other calls of the reply are over: its task is done, or another
    /// agent's.
    Concluded {
        /// What the model gets to see, should the run go on because the user said something.
        content: Vec<Part>,
        /// What was concluded.
        conclusion: Conclusion,
    },
}

impl ToolOutput {
    /// Makes an output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Content(vec![Part::Text(text.into())])
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// A tool that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model is told, and may try something else.
    #[error("{0}")]
    Failed(String),
    /// It took longer than it may; the model is told.
    #[error("{0}")]
    TimedOut(String),
    /// The run cannot go on.
    #[error("{0}")]
    Fatal(Box<dyn std::error::Error + Send + Sync>),
}

impl ToolError {
    /// Makes a failure that the model is told about.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl From<AgentError> for ToolError {
    /// A sub-agent that could not do what it was asked is a failure the model is told about.
    fn from(error: AgentError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<RunFailure> for ToolError {
    /// A sub-agent's run without an answer is a failure the model is told about.
    fn from(failure: RunFailure) -> Self {
        Self::Failed(failure.to_string())
    }
}

impl<T: Tool> DynTool for T {
    fn spec(&self) -> ToolSpec {
        let (described, schema) = input_schema::<T::Input>();
        ToolSpec {
            name: T::NAME.to_owned(),
            description: self.description().or(described).unwrap_or_default(),
            schema,
        }
    }

    fn puts_secrets_back(&self) -> bool {
        Tool::puts_secrets_back(self)
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let input = parse_arguments::<T::Input>(arguments)?;
        Ok(Prepared {
            access: self.access(&input),
            recovery: self.recovery(&input),
            deadline: self.deadline(),
            run: Box::new(move |cx| Box::pin(async move { self.run(input, &cx).await })),
        })
    }
}

/// Returns the doc comment and the JSON Schema of a type, without what models do not need.
pub fn input_schema<T: JsonSchema>() -> (Option<String>, RawJson) {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    let described = schema.remove("description").and_then(|text| {
        text.as_str()
            .map(|text| text.replace("\n\n", "\u{0}").replace('\n', " ").replace('\u{0}', "\n"))
    });
    strip(schema.ensure_object());
    let schema = RawJson::of(&schema).unwrap_or_else(|_| empty_schema());
    (described, schema)
}

/// Removes what a schema says about Rust and not about JSON: it costs tokens in every request.
fn strip(object: &mut serde_json::Map<String, serde_json::Value>) {
    if object.get("format").and_then(|format| format.as_str()).is_some_and(|format| {
        matches!(format, "uint" | "uint8" | "uint16" | "uint32" | "uint64" | "int32" | "int64")
    }) {
        object.remove("format");
    }
    if object.get("default").is_some_and(serde_json::Value::is_null) {
        object.remove("default");
    }
    for value in object.values_mut() {
        match value {
            serde_json::Value::Object(object) => strip(object),
            serde_json::Value::Array(values) => {
                values.iter_mut().filter_map(|value| value.as_object_mut()).for_each(strip);
            }
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::String(_) => {}
        }
    }
}

fn empty_schema() -> RawJson {
    serde_json::value::RawValue::from_string(r#"{"type":"object"}"#.to_owned())
        .map_or_else(|_| unreachable!("a literal object is JSON"), RawJson::from)
}

/// Reads the arguments of a call as a model wrote them; none at all are an empty object.
///
/// # Errors
/// [`ToolError::Failed`] with what does not fit, for the model.
pub fn parse_arguments<T: DeserializeOwned>(arguments: &str) -> Result<T, ToolError> {
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    // A struct could be read from an array too, field by field, but no schema says so.
    if text.trim_start().starts_with('[') {
        let why = "the arguments do not fit: expected one JSON object, found an array";
        return Err(ToolError::failed(why));
    }
    serde_json::from_str(text).map_err(|error| {
        ToolError::Failed(match error.classify() {
            serde_json::error::Category::Data => format!("the arguments do not fit: {error}"),
            serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof
            | serde_json::error::Category::Io => {
                format!("the arguments are no valid JSON: {error}; send one JSON object")
            }
        })
    })
}
