//! Whether a table is a configuration, and if not, why, in words for a person.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::error::ConfigError;
use crate::local;

use super::Config;
use super::node::{self, Origin, Place, Table};

/// What is wrong with a configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where; `None` if it is not in any one place.
    pub(crate) place: Option<Place>,
    /// What, and what is expected.
    pub(crate) what: String,
    /// Whether the key itself is none.
    pub(crate) is_unknown_key: bool,
}

/// Returns all that is wrong as one error.
pub(crate) fn as_errors(faults: Vec<Fault>) -> ConfigError {
    let mut errors: Vec<ConfigError> = faults.into_iter().map(as_error).collect();
    match errors.len() {
        1 => errors.remove(0),
        _ => ConfigError::Several(errors),
    }
}

/// Returns what is wrong as an error, which says where.
pub(crate) fn as_error(fault: Fault) -> ConfigError {
    let Fault { place, what, .. } = fault;
    let Some(place) = place else { return ConfigError::Layers(what) };
    match &*place.origin {
        Origin::File(path) => {
            let what = match place.line {
                Some(line) => format!("line {line}: {what}"),
                None => what,
            };
            ConfigError::Invalid { path: path.clone(), what }
        }
        Origin::Variable(name) => ConfigError::Variable { name: name.clone(), what },
        Origin::CommandLine => ConfigError::Layers(format!("-c {what}")),
        Origin::Default => ConfigError::Layers(what),
    }
}

/// Reads a table as a configuration.
///
/// # Errors
/// As [`read_as`].
pub(crate) fn check(table: &Table) -> Result<Config, Vec<Fault>> {
    let mut config: Config = read_as(table)?;
    for (name, agent) in &mut config.agents {
        if !agent.name.is_empty() && agent.name != *name {
            let what = format!("agents.{name}.name: the agent is called {name:?} by its key");
            return wrong(table, &["agents", name, "name"], what);
        }
        agent.name.clone_from(name);
    }
    for (name, profile) in &config.profiles {
        if !profile.profiles.is_empty() {
            let what = format!("profiles.{name}.profiles: a profile has no profiles of its own");
            return wrong(table, &["profiles", name, "profiles"], what);
        }
    }
    Ok(config)
}

/// Reads a table as something that it should be.
///
/// # Errors
/// All that is wrong, in the order of its lines.
pub(crate) fn read_as<T: DeserializeOwned>(table: &Table) -> Result<T, Vec<Fault>> {
    let mut rest = Cow::Borrowed(table);
    let (mut faults, mut paths) = (Vec::new(), Vec::<Vec<String>>::new());
    loop {
        let error = match serde_path_to_error::deserialize(node::to_toml(&rest)) {
            Ok(read) if faults.is_empty() => return Ok(read),
            Ok(_) => break,
            Err(error) => error,
        };
        let (path, fault) = fault(table, &error);
        // What is missing in a table was meant by what is wrong there, or is only missing because of that.
        let is_missing = error.inner().message().starts_with("missing field");
        if !is_missing || !paths.iter().any(|known| known.starts_with(&path)) {
            faults.push(fault);
        }
        if !node::remove(rest.to_mut(), &path) {
            break;
        }
        paths.push(path);
    }
    faults.sort_by_key(|fault| fault.place.as_ref().and_then(|place| place.line));
    Err(faults)
}

/// Reads a table from which the configuration is made, nothing else being said.
///
/// # Errors
/// As [`read_as`].
pub(crate) fn check_all(table: &Table) -> Result<Config, Vec<Fault>> {
    let config = check(table)?;
    let is_provider =
        |name: &str| config.providers.get(name).is_some_and(|provider| provider.model.is_some());
    if let Some(model) = &config.model
        && !(model.is_empty() || model.contains('/') || is_provider(model))
    {
        let what = format!("model: {model:?} has no provider; write it provider/model");
        return wrong(table, &["model"], what);
    }
    for (index, address) in config.local_servers.iter().flatten().enumerate() {
        if local::loopback(address).is_none() {
            let what = format!(
                "local_servers: {address:?} is no address on this machine; write it like \
                 127.0.0.1:8080, and servers elsewhere as [providers.NAME]"
            );
            return wrong(table, &["local_servers", &index.to_string()], what);
        }
    }
    Ok(config)
}

/// Says what is wrong with a value.
fn wrong<T>(table: &Table, path: &[&str], what: String) -> Result<T, Vec<Fault>> {
    let path: Vec<_> = path.iter().map(|&part| part.to_owned()).collect();
    let place = node::nearest(table, &path).map(|node| node.place.clone());
    Err(vec![Fault { place, what, is_unknown_key: false }])
}

/// Says what is wrong, and the path to it.
fn fault(
    table: &Table,
    error: &serde_path_to_error::Error<toml::de::Error>,
) -> (Vec<String>, Fault) {
    use serde_path_to_error::Segment;
    let mut path: Vec<String> = error
        .path()
        .iter()
        .filter_map(|segment| match segment {
            Segment::Map { key } => Some(key.clone()),
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect();
    let message = error.inner().message();
    let unknown = between(message, "unknown field `", "`").map(str::to_owned);
    let what = match &unknown {
        Some(key) => {
            if path.last() != Some(key) {
                path.push(key.clone());
            }
            let section = path.get(..path.len().saturating_sub(1)).unwrap_or_default().join(".");
            let section =
                if section.is_empty() { String::new() } else { format!(" in [{section}]") };
            format!("unknown key {key:?}{section}{}", suggestion(key, message))
        }
        None => {
            let is_secret = path.last().is_some_and(|key| super::show::is_secret(key));
            format!("{}: {}", path.join("."), plain(message, is_secret))
        }
    };
    let place = node::nearest(table, &path).map(|node| node.place.clone());
    (path, Fault { place, what, is_unknown_key: unknown.is_some() })
}

/// Says which of the keys that serde lists is meant, or which there are.
fn suggestion(key: &str, message: &str) -> String {
    let known: Vec<_> = message.split('`').skip(3).step_by(2).collect();
    meant(key, &known)
}

/// Says which of the names that are known is meant, or which there are.
pub(crate) fn meant(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("; did you mean {nearest:?}?"),
        None if known.is_empty() => String::new(),
        None => format!("; there is {}", known.join(", ")),
    }
}

/// Returns the name that is so near to another that it was probably meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    let nearest = known.into_iter().min_by_key(distance)?;
    let is_part = name.len() >= 3 && (nearest.contains(name) || name.contains(nearest));
    (is_part || distance(&nearest) <= 1 + name.len() / 4).then_some(nearest)
}

/// Says in plain words what serde says in those of Rust.
fn plain(message: &str, is_secret: bool) -> String {
    if let Some(variant) = between(message, "unknown variant `", "`") {
        let known: Vec<_> = message.split('`').skip(3).step_by(2).collect();
        let meant = nearest(variant, known.iter().copied());
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
        return format!("{variant:?} is none of {}{meant}", known.join(", "));
    }
    let mut text = message.to_owned();
    if is_secret && let Some((kind, expected)) = message.split_once(", expected ") {
        let kind = kind.split_once(" `").or(kind.split_once(" \"")).map_or(kind, |(kind, _)| kind);
        text = format!("{kind}, expected {expected}");
    }
    let rust = [
        ("invalid type: ", ""),
        ("invalid value: ", ""),
        (", expected ", "; expected is "),
        (" a map", " a table"),
        (": map;", " a table;"),
        ("map;", "a table;"),
        ("sequence;", "a list;"),
        (" a sequence", " a list"),
        ("is u32", "is a whole number, 0 or more"),
        ("is u64", "is a whole number, 0 or more"),
        ("is f64", "is a number"),
        ("unit variant; expected is string only", "a text is expected"),
        (" a boolean", " true or false"),
        ("path string", "a path"),
    ];
    for (from, to) in rust {
        text = text.replacen(from, to, 1);
    }
    text
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.strip_prefix(before)?.split_once(after)?.0)
}
