//! What is configured of servers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use bowline_llm::Secret;
use bowline_tools::mcp::{Http, Program, Reach, ServerConfig};

use crate::config::{Loaded, Node, Span, Table, Value, is_secret};

use super::Configured;
use super::expand::{Lookup, expand, variables};

/// How long a server may take to start if nothing else is said.
const STARTUP: Duration = Duration::from_secs(10);

/// What holds for all servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct McpConfig {
    /// The bytes of tools from which on the model gets `tool_search` and `tool_call` in their place; 0
    /// for never. Without it, a tenth of the model's window.
    pub schema_bytes: Option<u64>,
}

/// A server that brings tools. `${VAR}` and `${VAR:-default}` are replaced in all texts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct McpServer {
    /// How it is spoken with; without it, `command` or `url` tells.
    #[serde(rename = "type")]
    pub kind: Option<McpKind>,
    /// Its program.
    pub command: Option<String>,
    /// The arguments of that.
    pub args: Vec<String>,
    /// The variables of that, beside those that all commands get.
    pub env: BTreeMap<String, String>,
    /// The folder it runs in; without it, the working directory.
    pub cwd: Option<String>,
    /// Its address.
    pub url: Option<String>,
    /// More headers for every request to that.
    pub headers: BTreeMap<String, String>,
    /// Whether it is started.
    pub enabled: bool,
    /// How long one call may take, in place of `limits.tool_time`.
    pub timeout: Option<Span>,
    /// How long it may take to start.
    pub startup_timeout: Option<Span>,
    /// Whether what it says of its tools is believed: a tool that says that it changes nothing may be
    /// called without asking, beside others, and twice.
    pub trust_hints: bool,
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            kind: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            enabled: true,
            timeout: None,
            startup_timeout: None,
            trust_hints: false,
        }
    }
}

/// How a server is spoken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpKind {
    /// Over standard input and output.
    Stdio,
    /// Over streamable HTTP.
    #[serde(alias = "streamable-http", alias = "streamable_http", alias = "streamableHttp")]
    Http,
    /// Over HTTP as it was before that; no longer spoken.
    Sse,
}

impl McpServer {
    /// Looks up all variables.
    pub(super) fn ready(&self, name: &str, lookup: Lookup<'_>) -> ServerConfig {
        ServerConfig {
            name: name.to_owned(),
            reach: self.reach(lookup),
            startup_timeout: self.startup_timeout.map_or(STARTUP, |span| span.0),
            timeout: self.timeout.map(|span| span.0),
            trust_hints: self.trust_hints,
        }
    }

    fn reach(&self, lookup: Lookup<'_>) -> Result<Reach, String> {
        let text = |text: &String| expand(text, lookup);
        let pairs = |pairs: &BTreeMap<String, String>| {
            let pair = |(name, value): (&String, &String)| Ok((name.clone(), text(value)?.into()));
            pairs.iter().map(pair).collect::<Result<Vec<_>, String>>()
        };
        let wrong = |what: &str| Err(what.to_owned());
        match (self.kind, &self.command, &self.url) {
            (Some(McpKind::Sse), _, _) => wrong(
                "the transport sse is not spoken any more; most servers have type = \"http\" too",
            ),
            (_, Some(_), Some(_)) => wrong("it has a command and a url; one of them is enough"),
            (None | Some(McpKind::Stdio), Some(command), None) => Ok(Reach::Program(Program {
                command: text(command)?,
                arguments: self.args.iter().map(text).collect::<Result<_, _>>()?,
                environment: pairs(&self.env)?,
                cwd: self.cwd.as_ref().map(text).transpose()?.map(Into::into),
            })),
            (None | Some(McpKind::Http), None, Some(url)) => {
                Ok(Reach::Http(Http { url: text(url)?, headers: pairs(&self.headers)? }))
            }
            (Some(McpKind::Stdio), None, _) => wrong("it has no command"),
            (Some(McpKind::Http), _, None) => wrong("it has no url"),
            (None, None, None) => wrong("it has neither a command nor a url"),
        }
    }

    /// Returns what it is given that nobody else may see, with the names that stand for it: all its
    /// headers, its variables but for those that plainly hold no secret, and the variables that it
    /// names and that are called like secrets.
    pub(super) fn secrets(&self, lookup: Lookup<'_>) -> Vec<(String, Secret)> {
        let mut secrets = Vec::new();
        let mut add = |name: String, value: String| secrets.push((name, Secret::from(value)));
        for (name, value) in &self.headers {
            let Ok(value) = expand(value, lookup) else { continue };
            // What stands behind `Bearer` is the secret.
            if let Some((_, token)) = value.split_once(' ') {
                add(format!("token of {name}"), token.trim().to_owned());
            }
            add(name.clone(), value);
        }
        for (name, value) in &self.env {
            let Ok(value) = expand(value, lookup) else { continue };
            if is_secret(name) || looks_secret(&value) {
                add(name.clone(), value);
            }
        }
        let texts = self.args.iter().chain(&self.command).chain(&self.url).chain(&self.cwd);
        for name in texts.flat_map(|text| variables(text)).filter(|name| is_secret(name)) {
            if let Some(value) = lookup(name) {
                add(name.to_owned(), value.to_owned());
            }
        }
        secrets
    }
}

/// Tells whether a value may be a secret. A path, a word or a number is none: replacing it wherever it
/// stands would garble what has nothing to do with it.
pub(crate) fn looks_secret(value: &str) -> bool {
    let is_place =
        value.starts_with(['/', '.', '~']) || value.contains("://") && !value.contains('@');
    let is_word = value.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '_' | ' ' | ','));
    let is_number = value.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ':'));
    !(is_place || is_word || is_number)
}

/// Returns the servers that layers name, later ones winning.
pub(super) fn configured(loaded: &Loaded) -> Vec<Configured> {
    let mut all = BTreeMap::new();
    let applied = loaded.layers.iter().filter(|layer| layer.is_applied);
    for layer in loaded.layers.iter().filter(|layer| !layer.is_applied).chain(applied) {
        let servers = layer.table.get("mcp_servers").and_then(Node::as_table);
        for (name, node) in servers.into_iter().flatten() {
            // Of what counts all layers together are shown.
            let merged = loaded.merged.get("mcp_servers").and_then(Node::as_table);
            let merged = merged.and_then(|servers| servers.get(name));
            let shown = merged.filter(|_| layer.is_applied).unwrap_or(node);
            let Some(table) = shown.as_table() else { continue };
            let is_off = table
                .get("enabled")
                .is_some_and(|node| node.value == Value::Leaf(toml::Value::Boolean(false)));
            let configured = Configured {
                name: name.clone(),
                reach: reach_of(table),
                enabled: !is_off,
                place: node.place.to_string(),
                is_applied: layer.is_applied,
            };
            all.insert(name.clone(), configured);
        }
    }
    all.into_values().collect()
}

fn reach_of(table: &Table) -> String {
    let text = |key: &str| table.get(key).and_then(Node::as_str);
    if let Some(url) = text("url") {
        return crate::config::without_credentials(url);
    }
    let mut words: Vec<&str> = text("command").into_iter().collect();
    if let Some(Value::List(items)) = table.get("args").map(|node| &node.value) {
        words.extend(items.iter().filter_map(Node::as_str));
    }
    words.join(" ")
}
