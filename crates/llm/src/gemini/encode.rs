//! Messages and requests into bytes.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Codec;
use super::family::Thinking;
use super::signature::{Signed, pieces};
use crate::wire::{ids, json, media};
use crate::{
    AssistantMessage, AssistantPart, Media, Message, Opaque, Part, RawJson, Reasoning, ToolCall,
    ToolResult, ToolSpec, UserMessage,
};

/// What Google documents for calls that another model made, or one that signed nothing: models
/// since Gemini 3 refuse a call without a signature.
const FOREIGN_CALL: &str = "\"skip_thought_signature_validator\"";

/// The longest name of a function.
const NAME_LIMIT: usize = 64;

/// Encodes one message as `parts`, joined by commas; a message that holds nothing for this model
/// becomes no bytes at all.
pub(super) fn message(codec: &Codec, message: &Message) -> Bytes {
    let parts = match message {
        Message::User(user) => user_parts(user),
        Message::Assistant(assistant) => return assistant_parts(codec, assistant),
        Message::Results(results) => result_parts(codec, results),
    };
    let mut out = Vec::new();
    for part in &parts {
        push(&mut out, part);
    }
    out.into()
}

/// Who is not the model.
const USER: &str = "user";

/// Begins a conversation that lost its beginning.
const OMITTED: &[u8] = br#"{"role":"user","parts":[{"text":"[The beginning is left out.]"}"#;

/// Returns the speaker of a message as this wire knows it.
pub(super) fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) | Message::Results(_) => USER,
        Message::Assistant(_) => "model",
    }
}

/// Encodes the `functionDeclarations` array.
///
/// `parametersJsonSchema` takes a schema as it is, with references and recursion; the older
/// `parameters` knows only a part of the language.
pub(super) fn tools(specs: &[ToolSpec]) -> Bytes {
    let tools: Vec<_> = specs.iter().map(WireTool::of).collect();
    let mut out = Vec::new();
    json::write(&mut out, &tools);
    out.into()
}

/// Appends `generationConfig` and a comma if there is anything to say in it.
pub(super) fn write_generation(
    out: &mut Vec<u8>,
    max_output_tokens: Option<u64>,
    response_json_schema: Option<&RawJson>,
    thinking_config: Option<Thinking>,
) {
    if max_output_tokens.is_none() && response_json_schema.is_none() && thinking_config.is_none() {
        return;
    }
    out.extend_from_slice(b"\"generationConfig\":");
    let response_mime_type = response_json_schema.map(|_| "application/json");
    let generation =
        Generation { max_output_tokens, response_mime_type, response_json_schema, thinking_config };
    json::write(out, &generation);
    out.push(b',');
}

/// Appends the encoded messages as `contents`, those of one speaker in a row as one.
///
/// A body is as large as the conversation, so it is grown once.
pub(super) fn write_contents(out: &mut Vec<u8>, contents: &[(&str, Bytes)]) {
    const FRAME: usize = r#"]},{"role":"model","parts":["#.len();
    let length: usize = contents.iter().map(|(_, parts)| parts.len() + FRAME).sum();
    out.reserve_exact(length + 4);
    let mut open: Option<&str> = None;
    let begins = contents.first().is_none_or(|(role, parts)| *role == USER && !parts.is_empty());
    if !begins {
        // What a view has dropped from its start: a conversation must begin with the user.
        out.extend_from_slice(OMITTED);
        open = Some(USER);
    }
    for (role, parts) in contents.iter().filter(|(_, parts)| !parts.is_empty()) {
        if open == Some(role) {
            out.push(b',');
        } else {
            if open.is_some() {
                out.extend_from_slice(b"]},");
            }
            out.extend_from_slice(b"{\"role\":\"");
            out.extend_from_slice(role.as_bytes());
            out.extend_from_slice(b"\",\"parts\":[");
            open = Some(role);
        }
        out.extend_from_slice(parts);
    }
    if open.is_some() {
        out.extend_from_slice(b"]}");
    }
}

fn push(out: &mut Vec<u8>, part: &(impl Serialize + ?Sized)) {
    if !out.is_empty() {
        out.push(b',');
    }
    json::write(out, part);
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Thinking>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a RawJson,
}

impl<'a> WireTool<'a> {
    fn of(spec: &'a ToolSpec) -> Self {
        Self {
            name: &spec.name,
            description: &spec.description,
            parameters_json_schema: &spec.schema,
        }
    }
}

/// A part: one of its kinds of content, and perhaps a signature.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<WireResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a RawValue>,
}

impl<'a> WirePart<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    fn media(media: &'a Media) -> Self {
        match carried_type(media) {
            Some(mime_type) => {
                let blob = Blob { mime_type, data: &media.data };
                Self { inline_data: Some(blob), ..Self::default() }
            }
            None => Self::text(media::unshown(media)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

/// Returns the type under which media are sent; `None` if this wire does not carry them. Few types
/// of text are known by name, but all are taken as plain.
fn carried_type(media: &Media) -> Option<&str> {
    match media.media_type.as_str() {
        "image/jpg" => Some("image/jpeg"),
        image @ ("image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif") => {
            Some(image)
        }
        "application/json" | "application/xml" => Some("text/plain"),
        text if text.starts_with("text/") => Some("text/plain"),
        pdf @ "application/pdf" => Some(pdf),
        tape if tape.starts_with("audio/") || tape.starts_with("video/") => Some(tape),
        _ => None,
    }
}

/// Encodes what a user says. Empty texts are refused, so they are left out; where nothing else is
/// left, a space stands for the user's turn.
fn user_parts(user: &UserMessage) -> Vec<WirePart<'_>> {
    let mut parts: Vec<_> = user
        .content
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => (!text.is_empty()).then(|| WirePart::text(text)),
            Part::Image(media) | Part::Document(media) => Some(WirePart::media(media)),
            Part::Stored(stored) => Some(WirePart::text(media::missing(stored))),
        })
        .collect();
    if parts.is_empty() {
        parts.push(WirePart::text(" "));
    }
    parts
}

#[derive(Serialize)]
struct WireCall<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    name: Cow<'a, str>,
    args: Cow<'a, RawValue>,
}

impl<'a> WireCall<'a> {
    fn of(codec: &Codec, call: &'a ToolCall) -> Self {
        Self { id: codec.call_id(&call.id), name: name(&call.name), args: args(&call.arguments) }
    }
}

/// Returns the arguments of a call as JSON; [`json::arguments`] says what becomes of others.
fn args(raw: &str) -> Cow<'_, RawValue> {
    match json::arguments(raw) {
        Cow::Borrowed(text) => match serde_json::from_str::<&RawValue>(text) {
            Ok(args) => Cow::Borrowed(args),
            Err(_) => Cow::Owned(RawValue::NULL.to_owned()),
        },
        Cow::Owned(text) => {
            Cow::Owned(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
        }
    }
}

/// Returns the name of a called function as this wire takes it: one that a model made up would be
/// refused with every later request.
fn name(raw: &str) -> Cow<'_, str> {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-');
    let begins = raw.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && raw.len() <= NAME_LIMIT && raw.chars().all(is_taken) {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(format!("_{}", ids::fitting(raw, NAME_LIMIT - 1)))
}

/// Encodes what a model said, each signature on the part where it stood.
///
/// Thoughts go back only with a signature: without one the model makes nothing of them.
fn assistant_parts(codec: &Codec, assistant: &AssistantMessage) -> Bytes {
    let mut parts = Parts { codec, out: Vec::new(), signed: Vec::new(), has_call: false };
    for part in &assistant.content {
        match part {
            AssistantPart::Text(text) => parts.text(text),
            AssistantPart::Reasoning(reasoning) => parts.reasoning(reasoning),
            AssistantPart::ToolCall(call) => parts.call(call),
            AssistantPart::Opaque(item) => parts.opaque(item),
        }
    }
    parts.flush();
    parts.out.into()
}

struct Parts<'a> {
    codec: &'a Codec,
    out: Vec<u8>,
    /// The signatures that came, of which the next part is perhaps the bearer.
    signed: Vec<Signed<'a>>,
    has_call: bool,
}

impl<'a> Parts<'a> {
    fn text(&mut self, text: &str) {
        let signed = std::mem::take(&mut self.signed);
        for (text, thought_signature) in pieces(text, &signed) {
            push(&mut self.out, &WirePart { thought_signature, ..WirePart::text(text) });
        }
    }

    fn reasoning(&mut self, reasoning: &'a Reasoning) {
        self.flush();
        let payload = reasoning.payload.as_ref();
        let signed = payload.and_then(|item| Signed::read(item, &self.codec.provider));
        let Some(signed) = signed else { return };
        for (text, thought_signature) in pieces(&reasoning.text, &[signed]) {
            let part = WirePart { thought: true, thought_signature, ..WirePart::text(text) };
            push(&mut self.out, &part);
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let own = self.signed.pop_if(|signed| signed.text.is_none());
        self.flush();
        // Of calls side by side only the first bears a signature.
        let is_bare = own.is_none() && !self.has_call && self.codec.family.is_third();
        let foreign = if is_bare { serde_json::from_str(FOREIGN_CALL).ok() } else { None };
        self.has_call = true;
        let thought_signature = own.map(|signed| signed.signature).or(foreign);
        let function_call = Some(WireCall::of(self.codec, call));
        push(&mut self.out, &WirePart { function_call, thought_signature, ..WirePart::default() });
    }

    fn opaque(&mut self, item: &'a Opaque) {
        if let Some(signed) = Signed::read(item, &self.codec.provider) {
            self.signed.push(signed);
            return;
        }
        self.flush();
        // The items of other wires say their type; those of this one are told by their only field.
        let is_part = item.provider == *self.codec.provider
            && item.item.as_str().starts_with('{')
            && item.item.read::<Typed>().is_ok_and(|typed| typed.r#type.is_none());
        if is_part {
            push(&mut self.out, &item.item);
        }
    }

    /// Writes signatures whose bearer did not come as parts of their own.
    fn flush(&mut self) {
        if !self.signed.is_empty() {
            self.text("");
        }
    }
}

#[derive(serde::Deserialize)]
struct Typed {
    #[serde(default)]
    r#type: Option<serde::de::IgnoredAny>,
}

#[derive(Serialize)]
struct WireResponse<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    name: Cow<'a, str>,
    response: Outcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<WirePart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Output(String),
    Error(String),
}

/// Encodes results, in order. Media stand within their result where the model takes that, and
/// after the last result elsewhere.
fn result_parts<'a>(codec: &Codec, results: &'a [ToolResult]) -> Vec<WirePart<'a>> {
    let mut parts = Vec::with_capacity(results.len());
    let mut attached = Vec::new();
    for result in results {
        let response = response(codec, result, &mut attached);
        parts.push(WirePart { function_response: Some(response), ..WirePart::default() });
    }
    parts.append(&mut attached);
    parts
}

fn response<'a>(
    codec: &Codec,
    result: &'a ToolResult,
    attached: &mut Vec<WirePart<'a>>,
) -> WireResponse<'a> {
    let mut text = String::new();
    let mut parts = Vec::new();
    for part in result.content.iter() {
        let media = match part {
            Part::Text(more) => {
                add_line(&mut text, more);
                continue;
            }
            Part::Stored(stored) => {
                add_line(&mut text, &media::missing(stored));
                continue;
            }
            Part::Image(media) | Part::Document(media) => media,
        };
        match carried_type(media) {
            None => add_line(&mut text, &media::unshown(media)),
            Some(mime_type) if codec.family.is_third() && fits_a_result(mime_type) => {
                parts.push(WirePart::media(media));
            }
            Some(_) => {
                let n = attached.len() / 2 + 1;
                let what = media.name.as_deref().unwrap_or(&media.media_type);
                add_line(&mut text, &format!("[attachment {n}: {what}, see below]"));
                let label = format!("[attachment {n}, from {} ({})]", result.name, result.call);
                attached.push(WirePart::text(label));
                attached.push(WirePart::media(media));
            }
        }
    }
    let response = if result.is_error { Outcome::Error(text) } else { Outcome::Output(text) };
    WireResponse { id: codec.call_id(&result.call), name: name(&result.name), response, parts }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Tells whether media of this type may stand within the result of a call.
fn fits_a_result(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/webp" | "application/pdf" | "text/plain"
    )
}
