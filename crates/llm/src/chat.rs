//! OpenAI's Chat Completions, and the many servers that speak it too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::http::{Endpoint, Transport};
use crate::wire::{self, Connection, ids, json};
use crate::{Message, ModelError, ModelInfo, Request, Secret, ToolSpec, WireId};

mod answer;
mod decode;
mod encode;
mod reasoning;

pub use decode::Decoder;

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

/// How a model is reached.
#[derive(Debug, Clone)]
pub struct Config {
    /// What is known of the model; provider and model names are needed.
    pub info: ModelInfo,
    /// The address below which `chat/completions` lies; it usually ends in `/v1`.
    pub base_url: String,
    /// The key, sent as a bearer token; servers on the same machine need none.
    pub api_key: Option<Secret>,
    /// Headers sent with every request. They come last, so that they can replace any other, and
    /// are taken for secrets.
    pub headers: Vec<(String, String)>,
    /// Whether answers are streamed.
    pub stream: bool,
    /// How long nothing may come, before or within an answer. Without streaming nothing comes
    /// until the whole answer is there, so this bounds the time of an answer.
    pub idle_timeout: Duration,
    /// What this server does differently from others.
    pub dialect: Dialect,
}

/// What servers of this wire do differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// The role of the system text.
    pub system_role: SystemRole,
    /// How the limit of an answer's length is called.
    pub max_tokens: MaxTokens,
    /// Whether the server takes `prompt_cache_key`; some refuse fields they do not know.
    pub takes_cache_key: bool,
    /// Whether readable reasoning goes back as `reasoning_content`. Few servers want it, and some
    /// refuse it; the items of `reasoning_details` go back to their provider in any case.
    pub replays_reasoning: bool,
}

/// The role under which the system text is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemRole {
    /// What every server knows.
    #[default]
    System,
    /// What OpenAI calls it since its reasoning models.
    Developer,
}

/// The field that limits the length of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MaxTokens {
    /// `max_tokens`, which compatible servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models demand.
    MaxCompletionTokens,
}

impl Config {
    /// Makes a configuration with the defaults for the server at `base_url`.
    pub fn new(base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let dialect = Dialect::of(&base_url);
        Self {
            info: ModelInfo::default(),
            base_url,
            api_key: None,
            headers: Vec::new(),
            stream: true,
            idle_timeout: Duration::from_secs(120),
            dialect,
        }
    }
}

impl Dialect {
    /// Returns what is known of the server at `base_url`; what all understand if nothing is.
    pub fn of(base_url: &str) -> Self {
        let host = Endpoint::new(base_url, "", Duration::ZERO)
            .map(|endpoint| endpoint.host().to_owned())
            .unwrap_or_default();
        let is_openai = host == "api.openai.com" || host.ends_with(".openai.azure.com");
        Self {
            system_role: SystemRole::System,
            max_tokens: if is_openai {
                MaxTokens::MaxCompletionTokens
            } else {
                MaxTokens::MaxTokens
            },
            takes_cache_key: is_openai,
            replays_reasoning: false,
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
        let mut endpoint = Endpoint::new(&base_url, "chat/completions", idle_timeout)?;
        if let Some(key) = api_key {
            endpoint.header("authorization", &format!("Bearer {}", key.expose()), true)?;
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
        let provider = ids::of_provider(&self.provider);
        WireId { wire: "chat", variant: provider << 1 | u32::from(self.dialect.replays_reasoning) }
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
            body.extend_from_slice(b",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
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
            json::write(&mut body, effort.as_str());
        }
        if let Some(key) = request.cache_key.as_ref().filter(|_| self.dialect.takes_cache_key) {
            body.extend_from_slice(b",\"prompt_cache_key\":");
            json::write(&mut body, &**key);
        }
        if !request.tools.specs().is_empty() {
            body.extend_from_slice(b",\"tools\":");
            body.extend_from_slice(&request.tools.encoded(wire, |tools| self.encode_tools(tools)));
        }
        body.extend_from_slice(b",\"messages\":[");
        if !request.system.is_empty() {
            encode::write_system(&mut body, self.dialect.system_role, &request.system);
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
