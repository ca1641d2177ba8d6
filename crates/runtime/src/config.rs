//! The configuration: what the user says once.
//!
//! It is laid together from layers, later ones winning: what holds by itself,
//! `/etc/bowline/config.toml`, the user's `config.toml`, the project's `.bowline/config.toml` and
//! `.bowline/config.local.toml` once the project is trusted, a profile, the environment, and the
//! assignments of the command line. `config.yaml` in place of a `config.toml` has the same keys.
//!
//! Agents may also stand in files of their own, see [`crate::agents`]; they are layers like the files
//! that they stand beside.
//!
//! A profile is `[profiles.NAME]` of a file that counts, or the file `NAME.config.toml` beside the
//! user's; if there are both, the file wins. `BOWLINE_PROFILE` names one where `--profile` does not.
//!
//! In the environment `BOWLINE_MODEL` is `model`, `BOWLINE_LIMITS_MODEL_TURNS` is
//! `limits.model_turns`, and two underscores go one level down whatever the section:
//! `BOWLINE_PROVIDERS__MINE__BASE_URL` is `providers.mine.base_url`.

mod agents;
mod assigned;
mod check;
mod flags;
mod layers;
mod node;
mod permissions;
mod read;
mod sandbox;
mod seeds;
mod shell_environment;
mod show;
mod trace;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;

use bowline_agent::limits::Limits;
use bowline_llm::{Price, Secret};

pub use crate::hooks::HookConfig;
pub use crate::mcp::{McpConfig, McpKind, McpServer};
use crate::tools::ToolConfig;

pub use agents::{
    ALL, AgentConfig, ChildTools, Cost, Interaction, LoopShape, OnError, OutputMode, Planned,
    ToolRuns, ToolboxConfig,
};
pub(crate) use assigned::below;
pub use assigned::set;
pub(crate) use check::{Fault, as_error, as_errors, check, meant, nearest, read_as};
pub use flags::{Flags, Kept};
pub(crate) use layers::{AgentFile, Trust, read_all, table_of};
pub use layers::{Kind, Layer, Loaded, Said, Source, file, load, sources};
pub use node::{Node, Origin, Place, Table, Value};
pub(crate) use node::{find, merge, nearest as nearest_node};
pub use permissions::{Mode, Permissions, RuleConfig};
pub(crate) use read::yaml;
pub use sandbox::{SandboxConfig, SandboxLimits, SandboxProfile, Size};
pub(crate) use seeds::{agent_to_ours, expanded};
pub(crate) use shell_environment::of_commands;
pub use shell_environment::{ShellEnvironment, Variables};
pub use show::{Setting, Unset, explain, show};
pub(crate) use show::{is_secret, settings_of_agent, without_credentials};
pub use trace::{TraceCompat, TraceConfig, TraceContent, TraceProtocol};

/// The name of the agent that is always there, and takes the prompt when nothing else is said.
pub const DEFAULT_AGENT: &str = "default";

/// The configuration, all layers laid over each other.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Config {
    /// The model that runs when nothing else is said, as `provider/model[:effort]`.
    pub model: Option<String>,
    /// Models that are asked in this order when the one that runs cannot answer.
    pub fallback: Vec<String>,
    /// The agent that takes the prompt.
    pub entry_agent: Option<String>,
    /// What a commit survives when it returns.
    pub durability: Durability,
    /// The loopback addresses at which a local server is looked for when nothing names a model;
    /// empty for nowhere, `None` for the usual ones.
    pub local_servers: Option<Vec<String>>,
    /// Where models are.
    pub providers: BTreeMap<String, Provider>,
    /// Agents; `default` takes the prompt.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Tools that are requests, commands, or tasks for other agents.
    pub tools: BTreeMap<String, ToolConfig>,
    /// How much a run may use.
    pub limits: LimitsConfig,
    /// What tools may do.
    pub permissions: Permissions,
    /// What commands may touch.
    pub sandbox: SandboxConfig,
    /// The variables that commands get.
    pub shell_environment: ShellEnvironment,
    /// Servers that bring tools.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// What holds for all of them.
    pub mcp: McpConfig,
    /// Where what agents share is kept.
    pub shared: SharedConfig,
    /// Whether what agents change in files is recorded.
    pub undo: UndoConfig,
    /// Commands that run at moments of a session. Those of all layers do.
    pub hooks: Vec<HookConfig>,
    /// Whether they do, but for those of who looks after this machine.
    pub hooks_enabled: Option<bool>,
    /// Where traces go.
    pub trace: TraceConfig,
    /// Settings that count when their name is given.
    pub profiles: BTreeMap<String, Self>,
}

/// What a commit survives when it returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The death of the process.
    #[default]
    Process,
    /// The loss of power.
    Power,
}

/// Where models are, and how to speak to them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Provider {
    /// What is spoken there; if nothing is said the address and the name of a known provider tell,
    /// and else it is `chat`.
    pub wire: Option<Wire>,
    /// The address; with `/v1` for `chat` and `responses`.
    pub base_url: Option<String>,
    /// The model that is meant when only the provider is named.
    pub model: Option<String>,
    /// The key itself; better it is kept where only its owner can read it.
    #[serde(deserialize_with = "secret")]
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key.
    pub api_key_file: Option<PathBuf>,
    /// The command that prints the key.
    pub api_key_command: Option<String>,
    /// Where the keyring of the operating system holds the key: `service/account`.
    pub api_key_keyring: Option<String>,
    /// Whether answers come in pieces.
    #[serde(default = "yes")]
    pub stream: bool,
    /// The role in which the system text is sent, with `chat` and `responses`.
    pub system_role: Option<SystemRole>,
    /// More headers for every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How often a failed request is tried again.
    #[serde(default = "eight")]
    pub max_retries: u32,
    /// How long to wait for the next piece of an answer.
    #[serde(default = "two_minutes")]
    pub idle_timeout: Span,
    /// How many tokens a request and its answer may have together.
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    pub max_output_tokens: Option<u64>,
    /// How much may be asked in a minute.
    pub rate_limit: Option<RateLimit>,
    /// How requests are gathered into batches.
    pub batch: Option<toml::Value>,
    /// What is different for single models.
    #[serde(default)]
    pub models: BTreeMap<String, ModelConfig>,
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            wire: None,
            base_url: None,
            model: None,
            api_key: None,
            api_key_env: None,
            api_key_file: None,
            api_key_command: None,
            api_key_keyring: None,
            stream: true,
            system_role: None,
            headers: BTreeMap::new(),
            max_retries: eight(),
            idle_timeout: two_minutes(),
            context_window: None,
            max_output_tokens: None,
            rate_limit: None,
            batch: None,
            models: BTreeMap::new(),
        }
    }
}

fn secret<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Option::<String>::deserialize(deserializer).map(|key| key.map(Secret::from))
}

fn dollars<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let dollars = Option::<f64>::deserialize(deserializer)?;
    match dollars {
        Some(dollars) if !(dollars >= 0.0 && dollars.is_finite()) => {
            Err(serde::de::Error::custom("an amount of dollars, 0 or more, is expected"))
        }
        Some(_) | None => Ok(dollars),
    }
}

fn price<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Price>, D::Error> {
    let price = Option::<Price>::deserialize(deserializer)?;
    match price {
        Some(price) if !price.is_amount() => {
            Err(serde::de::Error::custom("amounts of dollars, 0 or more, are expected"))
        }
        Some(_) | None => Ok(price),
    }
}

fn yes() -> bool {
    true
}

fn eight() -> u32 {
    8
}

fn two_minutes() -> Span {
    Span(Duration::from_secs(120))
}

/// What is spoken with a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// OpenAI-compatible Chat Completions.
    #[default]
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
    /// A model in this process.
    Local,
}

impl Wire {
    /// Returns the wire as it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Local => "local",
        }
    }
}

/// The role in which the system text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemRole {
    /// `system`.
    System,
    /// `developer`.
    Developer,
}

/// How much may be asked of a provider in a minute, by one process; 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct RateLimit {
    /// Requests.
    pub rpm: u32,
    /// Tokens of requests.
    pub input_tpm: u64,
    /// Tokens of answers.
    pub output_tpm: u64,
    /// How often a failed request is tried again, in place of the provider's `max_retries`.
    pub max_retries: Option<u32>,
    /// How long the first wait before that may be; each further one may be twice as long.
    pub base_delay: Option<Span>,
}

/// What is different for one model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ModelConfig {
    /// How many tokens a request and its answer may have together.
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    pub max_output_tokens: Option<u64>,
    /// Whether it sees images.
    pub images: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
    /// US dollars for a million tokens.
    #[serde(deserialize_with = "price")]
    pub price: Option<Price>,
}

/// How much a run may use. What is absent is the default, which differs for a run without a person.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct LimitsConfig {
    /// Model calls.
    pub model_turns: Option<u32>,
    /// Tool calls.
    pub tool_calls: Option<u32>,
    /// Time at work.
    pub run_time: Option<Span>,
    /// Time for one tool call.
    pub tool_time: Option<Span>,
    /// Bytes of one tool result that the model gets to see.
    pub output_bytes: Option<u64>,
    /// Tokens, in and out.
    pub total_tokens: Option<u64>,
    /// US dollars.
    #[serde(deserialize_with = "dollars")]
    pub cost_usd: Option<f64>,
    /// Whether the model may sum up when a limit is reached.
    pub wrap_up: Option<bool>,
}

impl LimitsConfig {
    /// Returns the limits of a run without a person.
    pub fn headless(&self) -> Limits {
        self.over(&Self::default_headless())
    }

    /// Returns the limits of a run of an agent without a person; what the agent does not say is as here.
    pub fn headless_of(&self, agent: &AgentConfig) -> Limits {
        agent.limits.over(&self.headless())
    }

    fn default_headless() -> Limits {
        Limits { model_turns: 100, run_time_ms: 30 * 60 * 1000, ..Limits::default() }
    }

    fn over(&self, default: &Limits) -> Limits {
        let ms = |span: Option<Span>, default| span.map_or(default, Span::as_millis);
        Limits {
            model_turns: self.model_turns.unwrap_or(default.model_turns),
            tool_calls: self.tool_calls.unwrap_or(default.tool_calls),
            run_time_ms: ms(self.run_time, default.run_time_ms),
            tool_time_ms: ms(self.tool_time, default.tool_time_ms),
            output_bytes: self.output_bytes.unwrap_or(default.output_bytes),
            total_tokens: self.total_tokens.unwrap_or(default.total_tokens),
            cost_usd: self.cost_usd.unwrap_or(default.cost_usd),
            wrap_up: self.wrap_up.unwrap_or(default.wrap_up),
        }
    }
}

/// Where what agents share is kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct SharedConfig {
    /// Their notes.
    pub notes: SharedPlace,
    /// Their state.
    pub state: SharedPlace,
}

impl Default for SharedConfig {
    fn default() -> Self {
        Self { notes: SharedPlace::Project, state: SharedPlace::Session }
    }
}

/// Whether what agents change in files is recorded, so that it can be taken back.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct UndoConfig {
    /// Whether it is.
    pub enabled: bool,
}

impl Default for UndoConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// For whom something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedPlace {
    /// For the agents of the session.
    Session,
    /// For all who work in the project.
    Project,
}

/// A length of time, written like `120s`, `30m`, `1h 30m` or `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// Reads a length of time.
    ///
    /// # Errors
    /// What is wrong with it, and how it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no length of time; write it like 90s, 30m or 1h30m");
        let span: SignedDuration = text.trim().parse().map_err(|_| wrong())?;
        Duration::try_from(span).map(Self).map_err(|_| wrong())
    }

    fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        match (seconds, millis) {
            (0, 1..) => write!(f, "{millis}ms"),
            (seconds, 0) if seconds >= 300 && seconds.is_multiple_of(60) => {
                write!(f, "{}m", seconds / 60)
            }
            (seconds, 0) => write!(f, "{seconds}s"),
            (seconds, millis) => write!(f, "{seconds}s {millis}ms"),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Config {
    /// Returns what is configured but has no effect in this version, in words for a person.
    pub fn without_effect(&self) -> Vec<String> {
        let is_batched = self.providers.values().any(|provider| provider.batch.is_some());
        if is_batched { vec!["providers.*.batch".to_owned()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
