//! Single assignments: of variables of the environment, and of the command line.

use std::sync::Arc;

use toml::de::DeTable;

use crate::error::ConfigError;

use super::check;
use super::layers::{Layer, Loaded};
use super::node::{Node, Origin, Place, Table, Value};

/// The variables that mean something else than a setting: where bowline is at home, the profile, and what it
/// tells its commands and hooks.
const RESERVED: [&str; 8] =
    ["HOME", "PROFILE", "SESSION_ID", "AGENT_ID", "CALL_ID", "COMMAND", "SANDBOX", "PROJECT_DIR"];

/// The settings that a variable names by their own name alone.
const PLAIN: [&str; 6] =
    ["model", "fallback", "entry_agent", "durability", "local_servers", "hooks_enabled"];

/// The sections with keys of their own, so that one `_` tells the section from its key.
const SECTIONS: [&str; 7] = ["limits", "permissions", "sandbox", "mcp", "shared", "trace", "undo"];

/// The sections that hold further ones.
const DEEP: [&str; 4] = ["PROVIDERS", "AGENTS", "MCP_SERVERS", "PROFILES"];

/// Adds the layer of a variable.
pub(super) fn variable_layer(
    name: &str,
    after: &str,
    value: &str,
    loaded: &mut Loaded,
) -> Result<(), ConfigError> {
    if RESERVED.contains(&after) || value.is_empty() {
        return Ok(());
    }
    let wrong = |what: String| ConfigError::Variable { name: name.to_owned(), what };
    let Some(path) = path_of(after) else {
        if let Some(section) = DEEP.iter().find(|section| after.starts_with(**section)) {
            return Err(wrong(format!(
                "two underscores go one level down: BOWLINE_{section}__NAME__KEY"
            )));
        }
        let known = RESERVED.into_iter().chain(PLAIN).map(|name| format!("BOWLINE_{name}"));
        let known: Vec<_> = known.map(|name| name.to_uppercase()).collect();
        return match check::nearest(name, known.iter().map(String::as_str)) {
            Some(nearest) => Err(wrong(format!("no such setting; did you mean {nearest}?"))),
            None => {
                loaded.notes.push(format!("{name} is no setting and has no effect"));
                Ok(())
            }
        };
    };
    let place = Place { origin: Arc::new(Origin::Variable(name.to_owned())), line: None };
    let layer = assigned(&path, value, &place).map_err(wrong)?;
    loaded.layers.push(layer);
    Ok(())
}

/// Returns the setting that a variable means, without its `BOWLINE_`.
///
/// `MODEL` is `model`, `LIMITS_MODEL_TURNS` is `limits.model_turns`; two underscores go one level
/// down, whatever the section: `PROVIDERS__MINE__BASE_URL` is `providers.mine.base_url`.
fn path_of(name: &str) -> Option<Vec<String>> {
    let name = name.to_lowercase();
    if name.contains("__") {
        return Some(name.split("__").map(str::to_owned).collect());
    }
    if PLAIN.contains(&name.as_str()) {
        return Some(vec![name]);
    }
    let (section, key) = name.split_once('_')?;
    SECTIONS.contains(&section).then(|| vec![section.to_owned(), key.to_owned()])
}

/// Makes a layer of one `key=value` of the command line. The value is TOML; what is no TOML, or
/// would be wrong as such, is a text.
///
/// # Errors
/// [`ConfigError::Flag`] if the key is none or the value is wrong.
pub fn set(assignment: &str) -> Result<Layer, ConfigError> {
    // The value may be a secret.
    let key = assignment.split_once('=').map_or(assignment, |(key, _)| key).trim();
    let wrong = |what: String| ConfigError::Flag { assignment: key.to_owned(), what };
    let (_, value) =
        assignment.split_once('=').ok_or_else(|| wrong("it is written key=value".to_owned()))?;
    let path = key_path(key).ok_or_else(|| wrong(format!("{key:?} is no key")))?;
    let place = Place { origin: Arc::new(Origin::CommandLine), line: None };
    assigned(&path, value, &place).map_err(wrong)
}

/// Reads a key with dots, as TOML writes it; parts that hold dots themselves are quoted.
pub(super) fn key_path(key: &str) -> Option<Vec<String>> {
    if key.contains(['\n', '=', '#']) {
        return None;
    }
    let text = format!("{key} = 0");
    let table = DeTable::parse(&text).ok()?;
    let mut table = table.get_ref().clone();
    let mut path = Vec::new();
    loop {
        let (key, value) = table.into_iter().next()?;
        path.push(key.into_inner().into_owned());
        match value.into_inner() {
            toml::de::DeValue::Table(below) => table = below,
            _ => return Some(path),
        }
    }
}

/// Makes a layer of one assignment, or says what is wrong with it.
fn assigned(path: &[String], value: &str, place: &Place) -> Result<Layer, String> {
    let value = value.trim();
    let text = toml::Value::String(value.to_owned());
    let as_toml = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
    // A line break in the value could bring more keys.
    let as_toml = as_toml.filter(|table| table.len() == 1);
    let as_toml = as_toml.and_then(|mut table| table.remove("value"));
    let mut wrong = None;
    for value in as_toml.into_iter().chain([text]) {
        let table = below(path, Node::plain(value, place), place);
        match check::check(&table) {
            Ok(_) => return Ok(Layer::of(table)),
            Err(faults) => {
                wrong.get_or_insert(faults);
            }
        }
    }
    let what: Vec<_> = wrong.into_iter().flatten().map(|fault| fault.what).collect();
    Err(what.join("; "))
}

/// Makes a table that holds a node at a path.
pub(crate) fn below(path: &[String], node: Node, place: &Place) -> Table {
    match path.split_first() {
        None => Table::new(),
        Some((key, [])) => Table::from([(key.clone(), node)]),
        Some((key, rest)) => {
            let value = Value::Table(below(rest, node, place));
            Table::from([(key.clone(), Node { value, place: place.clone() })])
        }
    }
}
