//! All servers, and what an agent gets of them.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, join_all};
use tokio::sync::watch;

use bowline_agent::tool::{DynTool, ToolSource, Toolbox};

use super::config::{Host, ServerConfig};
use super::names::{self, Pattern, Scope};
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

/// A tool that is named and that its server does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// How it is named.
    pub pattern: Pattern,
    /// The tools that the server has.
    pub known: Vec<String>,
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
    pub fn start(configs: Vec<ServerConfig>, host: Host) -> Self {
        Self::start_some(configs, host, |_| true)
    }

    /// As [`Servers::start`], but starts only those whose names are wanted. The others count for how
    /// the tools of these are called.
    pub fn start_some(
        mut configs: Vec<ServerConfig>,
        host: Host,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Self {
        configs.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = configs.iter().map(|config| config.name.as_str()).collect();
        let prefixes = names::of_servers(&names);
        let (tell, root) = watch::channel(host.workspace.cwd.clone());
        let host = Arc::new(host);
        let start = |(config, prefix)| {
            let server = Arc::new(Server::start(config, Arc::clone(&host), root.clone()));
            Named { prefix, server }
        };
        let named = configs.into_iter().zip(prefixes);
        let wanted = named.filter(|(config, _)| is_wanted(&config.name));
        Self { servers: wanted.map(start).collect(), root: Some(tell) }
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

    /// Says in one line each which servers and which of their tools cannot be used, and why.
    pub fn complaints(&self) -> Vec<String> {
        let complaints = |named: &Named| {
            let Report { name, state, aside, left_out, .. } = named.server.report();
            let failed = match state {
                State::Failed(why) => {
                    let last = aside.lines().last().map(str::trim).filter(|line| !line.is_empty());
                    Some(why + &last.map_or_else(String::new, |line| format!(" ({line})")))
                }
                State::Starting | State::Ready => None,
            };
            let all = failed.into_iter().chain(left_out);
            all.map(|what| format!("MCP server {name}: {what}")).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(complaints).collect()
    }

    /// Returns the tools that a scope names and that servers which can be used do not have.
    pub fn missing(&self, scope: &Scope) -> Vec<Missing> {
        let ready = self.servers.iter().filter(|it| it.server.report().state == State::Ready);
        let in_scope = ready.filter(|it| scope.has_server(&it.server.config.name));
        in_scope.flat_map(|named| named.missing(scope)).collect()
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
        let tools = in_scope().flat_map(|named| named.tools_in(scope));
        let tools: Vec<Arc<ServerTool>> = tools.collect();
        let mut toolbox = Toolbox::default();
        // Names differ by the way they are made; what would have another's is left out.
        let mut add = |tool: Arc<dyn DynTool>| drop(toolbox.add(tool));
        if tools.iter().map(bytes).sum::<usize>() > max_bytes {
            let servers = in_scope().filter(|named| !named.server.offer().tools.usable.is_empty());
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
        if !servers.is_empty() && scope.has_resources() {
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
    fn tools_in(&self, scope: &Scope) -> Vec<Arc<ServerTool>> {
        let mut tools = self.tools();
        tools.retain(|tool| scope.has_tool(&self.server.config.name, self.names_of(tool)));
        tools
    }

    /// Returns the names of a tool: the one at its server, and the last part of the one here.
    fn names_of<'a>(&self, tool: &'a ServerTool) -> [&'a str; 2] {
        let here = &tool.told().name;
        [tool.own_name(), here.get(names::prefix_length(&self.prefix)..).unwrap_or(here)]
    }

    /// Returns the tools that a scope names and the server does not have.
    fn missing(&self, scope: &Scope) -> Vec<Missing> {
        let patterns = scope.only.iter().flat_map(|only| &only.tools);
        let of_this = patterns.filter(|it| it.server == self.server.config.name && it.tool != "*");
        let tools = self.tools();
        let has = |pattern: &Pattern| tools.iter().any(|it| pattern.is_any_of(self.names_of(it)));
        let known = || tools.iter().map(|tool| tool.own_name().to_owned()).collect();
        let missing = of_this.filter(|pattern| !has(pattern));
        missing.map(|pattern| Missing { pattern: pattern.clone(), known: known() }).collect()
    }

    fn tools(&self) -> Vec<Arc<ServerTool>> {
        let tools = &self.server.ask_offer().tools.usable;
        let own: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        let names = names::of_tools(&self.prefix, &own);
        let make = |(tool, name)| Arc::new(ServerTool::new(Arc::clone(&self.server), name, tool));
        tools.iter().zip(names).map(make).collect()
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

    fn settled(&self) -> BoxFuture<'_, ()> {
        let servers = self.servers.servers.iter().map(|named| &named.server);
        let in_scope = servers.filter(|server| self.scope.has_server(&server.config.name));
        Box::pin(join_all(in_scope.map(|server| server.settled())).map(drop))
    }
}
