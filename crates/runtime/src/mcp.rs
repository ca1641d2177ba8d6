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
use bowline_tools::mcp::{Host, Report, Scope, Servers, State};

use crate::environment::Environment;
use crate::provider;
use crate::runtime::Runtime;

pub(crate) use foreign::to_ours;
pub(crate) use scope::scope;
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
    /// Begins to start the servers that bring tools, and does not wait for any of them. Whoever is
    /// `attended` is asked what a server wants to know. Starting them again does nothing.
    ///
    /// Must be called within a runtime of tokio, in which they live.
    pub fn start_servers(&self, attended: bool) {
        self.started.0.get_or_init(|| {
            let host = Host {
                workspace: self.workspace(),
                proxy: provider::proxy(&self.environment),
                attended,
            };
            let enabled = self.config.mcp_servers.iter().filter(|(_, server)| server.enabled);
            let lookup = |name: &str| self.environment.get(name);
            let configs = enabled.map(|(name, server)| server.ready(name, &lookup)).collect();
            Arc::new(Servers::start(configs, host))
        });
    }

    /// Waits until it is clear which of the servers can be used, at the longest until their time to
    /// start is over; says in one line each which cannot, and why.
    pub async fn settled_servers(&self) -> Vec<String> {
        let Some(servers) = self.started.0.get() else { return Vec::new() };
        servers.settled().await;
        let redaction = self.redaction_of_servers();
        let complaints = servers.complaints();
        complaints.iter().map(|complaint| redaction.apply(complaint).into_owned()).collect()
    }

    /// Starts all servers, and returns what there is to say of each.
    pub async fn check_servers(&self) -> Vec<Report> {
        self.start_servers(false);
        let Some(servers) = self.started.0.get() else { return Vec::new() };
        servers.settled().await;
        let redaction = self.redaction_of_servers();
        let clean = |text: &str| redaction.apply(text).into_owned();
        let clean = |report: Report| Report {
            aside: clean(&report.aside),
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
        scope: Scope,
        context_window: Option<u64>,
    ) -> Option<Arc<dyn ToolSource>> {
        let servers = self.started.0.get()?;
        let window = context_window.map(|window| window.saturating_mul(TOKEN_BYTES) / SHARE);
        let most = match self.config.mcp.schema_bytes {
            Some(0) => u64::MAX,
            Some(bytes) => bytes,
            None => window.unwrap_or(UNKNOWN_WINDOW),
        };
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
