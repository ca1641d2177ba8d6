//! OpenAI's Chat Completions, and the many servers that speak it too.

use std::collections::{VecDeque, hash_map::RandomState};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::http::{Answer, Endpoint, Transport};
use crate::{
    ErrorKind, Message, Model, ModelError, ModelInfo, ModelStream, Request, Secret, StreamEvent,
    ToolSpec, WireId, sse,
};

mod decode;
mod encode;
mod reasoning;
mod wire;

pub use decode::Decoder;

/// How long a complete reply waits for its usage and the end marker.
const USAGE_WAIT: Duration = Duration::from_secs(5);

/// How long a complete reply waits for the end of the body, after which the connection can serve
/// the next request.
const CLOSE_WAIT: Duration = Duration::from_millis(50);

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
#[derive(Debug)]
pub struct Client {
    info: ModelInfo,
    exchange: Arc<Shared>,
}

/// What all exchanges of one client have in common.
#[derive(Debug)]
struct Shared {
    transport: Transport,
    endpoint: Endpoint,
    codec: Codec,
}

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
        for (name, value) in &headers {
            endpoint.header(name, value, true)?;
        }
        let codec = Codec::new(&info, dialect, stream);
        let transport = transport.clone();
        Ok(Self { info, exchange: Arc::new(Shared { transport, endpoint, codec }) })
    }
}

impl Model for Client {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        let exchange = Exchange {
            shared: Arc::clone(&self.exchange),
            stage: Stage::Unsent(request),
            events: VecDeque::new(),
        };
        Box::pin(stream::unfold(Box::new(exchange), async |mut exchange| {
            let event = exchange.next().await?;
            Some((event, exchange))
        }))
    }
}

/// One request and its answer.
struct Exchange {
    shared: Arc<Shared>,
    stage: Stage,
    events: VecDeque<StreamEvent>,
}

enum Stage {
    Unsent(Request),
    Reading(Box<Reading>),
    Over,
}

/// A streamed answer in the middle.
struct Reading {
    answer: Answer,
    lines: sse::Decoder,
    decoder: Decoder,
}

impl Exchange {
    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            // What fails below leaves the exchange over.
            let step = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Unsent(request) => self.send(request).await,
                Stage::Reading(reading) => self.read(reading).await,
                Stage::Over => return None,
            };
            if let Err(error) = step {
                // What came before the failure is void, and its reader is about to learn it.
                self.events.clear();
                return Some(Err(error));
            }
        }
    }

    async fn send(&mut self, request: Request) -> Result<(), ModelError> {
        let Shared { transport, endpoint, codec } = &*self.shared;
        let body = codec.body(&request);
        // The history may be large, and is not needed while the answer comes.
        drop(request);
        let answer = transport.post(endpoint, body).await?;
        let decoder = codec.decoder(RandomState::new().build_hasher().finish());
        if !codec.stream || answer.is_json() {
            let response = decoder.document(&answer.document().await?)?;
            self.events.push_back(StreamEvent::Done(Box::new(response)));
        } else {
            let lines = sse::Decoder::default();
            self.stage = Stage::Reading(Box::new(Reading { answer, lines, decoder }));
        }
        Ok(())
    }

    async fn read(&mut self, mut reading: Box<Reading>) -> Result<(), ModelError> {
        let Reading { answer, lines, decoder } = &mut *reading;
        let chunk = if decoder.has_stopped() {
            // The reply is complete: a server that keeps the line open, or loses it, does not void
            // what it has said.
            timeout(USAGE_WAIT, answer.chunk()).await.unwrap_or(Ok(None)).unwrap_or(None)
        } else {
            answer.chunk().await.map_err(|error| decoder.fail(error))?
        };
        let is_end = chunk.is_none();
        lines.push(&chunk.unwrap_or_default());
        let events = &mut self.events;
        loop {
            match lines.next_event() {
                Ok(Some(event)) => {
                    decoder.push(event.data, &mut |event| events.push_back(event))?;
                }
                Ok(None) => break,
                Err(error) => {
                    let error = ModelError::new(ErrorKind::Decode, error.to_string());
                    return Err(decoder.fail(error));
                }
            }
        }
        if !is_end && !decoder.is_done() {
            self.stage = Stage::Reading(reading);
            return Ok(());
        }
        let Reading { mut answer, decoder, .. } = *reading;
        let response = decoder.finish()?;
        if !is_end {
            // Reading up to the end hands the connection back to the pool.
            let rest = async { while let Ok(Some(_)) = answer.chunk().await {} };
            let _ = timeout(CLOSE_WAIT, rest).await;
        }
        self.events.push_back(StreamEvent::Done(Box::new(response)));
        Ok(())
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

    /// Makes the decoder for one reply; see [`Decoder::new`] for the salt.
    pub fn decoder(&self, salt: u64) -> Decoder {
        Decoder::new(Arc::clone(&self.provider), salt)
    }

    /// Joins a request from the encodings of its parts; `messages` comes last, so that the body of
    /// the next request begins with the same bytes.
    pub fn body(&self, request: &Request) -> Vec<u8> {
        let wire = self.wire_id();
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(b"{\"model\":");
        encode::write(&mut head, &self.model);
        if self.stream {
            head.extend_from_slice(b",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
        }
        if let Some(limit) = request.max_output_tokens.or(self.max_output_tokens) {
            head.extend_from_slice(match self.dialect.max_tokens {
                MaxTokens::MaxTokens => b",\"max_tokens\":",
                MaxTokens::MaxCompletionTokens => b",\"max_completion_tokens\":",
            });
            encode::write(&mut head, &limit);
        }
        if let Some(effort) = request.effort {
            head.extend_from_slice(b",\"reasoning_effort\":");
            encode::write(&mut head, effort.as_str());
        }
        if let Some(key) = request.cache_key.as_ref().filter(|_| self.dialect.takes_cache_key) {
            head.extend_from_slice(b",\"prompt_cache_key\":");
            encode::write(&mut head, &**key);
        }
        if !request.tools.specs().is_empty() {
            head.extend_from_slice(b",\"tools\":");
            head.extend_from_slice(&request.tools.encoded(wire, |tools| self.encode_tools(tools)));
        }
        head.extend_from_slice(b",\"messages\":[");
        let mut is_first = true;
        if !request.system.is_empty() {
            is_first = false;
            encode::write_system(&mut head, self.dialect.system_role, &request.system);
        }
        let messages: Vec<Bytes> = request
            .messages
            .iter()
            .map(|message| message.encoded(wire, |message| self.encode(message)))
            .filter(|bytes| !bytes.is_empty())
            .collect();
        let length: usize = messages.iter().map(|bytes| bytes.len() + 1).sum();
        let mut body = head;
        body.reserve_exact(length + 2);
        for message in &messages {
            if !is_first {
                body.push(b',');
            }
            is_first = false;
            body.extend_from_slice(message);
        }
        body.extend_from_slice(b"]}");
        body
    }

    /// Names what the bytes of a message depend on: reasoning goes back to its provider only.
    fn wire_id(&self) -> WireId {
        // FNV-1a: a session meets a handful of providers, so 31 bits tell them apart.
        let hash = self
            .provider
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        WireId { wire: "chat", variant: hash << 1 | u32::from(self.dialect.replays_reasoning) }
    }
}
