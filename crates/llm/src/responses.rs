//! OpenAI's Responses, and the servers that speak it too.
//!
//! Nothing is stored at the server: each request carries the whole conversation, and reasoning goes
//! back as the encrypted items it came in. What an item holds besides its text or call (its id,
//! its phase, annotations) is kept in an [`Opaque`](crate::Opaque) before it, so that it goes back
//! as it came; to another provider only texts, calls and results go.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::chat::{Shapes, SystemRole};
use crate::http::{Endpoint, Transport};
use crate::wire::shape::Named;
use crate::wire::{self, Connection, ids, json};
use crate::{Message, ModelError, ModelInfo, RawJson, Request, ToolSpec, WireId};

mod answer;
mod decode;
mod encode;
mod item;

pub use decode::Decoder;

/// A model behind a Responses server.
///
/// ```
/// use bowline_llm::http::Transport;
/// use bowline_llm::{Model, ModelInfo, responses};
///
/// let mut config = responses::Config::new("https://api.openai.com/v1");
/// config.info = ModelInfo {
///     provider: "openai".to_owned(),
///     model: "gpt-5.6".to_owned(),
///     ..ModelInfo::default()
/// };
/// let model = responses::Client::new(config, &Transport::default())?;
/// assert_eq!(model.info().id(), "openai/gpt-5.6");
/// # Ok::<(), bowline_llm::ModelError>(())
/// ```
pub type Client = wire::Client<Codec>;

/// How a model is reached. The address is the one below which `responses` lies, and usually ends in
/// `/v1`; the key is sent as a bearer token.
pub type Config = wire::Config<Dialect>;

/// What servers of this wire do differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// The role of a message that carries the system text; `None` sends it as `instructions`,
    /// which all but a few servers know.
    pub system_role: Option<SystemRole>,
    /// Whether the server takes `store`. It is sent as `false`, since some keep all they see for a
    /// month unless told not to; others refuse the field.
    pub takes_store: bool,
    /// Whether encrypted reasoning is asked for, which models that do not reason refuse. `None`
    /// goes by the name of the model, which is right for OpenAI's.
    pub encrypts_reasoning: Option<bool>,
    /// Whether reasoning that came without encrypted content goes back too. OpenAI looks such an
    /// item up among those it stored, finds nothing and refuses the request.
    pub replays_plain_reasoning: bool,
    /// Whether a readable summary of the reasoning is asked for.
    pub summarizes_reasoning: bool,
    /// Whether the server takes `prompt_cache_key`; some refuse fields they do not know.
    pub takes_cache_key: bool,
    /// Whether the result of a tool may hold images and documents; if not, they follow in a user
    /// message.
    pub results_hold_media: bool,
    /// Whether a message of the assistant needs an id even if it came from another provider. Strict
    /// servers do; OpenAI does not, and refuses an id that occurs twice.
    pub needs_message_ids: bool,
    /// How far an answer can be held to a JSON Schema.
    pub shapes: Shapes,
}

impl Config {
    /// Makes a configuration with the defaults for the server at `base_url`.
    pub fn new(base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let dialect = Dialect::of(&base_url);
        Self::with(base_url, dialect)
    }
}

impl Dialect {
    /// Returns what is known of the server at `base_url`; what all understand if nothing is.
    pub fn of(base_url: &str) -> Self {
        let host = Endpoint::new(base_url, "", Duration::ZERO)
            .map(|endpoint| endpoint.host().to_owned())
            .unwrap_or_default();
        let common = Self {
            system_role: None,
            takes_store: true,
            encrypts_reasoning: Some(false),
            replays_plain_reasoning: true,
            summarizes_reasoning: false,
            takes_cache_key: false,
            results_hold_media: false,
            needs_message_ids: true,
            shapes: Shapes::Never,
        };
        match host.as_str() {
            "api.openai.com" => Self::openai(),
            azure if azure.ends_with(".openai.azure.com") => Self::openai(),
            "api.x.ai" => Self {
                system_role: Some(SystemRole::System),
                encrypts_reasoning: Some(true),
                takes_cache_key: true,
                shapes: Shapes::Strict,
                ..common
            },
            "openrouter.ai" => {
                Self { encrypts_reasoning: Some(true), takes_cache_key: true, ..common }
            }
            "api.groq.com" => Self { takes_store: false, ..common },
            _ => common,
        }
    }

    /// Returns the wire as OpenAI itself speaks it.
    pub fn openai() -> Self {
        Self {
            system_role: None,
            takes_store: true,
            encrypts_reasoning: None,
            replays_plain_reasoning: false,
            summarizes_reasoning: true,
            takes_cache_key: true,
            results_hold_media: true,
            needs_message_ids: false,
            shapes: Shapes::Any,
        }
    }
}

impl Client {
    /// Makes a client. Nothing is sent before a stream is polled.
    ///
    /// # Errors
    /// If the address or a header is none.
    pub fn new(config: Config, transport: &Transport) -> Result<Self, ModelError> {
        let Config { info, base_url, api_key, headers, stream, idle_timeout, dialect } = config;
        let mut endpoint = Endpoint::new(&base_url, "responses", idle_timeout)?;
        if let Some(key) = api_key {
            endpoint.bearer(&key)?;
        }
        endpoint.secret_headers(&headers)?;
        let codec = Codec::new(&info, dialect, stream);
        Ok(Self::over(info, Connection { transport: transport.clone(), endpoint, codec }))
    }
}

/// The pure part of the wire: requests into bytes, answers into events.
#[derive(Debug, Clone)]
pub struct Codec {
    provider: Arc<str>,
    model: String,
    max_output_tokens: Option<u64>,
    dialect: Dialect,
    stream: bool,
    shapes: Shapes,
    /// Whether encrypted reasoning is asked for.
    encrypts_reasoning: bool,
    /// Whether the model may be shown reasoning.
    takes_reasoning: bool,
}

impl Codec {
    /// Makes a codec for one model.
    pub fn new(info: &ModelInfo, dialect: Dialect, stream: bool) -> Self {
        let by_name = is_reasoning(&info.model);
        Self {
            provider: info.provider.as_str().into(),
            model: info.model.clone(),
            max_output_tokens: info.max_output_tokens,
            stream,
            shapes: dialect.shapes.of_model(&info.model),
            encrypts_reasoning: dialect.encrypts_reasoning.unwrap_or(by_name),
            // OpenAI refuses a request that shows reasoning to a model that has none.
            takes_reasoning: dialect.encrypts_reasoning.is_some() || by_name,
            dialect,
        }
    }

    /// Encodes one message as items of the `input` array, joined by commas.
    pub fn encode(&self, message: &Message) -> Bytes {
        encode::message(self, message)
    }

    /// Encodes the `tools` array.
    pub fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    /// Names what the bytes of a message depend on.
    fn wire_id(&self) -> WireId {
        let Dialect { replays_plain_reasoning, results_hold_media, needs_message_ids, .. } =
            self.dialect;
        let flags =
            [self.takes_reasoning, replays_plain_reasoning, results_hold_media, needs_message_ids];
        let variant = flags
            .into_iter()
            .fold(ids::of_provider(&self.provider), |id, flag| id << 1 | u32::from(flag));
        WireId { wire: "responses", variant }
    }

    /// Writes what stands before the tools.
    fn write_options(&self, body: &mut Vec<u8>, request: &Request) {
        body.extend_from_slice(b"{\"model\":");
        json::write(body, &self.model);
        if self.stream {
            body.extend_from_slice(b",\"stream\":true");
        }
        if self.dialect.takes_store {
            body.extend_from_slice(b",\"store\":false");
        }
        if self.encrypts_reasoning {
            body.extend_from_slice(b",\"include\":[\"reasoning.encrypted_content\"]");
        }
        // A model that does not reason refuses the field, so it is left out unless an effort is
        // asked for or the model is known to reason.
        let asks = self.encrypts_reasoning || request.effort.is_some();
        let reasoning = WireReasoning {
            effort: request.effort.map(|effort| effort.as_str()),
            summary: (asks && self.dialect.summarizes_reasoning).then_some("auto"),
        };
        if reasoning.effort.is_some() || reasoning.summary.is_some() {
            body.extend_from_slice(b",\"reasoning\":");
            json::write(body, &reasoning);
        }
        if let Some(limit) = request.max_output_tokens.or(self.max_output_tokens) {
            body.extend_from_slice(b",\"max_output_tokens\":");
            json::write(body, &limit);
        }
        if let Some(key) = request.cache_key.as_ref().filter(|_| self.dialect.takes_cache_key) {
            body.extend_from_slice(b",\"prompt_cache_key\":");
            json::write(body, &**key);
        }
        let shapes = self.shapes.with_tools(!request.tools.specs().is_empty());
        let named = request.output_schema.as_ref().and_then(|schema| shapes.named(schema));
        if let Some(named) = named {
            body.extend_from_slice(b",\"text\":{\"format\":");
            let Named { name, schema, strict } = named;
            json::write(body, &WireFormat { r#type: "json_schema", name, schema, strict });
            body.push(b'}');
        }
    }
}

impl wire::Codec for Codec {
    type Decoder = Decoder;

    fn body(&self, request: &Request) -> Vec<u8> {
        let wire = self.wire_id();
        let mut body = Vec::with_capacity(512);
        self.write_options(&mut body, request);
        if !request.tools.specs().is_empty() {
            body.extend_from_slice(b",\"parallel_tool_calls\":true,\"tools\":");
            body.extend_from_slice(&request.tools.encoded(wire, |tools| self.encode_tools(tools)));
        }
        let has_instructions = !request.system.is_empty() && self.dialect.system_role.is_none();
        if has_instructions {
            body.extend_from_slice(b",\"instructions\":");
            json::write(&mut body, &*request.system);
        }
        body.extend_from_slice(b",\"input\":[");
        if let Some(role) = self.dialect.system_role.filter(|_| !request.system.is_empty()) {
            encode::write_system(&mut body, role, &request.system);
        }
        let messages: Vec<Bytes> = request
            .messages
            .iter()
            .map(|message| message.encoded(wire, |message| self.encode(message)))
            .collect();
        json::write_joined(&mut body, &messages, b"]}");
        body
    }

    fn decoder(&self, salt: u64) -> Decoder {
        Decoder::new(Arc::clone(&self.provider), salt)
    }

    fn is_streaming(&self) -> bool {
        self.stream
    }
}

#[derive(Serialize)]
struct WireFormat<'a> {
    r#type: &'static str,
    name: &'static str,
    schema: &'a RawJson,
    strict: bool,
}

#[derive(Serialize)]
struct WireReasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

/// Tells by its name whether a model of OpenAI reasons: all have since the fifth generation, but
/// for those named after the chat.
fn is_reasoning(model: &str) -> bool {
    let name = model.rsplit(['/', ':']).next().unwrap_or(model);
    let is_older = ["gpt-3", "gpt-4", "chatgpt-"].iter().any(|start| name.starts_with(start));
    !is_older && !name.contains("-chat")
}
