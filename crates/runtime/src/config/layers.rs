//! The layers of the configuration, and where each value comes from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use toml::{Table, Value};

use crate::error::ConfigError;

use super::Config;

/// One layer: a table, and where it comes from.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Where it comes from.
    pub origin: Origin,
    /// What it says.
    pub table: Table,
}

/// Where a layer comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// The command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => fmt::Display::fmt(&path.display(), f),
            Self::CommandLine => f.write_str("the command line"),
        }
    }
}

impl Layer {
    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// [`ConfigError`] with the file and the line of what is wrong.
    pub fn file(path: &Path) -> Result<Option<Self>, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        // Read as a configuration first: only the text knows lines.
        if let Err(error) = toml::from_str::<Config>(&text) {
            return Err(ConfigError::Invalid {
                path: path.to_owned(),
                what: explain(&text, &error),
            });
        }
        let table = toml::from_str(&text).map_err(|error| ConfigError::Invalid {
            path: path.to_owned(),
            what: explain(&text, &error),
        })?;
        Ok(Some(Self { origin: Origin::File(path.to_owned()), table }))
    }
}

/// Makes a layer of one `key=value` of the command line. The value is TOML; what is no TOML is a
/// string.
///
/// # Errors
/// [`ConfigError::Flag`] if the key is none.
pub fn set(assignment: &str) -> Result<Layer, ConfigError> {
    let wrong = |what: String| ConfigError::Flag { assignment: assignment.to_owned(), what };
    let (key, value) =
        assignment.split_once('=').ok_or_else(|| wrong("it is written key=value".to_owned()))?;
    let (key, value) = (key.trim(), value.trim());
    let as_toml = toml::from_str::<Table>(&format!("{key} = {value}"));
    let table = match as_toml {
        Ok(table) => table,
        Err(_) => {
            let quoted = Value::String(value.to_owned());
            toml::from_str::<Table>(&format!("{key} = {quoted}"))
                .map_err(|_| wrong(format!("{key:?} is no key")))?
        }
    };
    Config::deserialize(table.clone()).map_err(|error| wrong(suggest(error.message())))?;
    Ok(Layer { origin: Origin::CommandLine, table })
}

/// Lays layers over each other: later ones win, tables are merged key by key.
///
/// # Errors
/// [`ConfigError::Layers`] if they make no sense together.
pub fn load(layers: &[Layer]) -> Result<Config, ConfigError> {
    let mut all = Table::new();
    for layer in layers {
        merge(&mut all, &layer.table);
    }
    Config::deserialize(all).map_err(|error| ConfigError::Layers(suggest(error.message())))
}

fn merge(into: &mut Table, from: &Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Says where in a text something is wrong, and what.
fn explain(text: &str, error: &toml::de::Error) -> String {
    let message = suggest(error.message());
    match error.span() {
        Some(span) => {
            let line = text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1;
            format!("line {line}: {message}")
        }
        None => message,
    }
}

/// Shortens serde's list of all known keys to the nearest one.
fn suggest(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else { return message.to_owned() };
    let Some((key, rest)) = rest.split_once('`') else { return message.to_owned() };
    let known = rest.split('`').skip(1).step_by(2);
    match known.min_by_key(|known| strsim::damerau_levenshtein(key, known)) {
        Some(nearest) => format!("unknown key {key:?}; did you mean {nearest:?}?"),
        None => format!("unknown key {key:?}"),
    }
}
