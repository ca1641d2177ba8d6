//! The effects of an agent, as they are configured.
//!
//! `effects = [{ kind = "compact", threshold = 0.8 }]`; what is not said has its default. The
//! parameters may also stand in a table of their own, `{ kind = "compact", params = { … } }`, as
//! shelly writes them. Without `effects` an agent has `compact` alone; with an empty list it has none.

use std::fmt;
use std::sync::Arc;

use bowline_agent::effect::{
    Class, Compact, CostBudget, DynEffect, Effect, Inject, LoopDetect, ObservationMask, Offload,
    Progress, Reflection, SlidingWindow, StallDetect, TimeBudget, TokenBudget, ToolScope,
    TrimToolResults,
};
use bowline_agent::schemars::{JsonSchema, schema_for};
use bowline_llm::Model;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::config::nearest;
use crate::error::ConfigError;

/// An effect as it is configured.
#[derive(Clone)]
pub struct EffectConfig {
    kind: &'static Kind,
    said: toml::Table,
}

/// A kind of effect that can be configured.
struct Kind {
    name: &'static str,
    check: fn(&toml::Table) -> Result<(), String>,
    make: fn(&toml::Table, Models<'_>) -> Made,
    class: fn(&toml::Table) -> Class,
    schema: fn() -> Value,
}

type Made = Result<Arc<dyn DynEffect>, ConfigError>;

/// What an agent is told when it should come to an end.
const WARNING: &str = "You have used most of the steps you have. Finish what matters most now, leave \
                       the work in a state that others can go on with, and say what is left.";

/// Finds a model by its name.
pub(crate) type Models<'a> = &'a dyn Fn(&str) -> Result<Arc<dyn Model>, ConfigError>;

/// Writes the table of kinds: the name and the type of each.
macro_rules! kinds {
    ($($name:literal => $effect:ty),* $(,)?) => {
        &[$(Kind {
            name: $name,
            check: check::<$effect>,
            make: make::<$effect>,
            class: class::<$effect>,
            schema: || schema_for!($effect).to_value(),
        }),*]
    };
}

static KINDS: &[Kind] = kinds! {
    "compact" => Compact,
    "sliding_window" => SlidingWindow,
    "observation_mask" => ObservationMask,
    "trim_tool_results" => TrimToolResults,
    "offload" => Offload,
    "loop_detect" => LoopDetect,
    "stall_detect" => StallDetect,
    "reflection" => Reflection,
    "progress" => Progress,
    "inject" => Inject,
    "token_budget" => TokenBudget,
    "time_budget" => TimeBudget,
    "cost_budget" => CostBudget,
    "tool_scope" => ToolScope,
};

/// What the configuration must know of an effect.
trait Configured: Effect + DeserializeOwned + JsonSchema {
    /// Returns the effect if it can do what its parameters say, or the parameter that is wrong.
    fn checked(self) -> Result<Self, String>;

    /// Returns the model that it names, and where that goes.
    fn model(&mut self) -> Option<(&str, &mut Option<Arc<dyn Model>>)> {
        None
    }
}

impl Configured for Compact {
    fn checked(self) -> Result<Self, String> {
        Self::checked(self)
    }

    fn model(&mut self) -> Option<(&str, &mut Option<Arc<dyn Model>>)> {
        Some((&self.model, &mut self.summariser))
    }
}

/// Names effects whose parameters are all that there is to configure.
macro_rules! configured {
    ($($effect:ident),* $(,)?) => {
        $(impl Configured for $effect {
            fn checked(self) -> Result<Self, String> {
                Self::checked(self)
            }
        })*
    };
}

configured! {
    SlidingWindow,
    ObservationMask,
    TrimToolResults,
    Offload,
    LoopDetect,
    StallDetect,
    Reflection,
    Progress,
    Inject,
    TokenBudget,
    TimeBudget,
    CostBudget,
    ToolScope,
}

/// Makes an effect of what is said of it, or says what is wrong.
fn read<E: Configured>(said: &toml::Table) -> Result<E, String> {
    let effect: Result<E, _> = serde_path_to_error::deserialize(said.clone());
    let effect = effect.map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner().message());
        // An unknown key is looked for among the known ones by whoever reads the whole.
        if why.starts_with("unknown field") { why.to_owned() } else { format!("{path}: {why}") }
    });
    effect?.checked()
}

fn check<E: Configured>(said: &toml::Table) -> Result<(), String> {
    read::<E>(said).map(drop)
}

fn make<E: Configured>(said: &toml::Table, models: Models<'_>) -> Made {
    // It was read before, when the configuration was.
    let mut effect: E = read(said).map_err(ConfigError::Model)?;
    if let Some((name, model)) = effect.model()
        && !name.is_empty()
    {
        *model = Some(models(name)?);
    }
    Ok(Arc::new(effect))
}

fn class<E: Configured>(said: &toml::Table) -> Class {
    read::<E>(said).map_or(Class::Nudge, |effect| effect.class())
}

impl EffectConfig {
    /// Returns the effects of an agent for which none are configured.
    pub(crate) fn defaults(options: &toml::Table) -> Vec<Self> {
        KINDS.iter().take(1).map(|kind| Self { kind, said: options.clone() }).collect()
    }

    /// Returns what tells an agent after so many replies to come to an end; `None` for never.
    pub(crate) fn warning(turns: u32) -> Option<Self> {
        let kind = KINDS.iter().find(|kind| kind.name == "inject").filter(|_| turns > 0)?;
        let said = toml::Table::from_iter([
            ("at".to_owned(), toml::Value::from(vec![i64::from(turns)])),
            ("text".to_owned(), toml::Value::from(WARNING)),
        ]);
        Some(Self { kind, said })
    }

    /// Returns the kind, as it is written.
    pub fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// Returns when it is asked, among others.
    pub(crate) fn class(&self) -> Class {
        (self.kind.class)(&self.said)
    }

    pub(crate) fn make(&self, models: Models<'_>) -> Made {
        (self.kind.make)(&self.said, models)
    }

    /// Returns what it is and what its parameters are.
    pub fn about(&self) -> About {
        self.kind.about(&self.said)
    }
}

impl fmt::Debug for EffectConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectConfig")
            .field("kind", &self.kind.name)
            .field("said", &self.said)
            .finish()
    }
}

impl<'de> Deserialize<'de> for EffectConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut said = toml::Table::deserialize(deserializer)?;
        let Some(toml::Value::String(name)) = said.remove("kind") else {
            return Err(D::Error::custom(format!(
                "an effect needs its `kind`, such as {{ kind = \"{}\" }}",
                KINDS[0].name
            )));
        };
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let known = KINDS.iter().map(|kind| kind.name);
            let hint = match nearest(&name, known.clone()) {
                Some(nearest) => format!("did you mean {nearest:?}?"),
                None => format!("there is {}", known.collect::<Vec<_>>().join(", ")),
            };
            D::Error::custom(format!("there is no effect {name:?}; {hint}"))
        })?;
        if let Some(params) = said.remove("params") {
            let toml::Value::Table(params) = params else {
                return Err(D::Error::custom(format!("the params of {name:?} are a table")));
            };
            said.extend(params);
        }
        kind.round(&mut said);
        (kind.check)(&said).map_err(D::Error::custom)?;
        Ok(Self { kind, said })
    }
}

/// An effect, for a person.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// Its kind.
    pub kind: &'static str,
    /// What it does.
    pub what: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// A parameter of an effect, for a person.
#[derive(Debug, Clone, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it says.
    pub what: String,
    /// What it is if nothing is said.
    pub default: Value,
    /// What is configured; the default if nothing is said.
    pub value: Value,
}

/// Returns all kinds of effects, with their defaults.
pub fn known() -> Vec<About> {
    KINDS.iter().map(|kind| kind.about(&toml::Table::new())).collect()
}

impl Kind {
    /// Takes a whole number for one although it is written as 3.0, as it may be in YAML.
    fn round(&self, said: &mut toml::Table) {
        let schema = (self.schema)();
        for (name, value) in said.iter_mut() {
            let is_whole = schema["properties"][name]["type"] == "integer";
            if let (true, toml::Value::Float(number)) = (is_whole, &*value)
                && number.fract() == 0.0
                && let Ok(whole) = format!("{number:.0}").parse()
            {
                *value = toml::Value::Integer(whole);
            }
        }
    }

    fn about(&self, said: &toml::Table) -> About {
        let schema = (self.schema)();
        let parameters = schema["properties"].as_object().into_iter().flatten();
        let parameters = parameters.map(|(name, about)| {
            let default = about["default"].clone();
            let value = said.get(name).and_then(|value| serde_json::to_value(value).ok());
            Parameter {
                name: name.clone(),
                what: one_line(&about["description"]),
                value: value.unwrap_or_else(|| default.clone()),
                default,
            }
        });
        About {
            kind: self.name,
            what: one_line(&schema["description"]),
            parameters: parameters.collect(),
        }
    }
}

/// Returns the first paragraph of a description on one line.
fn one_line(description: &Value) -> String {
    let text = description.as_str().unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}
