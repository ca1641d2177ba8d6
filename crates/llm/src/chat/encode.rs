//! Messages and requests into bytes.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Codec, Replay, Shapes, SystemRole};
use crate::wire::ids;
use crate::wire::json::{arguments, write};
use crate::wire::media::DataUri;
use crate::wire::shape::is_of_object;
use crate::{
    AssistantMessage, AssistantPart, Message, Part, RawJson, ToolCall, ToolResult, ToolSpec,
    UserMessage,
};

/// The longest name of a tool.
const NAME_LIMIT: usize = 64;

/// What the model is taken to have said between results and a user, where it has to say something.
pub(super) const ANSWER: &str = r#"{"role":"assistant","content":"I have read the results."}"#;

/// Encodes one message as zero or more items of the `messages` array, joined by commas.
pub(super) fn message(codec: &Codec, message: &Message) -> Bytes {
    let mut out = Vec::new();
    match message {
        Message::User(user) => write(&mut out, &WirePrompt::of(codec, user)),
        Message::Assistant(assistant) => write(&mut out, &WireAssistant::of(codec, assistant)),
        Message::Results(results) => write_results(codec, &mut out, results),
    }
    out.into()
}

/// Encodes the `tools` array.
pub(super) fn tools(specs: &[ToolSpec]) -> Bytes {
    let tools: Vec<_> = specs.iter().map(WireTool::of).collect();
    let mut out = Vec::new();
    write(&mut out, &tools);
    out.into()
}

/// Appends the message that carries the system text.
pub(super) fn write_system(out: &mut Vec<u8>, role: SystemRole, text: &str) {
    write(out, &WirePrompt { role: role.as_str(), content: Content::Text(text) });
}

/// Appends `response_format`, if the server can be asked for the shape of an answer.
pub(super) fn write_shape(out: &mut Vec<u8>, shapes: Shapes, schema: &RawJson) {
    if let Some(named) = shapes.named(schema) {
        out.extend_from_slice(b",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":");
        write(out, &named);
        out.push(b'}');
    } else if shapes == Shapes::ObjectAlone && is_of_object(schema) {
        out.extend_from_slice(b",\"response_format\":{\"type\":\"json_object\"}");
    }
}

#[derive(Serialize)]
struct WirePrompt<'a> {
    role: &'static str,
    content: Content<'a>,
}

impl<'a> WirePrompt<'a> {
    fn of(codec: &Codec, user: &'a UserMessage) -> Self {
        let content = match user.content.as_slice() {
            [] => Content::Text(""),
            // One text as a plain string: some servers know nothing else.
            [Part::Text(text)] => Content::Text(text),
            parts => Content::Parts(parts.iter().map(|part| WirePart::of(codec, part)).collect()),
        };
        Self { role: "user", content }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUri<'a>,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: DataUri<'a>,
}

impl<'a> WirePart<'a> {
    fn of(codec: &Codec, part: &'a Part) -> Self {
        match (codec.taken().in_text(part), part) {
            (None, Part::Image(media)) => {
                Self::ImageUrl { image_url: ImageUrl { url: DataUri(media) } }
            }
            (None, Part::Document(media)) => {
                let filename = media.name.as_deref().unwrap_or("document");
                Self::File { file: File { filename, file_data: DataUri(media) } }
            }
            (text, _) => Self::Text { text: text.unwrap_or_default() },
        }
    }
}

#[derive(Serialize)]
struct WireAssistant<'a> {
    role: &'static str,
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

impl<'a> WireAssistant<'a> {
    fn of(codec: &Codec, assistant: &'a AssistantMessage) -> Self {
        let mut text = String::new();
        let mut reasoning_content = String::new();
        let mut reasoning_details = Vec::new();
        let mut tool_calls = Vec::new();
        for part in &assistant.content {
            match part {
                AssistantPart::Text(more) => text.push_str(more),
                AssistantPart::Reasoning(reasoning) => {
                    if codec.dialect.replay != Replay::Never {
                        reasoning_content.push_str(&reasoning.text);
                    }
                    if let Some(payload) = &reasoning.payload
                        && *payload.provider == *codec.provider
                    {
                        // Anything but an array was made by another wire of this provider.
                        let items: Vec<&RawValue> = payload.item.read().unwrap_or_default();
                        reasoning_details.extend(items);
                    }
                }
                AssistantPart::ToolCall(call) => tool_calls.push(WireCall::of(codec, call)),
                // This wire has no items of its own, so this is another wire's.
                AssistantPart::Opaque(_) => {}
            }
        }
        if text.is_empty() && tool_calls.is_empty() && codec.dialect.answers_results {
            // Who wants an answer wants one that says something.
            text.push_str("[no answer]");
        }
        let has_text = !text.is_empty() || tool_calls.is_empty();
        let is_demanded = codec.dialect.replay == Replay::Demanded && !tool_calls.is_empty();
        let has_reasoning = is_demanded || !reasoning_content.is_empty();
        Self {
            role: "assistant",
            content: has_text.then_some(text),
            reasoning_content: has_reasoning.then_some(reasoning_content),
            reasoning_details,
            tool_calls,
        }
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

impl<'a> WireCall<'a> {
    fn of(codec: &Codec, call: &'a ToolCall) -> Self {
        // A name that a model made up would be refused with every later request.
        let name = ids::fitting(&call.name, NAME_LIMIT);
        let function = WireFunction { name, arguments: arguments(&call.arguments) };
        Self { id: codec.call_id(&call.id), r#type: "function", function }
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireSpec<'a>,
}

#[derive(Serialize)]
struct WireSpec<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawJson,
}

impl<'a> WireTool<'a> {
    fn of(spec: &'a ToolSpec) -> Self {
        let function =
            WireSpec { name: &spec.name, description: &spec.description, parameters: &spec.schema };
        Self { r#type: "function", function }
    }
}

#[derive(Serialize)]
struct WireResult<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: &'a str,
}

/// Writes one `tool` message for each result.
///
/// This wire takes only text there, so images and documents follow in one user message after the
/// last result: between a call and its results nothing else may stand.
fn write_results(codec: &Codec, out: &mut Vec<u8>, results: &[ToolResult]) {
    let mut attached = Vec::new();
    for result in results {
        if !out.is_empty() {
            out.push(b',');
        }
        let content = codec.taken().result_text(result, &mut attached);
        let tool_call_id = codec.call_id(&result.call);
        let tool_call_id = &tool_call_id;
        write(out, &WireResult { role: "tool", tool_call_id, content: &content });
    }
    if attached.is_empty() {
        return;
    }
    if codec.dialect.answers_results {
        out.push(b',');
        out.extend_from_slice(ANSWER.as_bytes());
    }
    out.push(b',');
    let parts = attached
        .into_iter()
        .flat_map(|(from, part)| [WirePart::Text { text: from.into() }, WirePart::of(codec, part)]);
    write(out, &WirePrompt { role: "user", content: Content::Parts(parts.collect()) });
}
