//! Calls every tool of an MCP server, as the conformance suite of the protocol asks of a client:
//! `mcp_client URL`. What the server asks meanwhile is answered with its defaults.
#![allow(clippy::print_stdout, reason = "this is an example")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bowline_agent::id::SystemSource;
use bowline_agent::tool::{DynTool, ToolContext, ToolOutput, Waked};
use bowline_llm::http::Proxy;
use bowline_llm::text_of;
use bowline_tools::mcp::{Host, Http, Reach, Scope, ServerConfig, Servers};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{Environment, Workspace};

/// Fits every tool of the suite, which passes over what it does not know.
const ARGUMENTS: &str = r#"{"a": 5, "b": 3}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: mcp_client URL")?;
    let workspace = Workspace {
        cwd: std::env::current_dir()?,
        environment: Environment::default(),
        processes: Arc::new(Processes::new(Helper::None)),
        scratch: std::env::temp_dir(),
        guard: Arc::new(bowline_tools::guard::Open),
    };
    let config = ServerConfig {
        name: "tested".to_owned(),
        reach: Ok(Reach::Http(Http { url, headers: Vec::new() })),
        startup_timeout: Duration::from_secs(10),
        timeout: Some(Duration::from_secs(20)),
        trust_hints: true,
    };
    let host = Host { workspace, proxy: Proxy::default(), attended: true };
    let servers = Servers::start(vec![config], host);
    servers.settled().await;
    if let Some(complaint) = servers.complaints().into_iter().next() {
        return Err(complaint.into());
    }
    let tools = servers.tools(&Scope::default(), usize::MAX);
    let names: Vec<String> = tools.names().map(str::to_owned).collect();
    for name in names {
        let Some(tool) = tools.get(&name) else { continue };
        match call(&tool).await {
            Ok(text) => println!("{name}: {text}"),
            Err(error) => println!("{name} failed: {error}"),
        }
    }
    servers.close().await;
    Ok(())
}

/// Calls a tool, and gives an empty answer to whatever it asks.
async fn call(tool: &Arc<dyn DynTool>) -> Result<String, Box<dyn Error>> {
    let mut cx = ToolContext::standalone(Arc::new(SystemSource), None);
    loop {
        let prepared = Arc::clone(tool).prepare(ARGUMENTS)?;
        match (prepared.run)(cx.clone()).await? {
            ToolOutput::Content(parts) => return Ok(text_of(&parts)),
            ToolOutput::Waiting(_) => cx.wake = Some(Waked::Answered(String::new())),
            other => return Err(format!("no result: {other:?}").into()),
        }
    }
}
