//! A tool of a server, as an agent holds it.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{JsonObject, Tool};

use bowline_agent::tool::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, ToolOutput, Waked,
    parse_arguments,
};
use bowline_llm::{RawJson, ToolSpec};

use super::call::{self, Failure, Flight};
use super::connection::with_aside;
use super::http::Refusal;
use super::server::Server;

/// A tool of a server.
pub(super) struct ServerTool {
    server: Arc<Server>,
    /// Its name there.
    name: String,
    spec: ToolSpec,
    hints: Hints,
}

/// What a server says of what a tool does; what it does not say is assumed to be the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hints {
    is_read_only: bool,
    is_idempotent: bool,
    is_open_world: bool,
}

impl Hints {
    /// Takes what a server says, if it is trusted to say the truth.
    fn of(tool: &Tool, are_trusted: bool) -> Self {
        let said = tool.annotations.as_ref().filter(|_| are_trusted);
        Self {
            is_read_only: said.and_then(|hints| hints.read_only_hint) == Some(true),
            is_idempotent: said.and_then(|hints| hints.idempotent_hint) == Some(true),
            is_open_world: said.and_then(|hints| hints.open_world_hint) != Some(false),
        }
    }

    /// What changes nothing may overlap with anything. What changes something may change anything:
    /// that it only adds (`destructiveHint` is false) does not tell to what.
    fn access(self, server: &str) -> Access {
        match (self.is_read_only, self.is_open_world) {
            (true, false) => Access::none(),
            (true, true) => Access { network: vec![format!("mcp:{server}")], ..Access::none() },
            (false, _) => Access::exclusive(),
        }
    }

    fn may_repeat(self) -> bool {
        self.is_read_only || self.is_idempotent
    }
}

impl ServerTool {
    /// Makes a tool that models call by `name`.
    pub(super) fn new(server: Arc<Server>, name: String, tool: &Tool) -> Self {
        // It was JSON when it came.
        let schema =
            RawJson::of(&*tool.input_schema).unwrap_or_else(|_| crate::schema::any_object());
        let title = tool.annotations.as_ref().and_then(|hints| hints.title.as_deref());
        let title = tool.title.as_deref().or(title);
        let described = tool.description.as_deref().filter(|text| !text.trim().is_empty());
        let description = described.or(title).unwrap_or_default().trim().to_owned();
        let spec = ToolSpec { name, description, schema };
        let hints = Hints::of(tool, server.config.trust_hints);
        Self { server, name: tool.name.to_string(), spec, hints }
    }

    /// Returns its name at its server.
    pub(super) fn own_name(&self) -> &str {
        &self.name
    }

    /// Returns what a model is told of it.
    pub(super) fn told(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: JsonObject, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let time = self.server.config.timeout.or(cx.tool_time);
        if let Some(Waked::Answered(text)) = &cx.wake {
            let Some(mut flight) = self.server.take_asking(cx.agent.id, &cx.call) else {
                return Err(ToolError::failed(
                    "interrupted: the server asked this in a process that is gone, and what the \
                     call did is unknown. Check before you repeat it.",
                ));
            };
            flight.answer(text);
            return self.follow(flight, &cx).await.map_err(|failure| self.told_of(failure));
        }
        let mut is_repeated = false;
        loop {
            match self.call(&arguments, time, &cx).await {
                Ok(output) => return Ok(output),
                Err(Failure::Broken(_)) if self.hints.may_repeat() && !is_repeated => {
                    is_repeated = true;
                }
                // It did not run, and over a new connection it may.
                Err(Failure::Refused(refusal)) if refusal.is_session_gone && !is_repeated => {
                    is_repeated = true;
                }
                Err(failure) => return Err(self.told_of(failure)),
            }
        }
    }

    async fn call(
        &self,
        arguments: &JsonObject,
        time: Option<Duration>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, Failure> {
        let connection = tokio::select! {
            connection = self.server.connection() => connection.map_err(|why| {
                let name = &self.server.config.name;
                Failure::Told(ToolError::Failed(format!("MCP server {name}: {why}")))
            })?,
            () = cx.cancel.cancelled() => {
                return Err(Failure::Told(ToolError::failed("canceled before it began")));
            }
        };
        let made = Flight::start(Arc::clone(&connection), &self.name, arguments.clone(), time);
        let ended = match made.await {
            Ok(flight) => self.follow(flight, cx).await,
            Err(failure) => Err(failure),
        };
        if let Err(Failure::Refused(Refusal { is_session_gone: true, .. })) = &ended {
            connection.lose();
        }
        ended
    }

    async fn follow(&self, mut flight: Flight, cx: &ToolContext) -> Result<ToolOutput, Failure> {
        loop {
            if let Some(wake) = flight.asks(&self.server.config.name) {
                self.server.keep_asking(cx.agent.id, cx.call.clone(), flight);
                return Ok(ToolOutput::Waiting(wake));
            }
            match flight.follow(cx).await {
                Ok(Some(result)) => return call::output(result).map_err(Failure::Told),
                Ok(None) => {}
                Err(Failure::Broken(why)) => {
                    let obituary = flight.connection().obituary().await;
                    return Err(Failure::Broken(with_aside(why, &obituary)));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn told_of(&self, failure: Failure) -> ToolError {
        let name = &self.server.config.name;
        match failure {
            Failure::Told(why) => why,
            Failure::Refused(Refusal { why, .. }) => {
                ToolError::Failed(format!("MCP server {name}: {why}; the call did not run"))
            }
            Failure::Broken(why) => ToolError::Failed(format!(
                "the connection to MCP server {name} broke during the call ({why}), and what the \
                 call did is unknown. The next call connects again; check before you repeat this \
                 one."
            )),
            Failure::Unanswered(why) => ToolError::Failed(format!(
                "MCP server {name}: {why}; what the call did is unknown: check before you repeat it"
            )),
        }
    }
}

impl DynTool for ServerTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let arguments: JsonObject = parse_arguments(arguments)?;
        let may_repeat = self.hints.may_repeat();
        Ok(Prepared {
            access: self.hints.access(&self.server.config.name),
            recovery: if may_repeat { Recovery::Rerun } else { Recovery::Unknown },
            deadline: Deadline::Own,
            run: Box::new(move |cx| Box::pin(async move { self.run(arguments, cx).await })),
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn hints(annotations: &serde_json::Value) -> Hints {
        let tool = json!({ "name": "t", "inputSchema": {}, "annotations": annotations });
        Hints::of(&serde_json::from_value(tool).unwrap(), true)
    }

    #[test]
    fn what_a_server_says_of_its_tools_counts_only_if_it_is_trusted() {
        let tool = json!({ "name": "t", "inputSchema": {},
            "annotations": { "readOnlyHint": true, "openWorldHint": false } });
        let hints = Hints::of(&serde_json::from_value(tool).unwrap(), false);
        assert_eq!((hints.access("s"), hints.may_repeat()), (Access::exclusive(), false));
    }

    #[test]
    fn what_a_server_does_not_say_is_assumed_to_be_the_worst() {
        let silent = hints(&json!({}));
        assert_eq!((silent.access("s"), silent.may_repeat()), (Access::exclusive(), false));
        let adds = hints(&json!({ "destructiveHint": false }));
        assert_eq!((adds.access("s"), adds.may_repeat()), (Access::exclusive(), false));
        let again = hints(&json!({ "idempotentHint": true }));
        assert_eq!((again.access("s"), again.may_repeat()), (Access::exclusive(), true));
        let looks = hints(&json!({ "readOnlyHint": true, "openWorldHint": false }));
        assert_eq!((looks.access("s"), looks.may_repeat()), (Access::none(), true));
        let browses = hints(&json!({ "readOnlyHint": true })).access("s");
        assert_eq!(browses.network, ["mcp:s"]);
        assert!(!browses.is_read_only() && !browses.exclusive);
    }
}
