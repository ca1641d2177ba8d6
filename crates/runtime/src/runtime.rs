//! Everything together.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Zoned;

use bowline_agent::effect::DynEffect;
use bowline_agent::id::SystemSource;
use bowline_agent::journal::Store;
use bowline_agent::limits::Limits;
use bowline_agent::orchestrator::{Orchestrator, React};
use bowline_agent::tool::{Scope, Tool as _, Toolbox, ToolboxError};
use bowline_agent::{Agent, Memory, OutputSchema, Redaction};
use bowline_llm::fallback::Candidate;
use bowline_llm::{Fallback, Model, ModelInfo, Secret};
use bowline_store::{Durability, Files};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{AskUser, Editing, Message, Workspace};

use crate::config::{self, AgentConfig, Config, Loaded, Mode, OutputMode, Said};
use crate::embedded::{self, Pull, Pulled};
use crate::environment::{Environment, Folders};
use crate::error::ConfigError;
use crate::instructions::{self, Instructions};
use crate::local;
use crate::mcp;
use crate::permission::ModeGate;
use crate::prompt::{self, Section};
use crate::provider::{self, Made, Making, ModelName, Picked, Shared};
use crate::skills::{self, Skills};
use crate::telemetry::{Settings, Telemetry};

/// What this process was started with and how it is configured.
#[derive(Debug)]
pub struct Runtime {
    /// The environment.
    pub environment: Environment,
    /// The user's folders.
    pub folders: Folders,
    /// The configuration.
    pub config: Config,
    /// What the configuration is made of.
    pub loaded: Loaded,
    /// What starts commands.
    processes: Arc<Processes>,
    /// What all models share.
    shared: Shared,
    /// The servers that bring tools.
    pub(crate) started: mcp::Started,
}

/// What one start of an agent chooses beyond the configuration.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The model, from [`Runtime::pick`].
    pub model: Picked,
    /// The limits.
    pub limits: Limits,
    /// Whether the session leaves nothing behind.
    pub ephemeral: bool,
    /// Whether somebody is there who can decide and answer.
    pub attended: bool,
    /// What the user and the project tell every model, from [`Runtime::instructions`].
    pub instructions: String,
    /// What agents may learn, from [`Runtime::skills`].
    pub skills: Skills,
    /// What the answer must fit.
    pub output_schema: Option<OutputSchema>,
}

/// What an agent is told before the user says anything.
#[derive(Debug, Clone)]
pub struct Told {
    /// The system text in its sections.
    pub sections: Vec<Section>,
    /// What it can do.
    pub tools: Toolbox,
    /// What goes before the first prompt.
    pub context: String,
}

impl Runtime {
    /// Reads the configuration.
    ///
    /// # Errors
    /// [`ConfigError`] with what is wrong and where.
    pub fn new(environment: Environment, said: &Said) -> Result<Self, ConfigError> {
        let folders = environment.folders().ok_or(ConfigError::NoHome)?;
        let loaded = config::load(&folders, &environment, said)?;
        Ok(Self::with(environment, folders, loaded))
    }

    /// Puts together what has been read.
    pub(crate) fn with(environment: Environment, folders: Folders, loaded: Loaded) -> Self {
        let processes = Arc::new(Processes::new(Helper::Own));
        let (config, shared) = (loaded.config.clone(), Shared::default());
        Self {
            environment,
            folders,
            config,
            loaded,
            processes,
            shared,
            started: mcp::Started::default(),
        }
    }

    /// Picks the model: the one that is asked for, else the configured one, else that of a key in
    /// the environment, else one of a local server, else one in this process. Nobody is asked anything
    /// but local servers.
    ///
    /// # Errors
    /// [`ConfigError`] if there is none, or its name is none.
    pub async fn pick(&self, asked: Option<&str>) -> Result<Picked, ConfigError> {
        if let Some(named) = self.named(asked)? {
            return Ok(named);
        }
        let addresses = local::addresses(&self.config, &self.environment);
        match local::find(&addresses).await {
            Some(found) => {
                let name = ModelName {
                    provider: found.kind.as_str().to_owned(),
                    model: found.model.clone(),
                    effort: None,
                };
                let note = Some(found.to_string());
                Ok(Picked { name, found: Some(found), note })
            }
            None => self.embedded().ok_or_else(|| self.no_model()),
        }
    }

    /// Picks the model as [`Runtime::pick`] does, but asks nobody whether one is there that is not named.
    ///
    /// # Errors
    /// [`ConfigError`] if its name is none.
    pub fn named(&self, asked: Option<&str>) -> Result<Option<Picked>, ConfigError> {
        let name = match asked {
            Some(name) => Some(ModelName::resolve(name, &self.config)?),
            None => provider::named(&self.config, &self.environment)?,
        };
        Ok(name.map(Picked::from))
    }

    /// Picks a model in this process, if one is there.
    pub fn embedded(&self) -> Option<Picked> {
        let model = embedded::models(&embedded::folder(&self.folders)).into_iter().next()?;
        let note = Some(embedded::note(&model));
        let name = ModelName { provider: embedded::PROVIDER.to_owned(), model, effort: None };
        Some(Picked { name, found: None, note })
    }

    fn no_model(&self) -> ConfigError {
        let note = match embedded::IS_BUILT_IN {
            true => ", or get a tiny one to try: bowline model pull".to_owned(),
            false => String::new(),
        };
        ConfigError::NoModel { config: self.folders.config.join("config.toml"), note }
    }

    /// Reads what the user and the project tell every model.
    pub fn instructions(&self) -> Instructions {
        instructions::read(&self.folders.config, &self.environment.cwd)
    }

    /// Reads what agents may learn.
    pub fn skills(&self) -> Skills {
        skills::read(&skills::places(&self.folders, &self.environment))
    }

    /// Returns where the user's sessions are kept.
    pub fn sessions(&self) -> Files {
        let durability = match self.config.durability {
            config::Durability::Process => Durability::Process,
            config::Durability::Power => Durability::Power,
        };
        Files::new(self.folders.data.join("sessions"), durability)
    }

    /// Returns the folder for what tools keep of sessions that are kept nowhere, each in a folder of
    /// its own named by its id.
    pub fn scratch(&self) -> PathBuf {
        self.folders.cache.join("scratch")
    }

    /// Fetches a model that runs in this process: a path or an address, or the small one for
    /// demonstrations. `progress` is told how many bytes have come, and how many there are where that
    /// is known.
    ///
    /// # Errors
    /// [`ConfigError::Model`] with what is wrong; then nothing has changed.
    pub async fn pull(
        &self,
        source: Option<&str>,
        sha256: Option<&str>,
        progress: &mut (dyn FnMut(u64, Option<u64>) + Send),
    ) -> Result<Pulled, ConfigError> {
        let folder = embedded::folder(&self.folders);
        let proxy = provider::proxy(&self.environment);
        let pull = Pull { source, sha256, folder, proxy };
        embedded::pull(pull, progress).await.map_err(ConfigError::Model)
    }

    /// Returns the permission mode: without a person `auto`, unless something else is configured.
    pub fn mode(&self, attended: bool) -> Mode {
        let default = if attended { Mode::Ask } else { Mode::Auto };
        self.config.permissions.mode.unwrap_or(default)
    }

    /// Makes the agent.
    ///
    /// # Errors
    /// [`ConfigError`] if the model cannot be used as it is configured.
    pub fn agent(&self, choice: &Choice) -> Result<Agent, ConfigError> {
        let name = &choice.model.name;
        let Made { model, key, in_lines } = self.made(&choice.model)?;
        let mut keys: Vec<_> = key.map(|key| (name.provider.clone(), key)).into_iter().collect();
        check_price(model.info(), &choice.limits)?;
        let others = self.others(choice, &mut keys)?;
        let model: Arc<dyn Model> = match others.is_empty() {
            true => model,
            false => Arc::new(Fallback::new(model, others)),
        };
        let store: Arc<dyn Store> = match choice.ephemeral {
            true => Arc::new(Memory::default()),
            false => Arc::new(self.sessions()),
        };
        let cwd = &self.environment.cwd;
        let own = self.default_agent();
        let tells_with = (own.output == OutputMode::MessageTool).then(|| Message::NAME.to_owned());
        // What talks in plain lines reads neither a system text nor facts, only examples. Nor can it
        // write a plan.
        let (instructions, context, tools, orchestrator): (_, _, _, Arc<dyn Orchestrator>) =
            match in_lines {
                true => (
                    String::new(),
                    String::new(),
                    bowline_tools::small_toolbox(&self.workspace())?,
                    Arc::new(React),
                ),
                false => {
                    let told = self.told(config::DEFAULT_AGENT, &own, choice)?;
                    (prompt::join(&told.sections), told.context, told.tools, own.orchestrator())
                }
            };
        let window = model.info().context_window;
        let more_tools =
            (!in_lines).then(|| self.tools_of_servers(mcp::scope(&own), window)).flatten();
        Ok(Agent {
            instructions: instructions.into(),
            context,
            effort: name.effort,
            tools,
            more_tools,
            effects: if in_lines { Vec::new() } else { self.effects(&own)? },
            limits: choice.limits.clone(),
            output_schema: choice.output_schema.clone(),
            tells_with,
            orchestrator,
            gate: Arc::new(ModeGate(self.mode(choice.attended))),
            redaction: self.redaction(keys),
            attended: choice.attended,
            cwd: Some(cwd.to_string_lossy().into_owned()),
            store,
            source: Arc::new(SystemSource),
            ..Agent::new(model)
        })
    }

    /// Makes the model of a name, `provider/model`, for an agent of one's own. An effort in the name is
    /// the agent's: [`Agent::effort`](bowline_agent::Agent::effort).
    ///
    /// # Errors
    /// [`ConfigError`] if the name is none, or the model cannot be used as it is configured.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, ConfigError> {
        let name = ModelName::resolve(name, &self.config)?;
        Ok(self.made(&name.into())?.model)
    }

    /// Ends all servers and commands and what they have left in the background; returns when nothing
    /// is left.
    pub async fn close(&self) {
        self.close_servers().await;
        self.processes.close().await;
    }

    /// Starts what tells OpenTelemetry of the runs of an agent; `None` if nobody wants to know. It must
    /// be called within a runtime of tokio.
    ///
    /// # Errors
    /// What is wrong with the `OTEL_*` variables or with `[trace]`: no reason not to run.
    pub fn telemetry(&self, agent: &Agent) -> Result<Option<Telemetry>, String> {
        let Some(settings) = Settings::read(&self.environment, &self.config.trace)? else {
            return Ok(None);
        };
        let (redaction, proxy) = (agent.redaction.clone(), provider::proxy(&self.environment));
        Telemetry::start(settings, &self.config.trace, redaction, &proxy).map(Some)
    }

    /// Returns what an agent is told before the user says anything, by a model that reads it: one that
    /// talks in plain lines does not.
    ///
    /// # Errors
    /// [`ConfigError`] if its tools do not go together.
    pub fn told(
        &self,
        name: &str,
        agent: &AgentConfig,
        choice: &Choice,
    ) -> Result<Told, ConfigError> {
        let skills = choice.skills.of(agent.skills.as_deref());
        let mut tools = self.tools(choice, agent.output)?;
        if let Some(load) = prompt::skill_tool(&self.environment.cwd, &skills) {
            tools = tools.with(load)?;
        }
        Ok(Told {
            sections: prompt::sections(name, agent, &skills),
            tools,
            context: prompt::context(&self.environment.cwd, &Zoned::now(), &choice.instructions),
        })
    }

    fn made(&self, picked: &Picked) -> Result<Made, ConfigError> {
        let Self { config, environment, shared, .. } = self;
        provider::make(picked, Making { config, environment, shared })
    }

    /// Makes the models that stand in for the one that was chosen; their keys come to `keys`.
    fn others(
        &self,
        choice: &Choice,
        keys: &mut Vec<(String, Secret)>,
    ) -> Result<Vec<Candidate>, ConfigError> {
        let mut others = Vec::new();
        for name in &self.config.fallback {
            let name = ModelName::resolve(name, &self.config)?;
            if name == choice.model.name {
                continue;
            }
            let (provider, effort) = (name.provider.clone(), name.effort);
            let Made { model, key, in_lines } = self.made(&name.into())?;
            if in_lines {
                let what = "a model that talks in plain lines cannot stand in for another";
                return Err(ConfigError::Provider { name: provider, what: what.to_owned() });
            }
            check_price(model.info(), &choice.limits)?;
            keys.extend(key.map(|key| (provider, key)));
            others.push(Candidate { model, effort });
        }
        Ok(others)
    }

    /// Makes the redaction of all keys that are known, those in use among them.
    fn redaction(&self, in_use: Vec<(String, Secret)>) -> Redaction {
        let keys = provider::secrets(&self.config, &self.environment);
        Redaction::new(keys.into_iter().chain(self.secrets_of_servers()).chain(in_use))
    }

    /// Makes the effects of an agent, in the order in which they are asked.
    fn effects(&self, agent: &AgentConfig) -> Result<Vec<Arc<dyn DynEffect>>, ConfigError> {
        let models = |name: &str| self.model(name);
        agent.effects().iter().map(|effect| effect.make(&models)).collect()
    }

    /// Returns how an agent is configured.
    ///
    /// # Errors
    /// [`ConfigError::UnknownAgent`] if there is no such agent.
    pub fn agent_config(&self, name: &str) -> Result<AgentConfig, ConfigError> {
        let agents = &self.config.agents;
        match agents.get(name) {
            Some(agent) => Ok(agent.clone()),
            None if name == config::DEFAULT_AGENT => Ok(AgentConfig::default()),
            None => {
                let nearest = config::nearest(name, agents.keys().map(String::as_str));
                let meant = nearest.map(|nearest| format!("; did you mean {nearest:?}?"));
                let what = meant.unwrap_or_default();
                Err(ConfigError::UnknownAgent { name: name.to_owned(), what })
            }
        }
    }

    /// Returns how the agent is configured that takes the prompt.
    pub fn default_agent(&self) -> AgentConfig {
        self.config.agents.get(config::DEFAULT_AGENT).cloned().unwrap_or_default()
    }

    /// Makes the tools; nobody is asked who is not there.
    fn tools(&self, choice: &Choice, output: OutputMode) -> Result<Toolbox, ToolboxError> {
        let mut tools =
            bowline_tools::toolbox(&self.workspace(), editing(&choice.model.name.model))?;
        if output == OutputMode::MessageTool {
            tools = tools.with(Message)?;
        }
        if choice.attended {
            return Ok(tools);
        }
        let names: Vec<&str> = tools.names().filter(|name| *name != AskUser::NAME).collect();
        tools.scope(Scope::Names(&names))
    }

    pub(crate) fn workspace(&self) -> Workspace {
        let variables =
            self.environment.vars.iter().map(|(name, value)| (name.into(), value.into()));
        Workspace {
            cwd: self.environment.cwd.clone(),
            environment: bowline_tools::Environment::allowed(variables),
            processes: Arc::clone(&self.processes),
            scratch: self.scratch(),
        }
    }
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
