//! The configuration as it is shown: without secrets, and with where each value comes from.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;

use crate::environment::Environment;
use crate::local;
use crate::provider;

use super::assigned::{below, key_path};
use super::layers::Loaded;
use super::node::{self, Node, Origin, Place, Table, Value};
use super::{ALL, DEFAULT_AGENT, LimitsConfig, Provider, Span, Wire, check};

/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// Why a key cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum Unset {
    /// There is no such key.
    #[error("{0}")]
    Unknown(String),
    /// Nobody has set it, and it has no default.
    #[error("{0} is not set")]
    NotSet(String),
}

/// Returns the configuration that counts, as TOML, without secrets; limits and permissions are
/// those of a run without a person.
pub fn show(loaded: &Loaded, environment: &Environment) -> String {
    let mut all = defaults(loaded, environment);
    node::merge(&mut all, &loaded.merged);
    // A profile that counts has been applied, and the others do not count.
    all.remove("profiles");
    hide(&mut all, false, &Hider::new(loaded, environment));
    toml::to_string(&node::to_toml(&all)).unwrap_or_else(|error| format!("# {error}\n"))
}

/// Says of one setting or section, or of all, what it is and where that comes from, one line each.
/// Of a single one it also says what was set and does not count.
///
/// # Errors
/// [`Unset`] if there is nothing to explain.
pub fn explain(
    loaded: &Loaded,
    environment: &Environment,
    key: Option<&str>,
) -> Result<String, Unset> {
    let mut all = defaults(loaded, environment);
    node::merge(&mut all, &loaded.merged);
    let hider = Hider::new(loaded, environment);
    let shown_of = |table: &Table| {
        let mut table = table.clone();
        hide(&mut table, false, &hider);
        table
    };
    let mut text = String::new();
    let Some(key) = key else {
        each_leaf(&shown_of(&all), &mut Vec::new(), &mut |path, node| {
            let _ = writeln!(text, "{path} = {}  # {}", inline(node), node.place);
        });
        return Ok(text);
    };
    let path = key_path(key).ok_or_else(|| Unset::Unknown(format!("{key:?} is no key")))?;
    let all = shown_of(&all);
    let Some(found) = node::find(&all, &path) else { return Err(unset(key, &path)) };
    let mut winners = Vec::new();
    each_below(found, &mut path.clone(), &mut |path, node| {
        winners.push((path.to_owned(), inline(node), node.place.clone()));
    });
    for (path, value, place) in winners {
        let _ = writeln!(text, "{path} = {value}  # {place}");
        let Some(path) = key_path(&path) else { continue };
        for layer in loaded.layers.iter().rev() {
            let table = shown_of(&layer.table);
            let Some(node) = node::find(&table, &path).filter(|node| node.place != place) else {
                continue;
            };
            let why = if layer.is_applied { "instead of" } else { "not applied:" };
            let _ = writeln!(text, "    {why} {}  # {}", inline(node), node.place);
        }
    }
    Ok(text)
}

fn unset(key: &str, path: &[String]) -> Unset {
    let place = Place { origin: Arc::new(Origin::Default), line: None };
    let leaf = Node { value: Value::Leaf("".into()), place: place.clone() };
    match check::check(&below(path, leaf, &place)) {
        Err(faults) => match faults.into_iter().find(|fault| fault.is_unknown_key) {
            Some(fault) => Unset::Unknown(fault.what),
            None => Unset::NotSet(key.to_owned()),
        },
        Ok(_) => Unset::NotSet(key.to_owned()),
    }
}

/// A setting that counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Its key.
    pub key: String,
    /// Its value, as TOML writes it.
    pub value: String,
    /// Where it comes from.
    pub from: String,
}

/// Returns each setting of an agent, of which `own` is said, without secrets; what it does not say is
/// that of the whole configuration or else has its default.
pub(crate) fn settings_of_agent(
    loaded: &Loaded,
    environment: &Environment,
    own: &Table,
) -> Vec<Setting> {
    let place = Place { origin: Arc::new(Origin::Default), line: None };
    let all_names = || toml::Value::from(vec![ALL]);
    let mut settings: Table = [
        ("orchestrator", "react".into()),
        ("output", "text".into()),
        ("tool_execution", "auto".into()),
        ("effects", vec![toml::Table::from_iter([("kind".to_owned(), "compact".into())])].into()),
        ("max_depth", 3.into()),
        ("skills", all_names()),
        ("tools", all_names()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), Node::plain(value, &place)))
    .collect();
    if own.contains_key("toolboxes") {
        settings.remove("tools");
    }
    let mut shared = defaults(loaded, environment);
    node::merge(&mut shared, &loaded.merged);
    shared.retain(|key, _| ["model", "fallback", "limits"].contains(&key.as_str()));
    node::merge(&mut settings, &shared);
    node::merge(&mut settings, own);
    hide(&mut settings, false, &Hider::new(loaded, environment));
    let mut all = Vec::new();
    each_leaf(&settings, &mut Vec::new(), &mut |key, node| {
        let (value, from) = (inline(node), node.place.to_string());
        all.push(Setting { key: key.to_owned(), value, from });
    });
    all
}

/// Returns what holds when nobody says anything.
fn defaults(loaded: &Loaded, environment: &Environment) -> Table {
    let place = Place { origin: Arc::new(Origin::Default), line: None };
    let limits = LimitsConfig::default_headless();
    let number = |number: u64| toml::Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let millis =
        |millis: u64| toml::Value::from(Span(std::time::Duration::from_millis(millis)).to_string());
    let limits = [
        ("model_turns", number(limits.model_turns.into())),
        ("tool_calls", number(limits.tool_calls.into())),
        ("run_time", millis(limits.run_time_ms)),
        ("tool_time", millis(limits.tool_time_ms)),
        ("output_bytes", number(limits.output_bytes)),
        ("total_tokens", number(limits.total_tokens)),
        ("cost_usd", limits.cost_usd.into()),
        ("wrap_up", limits.wrap_up.into()),
    ];
    let mut table = Table::new();
    let mut set = |path: &[&str], value: toml::Value| {
        let path: Vec<_> = path.iter().map(|&part| part.to_owned()).collect();
        let node = Node::plain(value, &place);
        node::merge(&mut table, &below(&path, node, &place));
    };
    set(&["durability"], "process".into());
    set(&["entry_agent"], DEFAULT_AGENT.into());
    set(&["agents", DEFAULT_AGENT, "orchestrator"], "react".into());
    set(&["agents", DEFAULT_AGENT, "output"], "text".into());
    set(&["agents", DEFAULT_AGENT, "plan", "replan"], "on_failure".into());
    set(&["local_servers"], local::ADDRESSES.map(toml::Value::from).to_vec().into());
    set(&["permissions", "mode"], "auto".into());
    for (key, value) in limits {
        set(&["limits", key], value);
    }
    let provider = Provider::default();
    for (name, configured) in &loaded.config.providers {
        // What cannot be used has no address, and says so elsewhere.
        if let Ok(resolved) = provider::resolve(name, &loaded.config, environment) {
            if configured.base_url.is_none() && resolved.wire != Wire::Local {
                set(&["providers", name, "base_url"], resolved.base_url.into());
            }
            set(&["providers", name, "wire"], resolved.wire.as_str().into());
        }
        set(&["providers", name, "stream"], provider.stream.into());
        set(&["providers", name, "max_retries"], i64::from(provider.max_retries).into());
        set(&["providers", name, "idle_timeout"], provider.idle_timeout.to_string().into());
    }
    table
}

fn each_leaf(table: &Table, path: &mut Vec<String>, see: &mut dyn FnMut(&str, &Node)) {
    for (key, node) in table {
        path.push(key.clone());
        each_below(node, path, see);
        path.pop();
    }
}

fn each_below(node: &Node, path: &mut Vec<String>, see: &mut dyn FnMut(&str, &Node)) {
    match &node.value {
        Value::Table(table) if !table.is_empty() => each_leaf(table, path, see),
        Value::Table(_) | Value::List(_) | Value::Leaf(_) => {
            let path: Vec<_> = path.iter().map(|part| quoted(part)).collect();
            see(&path.join("."), node);
        }
    }
}

/// Writes a part of a key, in quotes where TOML needs them.
fn quoted(part: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !part.is_empty() && part.chars().all(is_bare) {
        part.to_owned()
    } else {
        toml::Value::from(part).to_string()
    }
}

fn inline(node: &Node) -> String {
    node.to_toml().to_string()
}

/// Knows what must not be shown.
struct Hider {
    secrets: Vec<String>,
}

impl Hider {
    fn new(loaded: &Loaded, environment: &Environment) -> Self {
        let secrets = provider::secrets(&loaded.config, environment);
        let secrets = secrets.values().map(|secret| secret.expose().to_owned());
        Self { secrets: secrets.filter(|secret| secret.len() >= 4).collect() }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret, HIDDEN);
        }
        without_credentials(&text)
    }
}

/// Puts [`HIDDEN`] in the place of everything that is or may be a secret.
fn hide(table: &mut Table, all: bool, hider: &Hider) {
    for (key, node) in table {
        // Headers and the variables of servers usually carry keys, whatever their names.
        let all = all || matches!(key.as_str(), "headers" | "env" | "http_headers");
        if key == "api_key_command" {
            let program = node.as_str().and_then(|command| command.split_whitespace().next());
            let program = program.unwrap_or_default().to_owned();
            node.value = Value::Leaf(format!("{program} {HIDDEN}").into());
            continue;
        }
        hide_node(node, all || is_secret(key), hider);
    }
}

fn hide_node(node: &mut Node, all: bool, hider: &Hider) {
    match &mut node.value {
        Value::Table(table) => hide(table, all, hider),
        Value::List(items) => items.iter_mut().for_each(|item| hide_node(item, all, hider)),
        Value::Leaf(toml::Value::String(text)) => {
            *text = if all { HIDDEN.to_owned() } else { hider.text(text) };
        }
        Value::Leaf(_) => {}
    }
}

/// Tells whether what has this name is a secret.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    let words = ["api_key", "apikey", "token", "secret", "password", "passwd", "authorization"];
    let names_a_place =
        ["_env", "_env_var", "_file", "_keyring"].iter().any(|end| key.ends_with(end));
    words.iter().any(|word| key.contains(word)) && !names_a_place
}

/// Hides the password and the query of an address.
pub(crate) fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://").filter(|_| !text.contains(' ')) else {
        return text.to_owned();
    };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
    let authority = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority);
    let user = authority.rsplit_once('@').map(|(_, host)| format!("{HIDDEN}@{host}"));
    let query = if query.is_empty() { String::new() } else { format!("?{HIDDEN}") };
    format!("{scheme}://{}{path}{query}", user.as_deref().unwrap_or(authority))
}
