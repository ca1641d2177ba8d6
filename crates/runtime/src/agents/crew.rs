//! How configured agents work together.

use std::sync::Arc;

use bowline_agent::AgentError;
use bowline_agent::crew::board::{Board, TaskBoard};
use bowline_agent::crew::{self, Allowed, Card, Extra, Member, Registry, TaskTool};
use bowline_agent::tool::ToolContext;

use crate::config::{ALL, AgentConfig, ChildTools, Cost, DEFAULT_AGENT, Interaction, OnError};
use crate::error::ConfigError;
use crate::permission::Engine;
use crate::tools::AgentTool;

use super::factory::{self, AgentFactory};
use super::toolboxes;

/// How deep an agent may delegate that does not say.
const MAX_DEPTH: u32 = 3;

impl AgentFactory {
    /// Returns how the first agent of a session takes part: with all configured agents to delegate to.
    pub(super) fn first(
        &self,
        own: &AgentConfig,
        model: &str,
        engine: &Arc<Engine>,
    ) -> Result<Member, ConfigError> {
        let registry = Arc::new(Registry::default());
        let configured = &self.runtime.config.agents;
        let built_in = (!configured.contains_key(DEFAULT_AGENT) && self.is_delegate(DEFAULT_AGENT))
            .then(|| AgentConfig { name: DEFAULT_AGENT.to_owned(), ..AgentConfig::default() });
        for agent in configured.values().chain(&built_in) {
            let factory = self.clone();
            registry.register(card(agent), move |spawn| {
                factory.hire(spawn).map_err(|error| AgentError::NotMade(error.to_string()))
            });
        }
        let board = |cx: &ToolContext| Arc::new(Board::of(cx)) as Arc<dyn TaskBoard>;
        let member = Member {
            board: Some(Arc::new(board)),
            reflections: Some(Arc::new(self.runtime.reflections(self.runtime.redaction()?))),
            ..Member::new(&own.name, registry)
        };
        self.member(own, model, member, engine)
    }

    /// Returns how an agent takes part, as it is configured, where it would take part otherwise by what
    /// its place gives it.
    pub(super) fn member(
        &self,
        own: &AgentConfig,
        model: &str,
        place: Member,
        engine: &Arc<Engine>,
    ) -> Result<Member, ConfigError> {
        let asks_for = |name: &str| toolboxes::may_call(own, name);
        let extras = ["delegate_to_agent", "spawn_agents", "send_message"];
        let extras = extras.into_iter().filter(|name| asks_for(name));
        let is_all = |names: &&Vec<String>| names.iter().any(|name| name == ALL);
        Ok(Member {
            description: own.description.clone(),
            max_depth: own.max_depth.unwrap_or(MAX_DEPTH),
            max_handoffs: own.max_handoffs.unwrap_or_default(),
            interaction: match own.interaction {
                Interaction::Auto | Interaction::Blocking => crew::Interaction::Auto,
                Interaction::Interactive => crew::Interaction::Interactive,
            },
            question_timeout: own.question_timeout.map(|span| span.0),
            child_tools: self.child_tools(own, model, engine)?,
            delegates: own.delegates.as_ref().filter(|names| !is_all(names)).cloned(),
            allow_self: own.allow_self,
            // Who asks for the tool itself may also make agents that nobody has configured.
            ad_hoc: asks_for("delegate"),
            on_error: match own.on_error {
                OnError::Collect => crew::OnError::Collect,
                OnError::CancelSiblings => crew::OnError::CancelSiblings,
            },
            reflections: place.reflections.filter(|_| own.reflections != Some(false)),
            completes: asks_for("task_complete"),
            extras: extras.filter_map(|name| name.parse::<Extra>().ok()).collect(),
            task_tools: self.task_tools(own)?,
            ..Member { reflections: None, ..place }
        })
    }

    /// Makes the configured tools that are tasks for other agents.
    fn task_tools(&self, own: &AgentConfig) -> Result<Vec<TaskTool>, ConfigError> {
        let agents = self.runtime.configured()?.agents.into_iter();
        let own = agents.filter(|tool| toolboxes::may_call(own, &tool.described.name));
        Ok(own
            .map(|AgentTool { described, agent, task }| {
                let spec = described.spec();
                let make = move |arguments: &str| {
                    described
                        .read(arguments)
                        .map(|arguments| task.fill(&arguments, bowline_tools::plain))
                };
                TaskTool { spec, agent, task: Arc::new(make) }
            })
            .collect())
    }

    /// Tells whether an agent is named as one to delegate to.
    fn is_delegate(&self, name: &str) -> bool {
        let agents = self.runtime.config.agents.values();
        agents.filter_map(|agent| agent.delegates.as_ref()).flatten().any(|own| own == name)
    }

    fn child_tools(
        &self,
        own: &AgentConfig,
        model: &str,
        engine: &Arc<Engine>,
    ) -> Result<crew::ChildTools, ConfigError> {
        Ok(match &own.child_tools {
            ChildTools::Configured => crew::ChildTools::Configured,
            ChildTools::Subset => crew::ChildTools::Common,
            ChildTools::Union => crew::ChildTools::Union,
            ChildTools::Named(names) => {
                let named = AgentConfig { tools: Some(names.clone()), ..AgentConfig::default() };
                let workspace = self.runtime.workspace_of(engine);
                let tools = factory::tools(&self.runtime, &workspace, &named, model)?;
                let may_have = move |tool: &str| toolboxes::may_call(&named, tool);
                crew::ChildTools::Listed(tools, Allowed::only(may_have))
            }
        })
    }
}

/// Returns what is told of an agent to those who may delegate to it.
fn card(agent: &AgentConfig) -> Card {
    Card {
        name: agent.name.clone(),
        description: agent.description.clone(),
        prefix: agent.prefix.clone(),
        tags: agent.skills_tags.clone(),
        estimated_cost: agent.estimated_cost.map(|cost| match cost {
            Cost::Cheap => crew::Cost::Cheap,
            Cost::Medium => crew::Cost::Medium,
            Cost::Expensive => crew::Cost::Expensive,
        }),
        max_concurrency: agent
            .max_concurrency
            .map_or(0, |most| usize::try_from(most).unwrap_or(usize::MAX)),
    }
}
