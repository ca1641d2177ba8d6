//! Everything together.

mod rules;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use bowline_agent::limits::Limits;
use bowline_agent::{Agent, OutputSchema, Redaction};
use bowline_llm::Model;
use bowline_store::{Durability, Files};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{NotesPlace, StatePlace, Workspace};

use crate::agents::{AgentFactory, names};
use crate::config::{self, AgentConfig, Config, Layer, Loaded, Mode, Said, SharedPlace};
use crate::embedded::{self, Pull, Pulled};
use crate::environment::{Environment, Folders};
use crate::error::ConfigError;
use crate::hooks::Hooks;
use crate::instructions::{self, Instructions};
use crate::local;
use crate::mcp;
use crate::permission::{CanConfine, Standing};
use crate::project;
use crate::provider::{self, Made, Making, ModelName, OwnModels, Picked, Shared};
use crate::reflections::Reflections;
use crate::skills::{self, Skills};
use crate::telemetry::{Settings, Telemetry};
use crate::tools::{self, Configured};
use crate::undo::Recorder;

use rules::Temp;

/// What this process was started with and how it is configured. A clone shares what starts commands and
/// what models have open.
#[derive(Debug, Clone)]
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
    /// Whether they can be confined.
    can_confine: CanConfine,
    /// What all models share.
    shared: Arc<Shared>,
    /// The models that this program has made itself.
    own_models: OwnModels,
    /// What records files before agents change them.
    pub(crate) recorder: Arc<Recorder>,
    /// The servers that bring tools.
    pub(crate) started: mcp::Started,
    /// What runs hooks, if there are any.
    pub(crate) hooks: Option<Arc<Hooks>>,
    temp: Arc<Temp>,
    /// What was in the workspace before agents were.
    standing: Arc<Standing>,
}

/// What one start of an agent chooses beyond the configuration.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The name of the agent that takes the prompt, such as [`Runtime::entry_agent`]; the model and the
    /// limits are its.
    pub agent: String,
    /// The model, from [`Runtime::pick_for`].
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
        let (config, shared) = (loaded.config.clone(), Arc::default());
        let started = mcp::Started::default();
        let recorder = Arc::default();
        let (temp, standing) = Default::default();
        let can_confine = CanConfine::Ask(Arc::clone(&processes));
        Self {
            environment,
            folders,
            config,
            loaded,
            processes,
            can_confine,
            shared,
            own_models: OwnModels::default(),
            recorder,
            started,
            hooks: None,
            temp,
            standing,
        }
        .with_hooks()
    }

    /// Adds a model of one's own, such as a [`ScriptedModel`](bowline_llm::scripted::ScriptedModel).
    /// Agents know it by the provider and the name that its [`ModelInfo`](bowline_llm::ModelInfo)
    /// says, whatever else is called so.
    #[must_use]
    pub fn with_model(mut self, model: Arc<dyn Model>) -> Self {
        self.own_models.add(model);
        self
    }

    /// Has commands taken to be confined, where no helper is there that could be asked.
    #[cfg(test)]
    pub(crate) fn taken_as_confined(self) -> Self {
        Self { can_confine: CanConfine::Known(true), ..self }
    }

    /// Picks the model: the one that is asked for, else the configured one, else that of a key in
    /// the environment, else one of a local server, else one in this process. Nobody is asked anything
    /// but local servers.
    ///
    /// # Errors
    /// [`ConfigError`] if there is none, or its name is none.
    pub async fn pick(&self, asked: Option<&str>) -> Result<Picked, ConfigError> {
        let name = match asked {
            Some(name) => Some(ModelName::resolve(name, &self.config)?),
            None => provider::named(&self.config, &self.environment)?,
        };
        if let Some(name) = name {
            return Ok(name.into());
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

    /// Picks the model of an agent as [`Runtime::pick_for`] does, but asks nobody whether one is there that
    /// is not named.
    ///
    /// # Errors
    /// [`ConfigError`] if its name is none.
    pub fn named_for(
        &self,
        agent: &AgentConfig,
        asked: Option<&str>,
    ) -> Result<Option<Picked>, ConfigError> {
        let name = match asked {
            Some(name) => Some(ModelName::resolve(name, &self.config)?),
            None => self.named_by(agent)?,
        };
        Ok(name.map(Picked::from))
    }

    /// Returns the model of an agent if one is named: its own, else that of the whole configuration, else
    /// that of a key in the environment.
    pub(crate) fn named_by(&self, agent: &AgentConfig) -> Result<Option<ModelName>, ConfigError> {
        match agent.model() {
            Some(own) => ModelName::resolve(&own, &self.config).map(Some),
            None => provider::named(&self.config, &self.environment),
        }
    }

    /// Picks the model of an agent: the one that is asked for, else its own, else as
    /// [`Runtime::pick`] does. Unless the name says how hard it should think, the agent does.
    ///
    /// # Errors
    /// As [`Runtime::pick`].
    pub async fn pick_for(
        &self,
        agent: &AgentConfig,
        asked: Option<&str>,
    ) -> Result<Picked, ConfigError> {
        let own = agent.model();
        let mut picked = self.pick(asked.or(own.as_deref())).await?;
        let effort = &mut picked.name.effort;
        let is_own = asked.is_none() && own.is_none();
        *effort = if is_own { agent.effort.or(*effort) } else { effort.or(agent.effort) };
        Ok(picked)
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

    /// Reads what the user and the project tell every model, but what the rules of an agent keep it from
    /// reading: a project may name any file so.
    ///
    /// # Errors
    /// As [`Runtime::policy`].
    pub fn instructions(&self, agent: &AgentConfig) -> Result<Instructions, ConfigError> {
        let policy = self.policy(agent, false)?;
        let refuse = |path: &Path| policy.keeps_untold(path);
        Ok(instructions::read(&self.folders.config, &self.environment.cwd, &refuse))
    }

    /// Reads what agents may learn.
    pub fn skills(&self) -> Skills {
        skills::read(&skills::places(&self.folders, &self.environment, self.loaded.is_trusted()))
    }

    /// Returns what agents of the project remember of tasks that failed, without what a redaction knows.
    pub fn reflections(&self, redaction: Redaction) -> Reflections {
        // They are told to agents unasked: what a project brings would have to be trusted.
        Reflections::new(self.with_the_user("reflections"), redaction)
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

    /// Returns how an agent is configured.
    ///
    /// # Errors
    /// [`ConfigError::UnknownAgent`] if there is no such agent.
    pub fn agent_config(&self, name: &str) -> Result<AgentConfig, ConfigError> {
        if let Some(agent) = self.config.agents.get(name) {
            return Ok(agent.clone());
        }
        if name == config::DEFAULT_AGENT {
            return Ok(AgentConfig { name: name.to_owned(), ..AgentConfig::default() });
        }
        let is_its =
            |layer: &&Layer| !layer.is_applied && layer.agents().any(|(own, _)| own == name);
        let what = match self.loaded.layers.iter().rev().find(is_its) {
            Some(_) => "; the project has one, but the folder is not trusted: see `bowline trust`"
                .to_owned(),
            None => config::meant(name, &names::known(&self.config).collect::<Vec<_>>()),
        };
        Err(ConfigError::UnknownAgent { name: name.to_owned(), what })
    }

    /// Returns the name of the agent that takes the prompt.
    pub fn entry_agent(&self) -> &str {
        self.config.entry_agent.as_deref().unwrap_or(config::DEFAULT_AGENT)
    }

    /// Returns how the agent is configured that takes the prompt.
    pub(crate) fn entry(&self) -> Result<AgentConfig, ConfigError> {
        self.agent_config(self.entry_agent())
    }

    /// Returns what makes agents.
    pub fn factory(&self, choice: Choice) -> AgentFactory {
        AgentFactory::new(self, choice)
    }

    /// Makes the agent that takes the prompt.
    ///
    /// # Errors
    /// [`ConfigError`] if there is none of its name, or it cannot be used as it is configured.
    pub fn agent(&self, choice: &Choice) -> Result<Agent, ConfigError> {
        self.factory(choice.clone()).build(&choice.agent)
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
        self.end_hooks().await;
        self.close_servers().await;
        self.processes.close().await;
        self.temp.remove();
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

    pub(crate) fn made(&self, picked: &Picked) -> Result<Made, ConfigError> {
        let Self { config, environment, shared, own_models, .. } = self;
        if let Some(model) = own_models.get(&picked.name) {
            return Ok(Made { model, key: None, in_lines: false });
        }
        provider::make(picked, Making { config, environment, shared })
    }

    /// Returns where the notes of agents are kept.
    pub(crate) fn notes(&self) -> NotesPlace {
        match self.config.shared.notes {
            SharedPlace::Session => NotesPlace::Session(self.workspace()),
            SharedPlace::Project => NotesPlace::Folder(self.of_project("notes")),
        }
    }

    /// Returns where the state is kept that agents share.
    pub(crate) fn shared_state(&self) -> StatePlace {
        match self.config.shared.state {
            SharedPlace::Session => StatePlace::Session,
            SharedPlace::Project => StatePlace::File(self.of_project("state.json")),
        }
    }

    /// Returns where something is kept of the project: in its `.bowline` folder, or else with the user. What
    /// is a link is no place for it: whoever made the project may have made it lead anywhere.
    pub(crate) fn of_project(&self, name: &str) -> PathBuf {
        let folder = project::bowline_folder(&self.environment.cwd);
        let path = folder.filter(|folder| !folder.is_symlink()).map(|folder| folder.join(name));
        path.filter(|path| !path.is_symlink()).unwrap_or_else(|| self.with_the_user(name))
    }

    /// Returns where the user keeps something of the project, in a folder that is named after where the
    /// project lies.
    fn with_the_user(&self, name: &str) -> PathBuf {
        let cwd = &self.environment.cwd;
        let root = project::git_root(cwd).unwrap_or(cwd);
        let hash = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.folders.data.join("projects").join(hash).join(name)
    }

    /// Makes what hides all that is known to be secret.
    pub(crate) fn redaction(&self) -> Result<Redaction, ConfigError> {
        self.redaction_with([])
    }

    /// Makes the tools of the configuration.
    pub(crate) fn configured(&self) -> Result<Configured, ConfigError> {
        self.configured_in(&self.workspace())
    }

    /// Makes the tools of the configuration where they are to work.
    pub(crate) fn configured_in(&self, workspace: &Workspace) -> Result<Configured, ConfigError> {
        tools::configured(&self.config, &self.environment, workspace)
    }

    /// Returns where tools work.
    pub(crate) fn workspace(&self) -> Workspace {
        Workspace {
            cwd: self.environment.cwd.clone(),
            environment: config::of_commands(&self.config, &self.environment),
            processes: Arc::clone(&self.processes),
            scratch: self.scratch(),
            guard: Arc::new(bowline_tools::guard::Open),
        }
    }
}
