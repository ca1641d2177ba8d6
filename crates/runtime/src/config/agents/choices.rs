//! What an agent chooses among.

use bowline_agent::ToolExecution;
use bowline_agent::orchestrator::Replan;
use bowline_llm::Effort;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// How many calls overlap when it is not said how many may.
const PARALLEL: usize = 8;

/// How an agent speaks to the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// With the text of its last reply.
    #[default]
    Text,
    /// With its tool `message`; what else it writes is not for the user.
    MessageTool,
}

/// The shape of an agent's loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopShape {
    /// The model is asked, what it calls is run, until it calls nothing.
    #[default]
    #[serde(alias = "agentic")]
    React,
    /// The model plans first, and the steps are done without asking it.
    PlanExecute,
}

/// How an agent plans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Planned {
    /// When it makes a new plan.
    pub replan: Replan,
}

/// What an agent costs, for those who choose among agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cost {
    /// Little.
    Cheap,
    /// The usual.
    Medium,
    /// Much.
    Expensive,
}

/// How those an agent delegates to ask it back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interaction {
    /// They are answered from what they were told.
    #[default]
    Auto,
    /// It answers them itself.
    Interactive,
    /// They work to their end.
    Blocking,
}

/// What becomes of the others when one of those an agent delegated to fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// They go on.
    #[default]
    Collect,
    /// They are stopped.
    CancelSiblings,
}

/// What those an agent delegates to may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChildTools {
    /// What is configured of them.
    #[default]
    Configured,
    /// That, and what the agent itself may call.
    Union,
    /// Of what the agent itself may call, what is configured of them.
    Subset,
    /// These.
    Named(Vec<String>),
}

impl<'de> Deserialize<'de> for ChildTools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let said = toml::Value::deserialize(deserializer)?;
        match said.as_str() {
            Some("configured") => Ok(Self::Configured),
            Some("union") => Ok(Self::Union),
            Some("subset") => Ok(Self::Subset),
            Some(other) => {
                Err(D::Error::unknown_variant(other, &["configured", "union", "subset"]))
            }
            None => Vec::deserialize(said).map(Self::Named).map_err(|_| {
                D::Error::custom("configured, union, subset or a list of tools is expected")
            }),
        }
    }
}

/// A toolbox that an agent has, or some tools of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolboxConfig {
    /// Its name.
    pub name: String,
    /// The tools of it that the agent has; `None` for all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// Reads a list of toolboxes, each a name or a table.
pub(super) fn toolboxes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<ToolboxConfig>>, D::Error> {
    let said = Vec::<toml::Value>::deserialize(deserializer)?;
    let toolbox = |said| match said {
        toml::Value::String(name) => Ok(ToolboxConfig { name, tools: None }),
        toml::Value::Table(table) => {
            table.try_into().map_err(|error: toml::de::Error| D::Error::custom(error.message()))
        }
        _ => Err(D::Error::custom(
            "the name of a toolbox, or { name = …, tools = […] }, is expected",
        )),
    };
    said.into_iter().map(toolbox).collect::<Result<_, _>>().map(Some)
}

/// Which calls of one reply may overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolRuns(pub ToolExecution);

impl<'de> Deserialize<'de> for ToolRuns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// So many at once.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct AtOnce {
            parallel: usize,
        }
        let said = toml::Value::deserialize(deserializer)?;
        match said.as_str() {
            Some("auto") => return Ok(Self(ToolExecution::Auto)),
            Some("parallel") => return Ok(Self(ToolExecution::Parallel { max: PARALLEL })),
            Some("sequential") => return Ok(Self(ToolExecution::Sequential)),
            Some(other) => {
                return Err(D::Error::unknown_variant(other, &["auto", "parallel", "sequential"]));
            }
            None => {}
        }
        match AtOnce::deserialize(said) {
            Ok(AtOnce { parallel: max @ 1.. }) => Ok(Self(ToolExecution::Parallel { max })),
            Ok(_) | Err(_) => Err(D::Error::custom(
                "auto, parallel, sequential or { parallel = N } with at least 1 is expected",
            )),
        }
    }
}

/// Reads an effort.
pub(super) fn effort<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Effort>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = &["minimal", "low", "medium", "high", "xhigh"];
    Effort::parse(&name).map(Some).ok_or_else(|| D::Error::unknown_variant(&name, known))
}

/// Reads a share of a whole.
pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let share = f64::deserialize(deserializer)?;
    match (0.0..1.0).contains(&share) {
        true => Ok(Some(share)),
        false => Err(D::Error::custom("a share, 0 or more and less than 1, is expected")),
    }
}
