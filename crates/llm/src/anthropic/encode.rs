//! Messages into blocks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Codec;
use crate::wire::json::{arguments, write};
use crate::wire::{ids, media};
use crate::{
    AssistantMessage, AssistantPart, Media, Message, Part, RawJson, Reasoning, ToolCall,
    ToolResult, ToolSpec,
};

/// The longest id and name that are sent as they are.
const NAME_LIMIT: usize = 128;

/// Encodes one message as blocks of a `content` array, joined by commas.
pub(super) fn message(codec: &Codec, message: &Message) -> Bytes {
    let blocks = match message {
        Message::User(user) => of_user(&user.content),
        Message::Assistant(assistant) => of_assistant(codec, assistant),
        Message::Results(results) => of_results(results),
    };
    let mut out = Vec::new();
    for block in &blocks {
        if !out.is_empty() {
            out.push(b',');
        }
        match block {
            Block::Made(json) => out.extend_from_slice(json.as_bytes()),
            block => write(&mut out, block),
        }
    }
    out.into()
}

/// Encodes one block of text.
pub(super) fn text(text: &str) -> Bytes {
    let mut out = Vec::new();
    write(&mut out, &Block::Text { text: text.into() });
    out.into()
}

/// Encodes the `tools` array.
pub(super) fn tools(specs: &[ToolSpec]) -> Bytes {
    let tools: Vec<_> = specs
        .iter()
        .map(|ToolSpec { name, description, schema }| Tool {
            name: ids::fitting(name, NAME_LIMIT),
            description,
            input_schema: schema,
        })
        .collect();
    let mut out = Vec::new();
    write(&mut out, &tools);
    out.into()
}

/// Appends `output_config`, if there is anything to say in it.
pub(super) fn write_output(out: &mut Vec<u8>, effort: Option<&str>, schema: Option<&RawJson>) {
    if effort.is_none() && schema.is_none() {
        return;
    }
    let format = schema.map(|schema| Format { r#type: "json_schema", schema });
    out.extend_from_slice(b",\"output_config\":");
    write(out, &OutputConfig { effort, format });
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    schema: &'a RawJson,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: &'a RawJson,
}

/// A block of content.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        signature: Cow<'a, str>,
    },
    RedactedThinking {
        data: Cow<'a, str>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Self>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A block that is JSON already.
    #[serde(skip)]
    Made(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'static str, data: String },
}

/// What a provider wants back of its thinking, beside the text. The kept payload has this shape.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Payload<'a> {
    Thinking {
        #[serde(borrow)]
        signature: Cow<'a, str>,
    },
    RedactedThinking {
        #[serde(borrow)]
        data: Cow<'a, str>,
    },
}

/// Returns the block that thinking goes back as; `None` if another provider or wire made it.
pub(super) fn thinking<'a>(reasoning: &'a Reasoning, provider: &str) -> Option<Block<'a>> {
    let payload = reasoning.payload.as_ref().filter(|payload| payload.provider == provider)?;
    Some(match payload.item.read::<Payload<'a>>().ok()? {
        Payload::Thinking { signature } => Block::Thinking { thinking: &reasoning.text, signature },
        Payload::RedactedThinking { data } => Block::RedactedThinking { data },
    })
}

fn of_user(parts: &[Part]) -> Vec<Block<'_>> {
    let mut blocks: Vec<_> = parts.iter().filter_map(Block::of_part).collect();
    if blocks.is_empty() {
        // Leaving it out would make the conversation end with the assistant.
        blocks.push(Block::Text { text: "[empty message]".into() });
    }
    blocks
}

fn of_assistant<'a>(codec: &Codec, assistant: &'a AssistantMessage) -> Vec<Block<'a>> {
    let is_thinking = |n: Option<usize>| match n.and_then(|n| assistant.content.get(n)) {
        Some(AssistantPart::Reasoning(reasoning)) => thinking(reasoning, &codec.provider).is_some(),
        Some(AssistantPart::Text(_) | AssistantPart::ToolCall(_) | AssistantPart::Opaque(_))
        | None => false,
    };
    let mut blocks = Vec::with_capacity(assistant.content.len());
    let mut frame = None;
    for (n, part) in assistant.content.iter().enumerate() {
        let framed = frame.take();
        let block = match part {
            // Between two blocks of thinking even a space counts: they must not come together.
            AssistantPart::Text(text)
                if !text.is_empty()
                    && is_thinking(n.checked_sub(1))
                    && is_thinking(Some(n + 1)) =>
            {
                Some(Block::Text { text: text.into() })
            }
            AssistantPart::Text(text) => Block::of_text(text),
            AssistantPart::Reasoning(reasoning) => thinking(reasoning, &codec.provider),
            AssistantPart::ToolCall(call) => Some(Block::of_call(call)),
            AssistantPart::Opaque(opaque) if opaque.provider != *codec.provider => None,
            AssistantPart::Opaque(opaque) => {
                frame = Frame::read(&opaque.item);
                Block::of_opaque(&opaque.item)
            }
        };
        blocks.extend(block.map(|block| block.within(framed)));
    }
    // A message must not end with thinking: an answer that was cut in the middle of it.
    while let Some(Block::Thinking { .. } | Block::RedactedThinking { .. }) = blocks.last() {
        blocks.pop();
    }
    blocks
}

/// Encodes results. A failed one takes nothing but text, so its media follow the last result.
fn of_results(results: &[ToolResult]) -> Vec<Block<'_>> {
    let mut attached = Vec::new();
    let mut blocks: Vec<_> =
        results.iter().map(|result| Block::of_result(result, &mut attached)).collect();
    blocks.extend(attached);
    blocks
}

impl<'a> Block<'a> {
    /// Returns `None` for a text without a letter, which the server refuses.
    fn of_text(text: &'a str) -> Option<Self> {
        (!text.trim().is_empty()).then(|| Self::Text { text: text.into() })
    }

    fn of_part(part: &'a Part) -> Option<Self> {
        match part {
            Part::Text(text) => Self::of_text(text),
            Part::Image(media) => Some(Self::of_image(media)),
            Part::Document(media) => Some(Self::of_document(media)),
            Part::Stored(stored) => Some(Self::Text { text: media::missing(stored).into() }),
        }
    }

    fn of_image(image: &'a Media) -> Self {
        match media::image_type(image) {
            Some(media_type) => {
                Self::Image { source: Source::Base64 { media_type, data: &image.data } }
            }
            None => Self::Text { text: media::unshown(image).into() },
        }
    }

    fn of_document(document: &'a Media) -> Self {
        let title = document.name.as_deref();
        if document.media_type == "application/pdf" {
            let media_type = &document.media_type;
            return Self::Document {
                source: Source::Base64 { media_type, data: &document.data },
                title,
            };
        }
        match media::text(document).filter(|text| !text.trim().is_empty()) {
            Some(data) => {
                Self::Document { source: Source::Text { media_type: "text/plain", data }, title }
            }
            None => Self::Text { text: media::unshown(document).into() },
        }
    }

    fn of_call(call: &'a ToolCall) -> Self {
        let input = RawValue::from_string(arguments(&call.arguments).trim().to_owned());
        Self::ToolUse {
            id: ids::fitting(call.id.as_str(), NAME_LIMIT),
            name: ids::fitting(&call.name, NAME_LIMIT),
            input: input.unwrap_or_default(),
        }
    }

    fn of_result(result: &'a ToolResult, attached: &mut Vec<Self>) -> Self {
        let mut content = Vec::new();
        for block in result.content.iter().filter_map(Self::of_part) {
            let is_media = matches!(block, Self::Image { .. } | Self::Document { .. });
            if !(result.is_error && is_media) {
                content.push(block);
                continue;
            }
            let n = attached.len() / 2 + 1;
            let (name, call) = (&result.name, &result.call);
            content.push(Self::Text { text: format!("[attachment {n}, see below]").into() });
            attached.push(Self::Text {
                text: format!("[attachment {n}, from {name} ({call})]").into(),
            });
            attached.push(block);
        }
        if content.is_empty() && result.is_error {
            // A failure must say something.
            content.push(Self::Text { text: "Error".into() });
        }
        Self::ToolResult {
            tool_use_id: ids::fitting(result.call.as_str(), NAME_LIMIT),
            content,
            is_error: result.is_error,
        }
    }

    /// Takes the items of tools that the provider runs itself. Other items may be another wire's.
    fn of_opaque(item: &'a RawJson) -> Option<Self> {
        #[derive(Deserialize)]
        struct Item<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
        }
        let Item { r#type } = item.read().ok()?;
        let is_ours = r#type.ends_with("_tool_use") || r#type.ends_with("_tool_result");
        is_ours.then(|| Self::Made(item.as_str().into()))
    }

    /// Puts what it held besides back into a block, if it is one of the same kind.
    fn within(self, frame: Option<Frame<'a>>) -> Self {
        let kind = match self {
            Self::Text { .. } => "text",
            Self::ToolUse { .. } => "tool_use",
            _ => "",
        };
        let Some(frame) = frame.filter(|frame| frame.kind == kind) else { return self };
        let mut json = Vec::new();
        write(&mut json, &self);
        json.pop();
        for (name, value) in frame.fields {
            json.push(b',');
            write(&mut json, name);
            json.push(b':');
            json.extend_from_slice(value.get().as_bytes());
        }
        json.push(b'}');
        String::from_utf8(json).map_or(self, |json| Self::Made(json.into()))
    }
}

/// What a text or a call held besides, as it was kept before it.
struct Frame<'a> {
    kind: &'a str,
    fields: BTreeMap<&'a str, &'a RawValue>,
}

impl<'a> Frame<'a> {
    fn read(item: &'a RawJson) -> Option<Self> {
        let mut fields: BTreeMap<&str, &RawValue> = item.read().ok()?;
        let kind = serde_json::from_str(fields.remove("type")?.get()).ok()?;
        matches!(kind, "text" | "tool_use").then_some(Self { kind, fields })
    }
}
