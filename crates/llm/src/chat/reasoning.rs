//! `reasoning_details`: items of reasoning that a gateway wants back as they were.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::RawJson;

/// Collects the items of one reply.
///
/// A stream cuts an item of text into several that share `type` and `index`; what goes back must be
/// the whole one. Items that came in one piece are kept byte for byte.
#[derive(Debug, Default)]
pub(super) struct Details {
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    /// The item as it came, until something is joined to it.
    raw: Option<Box<RawValue>>,
    fields: Map<String, Value>,
}

impl Details {
    /// Adds the items of one chunk, and appends their readable text to `text`.
    pub(super) fn add(&mut self, raw: &RawValue, text: &mut String) {
        // Anything but an array is no list of items, and nothing to give back.
        let items: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
        for item in items {
            self.add_item(item, text);
        }
    }

    fn add_item(&mut self, raw: &RawValue, text: &mut String) {
        let Ok(fields) = serde_json::from_str::<Map<String, Value>>(raw.get()) else { return };
        for key in FRAGMENTS {
            if let Some(Value::String(fragment)) = fields.get(key) {
                text.push_str(fragment);
            }
        }
        match self.items.last_mut() {
            Some(last) if last.is_continued_by(&fields) => last.join(fields),
            _ => self.items.push(Item { raw: Some(raw.to_owned()), fields }),
        }
    }

    /// Returns all items as one JSON array, or `None` if there are none.
    pub(super) fn into_payload(self) -> Option<RawJson> {
        if self.items.is_empty() {
            return None;
        }
        let mut array = String::from("[");
        for (n, item) in self.items.iter().enumerate() {
            if n > 0 {
                array.push(',');
            }
            match &item.raw {
                Some(raw) => array.push_str(raw.get()),
                None => array.push_str(&serde_json::to_string(&item.fields).unwrap_or_default()),
            }
        }
        array.push(']');
        RawJson::parse(array).ok()
    }
}

/// The fields that a stream delivers in fragments.
const FRAGMENTS: [&str; 2] = ["text", "summary"];

impl Item {
    fn is_continued_by(&self, next: &Map<String, Value>) -> bool {
        let kind = next.get("type").and_then(Value::as_str);
        matches!(kind, Some("reasoning.text" | "reasoning.summary"))
            && self.fields.get("type").and_then(Value::as_str) == kind
            && self.fields.get("index") == next.get("index")
    }

    fn join(&mut self, next: Map<String, Value>) {
        self.raw = None;
        for (key, value) in next {
            match (self.fields.get_mut(&key), value) {
                (_, Value::Null) => {}
                (Some(Value::String(text)), Value::String(more))
                    if FRAGMENTS.contains(&key.as_str()) =>
                {
                    text.push_str(&more);
                }
                (_, value) => {
                    self.fields.insert(key, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(chunks: &[&str]) -> (Option<String>, String) {
        let mut details = Details::default();
        let mut text = String::new();
        for chunk in chunks {
            let raw = RawValue::from_string((*chunk).to_owned()).unwrap();
            details.add(&raw, &mut text);
        }
        (details.into_payload().map(|raw| raw.as_str().to_owned()), text)
    }

    #[test]
    fn whole_items_keep_their_bytes() {
        let item = r#"{"z":1, "type":"reasoning.encrypted","data":"\u0041","index":0}"#;
        assert_eq!(collect(&[&format!("[ {item} ]")]).0, Some(format!("[{item}]")));
    }

    #[test]
    fn fragments_of_one_item_are_joined() {
        let (payload, text) = collect(&[
            r#"[{"type":"reasoning.text","text":"a","index":0}]"#,
            r#"[{"type":"reasoning.text","text":"b","signature":null,"index":0}]"#,
            r#"[{"type":"reasoning.text","signature":"s","index":0}]"#,
            r#"[{"type":"reasoning.text","text":"c","index":1}]"#,
        ]);
        let payload: Value = serde_json::from_str(&payload.unwrap()).unwrap();
        let expected = serde_json::json!([
            {"type": "reasoning.text", "text": "ab", "signature": "s", "index": 0},
            {"type": "reasoning.text", "text": "c", "index": 1},
        ]);
        assert_eq!(payload, expected);
        assert_eq!(text, "abc");
    }

    #[test]
    fn encrypted_items_are_never_joined() {
        let item = r#"{"type":"reasoning.encrypted","data":"x","index":0}"#;
        let (payload, text) = collect(&[&format!("[{item}]"), &format!("[{item}]")]);
        assert_eq!(payload, Some(format!("[{item},{item}]")));
        assert_eq!(text, "");
    }

    #[test]
    fn what_is_no_list_is_nothing() {
        assert_eq!(collect(&["{}", "\"x\"", "[]", "[1]"]), (None, String::new()));
    }
}
