//! The tools that a configuration makes: `[tools.NAME]`, and `AGENT_TOOLS_JSON` as agent-core reads
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_agent::OutputSchema;
use bowline_agent::tool::{DynTool, Toolbox};
use bowline_llm::{RawJson, Secret};
use bowline_tools::{
    CommandConfig, CommandLine, CommandTool, Described, FetchConfig, HttpRequest, HttpTool,
    Template, Workspace,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::{self, Config, Span};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::mcp;

/// The variable in which agent-core looks for tools.
const AGENT_TOOLS: &str = "AGENT_TOOLS_JSON";

/// A tool as it is configured.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ToolConfig {
    /// What it is.
    pub kind: Kind,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments; without one it has none.
    pub parameters: Option<toml::Table>,
    /// `http`: the method.
    pub method: Option<String>,
    /// `http`: the address.
    pub url: Option<String>,
    /// `http`: headers.
    pub headers: BTreeMap<String, String>,
    /// `http`: the body.
    pub body: Option<String>,
    /// `http`: whether the server may be at an address that is not public.
    pub allow_private: bool,
    /// `http`: which part of a JSON answer is shown.
    pub response_path: Option<String>,
    /// `http`: what of that is shown under which name.
    pub response_map: BTreeMap<String, String>,
    /// `command`: the program and its arguments.
    pub command: Option<Vec<String>>,
    /// `command`: a script for bash.
    pub script: Option<String>,
    /// `command`: more variables.
    pub env: BTreeMap<String, String>,
    /// `command`: the folder it runs in.
    pub cwd: Option<String>,
    /// How long it may take.
    pub timeout: Option<Span>,
    /// `agent`: the name of the agent.
    pub agent: Option<String>,
    /// `agent`: what it is asked.
    pub task: Option<String>,
}

/// What a configured tool is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A request to a server.
    Http,
    /// A command.
    #[default]
    Command,
    /// A task for another agent.
    Agent,
}

/// The tools that a configuration makes.
#[derive(Debug, Clone, Default)]
pub struct Configured {
    /// Those that are whole.
    pub tools: Toolbox,
    /// Those that are tasks for other agents: delegation makes tools of them.
    pub agents: Vec<AgentTool>,
    /// What of their configuration must not be said.
    pub secrets: Vec<(String, Secret)>,
}

/// A tool that is a task for another agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentTool {
    /// What a model is told.
    pub described: Described,
    /// The name of the agent.
    pub agent: String,
    /// What it is asked, with the arguments of the call in braces.
    pub task: Template,
}

/// Makes the configured tools. `$VAR` and `${VAR}` in addresses, headers and variables are taken from
/// the environment.
///
/// # Errors
/// [`ConfigError::Tool`] with what is wrong with which.
pub fn configured(
    config: &Config,
    environment: &Environment,
    workspace: &Workspace,
) -> Result<Configured, ConfigError> {
    let (mut all, mut secrets) = (Configured::default(), Vec::new());
    for (name, tool) in of_agent_core(environment, &mut secrets)? {
        all.add(&name, &tool, workspace, &mut str::to_owned)?;
    }
    let mut expand = |text: &str| {
        config::expanded(text, |name| {
            let value = environment.get(name)?.to_owned();
            if config::is_secret(name) || mcp::looks_secret(&value) {
                secrets.push((name.to_owned(), Secret::from(value.clone())));
            }
            Some(value)
        })
    };
    for (name, tool) in &config.tools {
        all.add(name, tool, workspace, &mut expand)?;
    }
    Ok(Configured { secrets, ..all })
}

/// Returns what is wrong with configured tools, each by itself: without them nothing starts.
pub(crate) fn faults(config: &Config, environment: &Environment) -> Vec<ConfigError> {
    let mut expand =
        |text: &str| config::expanded(text, |name| environment.get(name).map(str::to_owned));
    let mut wrong = |name: &str, tool: &ToolConfig| {
        tool.check()?;
        let described = tool.described(name)?;
        match tool.kind {
            Kind::Http => {
                let request = tool.request(&mut expand);
                HttpTool::new(described, &request, FetchConfig::default()).map(drop)
            }
            Kind::Command => tool.command(&mut expand).map(drop),
            Kind::Agent => tool.agent_tool(described).map(drop),
        }
    };
    let each = config.tools.iter().filter_map(|(name, tool)| {
        let what = wrong(name, tool).err()?;
        Some(ConfigError::Tool { name: name.clone(), what })
    });
    each.collect()
}

/// Puts variables of the environment in their places.
type Expand<'a> = &'a mut dyn FnMut(&str) -> String;

impl Configured {
    fn add(
        &mut self,
        name: &str,
        tool: &ToolConfig,
        workspace: &Workspace,
        expand: Expand<'_>,
    ) -> Result<(), ConfigError> {
        let wrong = |what: String| ConfigError::Tool { name: name.to_owned(), what };
        tool.check().map_err(wrong)?;
        let described = tool.described(name).map_err(wrong)?;
        let made: Arc<dyn DynTool> = match tool.kind {
            Kind::Http => {
                let fetch = FetchConfig::with_proxies_of(&workspace.environment);
                Arc::new(HttpTool::new(described, &tool.request(expand), fetch).map_err(wrong)?)
            }
            Kind::Command => {
                let command = tool.command(expand).map_err(wrong)?;
                let workspace = workspace.clone();
                Arc::new(CommandTool::new(described, command, workspace).map_err(wrong)?)
            }
            Kind::Agent => {
                self.agents.push(tool.agent_tool(described).map_err(wrong)?);
                return Ok(());
            }
        };
        self.tools.add(made).map_err(|error| wrong(error.to_string()))
    }
}

impl ToolConfig {
    /// Refuses what means nothing for a tool of its kind.
    fn check(&self) -> Result<(), String> {
        let keys = [
            (Kind::Http, "url", self.url.is_some()),
            (Kind::Http, "method", self.method.is_some()),
            (Kind::Http, "headers", !self.headers.is_empty()),
            (Kind::Http, "body", self.body.is_some()),
            (Kind::Http, "allow_private", self.allow_private),
            (Kind::Http, "response_path", self.response_path.is_some()),
            (Kind::Http, "response_map", !self.response_map.is_empty()),
            (Kind::Command, "command", self.command.is_some()),
            (Kind::Command, "script", self.script.is_some()),
            (Kind::Command, "env", !self.env.is_empty()),
            (Kind::Command, "cwd", self.cwd.is_some()),
            (Kind::Agent, "agent", self.agent.is_some()),
            (Kind::Agent, "task", self.task.is_some()),
        ];
        let (own, needed): (_, &[&str]) = match self.kind {
            Kind::Http => ("http", &["url"]),
            Kind::Command => ("command", &[]),
            Kind::Agent => ("agent", &["agent", "task"]),
        };
        let mut set = keys.iter().filter(|(.., is_set)| *is_set);
        if let Some((_, key, _)) = set.find(|(kind, ..)| *kind != self.kind) {
            return Err(format!("{key} means nothing for a tool of kind {own}"));
        }
        let is_set = |key: &&&str| keys.iter().any(|(_, name, is_set)| *is_set && name == *key);
        match needed.iter().find(|key| !is_set(key)) {
            Some(key) => Err(format!("a tool of kind {own} needs {key}")),
            None => Ok(()),
        }
    }

    fn described(&self, name: &str) -> Result<Described, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return Err("a tool's name is at most 64 letters, digits, - and _".to_owned());
        }
        let none = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let schema = match &self.parameters {
            None => none(),
            Some(schema) => serde_json::to_value(schema).map_err(|error| error.to_string())?,
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("parameters: a schema with type = \"object\" is expected".to_owned());
        }
        let schema = RawJson::of(&schema).map_err(|error| error.to_string())?;
        let arguments =
            OutputSchema::new(schema).map_err(|error| format!("parameters: {error}"))?;
        Ok(Described { name: name.to_owned(), description: self.description.clone(), arguments })
    }

    fn request(&self, expand: Expand<'_>) -> HttpRequest {
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), expand(value)));
        let headers = headers.collect();
        let pairs = self.response_map.iter().map(|(name, path)| (name.clone(), path.clone()));
        HttpRequest {
            method: self.method.clone().unwrap_or_default(),
            url: expand(self.url.as_deref().unwrap_or_default()),
            headers,
            body: self.body.clone(),
            allow_private: self.allow_private,
            timeout: self.timeout.map(|span| span.0),
            response_path: self.response_path.clone(),
            response_map: pairs.collect(),
        }
    }

    fn command(&self, expand: Expand<'_>) -> Result<CommandConfig, String> {
        let line = match (self.command.clone(), self.script.clone()) {
            (Some(command), None) => CommandLine::Program(command),
            (None, Some(script)) => CommandLine::Script(script),
            (Some(_), Some(_)) => return Err("give command or script, not both".to_owned()),
            (None, None) => return Err("a tool of kind command needs command or script".to_owned()),
        };
        let env = self.env.iter();
        let env = env.map(|(name, value)| (name.clone(), expand(value)));
        let (cwd, timeout) = (self.cwd.clone(), self.timeout.map(|span| span.0));
        Ok(CommandConfig { line, env: env.collect(), cwd, timeout })
    }

    fn agent_tool(&self, described: Described) -> Result<AgentTool, String> {
        let names = described.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let task = Template::parse(self.task.as_deref().unwrap_or_default(), &names)?;
        Ok(AgentTool { described, agent: self.agent.clone().unwrap_or_default(), task })
    }
}

/// A tool as agent-core configures it.
#[derive(Deserialize)]
struct Foreign {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    parameters: Option<toml::Table>,
    #[serde(default)]
    endpoint: Option<String>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    auth: Option<Auth>,
    #[serde(default)]
    response_path: Option<String>,
    #[serde(default)]
    response_map: BTreeMap<String, String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    apikey: String,
    #[serde(default)]
    header: Option<String>,
}

/// Reads the tools that agent-core would have. Those without a name it skips, and so does this.
fn of_agent_core(
    environment: &Environment,
    secrets: &mut Vec<(String, Secret)>,
) -> Result<BTreeMap<String, ToolConfig>, ConfigError> {
    let Some(text) = environment.get(AGENT_TOOLS) else { return Ok(BTreeMap::new()) };
    let wrong = |what: String| ConfigError::Variable { name: AGENT_TOOLS.to_owned(), what };
    let tools: Vec<Foreign> =
        serde_json::from_str(text).map_err(|error| wrong(format!("no array of tools: {error}")))?;
    let named = tools.into_iter().filter(|tool| !tool.name.is_empty());
    named
        .map(|tool| {
            let name = tool.name.clone();
            let key = tool.auth.as_ref().map(|auth| Secret::from(auth.apikey.clone()));
            secrets.extend(key.map(|key| (name.clone(), key)));
            let tool =
                tool.into_ours().map_err(|what| wrong(format!("the tool {name}: {what}")))?;
            Ok((name, tool))
        })
        .collect()
}

impl Foreign {
    fn into_ours(self) -> Result<ToolConfig, String> {
        let mut parameters = self.parameters;
        if let Some(parameters) = &mut parameters {
            parameters.entry("type").or_insert_with(|| "object".into());
        }
        let base =
            ToolConfig { description: self.description, parameters, ..ToolConfig::default() };
        match self.r#type.as_str() {
            "http" => Ok(ToolConfig {
                kind: Kind::Http,
                url: Some(self.endpoint.ok_or("it has no endpoint")?),
                method: Some(self.method.unwrap_or_else(|| "POST".to_owned())),
                headers: self.auth.map(Auth::header).transpose()?.into_iter().collect(),
                // There, arguments are the body of every method.
                body: Some("{arguments}".to_owned()),
                response_path: self.response_path.filter(|path| !path.is_empty()),
                response_map: self.response_map,
                ..base
            }),
            "command" => {
                let program = self.command.ok_or("it has no command")?;
                let command = std::iter::once(program).chain(self.args).collect();
                Ok(ToolConfig {
                    kind: Kind::Command,
                    command: Some(command),
                    env: self.env,
                    ..base
                })
            }
            "mcp" => Err("configure its server in [mcp_servers]".to_owned()),
            other => Err(format!("its type {other:?} is unknown")),
        }
    }
}

impl Auth {
    fn header(self) -> Result<(String, String), String> {
        match self.r#type.as_str() {
            "apikey" | "bearer" => {
                let header = self.header.filter(|header| !header.is_empty());
                let header = header.unwrap_or_else(|| "Authorization".to_owned());
                Ok((header, format!("Bearer {}", self.apikey)))
            }
            other => Err(format!("auth of type {other:?} is unknown")),
        }
    }
}

#[cfg(test)]
mod tests;
