//! Whether what an agent names is there.

use crate::config::{
    self, ALL, AgentConfig, ChildTools, Config, DEFAULT_AGENT, Fault, Loaded, Table, ToolboxConfig,
};
use crate::mcp;
use crate::provider::{self, ModelName};

use super::toolboxes;

/// Checks all that agents name, and which of them takes the prompt. What another program's file names
/// and is not here is left out, and said.
pub(crate) fn check(loaded: &mut Loaded, skills: &[String]) -> Vec<Fault> {
    let config = loaded.config.clone();
    let mut check = Check { config: &config, skills, merged: &loaded.merged, faults: Vec::new() };
    if let Some(name) = &config.entry_agent {
        let what = check.agent(name);
        check.fault(&["entry_agent"], what);
    }
    for (name, agent) in &mut loaded.config.agents {
        let layers = loaded.layers.iter().filter(|layer| layer.is_applied);
        let mut files = layers.filter_map(|layer| layer.agent.as_ref());
        let foreign = files.rfind(|file| file.is_foreign && file.name == *name);
        let Some(file) = foreign else {
            check.agent_config(name, agent);
            continue;
        };
        let left_out = check.reduce(agent);
        loaded.notes.extend(file.notes.iter().cloned());
        if !left_out.is_empty() {
            let path = file.path.display();
            loaded.notes.push(format!("{path}: not taken: {}", left_out.join(", ")));
        }
    }
    check.faults
}

/// What is known, and what is wrong.
struct Check<'a> {
    config: &'a Config,
    skills: &'a [String],
    merged: &'a Table,
    faults: Vec<Fault>,
}

/// What is wrong with a name; `None` for nothing.
type Wrong = Option<String>;

impl Check<'_> {
    fn fault(&mut self, path: &[&str], what: Wrong) {
        let Some(what) = what else { return };
        let path: Vec<_> = path.iter().map(|&part| part.to_owned()).collect();
        let place = config::nearest_node(self.merged, &path).map(|node| node.place.clone());
        let what = format!("{}: {what}", path.join("."));
        self.faults.push(Fault { place, what, is_unknown_key: false });
    }

    fn agent_config(&mut self, name: &str, agent: &AgentConfig) {
        self.each([name, "tools"], agent.tools.as_deref(), Self::tool);
        self.each([name, "child_tools"], child_tools(agent), Self::tool);
        self.each([name, "skills"], agent.skills.as_deref(), Self::skill);
        self.each([name, "mcp_servers"], agent.mcp_servers.as_deref(), Self::server);
        self.each([name, "delegates"], agent.delegates.as_deref(), Self::delegate);
        self.each([name, "fallback"], agent.fallback.as_deref(), Self::model);
        if let Some(model) = agent.model() {
            let key = if agent.model.is_empty() { "provider" } else { "model" };
            let what = self.model(&model);
            self.fault(&["agents", name, key], what);
        }
        for (at, toolbox) in agent.toolboxes.iter().flatten().enumerate() {
            self.toolbox_config(&["agents", name, "toolboxes", &at.to_string()], toolbox);
        }
    }

    /// Checks each name of a list.
    fn each(
        &mut self,
        [agent, key]: [&str; 2],
        names: Option<&[String]>,
        wrong: fn(&Self, &str) -> Wrong,
    ) {
        for (at, name) in names.into_iter().flatten().enumerate() {
            let what = wrong(self, name);
            self.fault(&["agents", agent, key, &at.to_string()], what);
        }
    }

    fn toolbox_config(&mut self, path: &[&str], toolbox: &ToolboxConfig) {
        let what = self.toolbox(&toolbox.name);
        self.fault(path, what);
        // What a server brings is not known here.
        let Some(known) = toolboxes::tools_of(&toolbox.name) else { return };
        for (at, tool) in toolbox.tools.iter().flatten().enumerate() {
            let what = format!("the toolbox {:?} has no tool {tool:?}", toolbox.name);
            let at = at.to_string();
            let path: Vec<_> = path.iter().copied().chain(["tools", &at]).collect();
            self.fault(&path, unknown(tool, what, known));
        }
    }

    /// Leaves out what is not there, and returns it.
    fn reduce(&self, agent: &mut AgentConfig) -> Vec<String> {
        let mut left_out = Vec::new();
        let mut keep =
            |kind: &str, names: &mut Option<Vec<String>>, wrong: &dyn Fn(&str) -> Wrong| {
                let Some(names) = names else { return };
                let gone = names.iter().filter(|name| wrong(name).is_some());
                left_out.extend(gone.map(|name| format!("{kind} {name}")));
                names.retain(|name| wrong(name).is_none());
            };
        keep("tool", &mut agent.tools, &|name| self.tool(name));
        keep("skill", &mut agent.skills, &|name| self.skill(name));
        if self.model(&agent.model).is_some() && !agent.model.is_empty() {
            left_out.push(format!("model {}", agent.model));
            agent.model.clear();
        }
        left_out
    }

    fn servers(&self) -> impl Iterator<Item = &str> {
        self.config.mcp_servers.keys().map(String::as_str)
    }

    fn tool(&self, name: &str) -> Wrong {
        let is_of_servers = toolboxes::server_of(name, self.servers()).is_some();
        if name == ALL || name == mcp::RESOURCES || is_of_servers {
            return None;
        }
        let mut known: Vec<&str> = toolboxes::tools().chain(toolboxes::names()).collect();
        known.extend(self.servers());
        unknown(name, format!("there is no tool and no toolbox {name:?}"), &known)
    }

    fn toolbox(&self, name: &str) -> Wrong {
        let mut known: Vec<&str> = toolboxes::names().collect();
        known.extend(self.servers());
        unknown(name, format!("there is no toolbox {name:?}"), &known)
    }

    fn server(&self, name: &str) -> Wrong {
        if name == ALL {
            return None;
        }
        let known: Vec<_> = self.servers().collect();
        unknown(name, format!("there is no [mcp_servers.{name}]"), &known)
    }

    fn skill(&self, name: &str) -> Wrong {
        if name == ALL {
            return None;
        }
        let known: Vec<_> = self.skills.iter().map(String::as_str).collect();
        unknown(name, format!("there is no skill {name:?}"), &known)
    }

    fn delegate(&self, name: &str) -> Wrong {
        if name == ALL { None } else { self.agent(name) }
    }

    fn agent(&self, name: &str) -> Wrong {
        let known: Vec<_> = known(self.config).collect();
        unknown(name, format!("there is no agent {name:?}"), &known)
    }

    fn model(&self, name: &str) -> Wrong {
        let name = match ModelName::resolve(name, self.config) {
            Ok(name) => name,
            Err(error) => return Some(error.to_string()),
        };
        let known = provider::all(self.config);
        unknown(&name.provider, format!("there is no provider {:?}", name.provider), &known)
    }
}

/// Returns the names of the agents there are.
pub(crate) fn known(config: &Config) -> impl Iterator<Item = &str> {
    let own = config.agents.keys().map(String::as_str);
    let built_in = (!config.agents.contains_key(DEFAULT_AGENT)).then_some(DEFAULT_AGENT);
    own.chain(built_in)
}

fn child_tools(agent: &AgentConfig) -> Option<&[String]> {
    match &agent.child_tools {
        ChildTools::Named(names) => Some(names),
        ChildTools::Configured | ChildTools::Union | ChildTools::Subset => None,
    }
}

/// Says what is wrong with a name that is not among the known ones.
fn unknown(name: &str, what: String, known: &[&str]) -> Wrong {
    if known.contains(&name) {
        return None;
    }
    Some(what + &config::meant(name, known))
}
