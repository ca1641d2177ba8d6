//! Where rules come from.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::judgement::{Decision, Why};
use super::rule::Rule;
use crate::config::{
    self, Fault, Layer, Loaded, Mode, Node, Origin, Permissions, Place, RuleConfig, Table, Value,
};
use crate::environment::Folders;
use crate::error::ConfigError;
use crate::hooks::{self, Hook, HookConfig};

/// Who says a rule: of two that say different things the one that comes first here is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Who looks after this machine.
    Managed,
    /// The command line, or the environment.
    CommandLine,
    /// A person, in this session.
    Session,
    /// The user, for this project.
    Local,
    /// The project.
    Project,
    /// The user.
    User,
    /// The configuration for everybody on this machine.
    System,
}

impl Kind {
    /// All but the first, in their order.
    pub(super) const BELOW_MANAGED: [Self; 6] =
        [Self::CommandLine, Self::Session, Self::Local, Self::Project, Self::User, Self::System];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::CommandLine => "command line",
            Self::Session => "session",
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
            Self::System => "system",
        }
    }

    pub(crate) fn of(origin: &Origin, folders: &Folders) -> Self {
        let Origin::File(path) = origin else { return Self::CommandLine };
        let is_local = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with("config.local."))
        };
        match path {
            path if path.starts_with(&folders.config) => Self::User,
            path if path.starts_with(&folders.system) => Self::System,
            path if is_local(path) => Self::Local,
            _ => Self::Project,
        }
    }
}

/// A rule in its layer.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Who says it.
    pub layer: Kind,
    /// What it says.
    pub decision: Decision,
    /// The rule.
    pub rule: Rule,
    /// Why there is such a rule.
    pub reason: Option<String>,
    /// Where it stands.
    pub place: Option<Place>,
    /// Whether it is said of one agent.
    pub is_of_agent: bool,
}

impl Entry {
    pub(super) fn why(&self, perhaps: bool) -> Why {
        Why::Rule {
            rule: self.rule.to_string(),
            layer: self.layer,
            place: self.place.as_ref().map(ToString::to_string),
            reason: self.reason.clone(),
            perhaps,
            asks: self.decision == Decision::Ask,
        }
    }
}

/// What who looks after this machine says, in `managed.toml` beside the configuration for everybody.
/// Nothing undoes it.
#[derive(Debug, Clone, Default)]
pub struct Managed {
    /// The permission modes that there are; `None` for all.
    pub modes: Option<Vec<Mode>>,
    /// Whether projects may be trusted; `None` if the user may say.
    pub trust: Option<bool>,
    /// Commands that run at moments of every session.
    pub hooks: Vec<Hook>,
    /// Whether no others do.
    pub only_managed_hooks: bool,
    entries: Vec<Entry>,
}

/// The file of [`Managed`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct File {
    modes: Option<Vec<Mode>>,
    trust: Option<bool>,
    hooks: Vec<HookConfig>,
    only_managed_hooks: bool,
    permissions: Rules,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct Rules {
    allow: Vec<RuleConfig>,
    ask: Vec<RuleConfig>,
    deny: Vec<RuleConfig>,
}

impl Managed {
    /// Reads the file in the folder for everybody; without one nothing is said.
    ///
    /// # Errors
    /// [`ConfigError`] with the line of what is wrong.
    pub fn read(folders: &Folders) -> Result<Self, ConfigError> {
        let path = folders.system.join("managed.toml");
        let Some(table) = config::table_of(&path)? else { return Ok(Self::default()) };
        let file: File = config::read_as(&table).map_err(config::as_errors)?;
        let Rules { allow, ask, deny } = file.permissions;
        let rules = Permissions { mode: None, allow, ask, deny };
        let mut entries = Vec::new();
        let node = table.get("permissions").and_then(Node::as_table);
        collect(&rules, node, Kind::Managed, false, &mut entries);
        let hooks = hooks::of_table(&table, Kind::Managed).map_err(config::as_errors)?;
        let File { modes, trust, only_managed_hooks, .. } = file;
        Ok(Self { modes, trust, hooks, only_managed_hooks, entries })
    }

    /// Returns a mode if it may be.
    ///
    /// # Errors
    /// That it may not.
    pub fn check(&self, mode: Mode) -> Result<Mode, ConfigError> {
        match &self.modes {
            Some(modes) if !modes.contains(&mode) => {
                let modes: Vec<_> = modes.iter().map(|mode| mode.as_str()).collect();
                Err(ConfigError::Layers(format!(
                    "the permission mode {} is not allowed on this machine; there is {}",
                    mode.as_str(),
                    modes.join(", ")
                )))
            }
            Some(_) | None => Ok(mode),
        }
    }
}

/// Returns the rules of an agent, the highest layer first.
///
/// # Errors
/// [`ConfigError`] if a layer that was read cannot be read again.
pub(crate) fn entries(
    loaded: &Loaded,
    folders: &Folders,
    agent: &str,
) -> Result<Vec<Entry>, ConfigError> {
    let mut entries = loaded.managed.entries.clone();
    for layer in loaded.layers.iter().rev().filter(|layer| layer.is_applied) {
        of_layer(layer, folders, agent, &mut entries)?;
    }
    entries.sort_by_key(|entry| entry.layer);
    // What is allowed is named as it is called: there one name stands for one tool.
    for entry in entries.iter_mut().filter(|entry| entry.decision != Decision::Allow) {
        entry.rule.among(loaded.config.mcp_servers.keys().map(String::as_str));
    }
    Ok(entries)
}

fn of_layer(
    layer: &Layer,
    folders: &Folders,
    agent: &str,
    entries: &mut Vec<Entry>,
) -> Result<(), ConfigError> {
    let of_agent = layer.agents().find(|(name, _)| *name == agent);
    let of_agent = of_agent.and_then(|(_, node)| node.as_table()?.get("permissions"));
    for (node, is_of_agent) in [(of_agent, true), (layer.table.get("permissions"), false)] {
        let Some(table) = node.and_then(Node::as_table) else { continue };
        let Some(first) = table.values().next() else { continue };
        let kind = Kind::of(&first.place.origin, folders);
        let rules = config::read_as(table).map_err(config::as_errors)?;
        collect(&rules, Some(table), kind, is_of_agent, entries);
    }
    Ok(())
}

fn collect(
    rules: &Permissions,
    table: Option<&Table>,
    layer: Kind,
    is_of_agent: bool,
    entries: &mut Vec<Entry>,
) {
    let lists = [
        ("deny", &rules.deny, Decision::Deny),
        ("ask", &rules.ask, Decision::Ask),
        ("allow", &rules.allow, Decision::Allow),
    ];
    for (key, list, decision) in lists {
        let nodes = match table.and_then(|table| table.get(key)).map(|node| &node.value) {
            Some(Value::List(nodes)) => nodes.as_slice(),
            Some(Value::Leaf(_) | Value::Table(_)) | None => &[],
        };
        for (at, RuleConfig { rule, reason }) in list.iter().enumerate() {
            let place = nodes.get(at).map(|node| node.place.clone());
            let (rule, reason) = (rule.clone(), reason.clone());
            entries.push(Entry { layer, decision, rule, reason, place, is_of_agent });
        }
    }
}

/// Finds what is wrong with the permissions of a configuration as a whole.
pub(crate) fn check(loaded: &Loaded) -> Option<Fault> {
    let modes = std::iter::once((vec!["permissions", "mode"], loaded.config.permissions.mode));
    let agents = loaded.config.agents.iter();
    let of_agents = agents
        .map(|(name, agent)| (vec!["agents", name, "permissions", "mode"], agent.permissions.mode));
    modes.chain(of_agents).find_map(|(path, mode)| {
        let what = loaded.managed.check(mode?).err()?.to_string();
        let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
        let place = config::nearest_node(&loaded.merged, &path).map(|node| node.place.clone());
        let what = format!("{}: {what}", path.join("."));
        Some(Fault { place, what, is_unknown_key: false })
    })
}
