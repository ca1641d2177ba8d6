//! OpenAI's Chat Completions, and the many servers that speak it too.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::http::{Endpoint, Transport};
use crate::wire::media::Taken;
use crate::wire::{self, Connection, ids, json};
use crate::{CallId, Message, Messages, ModelError, ModelInfo, Request, ToolSpec, WireId};

mod answer;
mod decode;
mod dialect;
mod encode;
mod reasoning;
mod text_calls;

pub use decode::Decoder;
pub use dialect::{CallIds, Dialect, Efforts, MaxTokens, Replay, Shapes, SystemRole};

/// A model behind a Chat Completions server.
///
/// ```
/// use bowline_llm::http::Transport;
/// use bowline_llm::{Model, ModelInfo, chat};
///
/// let mut config = chat::Config::new("http://127.0.0.1:8080/v1");
/// config.info = ModelInfo {
///     provider: "mine".to_owned(),
///     model: "qwen3:8b".to_owned(),
///     ..ModelInfo::default()
/// };
/// let model = chat::Client::new(config, &Transport::default())?;
/// assert_eq!(model.info().id(), "mine/qwen3:8b");
/// # Ok::<(), bowline_llm::ModelError>(())
/// ```
pub type Client = wire::Client<Codec>;

/// How a model is reached. The address is the one below which `chat/completions` lies, and usually
/// ends in `/v1`; the key is sent as a bearer token.
pub type Config = wire::Config<Dialect>;

impl Config {
    /// Makes a configuration with the defaults for the server at `base_url`.
    pub fn new(base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let dialect = Dialect::of(&base_url);
        Self::with(base_url, dialect)
    }
}

impl Client {
    /// Makes a client. Nothing is sent before a stream is polled.
    ///
    /// # Errors
    /// If the address or a header is none.
    pub fn new(config: Config, transport: &Transport) -> Result<Self, ModelError> {
        let Config { info, base_url, api_key, headers, stream, idle_timeout, dialect } = config;
        let mut endpoint = Endpoint::new(&base_url, "chat/completions", idle_timeout)?;
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
    shapes: Shapes,
    stream: bool,
}

impl Codec {
    /// Makes a codec for one model.
    pub fn new(info: &ModelInfo, dialect: Dialect, stream: bool) -> Self {
        Self {
            provider: info.provider.as_str().into(),
            model: info.model.clone(),
            max_output_tokens: info.max_output_tokens,
            shapes: dialect.shapes.of_model(&info.model),
            dialect: dialect.for_model(&info.model),
            stream,
        }
    }

    /// Encodes one message as items of the `messages` array, joined by commas.
    pub fn encode(&self, message: &Message) -> Bytes {
        encode::message(self, message)
    }

    /// Encodes the `tools` array.
    pub fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    /// Names what the bytes of a message depend on: reasoning goes back to its provider only.
    fn wire_id(&self) -> WireId {
        let Dialect { takes_images, takes_files, answers_results, .. } = self.dialect;
        let replay = match self.dialect.replay {
            Replay::Never => 0,
            Replay::Given => 1,
            Replay::Demanded => 2,
        };
        let call_ids = match self.dialect.call_ids {
            CallIds::Any => 0,
            CallIds::AtMost40 => 1,
            CallIds::NineAlphanumerics => 2,
        };
        let variant = [takes_images, takes_files, answers_results]
            .into_iter()
            .fold(ids::of_provider(&self.provider), |id, flag| id << 1 | u32::from(flag));
        WireId { wire: "chat", variant: variant << 4 | replay << 2 | call_ids }
    }

    /// Returns what need not be told in words.
    fn taken(&self) -> Taken {
        Taken { images: self.dialect.takes_images, files: self.dialect.takes_files }
    }

    /// Returns the encoded messages, with what has to stand between them.
    fn encoded(&self, messages: &Messages) -> Vec<Bytes> {
        let wire = self.wire_id();
        let mut encoded = Vec::with_capacity(messages.len());
        let mut has_results = false;
        for message in messages {
            let is_user = matches!(**message, Message::User(_));
            if self.dialect.answers_results && has_results && is_user {
                encoded.push(Bytes::from_static(encode::ANSWER.as_bytes()));
            }
            encoded.push(message.encoded(wire, |message| self.encode(message)));
            has_results = matches!(**message, Message::Results(_));
        }
        encoded
    }

    /// Returns the id of a call as the server takes it.
    fn call_id<'a>(&self, id: &'a CallId) -> Cow<'a, str> {
        match self.dialect.call_ids {
            CallIds::Any => Cow::Borrowed(id.as_str()),
            CallIds::AtMost40 => ids::fitting(id.as_str(), 40),
            CallIds::NineAlphanumerics => ids::nine(id.as_str()),
        }
    }
}

impl wire::Codec for Codec {
    type Decoder = Decoder;

    fn body(&self, request: &Request) -> Vec<u8> {
        let wire = self.wire_id();
        let mut body = Vec::with_capacity(256);
        body.extend_from_slice(b"{\"model\":");
        json::write(&mut body, &self.model);
        if self.stream {
            body.extend_from_slice(b",\"stream\":true");
            if self.dialect.takes_stream_options {
                body.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
            }
        }
        if let Some(limit) = request.max_output_tokens.or(self.max_output_tokens) {
            body.extend_from_slice(match self.dialect.max_tokens {
                MaxTokens::MaxTokens => b",\"max_tokens\":",
                MaxTokens::MaxCompletionTokens => b",\"max_completion_tokens\":",
            });
            json::write(&mut body, &limit);
        }
        if let Some(effort) = request.effort {
            body.extend_from_slice(b",\"reasoning_effort\":");
            json::write(&mut body, self.dialect.efforts.word(effort));
        }
        if let Some(key) = request.cache_key.as_ref().filter(|_| self.dialect.takes_cache_key) {
            body.extend_from_slice(b",\"prompt_cache_key\":");
            json::write(&mut body, &**key);
        }
        if self.dialect.marks_claude && self.model.starts_with("anthropic/") {
            body.extend_from_slice(b",\"cache_control\":{\"type\":\"ephemeral\"}");
        }
        if let Some(schema) = &request.output_schema {
            let shapes = self.shapes.with_tools(!request.tools.specs().is_empty());
            encode::write_shape(&mut body, shapes, schema);
        }
        if !request.tools.specs().is_empty() {
            body.extend_from_slice(b",\"tools\":");
            body.extend_from_slice(&request.tools.encoded(wire, |tools| self.encode_tools(tools)));
        }
        body.extend_from_slice(b",\"messages\":[");
        if !request.system.is_empty() {
            encode::write_system(&mut body, self.dialect.system_role, &request.system);
        }
        json::write_joined(&mut body, &self.encoded(&request.messages), b"]}");
        body
    }

    fn decoder(&self, salt: u64) -> Decoder {
        Decoder::new(Arc::clone(&self.provider), salt)
    }

    fn decoder_for(&self, request: &Request, salt: u64) -> Decoder {
        let decoder = self.decoder(salt);
        match self.dialect.reads_calls_in_text {
            true => decoder.reading_calls_in_text(request),
            false => decoder,
        }
    }

    fn is_streaming(&self) -> bool {
        self.stream
    }
}
