//! Whether what an agent names is there.

use crate::config::{
    self, ALL, AgentConfig, ChildTools, Config, DEFAULT_AGENT, Fault, Layer, Loaded, Node, Origin,
    Table, ToolboxConfig,
};
use crate::environment::Folders;
use crate::mcp;
use crate::permission;
use crate::provider::{self, ModelName};
use crate::tools::{Kind, ToolConfig};

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
    let refused =
        loaded.layers.iter().filter(|layer| layer.is_applied && layer.agents().next().is_none());
    let refused = refused.filter_map(|layer| layer.agent.as_ref());
    loaded.notes.extend(refused.flat_map(|file| file.notes.iter().cloned()));
    for (name, tool) in &config.tools {
        check.tool_config(name, tool);
    }
    let said = loaded.layers.iter().filter(|layer| layer.is_applied);
    check.agents_said(&said.collect::<Vec<_>>());
    for (name, agent) in &mut loaded.config.agents {
        check.agent_name(name);
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

/// Finds the rules about tools that are not known, one line each. There may be such a tool all the same, of
/// whoever embeds bowline or of another folder: it is no reason not to start.
pub(crate) fn unknown_in_rules(loaded: &Loaded, folders: &Folders) -> Vec<String> {
    let tables = loaded.layers.iter().filter_map(|layer| layer.table.get("tools")?.as_table());
    let mut known: Vec<&str> = toolboxes::every_tool().chain(permission::ABOUT).collect();
    known.extend(tables.flat_map(Table::keys).map(String::as_str));
    let mut lines = Vec::new();
    for agent in self::known(&loaded.config) {
        // What cannot be read was said where it was read first.
        for entry in permission::entries(loaded, folders, agent).into_iter().flatten() {
            let Some(tool) = entry.rule.tool().filter(|tool| !known.contains(tool)) else {
                continue;
            };
            let meant = config::nearest(&tool.to_lowercase(), known.iter().copied());
            let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            let place = entry.place.map(|place| format!("{place}: ")).unwrap_or_default();
            let line =
                format!("{place}the rule `{tool}` is about a tool that is not known here{meant}");
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
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

    /// Names end up in lists, prompts, events and paths.
    fn agent_name(&mut self, name: &str) {
        let Some(what) = wrong_name(name) else { return };
        let path = ["agents".to_owned(), name.to_owned()];
        let place = config::nearest_node(self.merged, &path).map(|node| node.place.clone());
        // It may not be fit to be shown as it is, either.
        let what = format!("agents.{name:?}: {what}");
        self.faults.push(Fault { place, what, is_unknown_key: false });
    }

    /// The tools of an agent and those of its place must differ, and somebody must do the task.
    fn tool_config(&mut self, name: &str, tool: &ToolConfig) {
        let is_there = toolboxes::tools().any(|known| known == name);
        self.fault(&["tools", name], is_there.then(|| "there is a tool of this name".to_owned()));
        if let Some(agent) = tool.agent.as_deref().filter(|_| tool.kind == Kind::Agent) {
            let what = self.agent(agent);
            self.fault(&["tools", name, "agent"], what);
        }
    }

    /// What is said for one start changes agents that are there: it is easily misspelt.
    fn agents_said(&mut self, layers: &[&Layer]) {
        let is_said = |node: &Node| matches!(*node.place.origin, Origin::CommandLine);
        let all = || layers.iter().flat_map(|layer| layer.agents());
        let mut known: Vec<&str> =
            all().filter(|(_, node)| !is_said(node)).map(|(name, _)| name.as_str()).collect();
        known.push(DEFAULT_AGENT);
        for (name, _) in all().filter(|(_, node)| is_said(node)) {
            let what = unknown(name, format!("there is no agent {name:?}"), &known);
            self.fault(&["agents", name], what);
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
        known.extend(self.config.tools.keys().map(String::as_str));
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

/// How many characters the name of an agent may have.
const LONGEST_NAME: usize = 64;

/// Says what is wrong with the name of an agent; `None` for nothing.
pub(super) fn wrong_name(name: &str) -> Option<String> {
    let is_strange = |c: char| c.is_control() || matches!(c, '/' | '\\');
    let is_empty = name.trim().is_empty();
    let is_fit = !is_empty && name.chars().count() <= LONGEST_NAME && !name.contains(is_strange);
    (!is_fit).then(|| {
        format!(
            "the name of an agent has 1 to {LONGEST_NAME} characters; none is a slash or a control"
        )
    })
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
