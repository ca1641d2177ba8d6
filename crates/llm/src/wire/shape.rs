//! How a wire asks for answers that fit a JSON Schema.
//!
//! Servers know different parts of the language, and refuse a request whose schema has more. So what
//! is sent follows from the schema alone, and whoever asks checks the answer in any case.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::RawJson;

/// What the shape is called, where a name is needed.
const NAME: &str = "answer";

/// A schema as OpenAI takes it.
#[derive(Serialize)]
pub(crate) struct Named<'a> {
    pub(crate) name: &'static str,
    pub(crate) schema: &'a RawJson,
    pub(crate) strict: bool,
}

impl<'a> Named<'a> {
    /// Returns the schema with a name; `None` if it is not one of objects, which not all take.
    ///
    /// Strictly a model is held only to schemas it can be held to; any other it is shown.
    pub(crate) fn of(schema: &'a RawJson) -> Option<Self> {
        is_of_object(schema).then(|| Self { name: NAME, schema, strict: OPENAI.has(schema) })
    }
}

/// Tells whether all that fits a schema is an object.
pub(crate) fn is_of_object(schema: &RawJson) -> bool {
    schema.read::<Value>().is_ok_and(|schema| schema.get("type") == Some(&Value::from("object")))
}

/// A part of the language of schemas.
pub(crate) struct Part {
    /// The words it has beside those that all have.
    words: &'static [&'static str],
    /// Whether an object must have all its properties.
    demands_all: bool,
    /// Whether a schema may contain itself.
    is_recursive: bool,
    /// How many properties may be missing.
    optional: usize,
    /// How many values may be of one kind or another.
    unions: usize,
}

/// What OpenAI, and who follows it, takes with `strict`.
const OPENAI: Part = Part {
    words: &[
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    ],
    demands_all: true,
    is_recursive: true,
    optional: 0,
    unions: usize::MAX,
};

/// What Anthropic takes.
pub(crate) const ANTHROPIC: Part =
    Part { words: &["default"], demands_all: false, is_recursive: false, optional: 24, unions: 16 };

/// The words that say nothing of what fits.
const REMARKS: &[&str] = &["$schema", "title", "description"];

/// The forms of text that are known.
const FORMATS: &[&str] =
    &["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// What was met in a schema.
#[derive(Default)]
struct Met {
    optional: usize,
    unions: usize,
}

impl Part {
    /// Tells whether a schema says only what this part of the language can say.
    pub(crate) fn has(&self, schema: &RawJson) -> bool {
        let Ok(root) = schema.read::<Value>() else { return false };
        let mut met = Met::default();
        root.get("type") == Some(&Value::from("object"))
            && self.takes(&root, &mut met)
            && met.optional <= self.optional
            && met.unions <= self.unions
            && (self.is_recursive || !is_recursive(&root))
    }

    fn takes(&self, schema: &Value, met: &mut Met) -> bool {
        let Some(words) = schema.as_object() else { return false };
        if words.contains_key("$ref") {
            // Nothing may stand beside it.
            return words.len() == 1;
        }
        let is_union =
            words.get("type").is_some_and(Value::is_array) || words.contains_key("anyOf");
        met.unions += usize::from(is_union);
        self.closes(words, met)
            && words.iter().all(|(word, value)| match (word.as_str(), value) {
                ("type" | "const" | "required" | "additionalProperties", _) => true,
                ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                    schemas.values().all(|schema| self.takes(schema, met))
                }
                ("items", schema) => self.takes(schema, met),
                ("anyOf", Value::Array(schemas)) => {
                    schemas.iter().all(|schema| self.takes(schema, met))
                }
                ("enum", Value::Array(values)) => {
                    !values.iter().any(|value| value.is_object() || value.is_array())
                }
                ("format", Value::String(format)) => FORMATS.contains(&format.as_str()),
                (word, _) => REMARKS.contains(&word) || self.words.contains(&word),
            })
    }

    /// Tells whether a schema of objects names all they may have, and demands what it must.
    fn closes(&self, words: &Map<String, Value>, met: &mut Met) -> bool {
        let is_object = match words.get("type") {
            Some(Value::Array(types)) => types.contains(&Value::from("object")),
            Some(kind) => *kind == "object",
            None => false,
        };
        let properties = words.get("properties").and_then(Value::as_object);
        if !is_object {
            return properties.is_none();
        }
        let required = words.get("required").and_then(Value::as_array);
        let is_required = |name: &String| {
            required.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let names = properties.into_iter().flat_map(Map::keys);
        let missing = names.filter(|name| !is_required(name)).count();
        met.optional += missing;
        words.get("additionalProperties") == Some(&Value::Bool(false))
            && !(self.demands_all && missing > 0)
    }
}

/// Tells whether a schema contains itself: some definitions cannot be written out, whatever is
/// written out first.
fn is_recursive(root: &Value) -> bool {
    let mut references = Vec::new();
    collect(root, &mut references);
    let definitions = ["$defs", "definitions"].into_iter().flat_map(|place| {
        let all = root.get(place).and_then(Value::as_object).into_iter().flatten();
        all.map(move |(name, schema)| (format!("#/{place}/{name}"), schema))
    });
    let mut left: Vec<(String, Vec<&str>)> = definitions
        .map(|(name, schema)| {
            let mut references = Vec::new();
            collect(schema, &mut references);
            (name, references)
        })
        .collect();
    // What refers to anything else refers to the whole or to nothing.
    if references.iter().any(|to| !left.iter().any(|(name, _)| name == to)) {
        return true;
    }
    loop {
        let names: Vec<String> = left.iter().map(|(name, _)| name.clone()).collect();
        left.retain(|(_, references)| {
            references.iter().any(|to| names.iter().any(|name| name == to))
        });
        if left.len() == names.len() {
            return !left.is_empty();
        }
    }
}

/// Collects what a schema refers to.
fn collect<'a>(schema: &'a Value, references: &mut Vec<&'a str>) {
    match schema {
        Value::Object(words) => {
            references.extend(words.get("$ref").and_then(Value::as_str));
            words.values().for_each(|value| collect(value, references));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Tells which parts of the language have a schema: OpenAI's and Anthropic's.
    fn parts(schema: &Value) -> (bool, bool) {
        let schema = RawJson::of(schema).unwrap();
        (OPENAI.has(&schema), ANTHROPIC.has(&schema))
    }

    /// An object with one property, closed and demanded.
    fn object(property: &Value) -> Value {
        json!({"type": "object", "properties": {"a": property}, "required": ["a"],
            "additionalProperties": false})
    }

    #[test]
    fn a_closed_object_that_demands_all_is_in_both() {
        let inner = object(&json!({"type": ["string", "null"], "format": "date"}));
        let list = json!({"type": "array", "items": inner, "description": "d"});
        assert_eq!(parts(&object(&list)), (true, true));
        let one_of = json!({"anyOf": [{"const": 1}, {"enum": ["x", null]}]});
        assert_eq!(parts(&object(&one_of)), (true, true));
    }

    #[test]
    fn an_open_object_is_in_neither() {
        let mut open = object(&json!({"type": "string"}));
        open["additionalProperties"] = json!(true);
        assert_eq!(parts(&open), (false, false));
        assert_eq!(parts(&object(&json!({"type": "object"}))), (false, false));
        assert_eq!(parts(&json!({"type": "array", "items": {"type": "string"}})), (false, false));
        assert_eq!(parts(&json!(true)), (false, false));
    }

    #[test]
    fn each_part_has_words_of_its_own() {
        let mut optional = object(&json!({"type": "string"}));
        optional["required"] = json!([]);
        assert_eq!(parts(&optional), (false, true));
        for (word, value, expected) in [
            ("minimum", json!(1), (true, false)),
            ("pattern", json!("^a$"), (true, false)),
            ("default", json!(1), (false, true)),
            ("minLength", json!(1), (false, false)),
            ("oneOf", json!([{"type": "string"}]), (false, false)),
            ("format", json!("uint8"), (false, false)),
            ("enum", json!([{}]), (false, false)),
        ] {
            let mut property = json!({"type": "string"});
            property[word] = value;
            assert_eq!(parts(&object(&property)), expected, "{word}");
        }
    }

    #[test]
    fn what_contains_itself_is_told_from_what_is_used_twice() {
        let with = |definitions: Value| {
            let mut root = object(&json!({"$ref": "#/$defs/x"}));
            root["$defs"] = definitions;
            parts(&root)
        };
        let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let y = object(&json!({"type": "string"}));
        let both = json!({"anyOf": [reference("y"), reference("y")]});
        assert_eq!(with(json!({"x": object(&both), "y": y})), (true, true));
        assert_eq!(with(json!({"x": object(&reference("x"))})), (true, false));
        let (x, y) = (object(&reference("y")), object(&reference("x")));
        assert_eq!(with(json!({"x": x, "y": y})), (true, false));
        assert_eq!(parts(&object(&json!({"$ref": "#"}))), (true, false));
        let described = json!({"$ref": "#", "description": "d"});
        assert_eq!(parts(&object(&described)), (false, false));
    }

    #[test]
    fn there_can_be_too_much_of_it() {
        let many = |count: usize, property: Value| {
            let properties: Map<_, _> =
                (0..count).map(|n| (format!("p{n}"), property.clone())).collect();
            let required: Vec<_> = properties.keys().cloned().collect();
            (properties, required)
        };
        let (properties, _) = many(25, json!({"type": "string"}));
        let mut schema = json!({"type": "object", "additionalProperties": false});
        schema["properties"] = properties.into();
        assert_eq!(parts(&schema), (false, false));
        let (properties, required) = many(17, json!({"type": ["string", "null"]}));
        schema["properties"] = properties.into();
        schema["required"] = required.into();
        assert_eq!(parts(&schema), (true, false));
    }
}
