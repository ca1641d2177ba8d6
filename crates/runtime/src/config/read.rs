//! From text to nodes.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use toml::de::{DeTable, DeValue};

use super::node::{Node, Origin, Place, Table, Value};

/// Something is wrong with a text: the line, if it is known, and what.
pub(crate) type Wrong = (Option<usize>, String);

/// Reads TOML.
pub(crate) fn toml(text: &str, origin: &Arc<Origin>) -> Result<Table, Wrong> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| lines.at(span.start));
        (line, error.message().to_owned())
    })?;
    of_toml(table.get_ref(), &lines, origin)
}

/// The beginnings of lines.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let after_newline = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after_newline).collect())
    }

    fn at(&self, position: usize) -> usize {
        self.0.partition_point(|start| *start <= position)
    }
}

fn of_toml(table: &DeTable<'_>, lines: &Lines, origin: &Arc<Origin>) -> Result<Table, Wrong> {
    table
        .iter()
        .map(|(key, value)| {
            let line = lines.at(key.span().start);
            let node = of_toml_value(value.get_ref(), line, lines, origin)?;
            Ok((key.get_ref().clone().into_owned(), node))
        })
        .collect()
}

fn of_toml_value(
    value: &DeValue<'_>,
    line: usize,
    lines: &Lines,
    origin: &Arc<Origin>,
) -> Result<Node, Wrong> {
    let wrong = |what: &str| (Some(line), what.to_owned());
    let value = match value {
        DeValue::String(text) => Value::Leaf(text.clone().into_owned().into()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            Value::Leaf(number.map_err(|_| wrong("the number is too large"))?.into())
        }
        DeValue::Float(number) => {
            let number = number.as_str().parse::<f64>();
            Value::Leaf(number.map_err(|_| wrong("the number is none"))?.into())
        }
        DeValue::Boolean(truth) => Value::Leaf((*truth).into()),
        DeValue::Datetime(time) => Value::Leaf((*time).into()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| {
                of_toml_value(item.get_ref(), lines.at(item.span().start), lines, origin)
            });
            Value::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(of_toml(table, lines, origin)?),
    };
    Ok(Node { value, place: Place { origin: Arc::clone(origin), line: Some(line) } })
}

/// Reads YAML.
pub(crate) fn yaml(text: &str, origin: &Arc<Origin>) -> Result<Table, Wrong> {
    let read: Option<Spanned<Yaml>> = serde_saphyr::from_str(text).map_err(|error| {
        let error = error.without_snippet();
        let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
        if matches!(error, serde_saphyr::Error::MultipleDocuments { .. }) {
            return (line, "there is more than one document; keep one".to_owned());
        }
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        // The line is told before.
        let what = message.rsplit_once(" at line ").map_or(message, |(what, _)| what);
        (line, what.to_owned())
    })?;
    let Some(read) = read else { return Ok(Table::new()) };
    let line = usize::try_from(read.referenced.line()).ok();
    match of_yaml(read.value, line, origin).map(|node| node.value) {
        None => Ok(Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(Value::Leaf(_) | Value::List(_)) => {
            Err((line, "a configuration is a table of keys and values".to_owned()))
        }
    }
}

/// What YAML can say.
enum Yaml {
    Null,
    Leaf(toml::Value),
    List(Vec<Spanned<Self>>),
    Table(Vec<(Spanned<String>, Spanned<Self>)>),
}

/// Makes a node; what is null is as if it was not there.
fn of_yaml(yaml: Yaml, line: Option<usize>, origin: &Arc<Origin>) -> Option<Node> {
    let line_of = |at: serde_saphyr::Location| usize::try_from(at.line()).ok();
    let value = match yaml {
        Yaml::Null => return None,
        Yaml::Leaf(leaf) => Value::Leaf(leaf),
        Yaml::List(items) => {
            let node = |item: Spanned<Yaml>| of_yaml(item.value, line_of(item.referenced), origin);
            Value::List(items.into_iter().filter_map(node).collect())
        }
        Yaml::Table(table) => {
            let node = |(key, item): (Spanned<String>, Spanned<Yaml>)| {
                Some((key.value, of_yaml(item.value, line_of(key.referenced), origin)?))
            };
            Value::Table(table.into_iter().filter_map(node).collect())
        }
    };
    Some(Node { value, place: Place { origin: Arc::clone(origin), line } })
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_none<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Yaml, E> {
        Ok(Yaml::Leaf(truth.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Yaml, E> {
        Ok(Yaml::Leaf(number.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Yaml, E> {
        let number = i64::try_from(number).map_err(|_| E::custom("the number is too large"))?;
        Ok(Yaml::Leaf(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Yaml, E> {
        Ok(Yaml::Leaf(number.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Yaml, E> {
        Ok(Yaml::Leaf(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Yaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Yaml, A::Error> {
        let mut table = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            table.push(entry);
        }
        Ok(Yaml::Table(table))
    }
}
