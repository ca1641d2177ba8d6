//! The names of tools, and the one place where an agent's tools are put together.

use bowline_agent::tool::{Scope, Tool as _, Toolbox, ToolboxError};
use bowline_tools::mcp::Pattern;
use bowline_tools::{LoadSkill, Message};

use crate::config::{ALL, AgentConfig};
use crate::mcp;

/// The toolbox beside those of [`bowline_tools::TOOLBOXES`]: a plan is an agent's own.
const PLAN: (&str, &[&str]) = ("plan", &["update_plan"]);

/// The tools with which agents take part in a crew: they come with their place in it, and with some a
/// name in the list says more.
const CREW: (&str, &[&str]) = ("crew", &bowline_agent::crew::TOOLS);

/// The toolboxes whose tools an agent has only if it lists them.
const LISTED: [&str; 5] = ["git", "notes", "state", "tasks", "crew"];

/// The tools that are in no toolbox: they come with what an agent has, or how it speaks.
const WITHOUT_TOOLBOX: [&str; 5] =
    [Message::NAME, LoadSkill::NAME, "tool_search", "tool_call", mcp::RESOURCES];

/// The two tools of which an agent has the one that its model uses best.
const EDITING: [&str; 2] = ["edit", "apply_patch"];

/// Returns the names of all toolboxes.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| name)
}

/// Returns the names of all tools.
pub(crate) fn tools() -> impl Iterator<Item = &'static str> {
    all().flat_map(|(_, tools)| tools.iter().copied())
}

/// Returns the names of all tools, also of those that no agent lists.
pub(crate) fn every_tool() -> impl Iterator<Item = &'static str> {
    tools().chain(WITHOUT_TOOLBOX)
}

/// Returns the tools of a toolbox.
pub(crate) fn tools_of(toolbox: &str) -> Option<&'static [&'static str]> {
    all().find(|(name, _)| *name == toolbox).map(|(_, tools)| tools)
}

/// Returns the toolboxes by their names, and what is in them. Every tool that an agent may name is in
/// one.
fn all() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    bowline_tools::TOOLBOXES.into_iter().chain([PLAN, CREW])
}

/// Tells whether an agent has a tool only if it lists it.
pub(crate) fn is_listed_only(tool: &str) -> bool {
    LISTED.iter().any(|toolbox| tools_of(toolbox).is_some_and(|tools| tools.contains(&tool)))
}

/// Tells whether two names mean one tool.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one == other || (EDITING.contains(&one) && EDITING.contains(&other))
}

/// Returns the server of a tool that a server brings, `mcp__server__tool`, and `mcp__server`.
pub(crate) fn server_of<'a>(name: &str, servers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let servers: Vec<&str> = servers.collect();
    let pattern = Pattern::read(name, servers.iter().copied())?;
    servers.into_iter().find(|server| *server == pattern.server)
}

/// Puts together what an agent may call of all the tools there are for it, whoever brings them: those
/// of [`bowline_tools`], those of servers, and those that come with skills or for delegating.
pub(crate) fn of_agent(agent: &AgentConfig, all: &Toolbox) -> Result<Toolbox, ToolboxError> {
    let names: Vec<&str> = all.names().filter(|tool| may_call(agent, tool)).collect();
    all.scope(Scope::Names(&names))
}

/// Tells whether an agent may call the tool of a name, also one that comes later.
pub(crate) fn may_call(agent: &AgentConfig, tool: &str) -> bool {
    let is_of_server = |server: &str| server_of(tool, [server].into_iter()).is_some();
    if let Some(servers) = &agent.mcp_servers
        && tool.starts_with("mcp__")
        && !servers.iter().any(|server| server == ALL || is_of_server(server))
    {
        return false;
    }
    let is_common = !is_listed_only(tool);
    if agent.tools.is_none() && agent.toolboxes.is_none() {
        return is_common;
    }
    let is_in = |toolbox: &str| {
        tools_of(toolbox).is_some_and(|tools| tools.contains(&tool)) || is_of_server(toolbox)
    };
    let by_name = agent.tools.iter().flatten().any(|name| {
        let server = name.strip_prefix("mcp__").is_some_and(is_of_server);
        (name == ALL && is_common) || is_same(name, tool) || is_in(name) || server
    });
    let own = |name: &str| tool.rsplit_once("__").map_or(tool, |(_, own)| own) == name;
    let by_toolbox = agent.toolboxes.iter().flatten().any(|toolbox| {
        let is_listed =
            |tools: &Vec<String>| tools.iter().any(|one| is_same(one, tool) || own(one));
        is_in(&toolbox.name) && toolbox.tools.as_ref().is_none_or(is_listed)
    });
    by_name || by_toolbox
}
