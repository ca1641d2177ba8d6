//! Google's Gemini: `generateContent`, of the Gemini API and of Vertex.

use std::sync::Arc;

use bytes::Bytes;

use crate::http::{Endpoint, Transport};
use crate::wire::{self, Connection, ids, json};
use crate::{CallId, Message, ModelError, ModelInfo, Request, ToolSpec, WireId};

mod answer;
mod decode;
mod encode;
mod family;
mod signature;

pub use decode::Decoder;
use family::Family;

/// A Gemini model.
///
/// ```
/// use bowline_llm::http::Transport;
/// use bowline_llm::{Model, ModelInfo, gemini};
///
/// let mut config = gemini::Config::new("https://generativelanguage.googleapis.com");
/// config.api_key = Some("key".into());
/// config.info = ModelInfo {
///     provider: "google".to_owned(),
///     model: "gemini-2.5-flash".to_owned(),
///     ..ModelInfo::default()
/// };
/// let model = gemini::Client::new(config, &Transport::default())?;
/// assert_eq!(model.info().id(), "google/gemini-2.5-flash");
/// # Ok::<(), bowline_llm::ModelError>(())
/// ```
pub type Client = wire::Client<Codec>;

/// How a model is reached. The address is the one below which `v1beta/models` lies. It may end in a
/// version; one that holds another version, as those of Vertex do, is followed by `models` alone.
/// The key is sent as `x-goog-api-key`; Vertex wants a bearer token among the headers instead.
pub type Config = wire::Config<Dialect>;

/// What servers of this wire do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Whether calls and results go back with their ids in any case. Vertex refuses the field in
    /// requests to models that give no ids, and later models want those back that they gave.
    pub takes_any_id: bool,
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
    /// Returns what is known of the server at `base_url`.
    pub fn of(base_url: &str) -> Self {
        // Vertex, or a gateway with the addresses of Vertex.
        let is_vertex = ["aiplatform.googleapis.com", "/projects/", "/publishers/"]
            .iter()
            .any(|part| base_url.contains(part));
        Self { takes_any_id: !is_vertex }
    }
}

impl Client {
    /// Makes a client. Nothing is sent before a stream is polled.
    ///
    /// # Errors
    /// If the address or a header is none.
    pub fn new(config: Config, transport: &Transport) -> Result<Self, ModelError> {
        let Config { info, base_url, api_key, headers, stream, idle_timeout, dialect } = config;
        let (base_url, below) = versioned(&base_url);
        let method = if stream { "streamGenerateContent" } else { "generateContent" };
        let path = format!("{below}{}:{method}", resource(&info.model));
        let mut endpoint = Endpoint::new(&base_url, &path, idle_timeout)?;
        if stream {
            // Without it the answer is one JSON array that grows.
            endpoint.query("alt", "sse");
        }
        if let Some(key) = api_key {
            endpoint.header("x-goog-api-key", key.expose(), true)?;
        }
        endpoint.secret_headers(&headers)?;
        let codec = Codec::new(&info, dialect, stream);
        Ok(Self::over(info, Connection { transport: transport.clone(), endpoint, codec }))
    }
}

/// Splits an address into what stands before the version and the path from there to the models.
///
/// `v1` is what the addresses of other wires end in; tools are known to `v1beta`.
fn versioned(base_url: &str) -> (String, &'static str) {
    let (address, query) = match base_url.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (base_url, None),
    };
    let address = address.trim_end_matches('/');
    let address = address.strip_suffix("/v1").unwrap_or(address);
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    // The first three pieces are the scheme, nothing and the host.
    let below = if address.split('/').skip(3).any(is_version) { "" } else { "v1beta/" };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    (format!("{address}{query}"), below)
}

/// Returns the path of a model: a plain name lies below `models`.
fn resource(model: &str) -> String {
    let model = model.replace('%', "%25");
    let is_path = ["models/", "tunedModels/", "publishers/", "projects/", "endpoints/"]
        .iter()
        .any(|start| model.starts_with(start));
    if is_path { model } else { format!("models/{model}") }
}

/// The pure part of the wire: requests into bytes, answers into events.
#[derive(Debug, Clone)]
pub struct Codec {
    provider: Arc<str>,
    family: Family,
    max_output_tokens: Option<u64>,
    dialect: Dialect,
    stream: bool,
}

impl Codec {
    /// Makes a codec for one model.
    pub fn new(info: &ModelInfo, dialect: Dialect, stream: bool) -> Self {
        Self {
            provider: info.provider.as_str().into(),
            family: Family::of(&info.model),
            max_output_tokens: info.max_output_tokens,
            dialect,
            stream,
        }
    }

    /// Encodes one message as `parts`, joined by commas: whose they are the request says, since
    /// messages of one speaker in a row become one `content`.
    pub fn encode(&self, message: &Message) -> Bytes {
        encode::message(self, message)
    }

    /// Encodes the `functionDeclarations` array.
    pub fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    /// Names what the bytes of a message depend on: signatures go back to their provider only, and
    /// models since Gemini 3 want some parts written differently.
    fn wire_id(&self) -> WireId {
        let variant = [self.family.is_third(), self.dialect.takes_any_id]
            .into_iter()
            .fold(ids::of_provider(&self.provider), |id, flag| id << 1 | u32::from(flag));
        WireId { wire: "gemini", variant }
    }

    /// Returns the id of a call as the server takes it; an empty one is not sent.
    fn call_id<'a>(&self, id: &'a CallId) -> &'a str {
        let id = id.as_str();
        // Those that Google's models give have this form and no others do.
        let is_own = id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if self.dialect.takes_any_id || is_own { id } else { "" }
    }
}

impl wire::Codec for Codec {
    type Decoder = Decoder;

    fn body(&self, request: &Request) -> Vec<u8> {
        let wire = self.wire_id();
        let mut body = Vec::with_capacity(256);
        body.push(b'{');
        if !request.system.is_empty() {
            body.extend_from_slice(b"\"systemInstruction\":{\"parts\":[{\"text\":");
            json::write(&mut body, &*request.system);
            body.extend_from_slice(b"}]},");
        }
        if !request.tools.specs().is_empty() {
            body.extend_from_slice(b"\"tools\":[{\"functionDeclarations\":");
            body.extend_from_slice(&request.tools.encoded(wire, |tools| self.encode_tools(tools)));
            body.extend_from_slice(b"}],");
        }
        let limit = request.max_output_tokens.or(self.max_output_tokens);
        let thinking = self.family.thinking(request.effort, limit);
        let shapes = self.family.shapes(!request.tools.specs().is_empty());
        let schema = request.output_schema.as_ref().filter(|_| shapes);
        encode::write_generation(&mut body, limit, schema, thinking);
        body.extend_from_slice(b"\"contents\":[");
        let contents: Vec<(&str, Bytes)> = request
            .messages
            .iter()
            .map(|message| {
                let parts = message.encoded(wire, |message| self.encode(message));
                (encode::role(message), parts)
            })
            .collect();
        encode::write_contents(&mut body, &contents);
        body.extend_from_slice(b"]}");
        body
    }

    fn decoder(&self, salt: u64) -> Decoder {
        Decoder::new(Arc::clone(&self.provider), salt)
    }

    fn is_streaming(&self) -> bool {
        self.stream
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_version_is_added_unless_the_address_names_one() {
        for (base, expected) in [
            ("https://g.example", ("https://g.example", "v1beta/")),
            ("https://g.example/", ("https://g.example", "v1beta/")),
            ("https://g.example/v1", ("https://g.example", "v1beta/")),
            ("https://g.example/v1beta/", ("https://g.example/v1beta", "")),
            ("https://g.example/proxy/v1/", ("https://g.example/proxy", "v1beta/")),
            ("https://g.example/x?key=1", ("https://g.example/x?key=1", "v1beta/")),
            (
                "https://v1.example/v1beta1/projects/p/publishers/google",
                ("https://v1.example/v1beta1/projects/p/publishers/google", ""),
            ),
        ] {
            assert_eq!(versioned(base), (expected.0.to_owned(), expected.1), "{base}");
        }
    }

    #[test]
    fn names_of_models_may_hold_slashes_and_colons() {
        assert_eq!(resource("gemini-2.5-pro"), "models/gemini-2.5-pro");
        assert_eq!(resource("models/gemini-2.5-pro"), "models/gemini-2.5-pro");
        assert_eq!(resource("tunedModels/mine"), "tunedModels/mine");
        assert_eq!(resource("google/gemini-3:free"), "models/google/gemini-3:free");
        assert_eq!(resource("a%2Fb"), "models/a%252Fb");
    }
}
