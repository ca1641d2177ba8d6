//! The configuration: what the user says once.

mod layers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;

use bowline_agent::limits::Limits;
use bowline_llm::Price;

pub use layers::{Layer, Origin, load, set};

/// The configuration, all layers laid over each other.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model that runs when nothing else is said, as `provider/model[:effort]`.
    pub model: Option<String>,
    /// Models to fall back to.
    pub fallback: Vec<String>,
    /// The agent that takes the prompt.
    pub entry_agent: Option<String>,
    /// What a commit survives when it returns.
    pub durability: Durability,
    /// Where models are.
    pub providers: BTreeMap<String, Provider>,
    /// Agents.
    pub agents: BTreeMap<String, toml::Value>,
    /// How much a run may use.
    pub limits: LimitsConfig,
    /// What tools may do.
    pub permissions: Permissions,
    /// The confinement of commands.
    pub sandbox: BTreeMap<String, toml::Value>,
    /// Servers that bring tools.
    pub mcp_servers: BTreeMap<String, toml::Value>,
    /// Where traces go.
    pub trace: BTreeMap<String, toml::Value>,
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
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// What is spoken there; `chat` if nothing is said.
    #[serde(default)]
    pub wire: Wire,
    /// The address; with `/v1` for `chat`.
    pub base_url: Option<String>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key.
    pub api_key_file: Option<PathBuf>,
    /// The command that prints the key.
    pub api_key_command: Option<String>,
    /// Whether answers come in pieces.
    #[serde(default = "yes")]
    pub stream: bool,
    /// The role in which the system text is sent.
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
    pub rate_limit: Option<toml::Value>,
    /// What is different for single models.
    #[serde(default)]
    pub models: BTreeMap<String, ModelConfig>,
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            wire: Wire::Chat,
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            api_key_command: None,
            stream: true,
            system_role: None,
            headers: BTreeMap::new(),
            max_retries: eight(),
            idle_timeout: two_minutes(),
            context_window: None,
            max_output_tokens: None,
            rate_limit: None,
            models: BTreeMap::new(),
        }
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

/// The role in which the system text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemRole {
    /// `system`.
    System,
    /// `developer`.
    Developer,
}

/// What is different for one model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// How many tokens a request and its answer may have together.
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    pub max_output_tokens: Option<u64>,
    /// US dollars for a million tokens.
    pub price: Option<Price>,
}

/// How much a run may use. What is absent is the default, which differs for a run without a person.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    pub cost_usd: Option<f64>,
    /// Whether the model may sum up when a limit is reached.
    pub wrap_up: Option<bool>,
}

impl LimitsConfig {
    /// Returns the limits of a run without a person.
    pub fn headless(&self) -> Limits {
        let default = Limits { model_turns: 100, run_time_ms: 30 * 60 * 1000, ..Limits::default() };
        self.over(&default)
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

/// What tools may do.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// What happens when no rule says anything.
    pub mode: Option<Mode>,
    /// Rules that allow.
    pub allow: Vec<toml::Value>,
    /// Rules that ask.
    pub ask: Vec<toml::Value>,
    /// Rules that deny.
    pub deny: Vec<toml::Value>,
}

/// What happens when no rule says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Reading is allowed; a person is asked about everything else.
    Ask,
    /// Reading and writing files is allowed; a person is asked about everything else.
    AcceptEdits,
    /// Only reading is allowed.
    Plan,
    /// Everything runs inside the sandbox.
    Auto,
    /// Only reading is allowed, and nobody is asked.
    Deny,
    /// Everything is allowed.
    Bypass,
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

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Config {
    /// Returns what is configured but has no effect in this version, in words for a person.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let permissions = &self.permissions;
        let rules = [&permissions.allow, &permissions.ask, &permissions.deny];
        let rate_limited = self.providers.values().any(|provider| provider.rate_limit.is_some());
        let all = [
            (!self.fallback.is_empty(), "fallback"),
            (self.entry_agent.as_deref().is_some_and(|agent| agent != "default"), "entry_agent"),
            (!self.agents.is_empty(), "agents"),
            (rules.into_iter().any(|rules| !rules.is_empty()), "permissions.allow, ask and deny"),
            (!self.sandbox.is_empty(), "sandbox"),
            (!self.mcp_servers.is_empty(), "mcp_servers"),
            (!self.trace.is_empty(), "trace"),
            (rate_limited, "providers.*.rate_limit"),
        ];
        all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
    }
}
