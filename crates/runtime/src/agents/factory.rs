//! From a name to an agent.

use std::sync::Arc;

use jiff::Zoned;

use bowline_agent::crew::Spawn;
use bowline_agent::effect::DynEffect;
use bowline_agent::id::SystemSource;
use bowline_agent::journal::Store;
use bowline_agent::limits::Limits;
use bowline_agent::middleware::{Middleware, Timeout};
use bowline_agent::orchestrator::{Orchestrator, React};
use bowline_agent::tool::{Scope, Tool as _, ToolSource, Toolbox, ToolboxError, changed};
use bowline_agent::{Agent, Memory, Redaction};
use bowline_llm::fallback::Candidate;
use bowline_llm::{Fallback, Model, ModelInfo, Secret};
use bowline_tools::{AskUser, Editing, Message, Workspace};

use crate::config::{AgentConfig, OutputMode};
use crate::error::ConfigError;
use crate::hooks::Attended;
use crate::mcp;
use crate::permission::Engine;
use crate::prompt::{self, Section};
use crate::provider::{Made, ModelName, Picked};
use crate::runtime::{Choice, Runtime};

use super::toolboxes;

/// Makes agents by their names, each as it is configured.
///
/// ```no_run
/// # use bowline_runtime::{AgentFactory, Choice, ConfigError, Runtime};
/// # fn example(runtime: &Runtime, choice: Choice) -> Result<(), ConfigError> {
/// let factory = AgentFactory::new(runtime, choice);
/// let sysinfo = factory.build("sysinfo")?;
/// # drop(sysinfo);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct AgentFactory {
    pub(super) runtime: Runtime,
    choice: Choice,
}

/// What an agent is told before the user says anything.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The system text in its sections.
    pub sections: Vec<Section>,
    /// What it can do.
    pub tools: Toolbox,
    /// What goes before the first prompt.
    pub context: String,
}

impl Told {
    /// Takes away what is secret, as an agent does when it tells this.
    fn without(mut self, redaction: &Redaction) -> Self {
        for section in &mut self.sections {
            section.text = redaction.apply(&section.text).into_owned();
        }
        self.context = redaction.apply(&self.context).into_owned();
        self
    }
}

/// An agent as it is configured, and the models with which it works.
struct Parts {
    own: AgentConfig,
    model: Arc<dyn Model>,
    name: ModelName,
    /// Whether the model talks in plain lines: it reads neither a system text nor facts, only examples,
    /// and cannot write a plan.
    in_lines: bool,
    limits: Limits,
    redaction: Redaction,
}

impl AgentFactory {
    /// Makes a factory. What was chosen for the agent that takes the prompt is for it alone, but for
    /// the model: that is also the one of agents that name none.
    pub fn new(runtime: &Runtime, choice: Choice) -> Self {
        Self { runtime: runtime.clone(), choice }
    }

    /// Makes an agent, as the first one of a session. It may delegate to the others, as it is
    /// configured.
    ///
    /// # Errors
    /// [`ConfigError::UnknownAgent`] if there is none of this name, else [`ConfigError`] if it cannot be
    /// used as it is configured.
    pub fn build(&self, name: &str) -> Result<Agent, ConfigError> {
        self.hire(&Spawn::root(name))
    }

    /// Makes an agent for a place in a crew.
    pub(super) fn hire(&self, spawn: &Spawn) -> Result<Agent, ConfigError> {
        let Parts { own, model, name, in_lines, limits, redaction } = self.parts(&spawn.name)?;
        let Self { runtime, choice } = self;
        let cwd = &runtime.environment.cwd;
        let engine = self.engine(spawn, &own)?;
        let workspace = runtime.workspace_of(&engine);
        runtime.make_temp();
        let Told { sections, tools, context } = match in_lines {
            true => {
                let small = bowline_tools::small_toolbox(&workspace)?;
                let tools = shown(&toolboxes::of_agent(&own, &small)?, &engine)?;
                Told { tools, ..Told::default() }
            }
            false => self.told_at(spawn, &own, &name.model, &engine)?,
        };
        let orchestrator: Arc<dyn Orchestrator> =
            if in_lines { Arc::new(React) } else { own.orchestrator() };
        let window = model.info().context_window;
        let more_tools = if in_lines { None } else { self.tools_of_servers(&own, window, &engine) };
        let timeout = own.timeout.filter(|time| !time.0.is_zero());
        let timeout = timeout.map(|time| Arc::new(Timeout(time.0)) as Arc<dyn Middleware>);
        let is = Attended { attended: choice.attended, is_kept: !choice.ephemeral };
        let hooked = runtime.hooks_of(&own, is, &redaction);
        let effects = if in_lines { Vec::new() } else { self.effects(&own)? };
        let (tools, more_tools) = match &hooked {
            // What their commands change in files is a part of the call.
            Some(hooked) => hooked.around_all(tools, more_tools)?,
            None => (tools, more_tools),
        };
        let tells_with = (own.output == OutputMode::MessageTool).then(|| Message::NAME.to_owned());
        let agent = Agent {
            instructions: prompt::join(&sections).into(),
            context,
            effort: name.effort,
            tools: runtime.recorded(&tools)?,
            more_tools: more_tools.map(|more| runtime.recorded_source(more)),
            tool_execution: own.tool_execution.0,
            effects,
            middleware: timeout.into_iter().collect(),
            limits,
            output_schema: choice.output_schema.clone().filter(|_| own.name == choice.agent),
            tells_with,
            orchestrator,
            gate: Arc::clone(&engine) as _,
            on_end: Some(Arc::new(workspace)),
            redaction,
            attended: choice.attended,
            cwd: Some(cwd.to_string_lossy().into_owned()),
            store: self.store(),
            source: Arc::new(SystemSource),
            name: own.name,
            ..Agent::new(model)
        };
        match hooked {
            Some(hooked) => Ok(hooked.surround(agent, engine)),
            None => Ok(agent),
        }
    }

    /// Returns where the tools of servers come from that an agent is shown.
    fn tools_of_servers(
        &self,
        own: &AgentConfig,
        context_window: Option<u64>,
        engine: &Arc<Engine>,
    ) -> Option<Arc<dyn ToolSource>> {
        let source = self.runtime.tools_of_servers(mcp::scope(own), context_window)?;
        let engine = Arc::clone(engine);
        // All names are those of tools that are there.
        Some(changed(source, move |all| shown(&all, &engine).unwrap_or_default()))
    }

    /// Returns what an agent is told before the user says anything, by a model that reads it: one that
    /// talks in plain lines does not.
    ///
    /// # Errors
    /// As [`AgentFactory::build`].
    pub fn told(&self, name: &str) -> Result<Told, ConfigError> {
        let own = self.runtime.agent_config(name)?;
        let is_chosen = own.name == self.choice.agent;
        let model = if is_chosen { self.choice.model.clone() } else { self.model_of(&own)? };
        let spawn = Spawn::root(name);
        let engine = self.engine(&spawn, &own)?;
        let told = self.told_at(&spawn, &own, &model.name.model, &engine)?;
        Ok(told.without(&self.runtime.redaction_with([])?))
    }

    /// Makes what decides about the calls of an agent in its place.
    fn engine(&self, spawn: &Spawn, own: &AgentConfig) -> Result<Arc<Engine>, ConfigError> {
        let above: Vec<String> = match &spawn.parent {
            Some(parent) => std::iter::once(&parent.name).chain(&parent.above).cloned().collect(),
            None => Vec::new(),
        };
        self.runtime.engine(own, &above, self.choice.attended).map(Arc::new)
    }

    fn told_at(
        &self,
        spawn: &Spawn,
        own: &AgentConfig,
        model: &str,
        engine: &Arc<Engine>,
    ) -> Result<Told, ConfigError> {
        let Self { runtime, choice } = self;
        let member = match spawn.depth {
            0 => self.first(own, model, engine)?,
            _ => self.member(own, model, spawn.member(), engine)?,
        };
        let cwd = &runtime.environment.cwd;
        let skills = choice.skills.of(own.skills.as_deref());
        let mut tools = self.tools(own, model, engine)?;
        if let Some(load) = prompt::skill_tool(cwd, &skills) {
            tools = tools.with(load)?;
        }
        let of_project = if own.has_project_context() { choice.instructions.as_str() } else { "" };
        let mut place = member.prompt(spawn);
        place.notes = tools.names().any(|name| name == "list_notes");
        Ok(Told {
            sections: prompt::sections(own, &skills, place),
            // What an agent needs in a crew it has whatever it lists.
            tools: shown(&Toolbox::layered([&tools, &member.tools(spawn)]), engine)?,
            context: prompt::context(cwd, &Zoned::now(), of_project),
        })
    }

    /// Returns what an agent may call; nobody is asked who is not there.
    fn tools(
        &self,
        own: &AgentConfig,
        model: &str,
        engine: &Arc<Engine>,
    ) -> Result<Toolbox, ConfigError> {
        let tools = tools(&self.runtime, &self.runtime.workspace_of(engine), own, model)?;
        let may_have = |name: &&str| self.choice.attended || *name != AskUser::NAME;
        let names: Vec<&str> = tools.names().filter(may_have).collect();
        Ok(tools.scope(Scope::Names(&names))?)
    }

    fn parts(&self, name: &str) -> Result<Parts, ConfigError> {
        let Self { runtime, choice } = self;
        let own = runtime.agent_config(name)?;
        let is_chosen = own.name == choice.agent;
        let limits = match is_chosen {
            true => choice.limits.clone(),
            false => runtime.config.limits.headless_of(&own),
        };
        let picked = if is_chosen { choice.model.clone() } else { self.model_of(&own)? };
        let Made { model, key, in_lines } = runtime.made(&picked)?;
        check_price(model.info(), &limits)?;
        let name = picked.name;
        let mut keys: Vec<_> = key.map(|key| (name.provider.clone(), key)).into_iter().collect();
        let others = self.others(&own, &name, &limits, &mut keys)?;
        let model: Arc<dyn Model> = match others.is_empty() {
            true => model,
            false => Arc::new(Fallback::new(model, others)),
        };
        let redaction = runtime.redaction_with(keys)?;
        Ok(Parts { own, model, name, in_lines, limits, redaction })
    }

    /// Returns the model of an agent that does not take the prompt.
    fn model_of(&self, own: &AgentConfig) -> Result<Picked, ConfigError> {
        let Some(name) = own.model() else {
            let mut picked = self.choice.model.clone();
            picked.name.effort = own.effort.or(picked.name.effort);
            return Ok(picked);
        };
        let name = ModelName::resolve(&name, &self.runtime.config)?;
        Ok(ModelName { effort: name.effort.or(own.effort), ..name }.into())
    }

    /// Makes the models that stand in for an agent's; their keys come to `keys`.
    fn others(
        &self,
        own: &AgentConfig,
        model: &ModelName,
        limits: &Limits,
        keys: &mut Vec<(String, Secret)>,
    ) -> Result<Vec<Candidate>, ConfigError> {
        let config = &self.runtime.config;
        let mut others = Vec::new();
        for name in own.fallback.as_ref().unwrap_or(&config.fallback) {
            let name = ModelName::resolve(name, config)?;
            if name == *model {
                continue;
            }
            let (provider, effort) = (name.provider.clone(), name.effort);
            let Made { model, key, in_lines } = self.runtime.made(&name.into())?;
            if in_lines {
                let what = "a model that talks in plain lines cannot stand in for another";
                return Err(ConfigError::Provider { name: provider, what: what.to_owned() });
            }
            check_price(model.info(), limits)?;
            keys.extend(key.map(|key| (provider, key)));
            others.push(Candidate { model, effort });
        }
        Ok(others)
    }

    /// Makes the effects of an agent, in the order in which they are asked.
    fn effects(&self, own: &AgentConfig) -> Result<Vec<Arc<dyn DynEffect>>, ConfigError> {
        let models = |name: &str| self.runtime.model(name);
        own.effects().iter().map(|effect| effect.make(&models)).collect()
    }

    fn store(&self) -> Arc<dyn Store> {
        match self.choice.ephemeral {
            true => Arc::new(Memory::default()),
            false => Arc::new(self.runtime.sessions()),
        }
    }
}

/// Returns the tools that a model is shown: not those that it may never call.
fn shown(all: &Toolbox, engine: &Engine) -> Result<Toolbox, ToolboxError> {
    let names: Vec<&str> = all.names().filter(|name| !engine.hides(name)).collect();
    all.scope(Scope::Names(&names))
}

/// Returns what an agent may call when somebody is there to be asked, with a model of this name.
pub(super) fn tools(
    runtime: &Runtime,
    workspace: &Workspace,
    own: &AgentConfig,
    model: &str,
) -> Result<Toolbox, ConfigError> {
    let mut all = bowline_tools::toolbox(workspace, editing(model))?;
    let (notes, state) = (runtime.notes(), runtime.shared_state());
    all.add_all(&bowline_tools::listed_toolbox(workspace, &notes, &state)?)?;
    all.add_all(&runtime.configured_in(workspace)?.tools)?;
    let tools = toolboxes::of_agent(own, &all)?;
    Ok(match own.output {
        OutputMode::Text => tools,
        OutputMode::MessageTool => tools.with(Message)?,
    })
}

/// Refuses a limit of money that cannot be kept.
fn check_price(info: &ModelInfo, limits: &Limits) -> Result<(), ConfigError> {
    if limits.cost_usd > 0.0 && info.price.is_none() {
        return Err(ConfigError::Limit(format!(
            "cannot keep to a cost limit: the price of {id} is unknown; set \
             providers.{provider}.models.{model:?}.price = {{ input = …, output = … }}",
            id = info.id(),
            provider = info.provider,
            model = info.model,
        )));
    }
    Ok(())
}

/// Returns how a model changes files best: those that were trained on patches write patches.
fn editing(model: &str) -> Editing {
    let family = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if family.starts_with("gpt-") || family.contains("codex") {
        Editing::Patch
    } else {
        Editing::Replace
    }
}
