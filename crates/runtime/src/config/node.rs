//! A value of the configuration that knows where it stands.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The layer it belongs to.
    pub origin: Arc<Origin>,
    /// Its line, if the layer has lines; the first is 1.
    pub line: Option<usize>,
}

/// What a layer is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// What holds when nobody says anything.
    Default,
    /// A file.
    File(PathBuf),
    /// A variable of the environment.
    Variable(String),
    /// An assignment on the command line.
    CommandLine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.origin, self.line) {
            (Origin::Default, _) => f.write_str("default"),
            (Origin::File(path), Some(line)) => write!(f, "{}:{line}", path.display()),
            (Origin::File(path), None) => fmt::Display::fmt(&path.display(), f),
            (Origin::Variable(name), _) => f.write_str(name),
            (Origin::CommandLine, _) => f.write_str("-c"),
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text, a number, a truth or a time.
    Leaf(toml::Value),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

/// A table of nodes.
pub type Table = BTreeMap<String, Node>;

/// The ways to give a provider its key: who names one of them in a later layer replaces the one
/// that an earlier layer named.
pub(crate) const API_KEYS: [&str; 5] =
    ["api_key", "api_key_env", "api_key_file", "api_key_command", "api_key_keyring"];

impl Node {
    /// Makes a node of a plain value, all of it standing at one place.
    pub(crate) fn plain(value: toml::Value, place: &Place) -> Self {
        let value = match value {
            toml::Value::Array(items) => {
                Value::List(items.into_iter().map(|item| Self::plain(item, place)).collect())
            }
            toml::Value::Table(table) => Value::Table(
                table.into_iter().map(|(key, value)| (key, Self::plain(value, place))).collect(),
            ),
            leaf => Value::Leaf(leaf),
        };
        Self { value, place: place.clone() }
    }

    /// Returns the value without the places.
    pub(crate) fn to_toml(&self) -> toml::Value {
        match &self.value {
            Value::Leaf(leaf) => leaf.clone(),
            Value::List(items) => toml::Value::Array(items.iter().map(Self::to_toml).collect()),
            Value::Table(table) => toml::Value::Table(to_toml(table)),
        }
    }

    pub(crate) fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            Value::Leaf(_) | Value::List(_) => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Leaf(leaf) => leaf.as_str(),
            Value::List(_) | Value::Table(_) => None,
        }
    }
}

/// Returns a table without the places.
pub(crate) fn to_toml(table: &Table) -> toml::Table {
    table.iter().map(|(key, node)| (key.clone(), node.to_toml())).collect()
}

/// Finds what stands at a path, or, where nothing does, the last thing on the way to it.
pub(crate) fn nearest<'a>(table: &'a Table, path: &[String]) -> Option<&'a Node> {
    let (first, rest) = path.split_first()?;
    let node = table.get(first)?;
    let below = match &node.value {
        Value::Table(table) => nearest(table, rest),
        Value::List(items) => rest.split_first().and_then(|(index, rest)| {
            let item = items.get(index.parse::<usize>().ok()?)?;
            let below = item.as_table().and_then(|table| nearest(table, rest));
            Some(below.unwrap_or(item))
        }),
        Value::Leaf(_) => None,
    };
    Some(below.unwrap_or(node))
}

/// Finds what stands at exactly this path.
pub(crate) fn find<'a>(table: &'a Table, path: &[String]) -> Option<&'a Node> {
    let (first, rest) = path.split_first()?;
    let node = table.get(first)?;
    if rest.is_empty() { Some(node) } else { find(node.as_table()?, rest) }
}

/// Removes what stands at exactly this path; returns whether anything did. Of a list all is removed, so
/// that nothing in it gets another number.
pub(crate) fn remove(table: &mut Table, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    let Some(node) = table.get_mut(first) else { return false };
    match table_below(node, rest) {
        Some((below, rest)) => remove(below, rest),
        None => table.remove(first).is_some(),
    }
}

/// Returns the table at the beginning of a path below a node, and the rest of the path; `None` if the path
/// ends before any.
fn table_below<'a, 'b>(
    node: &'a mut Node,
    path: &'b [String],
) -> Option<(&'a mut Table, &'b [String])> {
    let (index, rest) = path.split_first()?;
    match &mut node.value {
        Value::Table(table) => Some((table, path)),
        Value::List(items) => table_below(items.get_mut(index.parse::<usize>().ok()?)?, rest),
        Value::Leaf(_) => None,
    }
}

/// Lays a table over another: tables are merged key by key, everything else is replaced.
pub(crate) fn merge(into: &mut Table, from: &Table) {
    if API_KEYS.iter().any(|key| from.contains_key(*key)) {
        into.retain(|key, _| !API_KEYS.contains(&key.as_str()));
    }
    for (key, node) in from {
        match (into.get_mut(key).map(|node| &mut node.value), &node.value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            _ => {
                into.insert(key.clone(), node.clone());
            }
        }
    }
}
