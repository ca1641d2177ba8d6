//! Schemas of arguments, brought into a form that every provider takes.
//!
//! A provider refuses a whole request for one schema that it does not like, so what a server says
//! carelessly is put right where its meaning is clear; a tool of which it is not is left out.

use serde_json::{Map, Value, json};

use bowline_agent::OutputSchema;
use bowline_llm::RawJson;

type Schema = Map<String, Value>;

/// How many references in a row are followed at the top.
const REFERENCES: usize = 8;

/// What no provider takes at the top, beside alternatives.
const NOT_AT_THE_TOP: [&str; 6] = ["enum", "const", "not", "if", "then", "else"];

/// A schema as providers take it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fitted {
    pub(super) schema: Schema,
    /// What it says differently now, in words.
    pub(super) changes: Vec<String>,
}

/// Brings the schema of a tool's arguments into a form that every provider takes.
///
/// # Errors
/// Why that cannot be done.
pub(super) fn fit(schema: &Schema) -> Result<Fitted, String> {
    let mut fitted = Fitted { schema: schema.clone(), changes: Vec::new() };
    fitted.follow_reference();
    fitted.check_type()?;
    for (key, is_choice) in [("allOf", false), ("anyOf", true), ("oneOf", true)] {
        fitted.fold(key, is_choice);
    }
    for key in NOT_AT_THE_TOP {
        if fitted.schema.remove(key).is_some() {
            fitted.changes.push(format!("{key} at the top is left out"));
        }
    }
    match fitted.schema.get("properties") {
        Some(Value::Object(_)) => {}
        None | Some(Value::Null) => drop(fitted.schema.insert("properties".into(), json!({}))),
        Some(_) => return Err("its properties are no object".to_owned()),
    }
    let is_known = |dialect: &Value| {
        dialect.as_str().is_some_and(|dialect| dialect.contains("://json-schema.org/"))
    };
    if fitted.schema.get("$schema").is_some_and(|dialect| !is_known(dialect)) {
        fitted.schema.remove("$schema");
    }
    let whole = Value::Object(fitted.schema.clone());
    mend(&mut fitted.schema, &whole, &mut fitted.changes);
    fitted.changes.dedup();
    let text = RawJson::of(&fitted.schema).map_err(|error| error.to_string())?;
    OutputSchema::new(text).map_err(|error| error.to_string())?;
    Ok(fitted)
}

impl Fitted {
    /// Puts what a reference at the top stands for in its place.
    fn follow_reference(&mut self) {
        for _ in 0..REFERENCES {
            let Some(reference) = self.schema.remove("$ref") else { return };
            let whole = Value::Object(self.schema.clone());
            let Some(Value::Object(target)) = resolve(&whole, &reference) else {
                self.changes.push(dangling(&reference));
                return;
            };
            for (key, value) in target.clone() {
                self.schema.entry(key).or_insert(value);
            }
        }
    }

    fn check_type(&mut self) -> Result<(), String> {
        let is_object = match self.schema.get("type") {
            None | Some(Value::Null) => true,
            Some(Value::String(kind)) => kind == "object" || kind == "null",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
            Some(_) => false,
        };
        if !is_object {
            let kind = self.schema.get("type").cloned().unwrap_or_default();
            return Err(format!("its arguments are no object but {kind}"));
        }
        self.schema.insert("type".to_owned(), "object".into());
        Ok(())
    }

    /// Makes one list of properties of several at the top; of a choice only what all of it needs is
    /// needed.
    fn fold(&mut self, key: &str, is_choice: bool) {
        let Some(parts) = self.schema.remove(key) else { return };
        self.changes.push(format!("{key} at the top is folded into one list of properties"));
        let whole = Value::Object(self.schema.clone());
        let parts = parts.as_array().cloned().unwrap_or_default();
        let parts: Vec<Schema> = parts.iter().filter_map(|part| follow(&whole, part)).collect();
        let mut needed: Vec<Vec<String>> = Vec::new();
        let mut properties: Schema = take_object(&mut self.schema, "properties");
        for part in &parts {
            needed.push(required(part));
            let Some(Value::Object(more)) = part.get("properties") else { continue };
            for (name, property) in more {
                add_property(&mut properties, name, property, is_choice);
            }
        }
        self.schema.insert("properties".to_owned(), properties.into());
        let mut all = required(&self.schema);
        let is_needed = |name: &String| {
            if is_choice { needed.iter().all(|names| names.contains(name)) } else { true }
        };
        for name in needed.iter().flatten().filter(|name| is_needed(name)) {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        if !all.is_empty() {
            self.schema.insert("required".to_owned(), all.into());
        }
    }
}

fn take_object(schema: &mut Schema, key: &str) -> Schema {
    match schema.remove(key) {
        Some(Value::Object(object)) => object,
        _ => Schema::new(),
    }
}

/// Adds a property; where a choice has different ones of a name, each of them will do.
fn add_property(properties: &mut Schema, name: &str, property: &Value, is_choice: bool) {
    match properties.get_mut(name) {
        None => drop(properties.insert(name.to_owned(), property.clone())),
        Some(known) if known == property || !is_choice => {}
        Some(known) => {
            let alternatives = known.get_mut("anyOf").and_then(Value::as_array_mut);
            match alternatives {
                Some(alternatives) => alternatives.push(property.clone()),
                None => *known = json!({ "anyOf": [known.clone(), property] }),
            }
        }
    }
}

fn required(schema: &Schema) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Returns a part of a schema, behind its reference if it is one.
fn follow(whole: &Value, part: &Value) -> Option<Schema> {
    let part = match part.get("$ref") {
        Some(reference) => resolve(whole, reference)?,
        None => part,
    };
    part.as_object().cloned()
}

/// Finds what a reference within a schema stands for.
fn resolve<'a>(whole: &'a Value, reference: &Value) -> Option<&'a Value> {
    whole.pointer(reference.as_str()?.strip_prefix('#')?)
}

fn dangling(reference: &Value) -> String {
    format!("the reference {reference} leads nowhere and is left out")
}

/// Puts right what is wrong in a schema and in all that are in it.
fn mend(schema: &mut Schema, whole: &Value, changes: &mut Vec<String>) {
    if schema.get("type").is_some_and(Value::is_null) {
        schema.remove("type");
    }
    // Of an early draft, where each property said it of itself.
    if schema.get("required").is_some_and(|required| !required.is_array()) {
        schema.remove("required");
    }
    if let Some(reference) = schema.get("$ref")
        && resolve(whole, reference).is_none()
    {
        changes.push(dangling(reference));
        schema.remove("$ref");
    }
    for (key, value) in schema.iter_mut() {
        match (key.as_str(), value) {
            (
                "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(schemas),
            ) => schemas.values_mut().for_each(|value| mend_value(value, whole, changes)),
            ("items" | "prefixItems" | "allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|value| mend_value(value, whole, changes));
            }
            (
                "items"
                | "additionalProperties"
                | "contains"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else",
                value,
            ) => mend_value(value, whole, changes),
            _ => {}
        }
    }
}

/// What is no schema at all lets everything pass.
fn mend_value(value: &mut Value, whole: &Value, changes: &mut Vec<String>) {
    match value {
        Value::Object(schema) => mend(schema, whole, changes),
        Value::Bool(_) => {}
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => *value = json!({}),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn fitted(schema: Value) -> (Value, usize) {
        let Value::Object(schema) = schema else { panic!("no object") };
        let Fitted { schema, changes } = fit(&schema).unwrap();
        (schema.into(), changes.len())
    }

    fn refused(schema: Value) -> String {
        let Value::Object(schema) = schema else { panic!("no object") };
        fit(&schema).unwrap_err()
    }

    #[test]
    fn what_is_missing_at_the_top_is_put_there() {
        let empty = json!({ "type": "object", "properties": {} });
        for careless in [
            json!({}),
            json!({ "type": null, "properties": null }),
            json!({ "type": ["null", "object"] }),
            json!({ "type": "null" }),
            json!({ "$schema": "draft-nowhere", "required": false }),
        ] {
            assert_eq!(fitted(careless.clone()), (empty.clone(), 0), "{careless}");
        }
        let fine = json!({ "type": "object", "required": ["a"],
            "properties": { "a": { "$ref": "#/$defs/a" }, "type": { "type": "string" } },
            "$defs": { "a": { "type": ["string", "null"] } } });
        assert_eq!(fitted(fine.clone()), (fine, 0));
    }

    #[test]
    fn alternatives_at_the_top_become_one_list_of_properties() {
        let choice = json!({ "type": "object", "oneOf": [
            { "properties": { "do": { "const": "a" }, "x": {} }, "required": ["do", "x"] },
            { "$ref": "#/$defs/other" },
        ], "$defs": { "other": { "properties": { "do": { "const": "b" } }, "required": ["do"] } } });
        let folded = json!({ "type": "object", "required": ["do"],
            "properties": { "do": { "anyOf": [{ "const": "a" }, { "const": "b" }] }, "x": {} },
            "$defs": { "other": { "properties": { "do": { "const": "b" } }, "required": ["do"] } } });
        assert_eq!(fitted(choice), (folded, 1));
        let all = json!({ "allOf": [
            { "properties": { "a": {} }, "required": ["a"] },
            { "properties": { "b": {} }, "required": ["b"] },
        ] });
        let folded = json!({ "type": "object", "properties": { "a": {}, "b": {} },
            "required": ["a", "b"] });
        assert_eq!(fitted(all), (folded, 1));
    }

    #[test]
    fn references_are_followed_at_the_top_and_dropped_where_they_lead_nowhere() {
        let at_top = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "object",
            "properties": { "n": { "type": "integer" } } } } });
        assert_eq!(fitted(at_top).0["properties"], json!({ "n": { "type": "integer" } }));
        let lost = json!({ "properties": { "a": { "$ref": "#/$defs/no" },
            "b": { "items": { "$ref": "http://elsewhere/s.json" } }, "c": { "type": null }, "d": null } });
        let (schema, changes) = fitted(lost);
        assert_eq!(
            schema["properties"],
            json!({ "a": {}, "b": { "items": {} }, "c": {}, "d": {} })
        );
        assert_eq!(changes, 2);
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        assert_eq!(
            refused(json!({ "type": "string" })),
            "its arguments are no object but \"string\""
        );
        assert_eq!(refused(json!({ "properties": [1] })), "its properties are no object");
        let odd = json!({ "properties": { "a": { "type": "text" } } });
        assert!(refused(odd).starts_with("no JSON Schema: "));
    }
}
