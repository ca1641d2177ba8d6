//! What is configured of an agent.

use std::sync::Arc;

use serde::Deserialize;

use bowline_agent::orchestrator::{Orchestrator, PlanExecute, React, Replan};

use crate::effects::EffectConfig;

/// An agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct AgentConfig {
    /// What it is told beside how to work; empty for nothing.
    pub instructions: String,
    /// How it speaks to the user.
    pub output: OutputMode,
    /// What it and others are told of it.
    pub description: String,
    /// What is shown before what it says.
    pub prefix: Option<toml::Value>,
    /// The model that it asks.
    pub model: Option<toml::Value>,
    /// The provider that it asks, as shelly names it.
    pub provider: Option<toml::Value>,
    /// What it may call.
    pub tools: Option<toml::Value>,
    /// What it may call, as shelly names it.
    pub toolboxes: Option<toml::Value>,
    /// The servers whose tools it may have; without it, all.
    pub mcp_servers: Option<toml::Value>,
    /// What it knows how to do, by name; without it, or with `*`, all.
    pub skills: Option<Vec<String>>,
    /// What others find it by, as shelly names it.
    pub skills_tags: Option<toml::Value>,
    /// What it costs, as shelly says it.
    pub estimated_cost: Option<toml::Value>,
    /// How many of it may work at once, as shelly says it.
    pub max_concurrency: Option<toml::Value>,
    /// What changes its conversation; without it, `compact` alone.
    pub effects: Option<Vec<EffectConfig>>,
    /// How many tokens a request and its answer may have together, for the `compact` that an agent has
    /// without `effects`; 0 for the window of its model.
    pub context_window: Option<u64>,
    /// The share of the window at which that shortens the conversation; 0 for never.
    pub context_threshold: Option<f64>,
    /// How deep it may delegate.
    pub max_depth: Option<toml::Value>,
    /// The shape of its loop.
    pub orchestrator: LoopShape,
    /// How it plans, if it does.
    pub plan: Planned,
    /// Which of its calls may overlap.
    pub tool_execution: Option<toml::Value>,
    /// Whether it is told how to work.
    pub behavioral_hints: Option<bool>,
    /// How much a run of it may use.
    pub limits: Option<toml::Value>,
    /// Settings of shelly.
    pub options: Option<toml::Value>,
}

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

impl AgentConfig {
    /// Returns its effects as they are asked: what shortens the conversation first, what says something
    /// last, and else as they are configured. Those that it has without being told are among them.
    pub fn effects(&self) -> Vec<EffectConfig> {
        if let Some(effects) = &self.effects {
            let mut effects = effects.clone();
            effects.sort_by_key(EffectConfig::class);
            return effects;
        }
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

    /// Tells whether something is configured that has no effect in this version.
    pub(super) fn has_more(&self) -> bool {
        let later = [
            &self.prefix,
            &self.model,
            &self.provider,
            &self.tools,
            &self.toolboxes,
            &self.skills_tags,
            &self.estimated_cost,
            &self.max_concurrency,
            &self.max_depth,
            &self.tool_execution,
            &self.limits,
            &self.options,
        ];
        later.into_iter().any(Option::is_some)
    }
}
