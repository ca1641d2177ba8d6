//! A block of an answer, of which more may still come.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::answer::{Block, Delta};
use super::encode::Payload;
use crate::wire::json;
use crate::{AssistantPart, CallId, Opaque, RawJson, Reasoning, StreamEvent, ToolCall};

/// A block that has begun.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) index: Option<u64>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Text {
        text: String,
        frame: Frame,
    },
    Thinking {
        text: String,
        signature: String,
    },
    /// Thinking that only its provider can read, as it came.
    Redacted(Box<RawValue>),
    Call(Call),
    /// A block of the provider's own, as it came.
    Opaque {
        item: Box<RawValue>,
        /// Its input, piece by piece.
        input: String,
        /// Fields that came later.
        fields: BTreeMap<String, Value>,
    },
}

#[derive(Debug)]
pub(super) struct Call {
    /// Which call of the reply it is.
    n: usize,
    id: String,
    name: String,
    /// What stood in the block when it began: all of the input, or an empty object.
    whole: Option<String>,
    /// The input, piece by piece.
    input: String,
    frame: Frame,
}

/// What a block holds besides its text or call: citations, or which hosted tool asked for the call.
/// It is kept as an [`Opaque`] before the part, so that the block goes back as it came.
#[derive(Debug, Default)]
pub(super) struct Frame(BTreeMap<String, Value>);

impl Kind {
    /// Begins a block, with `calls` calls before it, and hands out what it brings.
    pub(super) fn begin(
        raw: &RawValue,
        calls: usize,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<Self, serde_json::Error> {
        let block: Block<'_> = serde_json::from_str(raw.get())?;
        let Block { r#type, text, thinking, signature, id, name, input } = block;
        Ok(match &*r#type {
            "text" => {
                let frame = Frame::of(raw)?;
                let mut kind = Self::Text { text: String::new(), frame };
                kind.say(&text.unwrap_or_default(), emit);
                kind
            }
            "thinking" => {
                let signature = signature.unwrap_or_default().into_owned();
                let mut kind = Self::Thinking { text: String::new(), signature };
                kind.say(&thinking.unwrap_or_default(), emit);
                kind
            }
            "redacted_thinking" => Self::Redacted(raw.to_owned()),
            "tool_use" => {
                let id = id.unwrap_or_default().into_owned();
                let name = name.unwrap_or_default().into_owned();
                let whole = input.map(json::written_arguments).map(Cow::into_owned);
                let frame = Frame::of(raw)?;
                let arguments = String::new();
                emit(StreamEvent::ToolCallDelta {
                    index: calls,
                    name: Some(name.clone()),
                    arguments,
                });
                Self::Call(Call { n: calls, id, name, whole, input: String::new(), frame })
            }
            _ => {
                let (input, fields) = (String::new(), BTreeMap::new());
                Self::Opaque { item: raw.to_owned(), input, fields }
            }
        })
    }

    /// Adds a delta.
    pub(super) fn add(
        &mut self,
        raw: &RawValue,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<(), serde_json::Error> {
        let delta: Delta<'_> = serde_json::from_str(raw.get())?;
        match self {
            Self::Text { frame, .. } => {
                frame.cite(delta.citation)?;
                self.say(&delta.text.unwrap_or_default(), emit);
            }
            Self::Thinking { signature, .. } => {
                if let Some(signed) = delta.signature {
                    *signature = signed.into_owned();
                }
                self.say(&delta.thinking.unwrap_or_default(), emit);
            }
            Self::Redacted(_) => {}
            Self::Call(call) => call.add(&delta.partial_json.unwrap_or_default(), emit),
            Self::Opaque { input, fields, .. } => match delta.partial_json {
                Some(json) => input.push_str(&json),
                None => add_fields(fields, raw)?,
            },
        }
        Ok(())
    }

    /// Ends the block.
    pub(super) fn end(&mut self, emit: &mut dyn FnMut(StreamEvent)) {
        if let Self::Call(call) = self
            && call.input.is_empty()
            && let Some(whole) = call.whole.take()
        {
            call.add(&whole, emit);
        }
    }

    /// Adds what it became to the parts of a message: nothing, if it is an empty text. A call without
    /// an id takes the one that `made` makes for the n-th call.
    pub(super) fn finish(
        self,
        content: &mut Vec<AssistantPart>,
        provider: &Arc<str>,
        made: impl FnOnce(usize) -> CallId,
    ) {
        let opaque = |item: RawJson| Opaque { provider: (**provider).to_owned(), item };
        let part = match self {
            Self::Text { text, .. } if text.is_empty() => return,
            Self::Text { text, frame } => {
                content.extend(frame.kept("text").map(opaque).map(AssistantPart::Opaque));
                AssistantPart::Text(text)
            }
            Self::Thinking { text, signature } => {
                let payload = RawJson::of(&Payload::Thinking { signature: signature.into() });
                AssistantPart::Reasoning(Reasoning { text, payload: payload.ok().map(opaque) })
            }
            Self::Redacted(item) => {
                let payload = Some(opaque(item.into()));
                AssistantPart::Reasoning(Reasoning { text: String::new(), payload })
            }
            Self::Call(Call { n, id, name, input, frame, .. }) => {
                content.extend(frame.kept("tool_use").map(opaque).map(AssistantPart::Opaque));
                let id = if id.is_empty() { made(n) } else { id.into() };
                AssistantPart::ToolCall(ToolCall { id, name, arguments: input })
            }
            Self::Opaque { item, input, fields } => {
                AssistantPart::Opaque(opaque(whole_item(item, input, fields)))
            }
        };
        content.push(part);
    }

    fn say(&mut self, more: &str, emit: &mut dyn FnMut(StreamEvent)) {
        if more.is_empty() {
            return;
        }
        match self {
            Self::Text { text, .. } => {
                text.push_str(more);
                emit(StreamEvent::TextDelta(more.to_owned()));
            }
            Self::Thinking { text, .. } => {
                text.push_str(more);
                emit(StreamEvent::ReasoningDelta(more.to_owned()));
            }
            Self::Redacted(_) | Self::Call(_) | Self::Opaque { .. } => {}
        }
    }
}

impl Call {
    fn add(&mut self, json: &str, emit: &mut dyn FnMut(StreamEvent)) {
        if !json.is_empty() {
            self.input.push_str(json);
            let arguments = json.to_owned();
            emit(StreamEvent::ToolCallDelta { index: self.n, name: None, arguments });
        }
    }
}

impl Frame {
    /// Takes what the server takes back, unless it goes without saying. Anything else would make it
    /// refuse the history.
    fn of(block: &RawValue) -> Result<Self, serde_json::Error> {
        let mut fields: BTreeMap<String, Value> = serde_json::from_str(block.get())?;
        fields.retain(|name, value| match name.as_str() {
            "citations" => value.as_array().is_some_and(|citations| !citations.is_empty()),
            "caller" => value.is_object() && value["type"] != "direct",
            _ => false,
        });
        Ok(Self(fields))
    }

    fn cite(&mut self, citation: Option<&RawValue>) -> Result<(), serde_json::Error> {
        let Some(citation) = citation else { return Ok(()) };
        let citation = serde_json::from_str(citation.get())?;
        match self.0.get_mut("citations") {
            Some(Value::Array(citations)) => citations.push(citation),
            _ => drop(self.0.insert("citations".to_owned(), Value::Array(vec![citation]))),
        }
        Ok(())
    }

    /// Returns the item that keeps it; `None` if it is empty.
    fn kept(mut self, kind: &str) -> Option<RawJson> {
        if self.0.is_empty() {
            return None;
        }
        self.0.insert("type".to_owned(), kind.into());
        RawJson::of(&self.0).ok()
    }
}

/// Adds the fields of a delta that this version does not know: texts grow, others are replaced.
fn add_fields(
    fields: &mut BTreeMap<String, Value>,
    delta: &RawValue,
) -> Result<(), serde_json::Error> {
    let delta: BTreeMap<String, Value> = serde_json::from_str(delta.get())?;
    for (name, value) in delta {
        match (fields.get_mut(&name), value) {
            _ if name == "type" => {}
            (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
            (_, value) => {
                fields.insert(name, value);
            }
        }
    }
    Ok(())
}

/// Puts what came later into an item; without any of it the item keeps its bytes.
fn whole_item(item: Box<RawValue>, input: String, fields: BTreeMap<String, Value>) -> RawJson {
    if input.is_empty() && fields.is_empty() {
        return item.into();
    }
    let read = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(item.get());
    let Ok(mut whole) = read else { return item.into() };
    if let Ok(input) = RawValue::from_string(input) {
        whole.insert("input".to_owned(), input);
    }
    for (name, value) in fields {
        if let Ok(value) = to_raw_value(&value) {
            whole.insert(name, value);
        }
    }
    RawJson::of(&whole).unwrap_or_else(|_| item.into())
}
