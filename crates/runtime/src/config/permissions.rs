//! `[permissions]`: what tools may do.

use serde::{Deserialize, Deserializer, Serialize};

use crate::permission::Rule;

/// What tools may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Permissions {
    /// What happens when no rule says anything.
    pub mode: Option<Mode>,
    /// Rules that allow.
    pub allow: Vec<RuleConfig>,
    /// Rules that ask.
    pub ask: Vec<RuleConfig>,
    /// Rules that deny.
    pub deny: Vec<RuleConfig>,
}

/// A rule and what is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleConfig {
    /// The rule.
    pub rule: Rule,
    /// Why there is one, for the model and the user.
    pub reason: Option<String>,
}

/// What happens when no rule says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Reading is allowed; a person is asked about everything else.
    Ask,
    /// Reading, and writing files of the workspace, is allowed; a person is asked about everything else.
    AcceptEdits,
    /// Only reading is allowed.
    Plan,
    /// What stays inside the sandbox is allowed; nobody is asked.
    Auto,
    /// Only reading is allowed, and nobody is asked.
    Deny,
    /// Everything is allowed.
    Bypass,
}

impl Mode {
    /// All of them, from the one that asks most.
    pub const ALL: [Self; 6] =
        [Self::Ask, Self::AcceptEdits, Self::Plan, Self::Auto, Self::Deny, Self::Bypass];

    /// Returns the mode as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Plan => "plan",
            Self::Auto => "auto",
            Self::Deny => "deny",
            Self::Bypass => "bypass",
        }
    }
}

/// A rule as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    rule: String,
    reason: Option<String>,
    #[serde(default, rename = "match")]
    fits: Vec<String>,
    #[serde(default)]
    not_match: Vec<String>,
}

impl<'de> Deserialize<'de> for RuleConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let said = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(rule) => {
                Said { rule, reason: None, fits: Vec::new(), not_match: Vec::new() }
            }
            table @ toml::Value::Table(_) => {
                Said::deserialize(table).map_err(|error| D::Error::custom(error.message()))?
            }
            other => {
                let what = other.type_str();
                let expected = "a rule is a text, or a table with `rule`";
                return Err(D::Error::custom(format!("{expected}, no {what}")));
            }
        };
        let rule = Rule::parse(&said.rule).map_err(D::Error::custom)?;
        let examples = said.fits.iter().map(|example| (example, true));
        for (example, fits) in examples.chain(said.not_match.iter().map(|example| (example, false)))
        {
            if rule.is_about(example) == fits {
                continue;
            }
            let what = match fits {
                true => format!("`{rule}` is not about {example:?}, which match says it is"),
                false => format!("`{rule}` is about {example:?}, which not_match says it is not"),
            };
            return Err(D::Error::custom(what));
        }
        Ok(Self { rule, reason: said.reason })
    }
}

impl From<Rule> for RuleConfig {
    fn from(rule: Rule) -> Self {
        Self { rule, reason: None }
    }
}
