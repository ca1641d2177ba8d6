//! Anthropic's Messages, and the servers that speak it too.
//!
//! # The prefix and its marks
//!
//! A message is encoded once, without marks; joining puts them in. They say up to where the
//! provider keeps its work: the end of the tools, the end of the system text, the end of what the
//! previous request sent (that is what stands before the last assistant message) and the end of
//! all. The places are a function of the view alone. Marks in the conversation stand only on blocks
//! of the user's side, which can always carry one: no thinking and no empty text is among them.
//!
//! Without the marks a request begins with all bytes of the one before. With them the two part where
//! the earlier one has its third mark, since marks move on: all but the newest turn is the same. So
//! the share that is the same is at least 95 % as long as the newest turn is at most a nineteenth
//! of all that was sent before it, and it grows with the conversation. No other places would give
//! more and still mark where the request before ended. The provider itself takes no account of
//! marks when it compares, so it reads all of the earlier request from its cache.
//!
//! # What is left out
//!
//! Nothing may make a history one that the server refuses for good, so texts of nothing but
//! whitespace are left out unless they keep two blocks of thinking apart, as is thinking that
//! nothing follows. Reasoning and items of another provider, or of another wire, are left out too.
//! Thinking of another model of the same provider goes back: the server itself drops what a model
//! cannot read.

use std::sync::Arc;

use bytes::Bytes;

use crate::http::{Endpoint, Transport};
use crate::wire::{self, Connection, ids, json, shape};
use crate::{Message, ModelError, ModelInfo, Request, ToolSpec, WireId};

mod answer;
mod decode;
mod draft;
mod encode;
mod join;
mod thinking;

pub use decode::Decoder;
use thinking::Ask;
pub use thinking::Thinking;

/// The limit of an answer where neither the request nor the model names one: this wire demands
/// one. Every model of the fourth generation takes as much.
pub const DEFAULT_MAX_TOKENS: u64 = 32_000;

/// The version of the wire.
const VERSION: &str = "2023-06-01";

/// The header that asks for what is not common yet.
const BETA: &str = "anthropic-beta";

/// What is asked for with [`Dialect::binds_thinking`].
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

/// A model behind a server of Anthropic's Messages.
///
/// ```
/// use bowline_llm::http::Transport;
/// use bowline_llm::{Model, ModelInfo, anthropic};
///
/// let mut config = anthropic::Config::new("https://api.anthropic.com", "claude-sonnet-4-6");
/// config.api_key = Some("the key".into());
/// let model = anthropic::Client::new(config, &Transport::default())?;
/// assert_eq!(model.info().id(), "anthropic/claude-sonnet-4-6");
/// # Ok::<(), bowline_llm::ModelError>(())
/// ```
pub type Client = wire::Client<Codec>;

/// How a model is reached. The address is the one below which `v1/messages` lies, and may end in
/// `/v1`; the key is sent as `x-api-key`.
pub type Config = wire::Config<Dialect>;

/// What servers and models of this wire do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// How the model is told how hard to think.
    pub thinking: Thinking,
    /// Whether the model checks that nothing before its earlier thinking has changed, as the models
    /// since 5.1 do. A view does change now and then; the server is asked to drop what no longer
    /// fits instead of refusing the request.
    pub binds_thinking: bool,
    /// Whether requests carry `cache_control` marks; some servers refuse fields they do not know.
    pub marks_cache: bool,
    /// Whether an answer can be held to a JSON Schema, with tools too, as of the models since 4.5.
    pub shapes: bool,
}

impl Config {
    /// Makes a configuration with the defaults for a model at `base_url`.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let model = model.into();
        let dialect = Dialect::of(&model);
        let info = ModelInfo { provider: "anthropic".to_owned(), model, ..ModelInfo::default() };
        Self { info, ..Self::with(base_url.into(), dialect) }
    }
}

impl Dialect {
    /// Returns what is known of a model by its name.
    pub fn of(model: &str) -> Self {
        let version = thinking::version(model);
        Self {
            thinking: Thinking::of(model),
            binds_thinking: version >= Some((5, 1)),
            marks_cache: true,
            shapes: version >= Some((4, 5)),
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
        let address = base_url.split(['?', '#']).next().unwrap_or_default();
        let has_version = address.trim_end_matches('/').ends_with("/v1");
        let path = if has_version { "messages" } else { "v1/messages" };
        let mut endpoint = Endpoint::new(&base_url, path, idle_timeout)?;
        endpoint.header("anthropic-version", VERSION, false)?;
        if let Some(key) = api_key {
            endpoint.header("x-api-key", key.expose(), true)?;
        }
        endpoint.secret_headers(&headers)?;
        if dialect.binds_thinking {
            // The field needs its header, whatever else is asked for.
            let others = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(BETA));
            let all: Vec<_> =
                others.map(|(_, value)| value.as_str()).chain([BINDING_BETA]).collect();
            endpoint.header(BETA, &all.join(","), true)?;
        }
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
}

impl Codec {
    /// Makes a codec for one model.
    pub fn new(info: &ModelInfo, dialect: Dialect, stream: bool) -> Self {
        Self {
            provider: info.provider.as_str().into(),
            model: info.model.clone(),
            max_output_tokens: info.max_output_tokens,
            dialect,
            stream,
        }
    }

    /// Encodes one message as blocks of a `content` array, joined by commas and without marks.
    pub fn encode(&self, message: &Message) -> Bytes {
        encode::message(self, message)
    }

    /// Encodes the `tools` array, without marks.
    pub fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    /// Names what the bytes of a message depend on: reasoning goes back to its provider only.
    fn wire_id(&self) -> WireId {
        WireId { wire: "anthropic", variant: ids::of_provider(&self.provider) }
    }
}

impl wire::Codec for Codec {
    type Decoder = Decoder;

    fn body(&self, request: &Request) -> Vec<u8> {
        let wire = self.wire_id();
        let max_tokens =
            request.max_output_tokens.or(self.max_output_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
        let mark = if self.dialect.marks_cache { join::MARK } else { b"" };
        let mut body = Vec::with_capacity(256);
        body.extend_from_slice(b"{\"model\":");
        json::write(&mut body, &self.model);
        body.extend_from_slice(b",\"max_tokens\":");
        json::write(&mut body, &max_tokens);
        if self.stream {
            body.extend_from_slice(b",\"stream\":true");
        }
        let ask = Ask {
            effort: request.effort,
            max_tokens,
            takes_budget: self.dialect.thinking == Thinking::Budget
                && thinking::takes_budget(&request.messages, &self.provider),
            is_bound: self.dialect.binds_thinking,
        };
        self.dialect.thinking.write(&mut body, ask);
        let schema = request.output_schema.as_ref();
        let schema = schema.filter(|schema| self.dialect.shapes && shape::ANTHROPIC.has(schema));
        encode::write_output(&mut body, self.dialect.thinking.word(request.effort), schema);
        if !request.tools.specs().is_empty() {
            body.extend_from_slice(b",\"tools\":");
            let tools = request.tools.encoded(wire, |tools| self.encode_tools(tools));
            join::write_marked(&mut body, &tools, mark);
        }
        if !request.system.trim().is_empty() {
            body.extend_from_slice(b",\"system\":[");
            let system = encode::text(&request.system);
            join::write_marked(&mut body, &system, mark);
            body.push(b']');
        }
        body.extend_from_slice(b",\"messages\":");
        let turns = request
            .messages
            .iter()
            .map(|message| join::Turn {
                role: join::Role::of(message),
                blocks: message.encoded(wire, |message| self.encode(message)),
            })
            .collect();
        join::write_messages(&mut body, turns, mark);
        body.push(b'}');
        body
    }

    fn decoder(&self, salt: u64) -> Decoder {
        Decoder::new(Arc::clone(&self.provider), salt)
    }

    fn is_streaming(&self) -> bool {
        self.stream
    }
}
