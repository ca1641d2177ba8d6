//! The agents there are, for a person.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::config::{self, AgentConfig, Layer, Node, Said, Setting, Table, Trust, Value};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::runtime::Runtime;
use crate::tools;

use super::{factory, names};

/// An agent, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The file, the layer or the program that it comes from.
    pub from: String,
    /// Whether it can be used: what a project brings counts only when the project is trusted.
    pub is_applied: bool,
    /// Whether it takes the prompt when nothing else is said.
    pub is_entry: bool,
    /// Its model; `None` if that is only found when it runs.
    pub model: Option<String>,
    /// The tools that it may call when somebody is there to be asked.
    pub tools: Vec<String>,
    /// What others are told of it.
    pub description: String,
}

/// An agent, in full.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// What there is to say in short.
    #[serde(flatten)]
    pub listed: Listed,
    /// Its instructions; empty for those of bowline.
    pub instructions: String,
    /// All its settings that count, but for the instructions.
    pub settings: Vec<Setting>,
}

/// Lists all agents by their names, those that do not count last.
///
/// # Errors
/// [`ConfigError`] if the tools of one do not go together.
pub fn list(runtime: &Runtime) -> Result<Vec<Listed>, ConfigError> {
    let known: BTreeSet<&str> = names::known(&runtime.config).collect();
    let mut all = Vec::new();
    for name in &known {
        all.push(listed(runtime, &Found::of(runtime, name)?)?);
    }
    for (name, found) in not_applied(runtime) {
        if !known.contains(name.as_str()) {
            all.push(listed(runtime, &found?)?);
        }
    }
    Ok(all)
}

/// Shows an agent, also one that does not count.
///
/// # Errors
/// [`ConfigError::UnknownAgent`] if there is none of this name.
pub fn show(runtime: &Runtime, name: &str) -> Result<Shown, ConfigError> {
    let found = match Found::of(runtime, name) {
        Ok(found) => found,
        Err(unknown) => {
            not_applied(runtime).find(|(own, _)| own == name).map_or(Err(unknown), |it| it.1)?
        }
    };
    let mut settings =
        config::settings_of_agent(&runtime.loaded, &runtime.environment, &found.table);
    settings.retain(|setting| setting.key != "instructions");
    let instructions = found.config.instructions.clone();
    Ok(Shown { listed: listed(runtime, &found)?, instructions, settings })
}

/// Checks the whole configuration with all agents, as if the project was trusted: returns the names of
/// the agents, what a person should know, and all that is wrong.
pub fn check(environment: &Environment, said: &Said) -> Result<Checked, ConfigError> {
    let folders = environment.folders().ok_or(ConfigError::NoHome)?;
    let (loaded, mut faults) = config::read_all(&folders, environment, said, Trust::Project);
    faults.extend(tools::faults(&loaded.config, environment));
    let agents = names::known(&loaded.config).map(str::to_owned).collect();
    let faults = faults.into_iter().flat_map(ConfigError::each).collect();
    let rules = names::unknown_in_rules(&loaded, &folders);
    Ok(Checked { agents, notes: loaded.notes, faults, rules })
}

/// What came of checking.
#[derive(Debug)]
pub struct Checked {
    /// The names of the agents.
    pub agents: Vec<String>,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
    /// What is wrong.
    pub faults: Vec<ConfigError>,
    /// The rules about tools that are not known, one line each; the notes have them too.
    pub rules: Vec<String>,
}

/// An agent, and what is said of it.
struct Found {
    config: AgentConfig,
    table: Table,
    from: String,
    is_applied: bool,
}

impl Found {
    /// Finds an agent that counts.
    fn of(runtime: &Runtime, name: &str) -> Result<Self, ConfigError> {
        let config = runtime.agent_config(name)?;
        let path = ["agents".to_owned(), name.to_owned()];
        let node = config::find(&runtime.loaded.merged, &path);
        let table = node.and_then(Node::as_table).cloned().unwrap_or_default();
        let from = node.map_or_else(|| "built in".to_owned(), |node| node.place.to_string());
        Ok(Self { config, table, from, is_applied: true })
    }

    /// Takes an agent of a layer that does not count.
    fn not_applied(name: &str, node: &Node) -> Result<Self, ConfigError> {
        let path = ["agents".to_owned(), name.to_owned()];
        let mut config = config::check(&config::below(&path, node.clone(), &node.place))
            .map_err(config::as_errors)?;
        let config = config.agents.remove(name).unwrap_or_default();
        let table = match &node.value {
            Value::Table(table) => table.clone(),
            Value::Leaf(_) | Value::List(_) => Table::new(),
        };
        Ok(Self { config, table, from: node.place.to_string(), is_applied: false })
    }
}

/// Returns the agents of the layers that do not count, the nearest of each name.
fn not_applied(runtime: &Runtime) -> impl Iterator<Item = (String, Result<Found, ConfigError>)> {
    let layers = runtime.loaded.layers.iter().filter(|layer| !layer.is_applied);
    let mut nearest = std::collections::BTreeMap::new();
    for (name, node) in layers.flat_map(Layer::agents) {
        nearest.insert(name.clone(), Found::not_applied(name, node));
    }
    nearest.into_iter()
}

fn listed(runtime: &Runtime, found: &Found) -> Result<Listed, ConfigError> {
    let Found { config, from, is_applied, .. } = found;
    let model = match config.model() {
        Some(model) => Some(model),
        None => runtime.named_by(config)?.map(|name| format!("{}/{}", name.provider, name.model)),
    };
    let tools = factory::tools(
        runtime,
        &runtime.workspace(),
        config,
        model.as_deref().unwrap_or_default(),
    )?;
    Ok(Listed {
        name: config.name.clone(),
        from: from.clone(),
        is_applied: *is_applied,
        is_entry: *is_applied && config.name == runtime.entry_agent(),
        model,
        tools: tools.names().map(str::to_owned).collect(),
        description: config.description.clone(),
    })
}
