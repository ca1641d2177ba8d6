//! Configurations as shelly and pingu write them, brought into the shape of ours.
//!
//! What stands in them keeps its line, so that complaints point into the file as it was written.

mod agents;

use super::node::{Node, Place, Table, Value};
use super::read::Wrong;

pub(crate) use agents::to_ours as agent_to_ours;

/// A table in our shape, and the keys of it that mean nothing here.
pub(crate) struct Ours {
    pub(crate) table: Table,
    pub(crate) ignored: Vec<String>,
}

/// Sections of pingu and of shelly that mean nothing here yet.
const FOREIGN: [&str; 9] =
    ["gateway", "db", "channel", "services", "memory", "audio", "filesystem", "git", "context"];

/// Where OpenAI is.
const OPENAI: &str = "https://api.openai.com";
/// Where xAI is.
const XAI: &str = "https://api.x.ai";

/// Looks up a variable of the environment.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Brings a table into our shape. One that has it already stays as it is.
pub(crate) fn to_ours(mut table: Table, lookup: Lookup<'_>) -> Result<Ours, Wrong> {
    let mut ignored = Vec::new();
    pingu(&mut table, &mut ignored)?;
    shelly(&mut table, lookup, &mut ignored)?;
    if let Some(Value::Table(agents)) = table.get_mut("agents").map(|node| &mut node.value) {
        for agent in agents.values_mut() {
            if let Value::Table(agent) = &mut agent.value {
                agent_to_ours(agent)?;
            }
        }
    }
    for key in FOREIGN {
        if table.remove(key).is_some() {
            ignored.push(key.to_owned());
        }
    }
    Ok(Ours { table, ignored })
}

/// `[llm.NAME]` is a provider with one model, `default_llm` names the one that runs, `[agent.NAME]`
/// is an agent.
fn pingu(table: &mut Table, ignored: &mut Vec<String>) -> Result<(), Wrong> {
    let mut default = table.remove("default_llm");
    if let Some(llms) = table.remove("llm") {
        let place = llms.place.clone();
        let mut providers = Table::new();
        for (name, llm) in entries(llms, "llm")? {
            if name == "openai" && default.is_none() {
                default = Some(leaf("openai", &llm.place));
            }
            providers.insert(name, provider_of_llm(llm)?);
        }
        put(table, "providers", providers, &place);
    }
    if let Some(default) = default {
        table.entry("model".to_owned()).or_insert(default);
    }
    if let Some(agents) = table.remove("agent") {
        let place = agents.place.clone();
        let mut agents = entries(agents, "agent")?;
        agents.iter_mut().for_each(|(name, agent)| agents::of_pingu(name, agent, ignored));
        if let Some(node) = agents.get(agents::PINGUS_FIRST) {
            let first = leaf(agents::PINGUS_FIRST, &node.place);
            table.entry("entry_agent".to_owned()).or_insert(first);
        }
        put(table, "agents", agents, &place);
    }
    if let Some(Value::Table(trace)) = table.get_mut("trace").map(|node| &mut node.value) {
        trace_of_pingu(trace);
    }
    Ok(())
}

/// The key goes into a header, and the path has another name; what is empty is as if it was not there.
fn trace_of_pingu(trace: &mut Table) {
    let mut taken = |key| trace.remove(key).filter(|node| node.as_str() != Some(""));
    let (key, path) = (taken("api_key"), taken("url_path"));
    if let Some(path) = path {
        trace.entry("path".to_owned()).or_insert(path);
    }
    if let Some((place, key)) =
        key.and_then(|key| Some((key.place.clone(), key.as_str()?.to_owned())))
    {
        let bearer = leaf(&format!("Bearer {key}"), &place);
        let headers = Table::from([("authorization".to_owned(), bearer)]);
        let headers = Node { value: Value::Table(headers), place };
        trace.entry("headers".to_owned()).or_insert(headers);
    }
}

fn provider_of_llm(llm: Node) -> Result<Node, Wrong> {
    let place = llm.place.clone();
    let mut provider = entries(llm, "llm")?;
    // What is empty there is as if it was not there.
    provider.retain(|_, node| node.as_str() != Some(""));
    let mut default = |key: &str, value: &str| {
        provider.entry(key.to_owned()).or_insert_with(|| leaf(value, &place));
    };
    default("model", "gpt-4.1-nano");
    default("base_url", "https://api.openai.com/v1");
    let base_url = provider.get("base_url").and_then(Node::as_str).unwrap_or_default();
    let is_openai = base_url.starts_with(OPENAI);
    if !is_openai {
        provider.entry("wire".to_owned()).or_insert_with(|| leaf("chat", &place));
    } else if base_url == "https://api.openai.com/v1" && !provider.contains_key("api_key") {
        provider.insert("api_key_env".to_owned(), leaf("OPENAI_API_KEY", &place));
    }
    Ok(Node { value: Value::Table(provider), place })
}

/// `providers`, `agents` and `mcp_servers` are lists of things with names; the first provider is
/// the one that runs, unless the agent that takes the prompt names another.
fn shelly(table: &mut Table, lookup: Lookup<'_>, ignored: &mut Vec<String>) -> Result<(), Wrong> {
    let windows = table.remove("default_context_windows");
    let windows = windows.as_ref().and_then(Node::as_table);
    let mut first_provider = None;
    if let Some((providers, place)) = named(table, "providers")? {
        first_provider = providers.first().map(|(name, node)| leaf(name, &node.place));
        let mut ours = Table::new();
        for (name, node) in providers {
            ours.insert(name, provider_of_shelly(node, windows, lookup)?);
        }
        put(table, "providers", ours, &place);
    }
    if let Some((servers, place)) = named(table, "mcp_servers")? {
        let expanded = servers.into_iter().map(|(name, node)| (name, expand(node, lookup)));
        let servers = expanded.collect();
        put(table, "mcp_servers", servers, &place);
    }
    if let Some((agents, place)) = named(table, "agents")? {
        if let Some((name, node)) = agents.first() {
            let first = leaf(name, &node.place);
            table.entry("entry_agent".to_owned()).or_insert(first);
        }
        let mut agents: Table = agents.into_iter().collect();
        agents.iter_mut().for_each(|(name, agent)| agents::of_shelly(name, agent, ignored));
        let entry = table.get("entry_agent").and_then(Node::as_str);
        let own = entry.and_then(|name| agents.get(name)?.as_table()?.get("provider"));
        if first_provider.is_some()
            && let Some(own) = own
        {
            first_provider = Some(own.clone());
        }
        put(table, "agents", agents, &place);
    }
    if let Some(provider) = first_provider {
        table.entry("model".to_owned()).or_insert(provider);
    }
    Ok(())
}

fn provider_of_shelly(
    node: Node,
    windows: Option<&Table>,
    lookup: Lookup<'_>,
) -> Result<Node, Wrong> {
    let place = node.place.clone();
    let mut provider = entries(node, "providers")?;
    let key = provider.get("api_key").and_then(Node::as_str);
    if let Some(variable) = key.and_then(whole_reference) {
        let variable = leaf(variable, &place);
        provider.remove("api_key");
        provider.insert("api_key_env".to_owned(), variable);
    }
    let provider = provider.into_iter().map(|(key, node)| (key, expand(node, lookup)));
    let mut provider: Table = provider.filter(|(_, node)| node.as_str() != Some("")).collect();
    if let Some(kind) = provider.remove("kind") {
        let name = kind.as_str().unwrap_or_default().to_owned();
        let (wire, base_url, variable) = match name.as_str() {
            "anthropic" => ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
            "openai" => ("chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
            "grok" => ("chat", "https://api.x.ai/v1", "XAI_API_KEY"),
            "gemini" => ("gemini", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"),
            _ => {
                let what = format!(
                    "provider kind {name:?} is unknown; it is one of anthropic, openai, grok, gemini"
                );
                return Err((kind.place.line, what));
            }
        };
        let mut default = |key: &str, value: &str| {
            provider.entry(key.to_owned()).or_insert_with(|| leaf(value, &kind.place));
        };
        default("base_url", base_url);
        let place = provider.get("base_url").and_then(Node::as_str).unwrap_or_default();
        let is_elsewhere = place != base_url;
        // What OpenAI and xAI themselves speak is told by the address.
        if ![OPENAI, XAI].iter().any(|own| place.starts_with(own)) {
            provider.entry("wire".to_owned()).or_insert_with(|| leaf(wire, &kind.place));
        }
        if !is_elsewhere && !provider.keys().any(|key| super::node::API_KEYS.contains(&&**key)) {
            provider.insert("api_key_env".to_owned(), leaf(variable, &kind.place));
        }
        if wire == "chat" {
            with_version(&mut provider);
        }
        if let Some(window) = windows.and_then(|windows| windows.get(&name)) {
            provider.entry("context_window".to_owned()).or_insert_with(|| window.clone());
        }
    }
    if let Some(max) = provider.remove("max_tokens") {
        provider.entry("max_output_tokens".to_owned()).or_insert(max);
    }
    Ok(Node { value: Value::Table(provider), place })
}

/// Adds the `/v1` that shelly adds itself.
fn with_version(provider: &mut Table) {
    let Some(node) = provider.get_mut("base_url") else { return };
    let Some(url) = node.as_str() else { return };
    let url = url.trim_end_matches('/');
    let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if !has_path {
        node.value = Value::Leaf(format!("{url}/v1").into());
    }
}

/// Takes a list of tables with names out of a table; `None` if there is no list.
#[expect(clippy::type_complexity, reason = "a list of named nodes and where it stands")]
fn named(table: &mut Table, key: &str) -> Result<Option<(Vec<(String, Node)>, Place)>, Wrong> {
    let Some(Node { value: Value::List(_), place }) = table.get(key) else { return Ok(None) };
    let place = place.clone();
    let Some(Node { value: Value::List(items), .. }) = table.remove(key) else { return Ok(None) };
    let mut named: Vec<(String, Node)> = Vec::new();
    for item in items {
        let at = item.place.clone();
        let mut entries = entries(item, key)?;
        let name = entries.remove("name");
        let Some(name) = name.as_ref().and_then(Node::as_str).filter(|name| !name.is_empty())
        else {
            return Err((at.line, format!("an element of {key} has no name")));
        };
        if named.iter().any(|(other, _)| other == name) {
            return Err((at.line, format!("{key} has {name:?} twice")));
        }
        named.push((name.to_owned(), Node { value: Value::Table(entries), place: at }));
    }
    Ok(Some((named, place)))
}

fn entries(node: Node, key: &str) -> Result<Table, Wrong> {
    match node.value {
        Value::Table(table) => Ok(table),
        Value::Leaf(_) | Value::List(_) => {
            Err((node.place.line, format!("{key}: a table is expected here")))
        }
    }
}

/// Adds entries to a section; what is there already stays.
fn put(table: &mut Table, key: &str, entries: Table, place: &Place) {
    let section = table
        .entry(key.to_owned())
        .or_insert_with(|| Node { value: Value::Table(Table::new()), place: place.clone() });
    if let Value::Table(section) = &mut section.value {
        for (name, node) in entries {
            section.entry(name).or_insert(node);
        }
    }
}

fn leaf(text: &str, place: &Place) -> Node {
    Node { value: Value::Leaf(text.into()), place: place.clone() }
}

/// Replaces `$VAR` and `${VAR}` in all texts of a node; what is not set is empty.
fn expand(node: Node, lookup: Lookup<'_>) -> Node {
    let value = match node.value {
        Value::Leaf(toml::Value::String(text)) => Value::Leaf(expanded(&text, lookup).into()),
        Value::Leaf(leaf) => Value::Leaf(leaf),
        Value::List(items) => {
            Value::List(items.into_iter().map(|item| expand(item, lookup)).collect())
        }
        Value::Table(table) => {
            Value::Table(table.into_iter().map(|(key, node)| (key, expand(node, lookup))).collect())
        }
    };
    Node { value, place: node.place }
}

/// Replaces `$VAR` and `${VAR}` in a text; what is not set is empty.
pub(crate) fn expanded(text: &str, mut lookup: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        match reference(after) {
            Some((name, behind)) => {
                out.push_str(&lookup(name).unwrap_or_default());
                rest = behind;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns the name of the variable to which a text refers and nothing else.
fn whole_reference(text: &str) -> Option<&str> {
    let (name, rest) = reference(text.strip_prefix('$')?)?;
    rest.is_empty().then_some(name)
}

/// Reads a reference behind its `$`: the name, and what follows.
fn reference(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').filter(|(name, _)| is_name(name));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    is_name(name).then_some((name, rest))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests;
