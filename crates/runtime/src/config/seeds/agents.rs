//! Agents as shelly and pingu write them.

use crate::config::below;
use crate::config::node::{self, Node, Table, Value};
use crate::config::read::Wrong;

/// The agent of pingu that takes the prompt.
pub(super) const PINGUS_FIRST: &str = "orchestrator";

/// The keys of an agent's `options` in shelly, and ours.
const OPTIONS: [(&str, &[&str]); 7] = [
    ("max_iterations", &["limits", "model_turns"]),
    ("warn_iterations", &["warn_turns"]),
    ("max_delegation_depth", &["max_depth"]),
    ("max_handoffs", &["max_handoffs"]),
    ("context_threshold", &["context_threshold"]),
    ("interaction_mode", &["interaction"]),
    ("question_timeout", &["question_timeout"]),
];

/// The tools of shelly, and ours; an empty name where there is none.
const SHELLYS_TOOLS: [(&str, &str); 17] = [
    ("fs_read", "read"),
    ("fs_read_lines", "read"),
    ("fs_write", "write"),
    ("fs_edit", "edit"),
    ("fs_patch", "edit"),
    ("fs_list", "list"),
    ("fs_delete", ""),
    ("fs_move", ""),
    ("fs_copy", ""),
    ("fs_stat", ""),
    ("fs_diff", ""),
    ("fs_mkdir", ""),
    ("exec_run", "bash"),
    ("search_content", "grep"),
    ("search_files", "glob"),
    ("http_fetch", "fetch"),
    ("ask_user", "ask_user"),
];

/// The tools of pingu, and ours.
const PINGUS_TOOLS: [(&str, &[&str]); 5] = [
    ("shell", &["bash", "job"]),
    ("file", &["read", "write"]),
    ("web", &["fetch"]),
    ("memory_store", &[]),
    ("memory_recall", &[]),
];

/// Brings an agent into our shape: `options` have keys of their own, and a system prompt is what
/// instructions are here. One that has our shape already stays as it is.
pub(crate) fn to_ours(agent: &mut Table) -> Result<(), Wrong> {
    if let Some(prompt) = agent.remove("system_prompt") {
        agent.entry("instructions".to_owned()).or_insert(prompt);
    }
    let Some(options) = agent.remove("options") else { return Ok(()) };
    for (key, node) in super::entries(options, "options")? {
        let Some((_, path)) = OPTIONS.iter().find(|(theirs, _)| *theirs == key) else {
            let known = OPTIONS.map(|(theirs, _)| theirs);
            let meant = crate::config::meant(&key, &known);
            return Err((node.place.line, format!("unknown key {key:?} in [options]{meant}")));
        };
        // What is empty there is as if it was not there.
        if node.as_str() == Some("") {
            continue;
        }
        let path: Vec<_> = path.iter().map(|&part| part.to_owned()).collect();
        let place = node.place.clone();
        let mut mapped = below(&path, node, &place);
        node::merge(&mut mapped, agent);
        *agent = mapped;
    }
    Ok(())
}

/// Everybody may ask there; no skills are all skills, and tools have other names.
pub(super) fn of_shelly(name: &str, agent: &mut Node, ignored: &mut Vec<String>) {
    let Value::Table(agent) = &mut agent.value else { return };
    if matches!(agent.get("skills").map(|node| &node.value), Some(Value::List(all)) if all.is_empty())
    {
        agent.remove("skills");
    }
    let Some(node) = agent.get_mut("toolboxes") else { return };
    let place = node.place.clone();
    let Value::List(toolboxes) = &mut node.value else { return };
    for toolbox in toolboxes.iter_mut() {
        let Value::Table(toolbox) = &mut toolbox.value else { continue };
        if let Some(Value::List(tools)) = toolbox.get_mut("tools").map(|node| &mut node.value) {
            tools.retain_mut(|tool| renamed(tool, name, ignored));
        }
    }
    let named = |node: &Node| match &node.value {
        Value::Table(toolbox) => toolbox.get("name").and_then(Node::as_str) == Some("ask"),
        Value::Leaf(_) | Value::List(_) => node.as_str() == Some("ask"),
    };
    if !toolboxes.iter().any(named) {
        toolboxes.insert(0, super::leaf("ask", &place));
    }
}

/// Gives a tool of shelly our name, and tells whether there is one.
fn renamed(tool: &mut Node, agent: &str, ignored: &mut Vec<String>) -> bool {
    let known = SHELLYS_TOOLS.iter().find(|(theirs, _)| Some(*theirs) == tool.as_str());
    match known {
        // It is ours, or that of a server, or none: whoever checks the whole says so.
        None => true,
        Some((theirs, "")) => {
            ignored.push(format!("agents.{agent}.toolboxes {theirs}"));
            false
        }
        Some((_, ours)) => {
            *tool = super::leaf(ours, &tool.place);
            true
        }
    }
}

/// Without tools it has all of them. Who has `message` speaks with it, and who has no `delegate` does
/// not delegate.
pub(super) fn of_pingu(name: &str, agent: &mut Node, ignored: &mut Vec<String>) {
    let Value::Table(agent) = &mut agent.value else { return };
    let Some(node) = agent.get_mut("tools") else { return };
    let place = node.place.clone();
    let Value::List(tools) = &mut node.value else { return };
    if tools.is_empty() {
        tools.push(super::leaf("*", &place));
        return;
    }
    let mut ours = Vec::new();
    let (mut speaks, mut delegates) = (false, false);
    for tool in tools.drain(..) {
        let known = PINGUS_TOOLS.iter().find(|(theirs, _)| Some(*theirs) == tool.as_str());
        match (tool.as_str(), known) {
            (Some("message"), _) => speaks = true,
            (Some("delegate"), _) => delegates = true,
            (Some(theirs), Some((_, []))) => ignored.push(format!("agents.{name}.tools {theirs}")),
            (_, Some((_, names))) => {
                ours.extend(names.iter().map(|name| super::leaf(name, &tool.place)));
            }
            (_, None) => ours.push(tool),
        }
    }
    *tools = ours;
    let mut default = |key: &str, value: toml::Value| {
        agent.entry(key.to_owned()).or_insert_with(|| Node::plain(value, &place));
    };
    if speaks {
        default("output", "message_tool".into());
    }
    if !delegates {
        default("max_depth", 0.into());
    }
}
