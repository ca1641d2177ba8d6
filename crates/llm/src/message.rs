//! What is said between a user, a model and its tools.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, ptr};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One message of a conversation, typed by who speaks: an assistant cannot hold a tool result.
///
/// What was said is shared, not copied, between the log's entries, the view and the events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Something said to the model by a person or on a person's behalf.
    User(Arc<UserMessage>),
    /// One complete reply of a model.
    Assistant(Arc<AssistantMessage>),
    /// The results of all calls of one reply, in call order.
    Results(Vec<ToolResult>),
}

impl Message {
    /// Makes a user message of plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(Arc::new(UserMessage::text(text)))
    }

    /// Makes an assistant message of plain text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(Arc::new(AssistantMessage::text(text)))
    }
}

/// What a user says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The parts, in order.
    pub content: Vec<Part>,
}

impl UserMessage {
    /// Makes a message of one text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Part::Text(text.into())] }
    }
}

/// A piece of content that a user or a tool hands to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text(String),
    /// An image, carried inline.
    Image(Media),
    /// A document such as a PDF, carried inline.
    Document(Media),
    /// Content kept elsewhere because it is large; it is fetched before a request is made.
    Stored(Stored),
}

impl Part {
    /// Returns the text if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) | Self::Document(_) | Self::Stored(_) => None,
        }
    }
}

/// Joins the text parts with nothing between them.
pub fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::as_text).collect()
}

/// Binary content with its type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// The IANA media type, such as `image/png`.
    pub media_type: String,
    /// The bytes in standard base64 with padding.
    pub data: Arc<str>,
    /// The file name, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A reference to a large body that was put aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// What kind of part it was.
    pub kind: StoredKind,
    /// The SHA-256 of the body, in lower-case hex.
    pub hash: String,
    /// The length of the body in bytes.
    pub bytes: u64,
    /// The IANA media type of an image or document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The file name, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a stored body becomes again when it is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredKind {
    /// A [`Part::Text`].
    Text,
    /// A [`Part::Image`].
    Image,
    /// A [`Part::Document`].
    Document,
}

/// What a model says, in the order in which it said it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The parts; reasoning and opaque items are replayed where they stand.
    pub content: Vec<AssistantPart>,
}

impl AssistantMessage {
    /// Makes a message of one text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![AssistantPart::Text(text.into())] }
    }

    /// Returns all text, with nothing between the parts.
    pub fn to_text(&self) -> String {
        self.content
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Text(text) => Some(text.as_str()),
                AssistantPart::Reasoning(_)
                | AssistantPart::ToolCall(_)
                | AssistantPart::Opaque(_) => None,
            })
            .collect()
    }

    /// Iterates over the tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call),
            AssistantPart::Text(_) | AssistantPart::Reasoning(_) | AssistantPart::Opaque(_) => None,
        })
    }
}

/// A part of a model's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantPart {
    /// Text for the reader.
    Text(String),
    /// What the model thought, with what its provider needs to see it again.
    Reasoning(Reasoning),
    /// A call of a tool.
    ToolCall(ToolCall),
    /// A provider's own item that nobody else understands; it is replayed to the same provider.
    Opaque(Opaque),
}

/// A reasoning block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The readable text; empty if the provider shows none.
    pub text: String,
    /// The provider's signature or encrypted payload, byte for byte, under the provider's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Opaque>,
}

/// An item kept byte for byte for one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// The provider that made the item, as in [`ModelInfo::provider`](crate::ModelInfo).
    pub provider: String,
    /// The item as it came.
    pub item: RawJson,
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Pairs the call with its result.
    pub id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments exactly as the model wrote them; they may be no valid JSON.
    pub arguments: String,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call this answers.
    pub call: CallId,
    /// The tool's name.
    pub name: String,
    /// What the model gets to see.
    pub content: Arc<[Part]>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// The id of a tool call, given by the provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub Arc<str>);

impl CallId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CallId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for CallId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// JSON text kept byte for byte, but for line breaks between its tokens, which become spaces: what
/// is kept must fit on a line of a log.
///
/// It must not be part of an internally or adjacently tagged enum: serde buffers those, and the
/// bytes are lost. Externally tagged enums and structs are safe.
///
/// Clones share the text.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// Takes JSON text as it is.
    ///
    /// # Errors
    /// If the text is no JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self::from)
    }

    /// Writes a value as JSON text.
    ///
    /// # Errors
    /// If the value cannot be written as JSON, such as a map with keys that are no strings.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|raw| Self(raw.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the text as a value.
    ///
    /// # Errors
    /// If the text is no such value.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        if !raw.get().contains(['\n', '\r']) {
            return Self(raw.into());
        }
        // Strings cannot hold raw line breaks, so these stand between tokens.
        let line = raw.get().replace(['\n', '\r'], " ");
        Self(RawValue::from_string(line).unwrap_or(raw).into())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A shared, immutable message that remembers how a wire wrote it.
///
/// A request joins these bytes, so a turn costs a copy of the history and not a new encoding, and
/// the start of a request is byte for byte the previous one.
#[derive(Clone)]
pub struct MessageRef(Arc<Encoded<Message>>);

impl MessageRef {
    /// Tells whether both are the same message in memory.
    pub fn is(&self, other: &Self) -> bool {
        ptr::eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }

    /// Returns the message as `wire` writes it, encoding it at most once.
    pub fn encoded(&self, wire: WireId, encode: impl FnOnce(&Message) -> Bytes) -> Bytes {
        self.0.encoded(wire, encode)
    }
}

impl From<Message> for MessageRef {
    fn from(message: Message) -> Self {
        Self(Arc::new(Encoded::new(message)))
    }
}

impl Deref for MessageRef {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.0.value
    }
}

impl Serialize for MessageRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value.serialize(serializer)
    }
}

impl fmt::Debug for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.value, f)
    }
}

impl PartialEq for MessageRef {
    fn eq(&self, other: &Self) -> bool {
        self.is(other) || self.0.value == other.0.value
    }
}

/// The messages of a conversation: a persistent vector, so that a snapshot costs nothing.
pub type Messages = rpds::VectorSync<MessageRef>;

/// Names one way to write messages: the same id must always give the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireId {
    /// The wire, such as `chat`.
    pub wire: &'static str,
    /// Distinguishes the variants of a wire whose bytes differ.
    pub variant: u32,
}

/// A value with the bytes one wire made of it.
pub(crate) struct Encoded<T> {
    pub(crate) value: T,
    // The wire that encoded last: changing the model mid-session re-encodes once.
    bytes: Mutex<Option<(WireId, Bytes)>>,
}

impl<T> Encoded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, bytes: Mutex::new(None) }
    }

    pub(crate) fn encoded(&self, wire: WireId, encode: impl FnOnce(&T) -> Bytes) -> Bytes {
        let mut slot = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((by, bytes)) = &*slot
            && *by == wire
        {
            return bytes.clone();
        }
        let bytes = encode(&self.value);
        *slot = Some((wire, bytes.clone()));
        bytes
    }
}
