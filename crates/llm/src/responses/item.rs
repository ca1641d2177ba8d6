//! Items of an answer into parts of a message, and back into the items they were.
//!
//! Texts and calls become parts that every wire understands. What their item holds besides (its
//! id, its phase, the annotations of a text) is its frame: the item without the texts or the call,
//! kept as an [`Opaque`] right before the parts that fill it again.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::{AssistantPart, CallId, Opaque, RawJson, Reasoning, ToolCall};

pub(super) type Fields = Map<String, Value>;

/// The parts of a call that stand in its [`ToolCall`].
const CALL: [&str; 3] = ["call_id", "name", "arguments"];

/// What became of one item.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) parts: Vec<AssistantPart>,
    pub(super) is_refusal: bool,
}

/// Reads one item of an answer; a call without an id gets the one that `made` makes.
pub(super) fn read(raw: &RawValue, provider: &str, made: impl FnOnce() -> CallId) -> Parts {
    let Some(fields) = fields(raw) else { return Parts::default() };
    let keep = |item: RawJson| Opaque { provider: provider.to_owned(), item };
    let whole = || keep(RawJson::from(raw.to_owned()));
    match kind(&fields) {
        "message" => read_message(fields, keep),
        "function_call" => read_call(fields, keep, made),
        "reasoning" => {
            let payload = Some(whole());
            let part = AssistantPart::Reasoning(Reasoning { text: readable(&fields), payload });
            Parts { parts: vec![part], is_refusal: false }
        }
        _ => Parts { parts: vec![AssistantPart::Opaque(whole())], is_refusal: false },
    }
}

fn read_message(mut item: Fields, keep: impl Fn(RawJson) -> Opaque) -> Parts {
    let content = match item.remove("content") {
        Some(Value::Array(content)) => content,
        Some(Value::String(text)) => vec![json!({"type": "output_text", "text": text})],
        _ => Vec::new(),
    };
    let mut texts = Vec::new();
    let mut frames = Vec::new();
    let mut is_refusal = false;
    for part in content {
        let Value::Object(mut part) = part else { continue };
        if let Some(slot) = slot(&part) {
            let Some(Value::String(text)) = part.remove(slot) else { continue };
            if text.is_empty() {
                continue;
            }
            is_refusal |= slot == "refusal";
            texts.push(AssistantPart::Text(text));
        }
        part.retain(|_, value| !is_blank(value));
        frames.push(Value::Object(part));
    }
    if texts.is_empty() {
        return Parts::default();
    }
    strip(&mut item, &[]);
    if frames != [json!({"type": "output_text"})] {
        item.insert("content".to_owned(), Value::Array(frames));
    }
    let mut parts: Vec<_> = framed(&item, keep).into_iter().collect();
    parts.append(&mut texts);
    Parts { parts, is_refusal }
}

fn read_call(
    mut item: Fields,
    keep: impl Fn(RawJson) -> Opaque,
    made: impl FnOnce() -> CallId,
) -> Parts {
    let mut take = |key: &str| match item.remove(key) {
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => String::new(),
        // Some servers write the arguments as the object they are.
        Some(other) => other.to_string(),
    };
    let (id, name, arguments) = (take("call_id"), take("name"), take("arguments"));
    let id = if id.is_empty() { made() } else { id.into() };
    strip(&mut item, &CALL);
    let mut parts: Vec<_> = framed(&item, keep).into_iter().collect();
    parts.push(AssistantPart::ToolCall(ToolCall { id, name, arguments }));
    Parts { parts, is_refusal: false }
}

/// Removes what goes without saying.
fn strip(item: &mut Fields, keys: &[&str]) {
    item.retain(|key, value| {
        let goes_without_saying = match key.as_str() {
            "role" => value == "assistant",
            "status" => value == "completed",
            _ => false,
        };
        !goes_without_saying && !is_blank(value) && !keys.contains(&key.as_str())
    });
}

/// Makes the frame of an item, unless nothing is left in it but its type.
fn framed(item: &Fields, keep: impl Fn(RawJson) -> Opaque) -> Option<AssistantPart> {
    if item.len() <= 1 {
        return None;
    }
    RawJson::of(item).ok().map(|item| AssistantPart::Opaque(keep(item)))
}

/// Returns what a reader gets to see of a reasoning item: its text, or else its summary.
pub(super) fn readable(item: &Fields) -> String {
    let texts = |key: &str| -> Vec<&str> {
        let list = item.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|part| part.get("text").and_then(Value::as_str))
            .filter(|text| !text.is_empty())
            .collect()
    };
    let content = texts("content");
    if content.is_empty() { texts("summary").join("\n\n") } else { content.join("\n\n") }
}

/// Reads the fields of an item; `None` if it is no object.
pub(super) fn fields(raw: &RawValue) -> Option<Fields> {
    serde_json::from_str(raw.get()).ok()
}

/// Returns the id of an item; empty if it has none.
pub(super) fn id(fields: &Fields) -> &str {
    fields.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the type of an item or of a part of its content.
pub(super) fn kind(fields: &Fields) -> &str {
    fields.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Names the field of a part that holds its text; `None` if it has none.
fn slot(part: &Fields) -> Option<&'static str> {
    match kind(part) {
        "output_text" | "text" => Some("text"),
        "refusal" => Some("refusal"),
        _ => None,
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => false,
    }
}

/// What an [`Opaque`] of this provider is.
pub(super) enum Kept {
    /// The frame of the texts that follow.
    Message(Fields),
    /// The frame of the call that follows.
    Call(Fields),
    /// A whole item, such as the call of a tool that the provider runs itself.
    Whole,
    /// Nothing this wire knows: another wire of the same provider made it.
    Foreign,
}

impl Kept {
    pub(super) fn read(item: &RawJson) -> Self {
        let Ok(fields) = item.read::<Fields>() else { return Self::Foreign };
        match kind(&fields) {
            "message" => Self::Message(fields),
            "function_call" => Self::Call(fields),
            // All items of this wire have an id; Anthropic's uses of its own tools have one too.
            // Reasoning never stands here: its part says what of it goes back.
            kind if kind.ends_with("tool_use") || matches!(kind, "" | "reasoning") => Self::Foreign,
            _ if fields.get("id").is_some_and(Value::is_string) => Self::Whole,
            _ => Self::Foreign,
        }
    }
}

/// Counts the texts that a frame takes.
pub(super) fn slots(frame: &Fields) -> usize {
    match frame.get("content").and_then(Value::as_array) {
        Some(parts) => {
            parts.iter().filter(|part| part.as_object().and_then(slot).is_some()).count()
        }
        None => 1,
    }
}

/// Puts texts back into the frame of their message.
pub(super) fn fill_message(mut frame: Fields, texts: &[&str]) -> Fields {
    let parts = match frame.remove("content") {
        Some(Value::Array(parts)) => parts,
        _ => vec![json!({"type": "output_text"})],
    };
    let mut texts = texts.iter();
    let mut content = Vec::with_capacity(parts.len());
    for part in parts {
        let Value::Object(mut part) = part else { continue };
        if let Some(slot) = slot(&part) {
            let Some(text) = texts.next() else { continue };
            part.insert(slot.to_owned(), (*text).into());
            if slot == "text" {
                // Strict servers want the list even if it is empty.
                part.entry("annotations").or_insert_with(|| json!([]));
            }
        }
        content.push(Value::Object(part));
    }
    frame.insert("content".to_owned(), Value::Array(content));
    frame.entry("role").or_insert_with(|| "assistant".into());
    frame.entry("status").or_insert_with(|| "completed".into());
    frame
}

/// Puts a call back into its frame.
pub(super) fn fill_call(mut frame: Fields, call: [&str; 3]) -> Fields {
    for (key, value) in CALL.into_iter().zip(call) {
        frame.insert(key.to_owned(), value.into());
    }
    frame.entry("status").or_insert_with(|| "completed".into());
    frame
}

/// What decides whether a reasoning item can go back.
#[derive(Deserialize)]
struct Probe {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    encrypted_content: Option<String>,
    #[serde(default)]
    content: Option<Vec<Value>>,
    #[serde(default)]
    summary: Option<Vec<Value>>,
}

/// Of what use a kept reasoning item is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    /// Its encrypted content says all.
    Encrypted,
    /// It can be read, but holds nothing encrypted.
    Plain,
    /// There is nothing in it but an id that no server knows.
    Nothing,
    /// Another wire of the same provider made it.
    Foreign,
}

impl Replay {
    pub(super) fn of(item: &RawJson) -> Self {
        let Ok(Probe { kind, encrypted_content, content, summary }) = item.read() else {
            return Self::Foreign;
        };
        let is_filled = |list: Option<Vec<Value>>| list.is_some_and(|list| !list.is_empty());
        match kind.as_str() {
            "reasoning" if encrypted_content.is_some_and(|text| !text.is_empty()) => {
                Self::Encrypted
            }
            "reasoning" if is_filled(content) || is_filled(summary) => Self::Plain,
            "reasoning" => Self::Nothing,
            _ => Self::Foreign,
        }
    }
}
