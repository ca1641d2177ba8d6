//! Schemas that are put into other schemas.

use minijinja::value::{Value, ValueKind};

/// How many references may lead from one to the next.
const LONGEST: usize = 16;

/// Writes a schema for a place in another document: what it refers to within itself is found from there.
/// `None` if it refers to what is not in it, to itself and nothing else, or to another document.
///
/// A type that contains itself stays one, which a grammar can say. The order of the keys stays too: it
/// is the one in which a model writes them.
pub(super) fn placed(schema: &str, place: &str) -> Option<String> {
    if !schema.contains("\"$ref\"") {
        return Some(schema.to_owned());
    }
    let placing = Placing { root: serde_json::from_str(schema).ok()?, place };
    // This value keeps the order of its keys, the one above does not.
    let placed = placing.place(&serde_json::from_str(schema).ok()?)?;
    serde_json::to_string(&placed).ok()
}

struct Placing<'a> {
    root: serde_json::Value,
    place: &'a str,
}

impl Placing<'_> {
    fn place(&self, value: &Value) -> Option<Value> {
        match value.kind() {
            ValueKind::Map => {
                let pairs = value.try_iter().ok()?.map(|key| {
                    let item = value.get_item(&key).ok()?;
                    let item = match (key.as_str(), item.as_str()) {
                        (Some("$ref"), Some(to)) => Value::from(self.end(to)?),
                        _ => self.place(&item)?,
                    };
                    Some((key, item))
                });
                Some(Value::from_pairs(pairs.collect::<Option<Vec<_>>>()?))
            }
            ValueKind::Seq => value.try_iter().ok()?.map(|item| self.place(&item)).collect(),
            _ => Some(value.clone()),
        }
    }

    /// Follows a reference to what is no reference, and returns how that is found.
    fn end(&self, to: &str) -> Option<String> {
        let mut to = to;
        for _ in 0..LONGEST {
            let path = to.strip_prefix('#')?;
            match self.root.pointer(path)?.get("$ref").and_then(serde_json::Value::as_str) {
                Some(next) => to = next,
                None => return Some(format!("{}{path}", self.place)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn references_are_found_from_the_new_place_and_keys_keep_their_order() {
        let schema = r##"{"z":{"$ref":"#/$defs/B"},"a":[{"$ref":"#"}],"$defs":{"B":{"$ref":"#/$defs/A"},"A":{"x":{"$ref":"#/$defs/A"}}}}"##;
        let expected = r##"{"z":{"$ref":"#/p/$defs/A"},"a":[{"$ref":"#/p"}],"$defs":{"B":{"$ref":"#/p/$defs/A"},"A":{"x":{"$ref":"#/p/$defs/A"}}}}"##;
        assert_eq!(placed(schema, "#/p").as_deref(), Some(expected));
    }

    #[test]
    fn a_reference_without_an_end_is_none() {
        for to in ["#/$defs/Round", "#/$defs/None", "other.json#/A", "#Anchor"] {
            let schema = format!(
                r##"{{"a":{{"$ref":"{to}"}},"$defs":{{"Round":{{"$ref":"#/$defs/Back"}},"Back":{{"$ref":"#/$defs/Round"}}}}}}"##
            );
            assert_eq!(placed(&schema, "#"), None, "{to}");
        }
    }
}
