//! What a server asks a person: a form, field by field.

use rmcp::model::{ElicitResult, ElicitationAction};
use serde_json::{Map, Value, json};

use bowline_agent::entry::Wake;

/// The answers that refuse, whatever is asked.
const DECLINE: &str = "decline";

/// A form that is being filled in.
#[derive(Debug)]
pub(super) struct Interview {
    message: String,
    fields: Vec<Field>,
    filled: Map<String, Value>,
    /// What was wrong with the last answer.
    complaint: Option<String>,
}

/// What follows an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// There is more to ask.
    Ask,
    /// The server can be told.
    Done(ElicitResult),
}

#[derive(Debug)]
struct Field {
    name: String,
    title: String,
    is_required: bool,
    default: Option<Value>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    Number,
    Integer,
    Truth,
    /// One of some values, with the names by which they are shown.
    One(Vec<(String, String)>),
    /// Any of some values.
    Many(Vec<(String, String)>),
}

impl Interview {
    /// Begins with the first field in the order that is given; those it does not name come after.
    pub(super) fn new(message: String, schema: &Value, order: &[String]) -> Self {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let place = |name: &str| order.iter().position(|known| known == name);
        let mut fields: Vec<Field> = properties
            .iter()
            .map(|(name, schema)| Field::new(name, schema, required.contains(&name.as_str())))
            .collect();
        fields.sort_by_key(|field| place(&field.name).unwrap_or(usize::MAX));
        Self { message, fields, filled: Map::new(), complaint: None }
    }

    /// Returns what to wait for.
    pub(super) fn wake(&self, server: &str) -> Wake {
        let complaint = self.complaint.as_deref().map(|text| format!("{text}\n"));
        let mut question =
            format!("{}{server} asks: {}", complaint.unwrap_or_default(), self.message);
        let mut options = Vec::new();
        match self.fields.first() {
            Some(field) => {
                question.push_str(&format!("\n{}", field.title));
                if let Some(default) = &field.default {
                    question.push_str(&format!(" [{}]", shown(default)));
                } else if !field.is_required {
                    question.push_str(" (may be left empty)");
                }
                options = field.options();
            }
            None => options.push("accept".to_owned()),
        }
        options.push(DECLINE.to_owned());
        Wake::Answer { question, options }
    }

    /// Takes the answer to the field that was asked for.
    pub(super) fn answer(&mut self, text: &str) -> Next {
        let text = text.trim();
        self.complaint = None;
        if text.eq_ignore_ascii_case(DECLINE) {
            return Next::Done(ElicitResult::new(ElicitationAction::Decline));
        }
        if !self.fields.is_empty() {
            let field = self.fields.remove(0);
            match field.read(text) {
                Ok(Some(value)) => drop(self.filled.insert(field.name, value)),
                Ok(None) => {}
                Err(complaint) => {
                    self.complaint = Some(complaint);
                    self.fields.insert(0, field);
                }
            }
        }
        if !self.fields.is_empty() {
            return Next::Ask;
        }
        let filled = Value::Object(std::mem::take(&mut self.filled));
        Next::Done(ElicitResult::new(ElicitationAction::Accept).with_content(filled))
    }
}

impl Field {
    fn new(name: &str, schema: &Value, is_required: bool) -> Self {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let title = match (text("title"), text("description")) {
            (Some(title), Some(description)) => format!("{title}: {description}"),
            (Some(title), None) => title.to_owned(),
            (None, Some(description)) => format!("{name}: {description}"),
            (None, None) => name.to_owned(),
        };
        let items = schema.get("items");
        let kind = match (text("type"), choices(schema), items.and_then(choices)) {
            (_, Some(choices), _) => Kind::One(choices),
            (_, None, Some(choices)) => Kind::Many(choices),
            (Some("number"), None, None) => Kind::Number,
            (Some("integer"), None, None) => Kind::Integer,
            (Some("boolean"), None, None) => Kind::Truth,
            (_, None, None) => Kind::Text,
        };
        let default = schema.get("default").cloned();
        Self { name: name.to_owned(), title, is_required, default, kind }
    }

    fn options(&self) -> Vec<String> {
        match &self.kind {
            Kind::Text | Kind::Number | Kind::Integer | Kind::Many(_) => Vec::new(),
            Kind::Truth => vec!["yes".to_owned(), "no".to_owned()],
            Kind::One(choices) => choices.iter().map(|(_, title)| title.clone()).collect(),
        }
    }

    /// Reads an answer; `None` if the field stays empty.
    fn read(&self, text: &str) -> Result<Option<Value>, String> {
        if text.is_empty() {
            return match (&self.default, self.is_required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("it must not be empty".to_owned()),
            };
        }
        let wrong = |what: &str| Err(format!("{text:?} is no {what}"));
        let value = match &self.kind {
            Kind::Text => json!(text),
            Kind::Number => match text.parse::<serde_json::Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => return wrong("number"),
            },
            Kind::Integer => match text.parse::<i64>() {
                Ok(number) => json!(number),
                Err(_) => return wrong("whole number"),
            },
            Kind::Truth => match text.to_ascii_lowercase().as_str() {
                "yes" | "y" | "true" => json!(true),
                "no" | "n" | "false" => json!(false),
                _ => return wrong("yes and no no"),
            },
            Kind::One(choices) => json!(chosen(choices, text)?),
            Kind::Many(choices) => {
                let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
                let values: Result<Vec<_>, _> = texts.map(|text| chosen(choices, text)).collect();
                json!(values?)
            }
        };
        Ok(Some(value))
    }
}

/// Returns the values that a schema allows, with the names by which they are shown.
fn choices(schema: &Value) -> Option<Vec<(String, String)>> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let names = list("enumNames");
        let name = |at: usize| names.and_then(|names| names.get(at)?.as_str());
        let values = values.iter().enumerate().filter_map(|(at, value)| {
            let value = value.as_str()?;
            Some((value.to_owned(), name(at).unwrap_or(value).to_owned()))
        });
        return Some(values.collect());
    }
    let options = list("oneOf").or(list("anyOf"))?;
    let option = |option: &Value| {
        let value = option.get("const")?.as_str()?;
        let title = option.get("title").and_then(Value::as_str).unwrap_or(value);
        Some((value.to_owned(), title.to_owned()))
    };
    Some(options.iter().filter_map(option).collect())
}

fn chosen(choices: &[(String, String)], text: &str) -> Result<String, String> {
    let is_it = |(value, title): &&(String, String)| value == text || title == text;
    let found = choices.iter().find(is_it).map(|(value, _)| value.clone());
    found.ok_or_else(|| {
        let titles: Vec<_> = choices.iter().map(|(_, title)| title.as_str()).collect();
        format!("{text:?} is none of {}", titles.join(", "))
    })
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn form() -> Interview {
        let schema = json!({
            "properties": {
                "age": { "type": "integer", "title": "Age" },
                "color": { "type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"] },
                "tags": { "type": "array", "items": { "type": "string", "enum": ["a", "b"] } },
                "sure": { "type": "boolean", "default": true },
                "note": { "type": "string" },
            },
            "required": ["age", "color"],
        });
        let order = ["age", "color", "tags", "sure", "note"].map(str::to_owned);
        Interview::new("Who are you?".to_owned(), &schema, &order)
    }

    fn question(interview: &Interview) -> (String, Vec<String>) {
        match interview.wake("fs") {
            Wake::Answer { question, options } => (question, options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_form_is_asked_field_by_field_and_answers_become_values() {
        let mut form = form();
        let first = ("fs asks: Who are you?\nAge".to_owned(), vec!["decline".to_owned()]);
        assert_eq!(question(&form), first);
        assert_eq!(form.answer("many"), Next::Ask);
        assert!(question(&form).0.starts_with("\"many\" is no whole number\n"));
        assert_eq!(form.answer(""), Next::Ask);
        assert_eq!(form.answer("7"), Next::Ask);
        assert_eq!(question(&form).1, ["red", "green", "decline"]);
        assert_eq!(form.answer("green"), Next::Ask);
        assert_eq!(form.answer("a, b"), Next::Ask);
        assert!(question(&form).0.ends_with("sure [true]"));
        assert_eq!(form.answer(""), Next::Ask);
        let filled = json!({ "age": 7, "color": "g", "tags": ["a", "b"], "sure": true });
        let accepted = ElicitResult::new(ElicitationAction::Accept).with_content(filled);
        assert_eq!(form.answer(""), Next::Done(accepted));
    }

    #[test]
    fn a_person_may_refuse_at_any_field() {
        let mut form = form();
        assert_eq!(form.answer("7"), Next::Ask);
        assert_eq!(
            form.answer("Decline"),
            Next::Done(ElicitResult::new(ElicitationAction::Decline))
        );
    }
}
