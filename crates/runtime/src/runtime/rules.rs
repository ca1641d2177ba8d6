//! The rules of agents, as they are configured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bowline_tools::Workspace;
use uuid::Uuid;

use super::Runtime;
use crate::config::{self, AgentConfig, Mode, Origin, SandboxConfig, SandboxProfile};
use crate::error::ConfigError;
use crate::permission::{self, Engine, Places, Policy};
use crate::project;

/// The folder for temporary files of commands.
#[derive(Debug, Default)]
pub(super) struct Temp(OnceLock<PathBuf>);

impl Temp {
    /// Returns the folder, which may not be there yet.
    fn folder(&self, below: &Path) -> &Path {
        self.0.get_or_init(|| below.join(Uuid::now_v7().simple().to_string()))
    }

    /// Removes the folder with all that is in it.
    pub(super) fn remove(&self) {
        if let Some(folder) = self.0.get() {
            // It lies in a cache, from which anybody may remove it later.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Runtime {
    /// Returns the permission mode of an agent: that of the command line, else its own, else the
    /// configured one; without one it is `auto` where nobody is there to be asked.
    pub fn mode_of(&self, agent: &AgentConfig, attended: bool) -> Mode {
        let path = ["permissions", "mode"].map(str::to_owned);
        let node = config::find(&self.loaded.merged, &path);
        let is_said = node.is_some_and(|node| matches!(&*node.place.origin, Origin::CommandLine));
        let own = agent.permissions.mode.filter(|_| !is_said);
        own.unwrap_or_else(|| self.mode(attended))
    }

    /// Says in one line that commands of an agent run without the sandbox, if that is what was asked for.
    pub fn unconfined(&self, agent: &AgentConfig, attended: bool) -> Option<String> {
        let mode = self.mode_of(agent, attended);
        let is_off = self.sandbox_of(agent).profile == Some(SandboxProfile::Off);
        let why = match mode {
            Mode::Bypass => "permission mode bypass",
            Mode::Auto if is_off => "sandbox off",
            _ => return None,
        };
        Some(format!("{why}: commands are not confined, and what no rule denies runs"))
    }

    /// Returns the rules of an agent.
    ///
    /// # Errors
    /// [`ConfigError`] if its mode is not allowed on this machine.
    pub fn policy(&self, agent: &AgentConfig, attended: bool) -> Result<Policy, ConfigError> {
        let mode = self.loaded.managed.check(self.mode_of(agent, attended))?;
        let sandbox = self.sandbox_of(agent);
        let mut places = Places::new(&self.environment, &self.folders);
        let added = sandbox.add_dirs.iter().flatten().chain(&self.loaded.flags.add_dirs);
        added.for_each(|folder| places.add(folder));
        places.set_temp(self.temp());
        places.share(&self.standing);
        let configured: BTreeSet<String> = self.config.tools.keys().cloned().collect();
        Ok(Policy {
            entries: permission::entries(&self.loaded, &self.folders, &agent.name)?.into(),
            mode,
            sandbox,
            places: Arc::new(places),
            approvals: Arc::default(),
            configured: Arc::new(configured),
            is_attended: attended,
            can_confine: self.can_confine.clone(),
        })
    }

    /// Returns what decides about the calls of an agent that has these above it, nearest first.
    ///
    /// # Errors
    /// As [`Runtime::policy`]; [`ConfigError::UnknownAgent`] if one above it is not configured any more.
    pub fn engine(
        &self,
        agent: &AgentConfig,
        above: &[String],
        attended: bool,
    ) -> Result<Engine, ConfigError> {
        let policy = |name: &String| self.policy(&self.agent_config(name)?, attended).map(Arc::new);
        let above = above.iter().map(policy).collect::<Result<Vec<_>, _>>()?;
        let tasks = self.configured()?.agents.into_iter();
        let tasks: BTreeMap<String, String> =
            tasks.map(|tool| (tool.described.name.clone(), tool.agent)).collect();
        let cwd = &self.environment.cwd;
        let folder = project::bowline_folder(cwd).unwrap_or_else(|| cwd.join(".bowline"));
        let engine = Engine::new(Arc::new(self.policy(agent, attended)?), above, Arc::new(tasks));
        Ok(engine.keeping_in(folder.join("config.local.toml")))
    }

    /// Returns where the tools of an agent work, as its rules allow.
    pub(crate) fn workspace_of(&self, engine: &Arc<Engine>) -> Workspace {
        let mut workspace = self.workspace();
        workspace.guard = Arc::clone(engine) as _;
        workspace.environment.set("TMPDIR", &self.temp().to_string_lossy());
        workspace
    }

    /// Makes the folder for temporary files of commands. Without one they say so themselves.
    pub(crate) fn make_temp(&self) {
        let _ = std::fs::create_dir_all(self.temp());
    }

    /// Returns what an agent's commands may touch; what a flag says of it is said of all.
    fn sandbox_of(&self, agent: &AgentConfig) -> SandboxConfig {
        let mut sandbox = agent.sandbox.over(&self.config.sandbox);
        sandbox.profile = self.loaded.flags.sandbox.or(sandbox.profile);
        sandbox
    }

    fn temp(&self) -> &Path {
        self.temp.folder(&self.folders.cache.join("tmp"))
    }
}
