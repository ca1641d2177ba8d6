//! Whether a table is a configuration, and if not, why, in words for a person.

use serde::de::DeserializeOwned;

use crate::local;

use super::Config;
use super::node::{self, Place, Table};

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

/// Reads a table as a configuration.
pub(crate) fn check(table: &Table) -> Result<Config, Fault> {
    let mut config: Config = read_as(table)?;
    for (name, agent) in &mut config.agents {
        if !agent.name.is_empty() && agent.name != *name {
            let path = ["agents".to_owned(), name.clone(), "name".to_owned()];
            return Err(Fault {
                place: node::nearest(table, &path).map(|node| node.place.clone()),
                what: format!("{}: the agent is called {name:?} by its key", path.join(".")),
                is_unknown_key: false,
            });
        }
        agent.name.clone_from(name);
    }
    for (name, profile) in &config.profiles {
        if !profile.profiles.is_empty() {
            let path = ["profiles".to_owned(), name.clone(), "profiles".to_owned()];
            return Err(Fault {
                place: node::nearest(table, &path).map(|node| node.place.clone()),
                what: format!("{}: a profile has no profiles of its own", path.join(".")),
                is_unknown_key: false,
            });
        }
    }
    Ok(config)
}

/// Reads a table as something that it should be.
pub(crate) fn read_as<T: DeserializeOwned>(table: &Table) -> Result<T, Fault> {
    serde_path_to_error::deserialize(node::to_toml(table)).map_err(|error| fault(table, &error))
}

/// Reads a table from which the configuration is made, nothing else being said.
pub(crate) fn check_all(table: &Table) -> Result<Config, Fault> {
    let config = check(table)?;
    let wrong = |path: &[&str], what: String| {
        let path: Vec<_> = path.iter().map(|&part| part.to_owned()).collect();
        let place = node::nearest(table, &path).map(|node| node.place.clone());
        Err(Fault { place, what, is_unknown_key: false })
    };
    let is_provider =
        |name: &str| config.providers.get(name).is_some_and(|provider| provider.model.is_some());
    if let Some(model) = &config.model
        && !(model.is_empty() || model.contains('/') || is_provider(model))
    {
        let what = format!("model: {model:?} has no provider; write it provider/model");
        return wrong(&["model"], what);
    }
    for (index, address) in config.local_servers.iter().flatten().enumerate() {
        if local::loopback(address).is_none() {
            let what = format!(
                "local_servers: {address:?} is no address on this machine; write it like \
                 127.0.0.1:8080, and servers elsewhere as [providers.NAME]"
            );
            return wrong(&["local_servers", &index.to_string()], what);
        }
    }
    Ok(config)
}

fn fault(table: &Table, error: &serde_path_to_error::Error<toml::de::Error>) -> Fault {
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
    Fault {
        place: node::nearest(table, &path).map(|node| node.place.clone()),
        what,
        is_unknown_key: unknown.is_some(),
    }
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
