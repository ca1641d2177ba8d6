//! Which tools of servers an agent has.

use bowline_tools::mcp::Scope;

use crate::config::{ALL, AgentConfig};

/// Returns what an agent may have: of the servers in `mcp_servers`, or all, the tools in `tools` and
/// `toolboxes`, or all.
pub(crate) fn scope(agent: &AgentConfig) -> Scope {
    let is_all = |names: &&Vec<String>| names.iter().any(|name| name == ALL);
    let servers = agent.mcp_servers.as_ref().filter(|names| !is_all(names)).cloned();
    let is_open = agent.tools.is_none() && agent.toolboxes.is_none();
    if is_open || agent.tools.as_ref().is_some_and(|names| is_all(&names)) {
        return Scope { servers, tools: None };
    }
    let named = agent.tools.iter().flatten().map(|name| pattern(name));
    let boxes = agent.toolboxes.iter().flatten().flat_map(|toolbox| match &toolbox.tools {
        None => vec![pattern(&toolbox.name)],
        Some(tools) => tools.iter().map(|tool| tool_of(&toolbox.name, tool)).collect(),
    });
    Scope { servers, tools: Some(named.chain(boxes).collect()) }
}

/// A server stands for all its tools.
fn pattern(name: &str) -> String {
    let rest = name.strip_prefix("mcp__").unwrap_or(name);
    if rest.contains("__") { name.to_owned() } else { format!("mcp__{rest}__*") }
}

/// In a toolbox a tool has its own name, or the one by which it is called.
fn tool_of(server: &str, tool: &str) -> String {
    if tool.starts_with("mcp__") { tool.to_owned() } else { format!("mcp__{server}__{tool}") }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn scope_of(toml: &str) -> Scope {
        scope(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn an_agent_without_lists_has_all_and_empty_lists_are_none() {
        assert_eq!(scope_of(""), Scope::default());
        assert_eq!(scope_of("tools = [\"*\"]\nmcp_servers = [\"*\"]"), Scope::default());
        let none = Scope { servers: Some(Vec::new()), tools: Some(Vec::new()) };
        assert_eq!(scope_of("tools = []\nmcp_servers = []"), none);
    }

    #[test]
    fn a_server_stands_for_all_its_tools() {
        let scope =
            scope_of("tools = [\"read\", \"mcp__fs__r*\", \"mcp__git\"]\nmcp_servers = [\"fs\"]");
        let tools = ["mcp__read__*", "mcp__fs__r*", "mcp__git__*"].map(str::to_owned);
        let servers = Some(vec!["fs".to_owned()]);
        assert_eq!(scope, Scope { servers, tools: Some(tools.to_vec()) });
    }

    #[test]
    fn a_toolbox_is_a_server_with_some_of_its_tools() {
        let scope = scope_of("toolboxes = [\"git\", { name = \"fs\", tools = [\"read\"] }]");
        let tools = ["mcp__git__*", "mcp__fs__read"].map(str::to_owned);
        assert_eq!(scope, Scope { servers: None, tools: Some(tools.to_vec()) });
    }
}
