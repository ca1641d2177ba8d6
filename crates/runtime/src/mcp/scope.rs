//! Which tools of servers an agent has.

use std::collections::BTreeSet;

use bowline_tools::mcp::{Only, Pattern, Scope};

use crate::agents::toolboxes;
use crate::config::{ALL, AgentConfig, Config};

/// The tool with which an agent reads what servers have to read.
pub(crate) const RESOURCES: &str = "mcp_resources";

/// What an agent names of servers: those in `mcp_servers`, or all, and of them what is in `tools` and
/// `toolboxes`, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    servers: Option<Vec<String>>,
    only: Option<Vec<String>>,
}

/// Returns what an agent names of servers.
pub(crate) fn scope(agent: &AgentConfig) -> Wanted {
    let is_all = |names: &&Vec<String>| names.iter().any(|name| name == ALL);
    let servers = agent.mcp_servers.as_ref().filter(|names| !is_all(names)).cloned();
    let is_open = agent.tools.is_none() && agent.toolboxes.is_none();
    if is_open || agent.tools.as_ref().is_some_and(|names| is_all(&names)) {
        return Wanted { servers, only: None };
    }
    let named = agent.tools.iter().flatten().cloned();
    let boxes = agent.toolboxes.iter().flatten().flat_map(|toolbox| match &toolbox.tools {
        None => vec![toolbox.name.clone()],
        Some(tools) => tools.iter().map(|tool| tool_of(&toolbox.name, tool)).collect(),
    });
    Wanted { servers, only: Some(named.chain(boxes).collect()) }
}

/// In a toolbox a tool has its own name, or the one by which it is called.
fn tool_of(server: &str, tool: &str) -> String {
    match tool.starts_with("mcp__") || is_ours(server) {
        true => tool.to_owned(),
        false => format!("mcp__{server}__{tool}"),
    }
}

/// Tells whether a name means something of ours, so that no server is meant by it.
fn is_ours(name: &str) -> bool {
    toolboxes::tools_of(name).is_some() || toolboxes::tools().any(|tool| tool == name)
}

impl Wanted {
    /// Returns what of the servers that are configured is meant. A server stands for all its tools.
    pub(crate) fn among(self, servers: &[&str]) -> Scope {
        let tool = |name: &String| match name.starts_with("mcp__") {
            true => Pattern::read(name, servers.iter().copied()),
            false if is_ours(name) => None,
            false => Pattern::read(&format!("mcp__{name}"), servers.iter().copied()),
        };
        let only = self.only.as_ref().map(|names| Only {
            tools: names.iter().filter_map(tool).collect(),
            resources: names.iter().any(|name| name == RESOURCES),
        });
        Scope { servers: self.servers, only }
    }
}

/// Returns what is wanted of servers by an agent and by all to whom it may delegate, and they in turn.
pub(crate) fn of_crew(agent: &AgentConfig, config: &Config) -> Vec<Wanted> {
    let mut seen = BTreeSet::from([agent.name.as_str()]);
    let mut wanted = vec![scope(agent)];
    let mut open = vec![agent];
    while let Some(agent) = open.pop() {
        let may_delegate = |name: &str| {
            let named = agent.delegates.as_ref();
            agent.max_depth != Some(0)
                && named.is_none_or(|names| names.iter().any(|it| it == ALL || it == name))
        };
        // A configured tool may be a task for any agent.
        let by_tool =
            |name: &str| config.tools.values().any(|it| it.agent.as_deref() == Some(name));
        for (name, other) in &config.agents {
            if (may_delegate(name) || by_tool(name)) && seen.insert(name) {
                wanted.push(scope(other));
                open.push(other);
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn scope_of(toml: &str) -> Scope {
        scope(&toml::from_str(toml).unwrap()).among(&["fs", "git", "read", "web", "my db"])
    }

    fn tools_of(toml: &str) -> Vec<String> {
        let tools = scope_of(toml).only.unwrap().tools;
        tools.into_iter().map(|Pattern { server, tool }| format!("{server}|{tool}")).collect()
    }

    #[test]
    fn an_agent_without_lists_has_all_and_empty_lists_are_none() {
        assert_eq!(scope_of(""), Scope::default());
        assert_eq!(scope_of("tools = [\"*\"]\nmcp_servers = [\"*\"]"), Scope::default());
        let none = Scope { servers: Some(Vec::new()), only: Some(Only::default()) };
        assert_eq!(scope_of("tools = []\nmcp_servers = []"), none);
    }

    #[test]
    fn a_server_stands_for_all_its_tools() {
        let toml =
            "tools = [\"bash\", \"mcp__fs__r*\", \"web\", \"my db\"]\nmcp_servers = [\"fs\"]";
        assert_eq!(tools_of(toml), ["fs|r*", "web|*", "my db|*"]);
        assert_eq!(scope_of(toml).servers, Some(vec!["fs".to_owned()]));
        assert_eq!(
            tools_of("tools = [\"mcp__my db__a.b\", \"mcp__my_db__c\"]"),
            ["my db|a.b", "my db|c"]
        );
    }

    #[test]
    fn what_is_called_like_something_of_ours_is_meant_only_with_its_prefix() {
        assert_eq!(tools_of("tools = [\"read\", \"git\"]"), Vec::<String>::new());
        assert_eq!(
            tools_of("toolboxes = [{ name = \"git\", tools = [\"x\"] }]"),
            Vec::<String>::new()
        );
        assert_eq!(tools_of("tools = [\"mcp__read\", \"mcp__git\"]"), ["read|*", "git|*"]);
    }

    #[test]
    fn a_toolbox_is_a_server_with_some_of_its_tools() {
        let toml = "toolboxes = [\"my db\", { name = \"fs\", tools = [\"read\"] }]";
        assert_eq!(tools_of(toml), ["my db|*", "fs|read"]);
    }

    #[test]
    fn what_there_is_to_read_is_named_by_its_tool() {
        let only = scope_of("tools = [\"mcp_resources\"]").only.unwrap();
        assert_eq!(only, Only { tools: Vec::new(), resources: true });
        assert!(!scope_of("tools = [\"mcp__fs\"]").only.unwrap().resources);
    }

    #[test]
    fn a_crew_wants_what_any_of_it_wants_that_can_be_reached() {
        let config: Config = toml::from_str(
            "[agents.a]\ntools = [\"mcp__fs\"]\ndelegates = [\"b\"]\n\
             [agents.b]\ntools = [\"mcp__git\"]\nmax_depth = 0\n\
             [agents.c]\ntools = [\"mcp__web\"]\n",
        )
        .unwrap();
        let all = |name: &str| {
            let wanted = of_crew(&config.agents[name], &config);
            let scopes: Vec<_> =
                wanted.into_iter().map(|it| it.among(&["fs", "git", "web"])).collect();
            let reached = |server: &&str| scopes.iter().any(|scope| scope.has_server(server));
            ["fs", "git", "web"].into_iter().filter(reached).collect::<Vec<_>>()
        };
        assert_eq!(
            (all("a"), all("b"), all("c")),
            (vec!["fs", "git"], vec!["git"], vec!["fs", "git", "web"])
        );
    }
}
