//! Servers that bring tools: how they are configured, and when they are started.

mod expand;
mod foreign;
mod scope;
mod settings;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use bowline_agent::Redaction;
use bowline_agent::tool::ToolSource;
use bowline_llm::Secret;
use bowline_tools::mcp::{Host, Missing, Pattern, Report, Scope, Servers, State};

use crate::config::{self, AgentConfig};
use crate::environment::Environment;
use crate::provider;
use crate::runtime::Runtime;

pub(crate) use foreign::to_ours;
pub(crate) use scope::{RESOURCES, Wanted, scope};
pub(crate) use settings::looks_secret;
pub use settings::{McpConfig, McpKind, McpServer};

/// The share of a model's window that the tools of servers may take before they are left out of the
/// tool block.
const SHARE: u64 = 10;

/// What a token of a schema is in bytes, about.
const TOKEN_BYTES: u64 = 4;

/// How much they may take where nobody knows the window.
const UNKNOWN_WINDOW: u64 = 24_000;

/// The servers of a runtime, once they are started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Started(Arc<OnceLock<Arc<Servers>>>);

/// A server as it is configured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Configured {
    /// Its name.
    pub name: String,
    /// Its program with its arguments, or its address; variables in them are not looked up.
    pub reach: String,
    /// Whether it is started.
    pub enabled: bool,
    /// Where that is said.
    pub place: String,
    /// Whether it counts: what a project says counts only when the project is trusted.
    pub is_applied: bool,
}

impl Runtime {
    /// Begins to start the servers of which an agent or its crew has any tools, and does not wait for
    /// any of them. Whoever is `attended` is asked what a server wants to know. Starting them again
    /// does nothing.
    ///
    /// Must be called within a runtime of tokio, in which they live.
    pub fn start_servers(&self, agent: &AgentConfig, attended: bool) {
        let scopes = self.scopes(agent);
        self.start(attended, |name| scopes.iter().any(|scope| scope.has_server(name)));
    }

    fn start(&self, attended: bool, is_wanted: impl Fn(&str) -> bool) {
        self.started.0.get_or_init(|| {
            let host = Host {
                workspace: self.workspace(),
                proxy: provider::proxy(&self.environment),
                attended,
            };
            let servers = &self.config.mcp_servers;
            let is_wanted = |name: &str| {
                servers.get(name).is_some_and(|server| server.enabled) && is_wanted(name)
            };
            let lookup = |name: &str| self.environment.get(name);
            let configs =
                servers.iter().map(|(name, server)| server.ready(name, &lookup)).collect();
            Arc::new(Servers::start_some(configs, host, is_wanted))
        });
    }

    /// Waits until it is clear which of the servers can be used, at the longest until their time to
    /// start is over; says in one line each which cannot and which of their tools cannot, why, and
    /// which that the agent or its crew names they do not have.
    pub async fn settled_servers(&self, agent: &AgentConfig) -> Vec<String> {
        let Some(servers) = self.started.0.get() else { return Vec::new() };
        servers.settled().await;
        let redaction = self.redaction_of_servers();
        let missing = self.scopes(agent);
        let missing = missing.iter().flat_map(|scope| servers.missing(scope)).map(|missing| {
            let Missing { pattern: Pattern { server, tool }, known } = missing;
            let near = config::nearest(&tool, known.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            format!("MCP server {server}: it has no tool {tool}{near}")
        });
        let mut complaints = servers.complaints();
        complaints.extend(missing);
        complaints.iter().map(|complaint| redaction.apply(complaint).into_owned()).collect()
    }

    /// Returns what an agent has of servers, and each of its crew.
    fn scopes(&self, agent: &AgentConfig) -> Vec<Scope> {
        let wanted = scope::of_crew(agent, &self.config);
        wanted.into_iter().map(|wanted| wanted.among(&self.names_of_servers())).collect()
    }

    /// Returns the names of the servers that are started for an agent itself.
    pub fn servers_of(&self, agent: &AgentConfig) -> Vec<&str> {
        let scope = scope::scope(agent).among(&self.names_of_servers());
        let servers = self.config.mcp_servers.iter();
        let started = servers.filter(|(name, server)| server.enabled && scope.has_server(name));
        started.map(|(name, _)| name.as_str()).collect()
    }

    fn names_of_servers(&self) -> Vec<&str> {
        self.config.mcp_servers.keys().map(String::as_str).collect()
    }

    /// Starts all servers, and returns what there is to say of each.
    pub async fn check_servers(&self) -> Vec<Report> {
        self.start(false, |_| true);
        let Some(servers) = self.started.0.get() else { return Vec::new() };
        servers.settled().await;
        let redaction = self.redaction_of_servers();
        let clean = |text: &str| redaction.apply(text).into_owned();
        let clean = |report: Report| Report {
            aside: clean(&report.aside),
            left_out: report.left_out.iter().map(|line| clean(line)).collect(),
            changed: report.changed.iter().map(|line| clean(line)).collect(),
            state: match report.state {
                State::Failed(why) => State::Failed(clean(&why)),
                state @ (State::Starting | State::Ready) => state,
            },
            ..report
        };
        servers.reports().into_iter().map(clean).collect()
    }

    /// Returns the servers that are configured, also those that do not count.
    pub fn servers(&self) -> Vec<Configured> {
        settings::configured(&self.loaded)
    }

    /// Returns where an agent gets the tools of servers from, given how much its model takes.
    pub(crate) fn tools_of_servers(
        &self,
        wanted: Wanted,
        context_window: Option<u64>,
    ) -> Option<Arc<dyn ToolSource>> {
        let servers = self.started.0.get()?;
        let window = context_window.map(|window| window.saturating_mul(TOKEN_BYTES) / SHARE);
        let most = match self.config.mcp.schema_bytes {
            Some(0) => u64::MAX,
            Some(bytes) => bytes,
            None => window.unwrap_or(UNKNOWN_WINDOW),
        };
        let scope = wanted.among(&self.names_of_servers());
        Some(servers.source(scope, usize::try_from(most).unwrap_or(usize::MAX)))
    }

    /// Returns what servers are given that nobody else may see.
    pub(crate) fn secrets_of_servers(&self) -> BTreeMap<String, Secret> {
        secrets(&self.config.mcp_servers, &self.environment)
    }

    /// Ends the servers.
    pub(crate) async fn close_servers(&self) {
        if let Some(servers) = self.started.0.get() {
            servers.close().await;
        }
    }

    fn redaction_of_servers(&self) -> Redaction {
        let keys = provider::secrets(&self.config, &self.environment);
        Redaction::new(keys.into_iter().chain(self.secrets_of_servers()))
    }
}

/// Returns what servers are given that nobody else may see, by the names that stand for it.
fn secrets(
    servers: &BTreeMap<String, McpServer>,
    environment: &Environment,
) -> BTreeMap<String, Secret> {
    let lookup = |name: &str| environment.get(name);
    let of_server = |(name, server): (&String, &McpServer)| {
        let of = |key: String, value: Secret| (format!("{name} {key}"), value);
        server
            .secrets(&lookup)
            .into_iter()
            .map(move |(key, value)| of(key, value))
            .collect::<Vec<_>>()
    };
    servers.iter().flat_map(of_server).collect()
}

#[cfg(test)]
mod tests;
