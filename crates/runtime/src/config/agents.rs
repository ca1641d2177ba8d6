//! What is configured of an agent.

mod choices;

use std::sync::Arc;

use serde::Deserialize;

use bowline_agent::orchestrator::{Orchestrator, PlanExecute, React};
use bowline_llm::Effort;

use super::{LimitsConfig, Permissions, SandboxConfig, Span};
use crate::effects::EffectConfig;

pub use choices::{
    ChildTools, Cost, Interaction, LoopShape, OnError, OutputMode, Planned, ToolRuns, ToolboxConfig,
};

/// What stands for all names of a list.
pub const ALL: &str = "*";

/// An agent. What is absent has its default, or that of the whole configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct AgentConfig {
    /// Its name: the key of its table, or what its file says.
    pub name: String,
    /// What it and others are told of it.
    pub description: String,
    /// What it is told beside how to work; empty for nothing.
    pub instructions: String,
    /// What is shown before what it says.
    pub prefix: Option<String>,
    /// The model that it asks, as `provider/model[:effort]`; empty for that of the whole configuration.
    pub model: String,
    /// The provider of its model, as shelly names it.
    pub provider: String,
    /// Models that are asked in this order when its own cannot answer.
    pub fallback: Option<Vec<String>>,
    /// How hard its model should think.
    #[serde(deserialize_with = "choices::effort")]
    pub effort: Option<Effort>,
    /// What it may call: tools, toolboxes, servers, `mcp__server__tool`; `*` for all. Without this and
    /// `toolboxes`, all.
    pub tools: Option<Vec<String>>,
    /// What it may call, by toolbox, perhaps only some tools of one.
    #[serde(deserialize_with = "choices::toolboxes")]
    pub toolboxes: Option<Vec<ToolboxConfig>>,
    /// The servers whose tools it may have; without it, all.
    pub mcp_servers: Option<Vec<String>>,
    /// What it knows how to do, by name; without it, or with `*`, all.
    pub skills: Option<Vec<String>>,
    /// What others find it by.
    pub skills_tags: Vec<String>,
    /// What it costs, for those who choose among agents.
    pub estimated_cost: Option<Cost>,
    /// How many of it may work at once; 0 for any number.
    pub max_concurrency: Option<u32>,
    /// What changes its conversation; without it, `compact` alone.
    pub effects: Option<Vec<EffectConfig>>,
    /// How much a run of it may use.
    pub limits: LimitsConfig,
    /// How long a run of it may take, people and all; 0 for any time.
    pub timeout: Option<Span>,
    /// After how many replies it is told to come to an end; 0 for never.
    pub warn_turns: u32,
    /// How many tokens a request and its answer may have together, for the `compact` that an agent has
    /// without `effects`; 0 for the window of its model.
    pub context_window: Option<u64>,
    /// The share of the window at which that shortens the conversation; 0 for never.
    #[serde(deserialize_with = "choices::share")]
    pub context_threshold: Option<f64>,
    /// How deep it may delegate; 0 for not at all.
    pub max_depth: Option<u32>,
    /// How often work that it delegated may be handed on.
    pub max_handoffs: Option<u32>,
    /// How those it delegates to ask it back.
    pub interaction: Interaction,
    /// How long such a question may stay open.
    pub question_timeout: Option<Span>,
    /// What those it delegates to may call.
    pub child_tools: ChildTools,
    /// To whom it may delegate; without it, to all.
    pub delegates: Option<Vec<String>>,
    /// Whether it may delegate to its like.
    pub allow_self: bool,
    /// What becomes of the others when one of those it delegated to fails.
    pub on_error: OnError,
    /// The shape of its loop.
    pub orchestrator: LoopShape,
    /// How it plans, if it does.
    pub plan: Planned,
    /// Which of its calls may overlap.
    pub tool_execution: ToolRuns,
    /// How it speaks to the user.
    pub output: OutputMode,
    /// Whether it is told how to work.
    pub behavioral_hints: Option<bool>,
    /// Whether it is told what went wrong before, and leaves such notes.
    pub reflections: Option<bool>,
    /// Whether it is told what the project tells every model, such as `AGENTS.md`.
    pub project_context: Option<bool>,
    /// What its tools may do.
    pub permissions: Permissions,
    /// What its commands may touch.
    pub sandbox: SandboxConfig,
}

impl AgentConfig {
    /// Returns the name of its model, if it names one.
    pub fn model(&self) -> Option<String> {
        match (self.provider.as_str(), self.model.as_str()) {
            ("", "") => None,
            ("", name) | (name, "") => Some(name.to_owned()),
            (provider, model) if model.starts_with(&format!("{provider}/")) => {
                Some(model.to_owned())
            }
            (provider, model) => Some(format!("{provider}/{model}")),
        }
    }

    /// Tells whether it is told what the project tells every model.
    pub fn has_project_context(&self) -> bool {
        self.project_context.unwrap_or(true)
    }

    /// Returns its effects as they are asked: what shortens the conversation first, what says something
    /// last, and else as they are configured. Those that it has without being told are among them.
    pub fn effects(&self) -> Vec<EffectConfig> {
        let mut effects = self.effects.clone().unwrap_or_else(|| self.default_effects());
        effects.extend(EffectConfig::warning(self.warn_turns));
        effects.sort_by_key(EffectConfig::class);
        effects
    }

    fn default_effects(&self) -> Vec<EffectConfig> {
        if self.context_threshold == Some(0.0) {
            return Vec::new();
        }
        let mut said = toml::Table::new();
        said.extend(self.context_threshold.map(|share| ("threshold".to_owned(), share.into())));
        let window = self.context_window.and_then(|window| i64::try_from(window).ok());
        said.extend(window.map(|window| ("context_window".to_owned(), window.into())));
        EffectConfig::defaults(&said)
    }

    /// Makes what decides about its next steps.
    pub(crate) fn orchestrator(&self) -> Arc<dyn Orchestrator> {
        match self.orchestrator {
            LoopShape::React => Arc::new(React),
            LoopShape::PlanExecute => Arc::new(PlanExecute { replan: self.plan.replan }),
        }
    }
}
