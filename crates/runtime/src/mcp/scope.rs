//! Which tools of servers an agent has.

use bowline_tools::mcp::Scope;

use crate::config::AgentConfig;

/// What stands for all.
const ALL: &str = "*";

/// Returns what an agent may have: of the servers in `mcp_servers`, or all, the tools in `tools`, or all.
pub(crate) fn scope(agent: &AgentConfig) -> Scope {
    let (servers, tools) = (names(agent.mcp_servers.as_ref()), names(agent.tools.as_ref()));
    let servers = servers.filter(|names| !names.iter().any(|name| name == ALL));
    let tools = tools.filter(|names| !names.iter().any(|name| name == ALL));
    Scope { servers, tools: tools.map(|names| names.iter().map(|name| pattern(name)).collect()) }
}

/// A server stands for all its tools.
fn pattern(name: &str) -> String {
    let rest = name.strip_prefix("mcp__").unwrap_or(name);
    if rest.contains("__") { name.to_owned() } else { format!("mcp__{rest}__*") }
}

fn names(list: Option<&toml::Value>) -> Option<Vec<String>> {
    let names = list?.as_array()?.iter().filter_map(toml::Value::as_str);
    Some(names.map(str::to_owned).collect())
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
}
