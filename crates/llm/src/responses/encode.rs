//! Messages and requests into bytes.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::Codec;
use super::item::{Fields, Kept, Replay, fill_call, fill_message, slots};
use crate::chat::SystemRole;
use crate::wire::ids::fitting;
use crate::wire::json::{arguments, write};
use crate::wire::media::{DataUri, Taken};
use crate::{
    AssistantMessage, AssistantPart, CallId, Message, Opaque, Part, RawJson, ToolCall, ToolResult,
    ToolSpec, UserMessage,
};

/// How long the id of a call and the name of a tool may be.
const LIMIT: usize = 64;

/// What need not be told in words.
const TAKEN: Taken = Taken { images: true, files: true };

/// Encodes one message as zero or more items of the `input` array, joined by commas.
pub(super) fn message(codec: &Codec, message: &Message) -> Bytes {
    let mut out = Vec::new();
    match message {
        Message::User(user) => write(&mut out, &WirePrompt::of(user)),
        Message::Assistant(assistant) => write_assistant(codec, &mut out, assistant),
        Message::Results(results) if codec.dialect.results_hold_media => {
            for result in results {
                next(&mut out);
                write(&mut out, &WireResult::of(result, Output::of(result)));
            }
        }
        Message::Results(results) => write_plain_results(&mut out, results),
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
    write(
        out,
        &WirePrompt { r#type: "message", role: role.as_str(), content: vec![WirePart::text(text)] },
    );
}

fn next(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

#[derive(Serialize)]
struct WirePrompt<'a> {
    r#type: &'static str,
    role: &'static str,
    content: Vec<WirePart<'a>>,
}

impl<'a> WirePrompt<'a> {
    fn of(user: &'a UserMessage) -> Self {
        let mut content: Vec<_> = user.content.iter().map(WirePart::of).collect();
        if content.is_empty() {
            content.push(WirePart::text(""));
        }
        Self { r#type: "message", role: "user", content }
    }
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum WirePart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: DataUri<'a>, detail: &'static str },
    #[serde(rename = "input_file")]
    File { filename: &'a str, file_data: DataUri<'a> },
}

impl<'a> WirePart<'a> {
    fn of(part: &'a Part) -> Self {
        match (TAKEN.in_text(part), part) {
            // Strict servers want the detail to be named.
            (None, Part::Image(media)) => Self::Image { image_url: DataUri(media), detail: "auto" },
            (None, Part::Document(media)) => {
                let filename = media.name.as_deref().unwrap_or("document");
                Self::File { filename, file_data: DataUri(media) }
            }
            (text, _) => Self::text(text.unwrap_or_default()),
        }
    }

    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// Writes the items of a reply in their order.
///
/// Reasoning goes back only to who made it, and so do the ids of items: a server that knows the
/// id of a message looks for the reasoning before it. So if any reasoning of the reply cannot go
/// back, the ids and the items that live by them stay away too. Reasoning with nothing after it is
/// left out: it is refused without the item it led to.
fn write_assistant(codec: &Codec, out: &mut Vec<u8>, assistant: &AssistantMessage) {
    let mut reply = Reply::of(codec, assistant);
    let mut rest = assistant.content.as_slice();
    while let Some((part, after)) = rest.split_first() {
        rest = after;
        match part {
            AssistantPart::Text(text) => reply.text(text),
            AssistantPart::ToolCall(call) => reply.plain_call(call),
            AssistantPart::Reasoning(reasoning) => {
                if let Some(payload) = &reasoning.payload {
                    reply.reasoning(payload);
                }
            }
            AssistantPart::Opaque(opaque) if *opaque.provider != *codec.provider => {}
            AssistantPart::Opaque(opaque) => match Kept::read(&opaque.item) {
                Kept::Message(mut frame) => {
                    let (texts, after) = texts(rest, slots(&frame));
                    rest = after;
                    reply.strip(&mut frame);
                    reply.message(frame, &texts);
                }
                Kept::Call(mut frame) => {
                    if let Some((AssistantPart::ToolCall(call), after)) = rest.split_first() {
                        rest = after;
                        reply.strip(&mut frame);
                        reply.call(frame, call);
                    }
                }
                Kept::Whole => reply.whole(&opaque.item),
                Kept::Foreign => {}
            },
        }
    }
    reply.write(out);
}

/// Takes up to `n` texts from the start of some parts.
fn texts(mut parts: &[AssistantPart], n: usize) -> (Vec<&str>, &[AssistantPart]) {
    let mut texts = Vec::with_capacity(n);
    while let [AssistantPart::Text(text), after @ ..] = parts
        && texts.len() < n
    {
        texts.push(text.as_str());
        parts = after;
    }
    (texts, parts)
}

/// The items that a reply becomes.
struct Reply<'a> {
    codec: &'a Codec,
    items: Vec<Item<'a>>,
    /// Whether the reply goes back as it came, ids included.
    is_intact: bool,
    /// Where made ids begin: texts alone repeat within a conversation.
    seed: u64,
}

enum Item<'a> {
    Reasoning(&'a RawJson),
    Kept(&'a RawJson),
    Made(Vec<u8>),
}

impl<'a> Reply<'a> {
    fn of(codec: &'a Codec, assistant: &'a AssistantMessage) -> Self {
        let mut is_intact = true;
        let mut seed = SEED;
        for part in &assistant.content {
            match part {
                AssistantPart::Text(text) => seed = mix(seed, text),
                AssistantPart::ToolCall(call) => seed = mix(seed, call.id.as_str()),
                AssistantPart::Reasoning(reasoning) => {
                    let payload = reasoning.payload.as_ref();
                    is_intact &= payload.and_then(|item| goes_back(codec, item)) != Some(false);
                }
                AssistantPart::Opaque(_) => {}
            }
        }
        Self { codec, items: Vec::new(), is_intact, seed }
    }

    fn reasoning(&mut self, payload: &'a Opaque) {
        if goes_back(self.codec, payload) == Some(true) {
            self.items.push(Item::Reasoning(&payload.item));
        }
    }

    fn whole(&mut self, item: &'a RawJson) {
        if self.is_intact {
            self.items.push(Item::Kept(item));
        }
    }

    /// Takes the id off a frame that must go without.
    fn strip(&self, frame: &mut Fields) {
        if !self.is_intact {
            frame.remove("id");
        }
    }

    fn message(&mut self, mut frame: Fields, texts: &[&str]) {
        if texts.iter().all(|text| text.is_empty()) {
            return;
        }
        if !frame.contains_key("id") {
            if !self.codec.dialect.needs_message_ids {
                let phase = frame.get("phase").and_then(Value::as_str);
                return self.plain(&texts.concat(), phase);
            }
            frame.insert("id".to_owned(), self.made_id().into());
        }
        self.made(&fill_message(frame, texts));
    }

    fn text(&mut self, text: &str) {
        self.message(Fields::from_iter([("type".to_owned(), "message".into())]), &[text]);
    }

    /// Adds a message without an id, of which nothing but a text is taken.
    fn plain(&mut self, content: &str, phase: Option<&str>) {
        self.made(&WireMessage { r#type: "message", role: "assistant", phase, content });
    }

    fn call(&mut self, frame: Fields, call: &ToolCall) {
        let (id, name, arguments) =
            (call_id(&call.id), fitting(&call.name, LIMIT), arguments(&call.arguments));
        self.made(&fill_call(frame, [&id, &name, &arguments]));
    }

    fn plain_call(&mut self, call: &ToolCall) {
        self.made(&WireCall {
            r#type: "function_call",
            call_id: call_id(&call.id),
            name: fitting(&call.name, LIMIT),
            arguments: arguments(&call.arguments),
        });
    }

    fn made(&mut self, item: &impl Serialize) {
        let mut bytes = Vec::new();
        write(&mut bytes, item);
        self.items.push(Item::Made(bytes));
    }

    fn made_id(&self) -> String {
        format!("msg_{:016x}", mix(self.seed, &self.items.len().to_string()))
    }

    fn write(mut self, out: &mut Vec<u8>) {
        while let Some(Item::Reasoning(_)) = self.items.last() {
            self.items.pop();
        }
        for item in &self.items {
            next(out);
            match item {
                Item::Reasoning(item) | Item::Kept(item) => {
                    out.extend_from_slice(item.as_str().as_bytes());
                }
                Item::Made(bytes) => out.extend_from_slice(bytes),
            }
        }
    }
}

/// Tells whether a reasoning item can go back to who made it; `None` if somebody else made it.
fn goes_back(codec: &Codec, payload: &Opaque) -> Option<bool> {
    if *payload.provider != *codec.provider {
        return None;
    }
    match Replay::of(&payload.item) {
        Replay::Encrypted => Some(codec.takes_reasoning),
        Replay::Plain => Some(codec.takes_reasoning && codec.dialect.replays_plain_reasoning),
        Replay::Nothing => Some(false),
        Replay::Foreign => None,
    }
}

#[derive(Serialize)]
struct WireMessage<'a> {
    r#type: &'static str,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    content: &'a str,
}

#[derive(Serialize)]
struct WireCall<'a> {
    r#type: &'static str,
    call_id: Cow<'a, str>,
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

/// Returns the id of a call as this wire takes it. Unlike a name it may hold dots and colons, as the
/// ids of some servers do.
fn call_id(id: &CallId) -> Cow<'_, str> {
    let id = id.as_str();
    let is_taken = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    if (1..=LIMIT).contains(&id.len()) && id.bytes().all(is_taken) {
        return Cow::Borrowed(id);
    }
    fitting(id, LIMIT)
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, which gives the same on every machine and in every version: what is sent again must not
/// change.
fn mix(seed: u64, text: &str) -> u64 {
    // The end of a text counts, so that texts cannot run into each other.
    text.bytes()
        .chain([0xff])
        .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawJson,
    strict: bool,
}

impl<'a> WireTool<'a> {
    fn of(spec: &'a ToolSpec) -> Self {
        Self {
            r#type: "function",
            name: &spec.name,
            description: &spec.description,
            parameters: &spec.schema,
            // Absent means true, which refuses schemas with optional properties.
            strict: false,
        }
    }
}

#[derive(Serialize)]
struct WireResult<'a> {
    r#type: &'static str,
    call_id: Cow<'a, str>,
    output: Output<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(String),
    Parts(Vec<WirePart<'a>>),
}

impl<'a> WireResult<'a> {
    fn of(result: &'a ToolResult, output: Output<'a>) -> Self {
        Self { r#type: "function_call_output", call_id: call_id(&result.call), output }
    }
}

impl<'a> Output<'a> {
    /// Returns a text where there is nothing else, and otherwise a list of parts.
    fn of(result: &'a ToolResult) -> Self {
        let mut attached = Vec::new();
        let text = TAKEN.result_text(result, &mut attached);
        if attached.is_empty() {
            return Self::Text(text);
        }
        let mut parts: Vec<_> = result.content.iter().map(WirePart::of).collect();
        if result.is_error {
            parts.insert(0, WirePart::text("Error:"));
        }
        Self::Parts(parts)
    }
}

/// Writes results as texts, for servers that take nothing else there: images and documents follow
/// in one user message.
fn write_plain_results(out: &mut Vec<u8>, results: &[ToolResult]) {
    let mut attached = Vec::new();
    for result in results {
        next(out);
        let text = TAKEN.result_text(result, &mut attached);
        write(out, &WireResult::of(result, Output::Text(text)));
    }
    if !attached.is_empty() {
        next(out);
        let parts = attached
            .into_iter()
            .flat_map(|(from, part)| [WirePart::text(from), WirePart::of(part)]);
        write(out, &WirePrompt { r#type: "message", role: "user", content: parts.collect() });
    }
}
