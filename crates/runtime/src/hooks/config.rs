//! How a hook is written in the configuration.

use std::fmt;
use std::time::Duration;

use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::Span;

/// How long a hook may take if nothing is said.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A command of the user that runs at a moment of a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct HookConfig {
    /// At which moment.
    pub event: Event,
    /// About what; without it about everything.
    #[serde(default)]
    pub matcher: Matcher,
    /// What runs, as a shell takes it.
    #[serde(deserialize_with = "command")]
    pub command: String,
    /// How long it may take: seconds, or a text like `30s`.
    #[serde(default = "a_minute", deserialize_with = "timeout")]
    pub timeout: Duration,
    /// Whether nobody waits for it. Then it decides about nothing.
    #[serde(default, rename = "async")]
    pub is_async: bool,
}

/// A moment of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// A process takes a session up, or its conversation was summarised.
    SessionStart,
    /// The user has said something that is to begin a run.
    UserPromptSubmit,
    /// A tool is about to be called.
    PreToolUse,
    /// A person would be asked whether a call may be.
    PermissionRequest,
    /// A call has ended well.
    PostToolUse,
    /// A call has not ended well.
    PostToolUseFailure,
    /// A sub-agent is about to begin.
    SubagentStart,
    /// A sub-agent would end with an answer.
    SubagentStop,
    /// The first agent would end with an answer.
    Stop,
    /// The conversation is about to be summarised.
    PreCompact,
    /// The conversation has been summarised.
    PostCompact,
    /// The process lets go of the session.
    SessionEnd,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::Stop,
        Self::PreCompact,
        Self::PostCompact,
        Self::SessionEnd,
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::Stop => "Stop",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// Returns the one of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Tells whether something is about to happen that a hook can forbid.
    pub(super) fn is_gate(self) -> bool {
        match self {
            Self::UserPromptSubmit
            | Self::PreToolUse
            | Self::PermissionRequest
            | Self::PreCompact => true,
            Self::SessionStart
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::SubagentStart
            | Self::SubagentStop
            | Self::Stop
            | Self::PostCompact
            | Self::SessionEnd => false,
        }
    }

    /// Tells whether a hook can say no, before or after.
    pub(super) fn can_be_blocked(self) -> bool {
        match self {
            Self::UserPromptSubmit
            | Self::PreToolUse
            | Self::PermissionRequest
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::SubagentStop
            | Self::Stop
            | Self::PreCompact => true,
            Self::SessionStart | Self::SubagentStart | Self::PostCompact | Self::SessionEnd => {
                false
            }
        }
    }

    /// Tells whether what a hook prints is for the model even if it is no JSON.
    pub(super) fn hears_plain_text(self) -> bool {
        matches!(self, Self::SessionStart | Self::UserPromptSubmit)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a hook is about: tools by their names, or what else an event tells apart.
///
/// A text of letters, digits, `_`, `-` and `|` is one name or several; `*` and nothing are everything;
/// any other is a regular expression that is searched for.
#[derive(Debug, Clone, Default)]
pub enum Matcher {
    /// Everything.
    #[default]
    All,
    /// One of these names.
    Names(String),
    /// What has this in its name.
    Pattern(Regex),
}

impl Matcher {
    /// Reads a matcher.
    ///
    /// # Errors
    /// What is wrong with it as a regular expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '|');
        match text.trim() {
            "" | "*" => Ok(Self::All),
            names if names.chars().all(is_name) => Ok(Self::Names(names.to_owned())),
            pattern => Regex::new(pattern).map(Self::Pattern).map_err(|error| {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("{pattern:?} is no regular expression: {why}")
            }),
        }
    }

    /// Tells whether it is about any of these.
    pub fn fits(&self, names: &[&str]) -> bool {
        match self {
            Self::All => true,
            Self::Names(known) => known.split('|').any(|name| names.contains(&name)),
            Self::Pattern(pattern) => names.iter().any(|name| pattern.is_match(name)),
        }
    }

    /// Returns it as it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::All => "*",
            Self::Names(names) => names,
            Self::Pattern(pattern) => pattern.as_str(),
        }
    }
}

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let command = String::deserialize(deserializer)?;
    match command.trim().is_empty() {
        true => Err(serde::de::Error::custom("a command is expected")),
        false => Ok(command),
    }
}

fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    use serde::de::Error as _;
    let what = "seconds above 0 are expected, or a text like 30s";
    let timeout = match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => Span::parse(&text).map_err(D::Error::custom)?.0,
        toml::Value::Integer(seconds) => {
            Duration::from_secs(u64::try_from(seconds).map_err(|_| D::Error::custom(what))?)
        }
        _ => return Err(D::Error::custom(what)),
    };
    if timeout.is_zero() { Err(D::Error::custom(what)) } else { Ok(timeout) }
}

pub(super) fn a_minute() -> Duration {
    TIMEOUT
}
