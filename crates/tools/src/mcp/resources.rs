//! The resources of servers, as one tool.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ReadResourceRequestParams;
use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use super::connection::told;
use super::content;
use super::listing::{self, Resources as Listed};
use super::server::Server;

/// How long the listing of one server may take.
const LISTING: Duration = Duration::from_secs(30);

/// The tool `mcp_resources`.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) servers: Vec<Arc<Server>>,
}

/// Lists what MCP servers have to read, or reads one of these by its address.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub(super) struct ResourcesInput {
    /// Only this server; needed to read if there are several.
    server: Option<String>,
    /// What to read.
    uri: Option<String>,
}

impl Tool for Resources {
    const NAME: &'static str = "mcp_resources";
    type Input = ResourcesInput;

    fn access(&self, _: &ResourcesInput) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &ResourcesInput) -> Recovery {
        Recovery::Rerun
    }

    fn deadline(&self) -> Deadline {
        Deadline::Limit
    }

    async fn run(&self, input: ResourcesInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        tokio::select! {
            output = self.answer(input) => output,
            () = cx.cancel.cancelled() => Err(ToolError::failed("canceled")),
        }
    }
}

impl Resources {
    async fn answer(&self, input: ResourcesInput) -> Result<ToolOutput, ToolError> {
        let asked = |server: &&Arc<Server>| {
            input.server.as_deref().is_none_or(|name| name == server.config.name)
        };
        let servers: Vec<_> = self.servers.iter().filter(asked).collect();
        let names = || {
            let names: Vec<_> = self.servers.iter().map(|it| it.config.name.as_str()).collect();
            names.join(", ")
        };
        match (input.uri, servers.as_slice()) {
            (_, []) => {
                Err(ToolError::Failed(format!("there is no such server; there is {}", names())))
            }
            (Some(uri), [server]) => read(server, uri).await,
            (Some(_), _) => Err(ToolError::Failed(format!("say which server: {}", names()))),
            (None, servers) => {
                let mut text = String::new();
                for server in servers {
                    text.push_str(&list(server).await);
                }
                Ok(text.into())
            }
        }
    }
}

async fn read(server: &Server, uri: String) -> Result<ToolOutput, ToolError> {
    let failed =
        |why: String| ToolError::Failed(format!("MCP server {}: {why}", server.config.name));
    let connection = server.connection().await.map_err(failed)?;
    let contents = connection.peer().read_resource(ReadResourceRequestParams::new(uri)).await;
    let contents = contents.map_err(|error| failed(told(&error)))?;
    let mut parts = Vec::new();
    for resource in contents.contents {
        content::add_resource(&mut parts, resource);
    }
    if parts.is_empty() {
        return Ok("(it is empty)".into());
    }
    Ok(ToolOutput::Content(parts))
}

/// Lists what a server has; what is wrong with it is said in its place.
async fn list(server: &Server) -> String {
    let mut text = format!("{}:\n", server.config.name);
    match tokio::time::timeout(LISTING, lines(server)).await {
        Ok(Ok(Listed { lines, .. })) if lines.is_empty() => text.push_str("(nothing)\n"),
        Ok(Ok(Listed { lines, has_more })) => {
            for line in lines {
                text.push_str(&line);
                text.push('\n');
            }
            if has_more {
                text.push_str(
                    "[… and more; if you know what you look for, read it by its address]\n",
                );
            }
        }
        Ok(Err(why)) => text.push_str(&format!("[{why}]\n")),
        Err(_) => text.push_str("[it does not answer]\n"),
    }
    text
}

async fn lines(server: &Server) -> Result<Listed, String> {
    let connection = server.connection().await?;
    listing::resources(connection.peer()).await.map_err(|error| told(&error))
}
