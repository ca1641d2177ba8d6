//! Everything together.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Zoned;

use bowline_agent::id::SystemSource;
use bowline_agent::journal::Store;
use bowline_agent::limits::Limits;
use bowline_agent::{Agent, Memory};
use bowline_store::{Durability, Files};
use bowline_tools::process::{Helper, Processes};
use bowline_tools::{Editing, Workspace};

use crate::config::{self, Config, Layer, Mode};
use crate::environment::{Environment, Folders};
use crate::error::ConfigError;
use crate::permission::ModeGate;
use crate::prompt;
use crate::provider::{self, ModelName};

/// What this process was started with and how it is configured.
#[derive(Debug)]
pub struct Runtime {
    /// The environment.
    pub environment: Environment,
    /// The user's folders.
    pub folders: Folders,
    /// The configuration.
    pub config: Config,
    /// What starts commands.
    processes: Arc<Processes>,
}

/// What one start of an agent chooses beyond the configuration.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The model, as `provider/model[:effort]`; `None` takes the configured one.
    pub model: Option<String>,
    /// The limits.
    pub limits: Limits,
    /// Whether the session leaves nothing behind.
    pub ephemeral: bool,
    /// Whether somebody is there who can decide and answer.
    pub attended: bool,
}

impl Runtime {
    /// Reads the configuration; `assignments` are the `key=value`s of the command line.
    ///
    /// # Errors
    /// [`ConfigError`] with what is wrong and where.
    pub fn new(environment: Environment, assignments: &[String]) -> Result<Self, ConfigError> {
        let folders = environment.folders().ok_or(ConfigError::NoHome)?;
        let mut layers = Vec::new();
        let system = PathBuf::from("/etc/bowline/config.toml");
        for file in [system, folders.config.join("config.toml")] {
            layers.extend(Layer::file(&file)?);
        }
        for assignment in assignments {
            layers.push(config::set(assignment)?);
        }
        let config = config::load(&layers)?;
        let processes = Arc::new(Processes::new(Helper::Own));
        Ok(Self { environment, folders, config, processes })
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

    /// Returns the permission mode: without a person `auto`, unless something else is configured.
    pub fn mode(&self, attended: bool) -> Mode {
        let default = if attended { Mode::Ask } else { Mode::Auto };
        self.config.permissions.mode.unwrap_or(default)
    }

    /// Makes the agent.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no model, or it cannot be used as it is configured.
    pub fn agent(&self, choice: &Choice) -> Result<Agent, ConfigError> {
        let name = match &choice.model {
            Some(model) => model.clone(),
            None => {
                let file = self.folders.config.join("config.toml");
                provider::default_model(&self.config, &self.environment, &file)?
            }
        };
        let name = ModelName::parse(&name)?;
        let model = provider::model(&name, &self.config, &self.environment)?;
        if choice.limits.cost_usd > 0.0 && model.info().price.is_none() {
            return Err(ConfigError::Limit(format!(
                "cannot keep to a cost limit: the price of {id} is unknown; set \
                 providers.{provider}.models.{model:?}.price = {{ input = …, output = … }}",
                id = model.info().id(),
                provider = name.provider,
                model = name.model,
            )));
        }
        let store: Arc<dyn Store> = match choice.ephemeral {
            true => Arc::new(Memory::default()),
            false => Arc::new(self.sessions()),
        };
        let cwd = &self.environment.cwd;
        Ok(Agent {
            instructions: prompt::SYSTEM.into(),
            context: prompt::context(cwd, &Zoned::now(), None),
            effort: name.effort,
            tools: bowline_tools::toolbox(&self.workspace(), editing(&name.model))?,
            limits: choice.limits.clone(),
            gate: Arc::new(ModeGate(self.mode(choice.attended))),
            attended: choice.attended,
            cwd: Some(cwd.to_string_lossy().into_owned()),
            store,
            source: Arc::new(SystemSource),
            ..Agent::new(model)
        })
    }

    /// Ends all commands and what they have left in the background; returns when nothing is left.
    pub async fn close(&self) {
        self.processes.close().await;
    }

    fn workspace(&self) -> Workspace {
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

/// Returns how a model changes files best: those that were trained on patches write patches.
fn editing(model: &str) -> Editing {
    let family = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if family.starts_with("gpt-") || family.contains("codex") {
        Editing::Patch
    } else {
        Editing::Replace
    }
}
