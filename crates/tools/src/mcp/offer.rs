//! All servers, and what an agent gets of them.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::watch;

use bowline_agent::tool::{DynTool, ToolSource, Toolbox};

use super::config::{Host, ServerConfig};
use super::names::{self, Scope};
use super::resources::Resources;
use super::search::{Call, Search};
use super::server::{Report, ReportedTool, Server, State};
use super::tool::ServerTool;

/// The servers of a process. Dropping them ends them.
#[derive(Debug, Default)]
pub struct Servers {
    servers: Vec<Named>,
    root: Option<watch::Sender<PathBuf>>,
}

/// A server and the part of names that stands for it.
#[derive(Debug)]
struct Named {
    prefix: String,
    server: Arc<Server>,
}

impl Servers {
    /// Begins to start servers, side by side, and does not wait for any of them.
    ///
    /// Must be called within a tokio runtime, in which they live.
    pub fn start(mut configs: Vec<ServerConfig>, host: Host) -> Self {
        configs.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = configs.iter().map(|config| config.name.as_str()).collect();
        let prefixes = names::of_servers(&names);
        let (tell, root) = watch::channel(host.workspace.cwd.clone());
        let host = Arc::new(host);
        let start = |(config, prefix)| {
            let server = Arc::new(Server::start(config, Arc::clone(&host), root.clone()));
            Named { prefix, server }
        };
        Self { servers: configs.into_iter().zip(prefixes).map(start).collect(), root: Some(tell) }
    }

    /// Waits until it is clear of each server whether it can be used: at the longest until its time to
    /// start is over.
    pub async fn settled(&self) {
        join_all(self.servers.iter().map(|named| named.server.settled())).await;
    }

    /// Returns what there is to say of each server.
    pub fn reports(&self) -> Vec<Report> {
        let report = |named: &Named| {
            let tools = named.tools();
            let tools = tools
                .iter()
                .map(|tool| ReportedTool { name: tool.told().name.clone(), bytes: bytes(tool) });
            Report { tools: tools.collect(), ..named.server.report() }
        };
        self.servers.iter().map(report).collect()
    }

    /// Says in one line each which servers cannot be used, and why.
    pub fn complaints(&self) -> Vec<String> {
        let complaint = |named: &Named| {
            let Report { name, state, aside, .. } = named.server.report();
            let State::Failed(why) = state else { return None };
            let last = aside.lines().last().map(str::trim).filter(|line| !line.is_empty());
            let last = last.map_or_else(String::new, |line| format!(" ({line})"));
            Some(format!("MCP server {name}: {why}{last}"))
        };
        self.servers.iter().filter_map(complaint).collect()
    }

    /// Tells the servers that work is done in another folder now.
    pub fn set_root(&self, folder: PathBuf) {
        if let Some(root) = &self.root {
            root.send_replace(folder);
        }
    }

    /// Returns the tools that an agent gets: if those in its scope take more than so many bytes, two
    /// that find and call them.
    pub fn tools(&self, scope: &Scope, max_bytes: usize) -> Toolbox {
        let in_scope = || self.servers.iter().filter(|it| scope.has_server(&it.server.config.name));
        let mut tools: Vec<Arc<ServerTool>> = in_scope().flat_map(Named::tools).collect();
        tools.retain(|tool| scope.has_tool(&tool.told().name));
        let mut toolbox = Toolbox::default();
        // Names differ by the way they are made; what would have another's is left out.
        let mut add = |tool: Arc<dyn DynTool>| drop(toolbox.add(tool));
        if tools.iter().map(bytes).sum::<usize>() > max_bytes {
            let servers = in_scope().filter(|named| !named.server.offer().tools.is_empty());
            let servers = servers.map(|named| named.server.config.name.clone()).collect();
            let hidden = Arc::new(tools);
            add(Arc::new(Search { hidden: Arc::clone(&hidden), servers }));
            add(Arc::new(Call { hidden }));
        } else {
            tools.into_iter().for_each(|tool| add(tool));
        }
        let has_resources = |named: &&Named| named.server.offer().has_resources;
        let servers: Vec<_> =
            in_scope().filter(has_resources).map(|named| Arc::clone(&named.server)).collect();
        if !servers.is_empty() && scope.has_tool(<Resources as bowline_agent::tool::Tool>::NAME) {
            add(Arc::new(Resources { servers }));
        }
        toolbox
    }

    /// Returns where an agent gets its tools from: see [`Servers::tools`].
    pub fn source(self: &Arc<Self>, scope: Scope, max_bytes: usize) -> Arc<dyn ToolSource> {
        Arc::new(Source { servers: Arc::clone(self), scope, max_bytes })
    }

    /// Ends all servers; returns when they are gone.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(|named| named.server.close())).await;
    }
}

impl Named {
    fn tools(&self) -> Vec<Arc<ServerTool>> {
        let offer = self.server.offer();
        let own: Vec<&str> = offer.tools.iter().map(|tool| &*tool.name).collect();
        let names = names::of_tools(&self.prefix, &own);
        let make = |(tool, name)| Arc::new(ServerTool::new(Arc::clone(&self.server), name, tool));
        offer.tools.iter().zip(names).map(make).collect()
    }
}

/// Returns how much of each request a tool takes.
fn bytes(tool: &Arc<ServerTool>) -> usize {
    let spec = tool.told();
    spec.name.len() + spec.description.len() + spec.schema.as_str().len()
}

#[derive(Debug)]
struct Source {
    servers: Arc<Servers>,
    scope: Scope,
    max_bytes: usize,
}

impl ToolSource for Source {
    fn tools(&self) -> Toolbox {
        self.servers.tools(&self.scope, self.max_bytes)
    }
}
