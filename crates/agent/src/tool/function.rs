//! A tool made of a function.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use bowline_llm::ToolSpec;

use super::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, ToolOutput,
    input_schema, parse_arguments,
};

/// Makes a tool of an async function of its arguments and its context.
///
/// The tool is alone while it runs and unknown after a crash unless [`FunctionTool::with_access`]
/// and [`FunctionTool::with_recovery`] say otherwise.
pub fn tool_fn<I, F, R>(name: &str, description: &str, run: F) -> FunctionTool<I, F>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(I, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    FunctionTool {
        name: name.to_owned(),
        description: description.to_owned(),
        access: Access::exclusive(),
        recovery: Recovery::Unknown,
        puts_secrets_back: false,
        run: Arc::new(run),
        input: PhantomData,
    }
}

/// A tool made by [`tool_fn`].
#[derive(Debug)]
pub struct FunctionTool<I, F> {
    name: String,
    description: String,
    access: Access,
    recovery: Recovery,
    puts_secrets_back: bool,
    run: Arc<F>,
    input: PhantomData<fn(I)>,
}

impl<I, F> FunctionTool<I, F> {
    /// Declares what every call touches.
    #[must_use]
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Declares what to do with a call that a crash cut off.
    #[must_use]
    pub fn with_recovery(self, recovery: Recovery) -> Self {
        Self { recovery, ..self }
    }

    /// Lets the tool have the secrets for which a call holds placeholders: see
    /// [`Tool::puts_secrets_back`](super::Tool::puts_secrets_back).
    #[must_use]
    pub fn with_secrets_put_back(self) -> Self {
        Self { puts_secrets_back: true, ..self }
    }
}

impl<I, F, R> DynTool for FunctionTool<I, F>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(I, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            schema: input_schema::<I>().1,
        }
    }

    fn puts_secrets_back(&self) -> bool {
        self.puts_secrets_back
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let input = parse_arguments::<I>(arguments)?;
        let run = Arc::clone(&self.run);
        Ok(Prepared {
            access: self.access.clone(),
            recovery: self.recovery,
            deadline: Deadline::Limit,
            run: Box::new(move |cx| Box::pin(run(input, cx))),
        })
    }
}
