//! One OTLP receiver, and what it is told over which wire.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http_body_util::BodyExt as _;
use prost::Message;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use reqwest::{Body, RequestBuilder, Response, Url, redirect};
use serde::Serialize;
use serde_json::Value as Json;
use tokio::time::{sleep, timeout};

use bowline_llm::http::{Clients, Proxy};

use crate::config::TraceProtocol;

use super::otlp;
use super::settings::Target;

/// How long to wait before a receiver that is busy is asked again, each time.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// How much of a refusal is told.
const REFUSAL: usize = 200;

/// A receiver of spans or of metrics.
pub(super) struct Receiver {
    url: Url,
    protocol: TraceProtocol,
    headers: HeaderMap,
    timeout: Duration,
    clients: Clients,
}

/// Why a receiver did not take something.
struct Refusal {
    what: String,
    is_transient: bool,
}

impl Receiver {
    /// Makes ready to tell; nothing is connected yet.
    pub(super) fn new(target: Target, proxy: &Proxy) -> Result<Self, String> {
        let url: Url = target.url.parse().map_err(|_| format!("{:?} is no URL", target.url))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(format!("{:?} is no http or https address", target.url));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in target.headers {
            let wrong = || format!("the header {name:?} has characters that are not allowed");
            let key = HeaderName::try_from(&name).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value.expose()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let kind = match target.protocol {
            TraceProtocol::HttpProtobuf => "application/x-protobuf",
            TraceProtocol::HttpJson => "application/json",
            TraceProtocol::Grpc => "application/grpc",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if target.protocol == TraceProtocol::Grpc {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static(kind));
        }
        let clients = Clients::new(proxy);
        clients.check()?;
        let (protocol, timeout) = (target.protocol, target.timeout);
        Ok(Self { url, protocol, headers, timeout, clients })
    }

    /// Returns the address without what may be secret.
    pub(super) fn address(&self) -> String {
        self.url.origin().ascii_serialization() + self.url.path()
    }

    /// Tells it something, again if it is busy.
    pub(super) async fn tell<M: Message + Serialize>(&self, message: &M) -> Result<(), String> {
        let body = match self.protocol {
            TraceProtocol::HttpProtobuf => message.encode_to_vec(),
            TraceProtocol::HttpJson => {
                serde_json::to_vec(message).map_err(|error| error.to_string())?
            }
            TraceProtocol::Grpc => framed(message),
        };
        let told = timeout(self.timeout, self.insist(body)).await;
        told.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.timeout)))
    }

    async fn insist(&self, body: Vec<u8>) -> Result<(), String> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let refusal = match self.post(body.clone()).await {
                Ok(()) => return Ok(()),
                Err(refusal) => refusal,
            };
            match pauses.next().filter(|_| refusal.is_transient) {
                Some(pause) => sleep(pause).await,
                None => return Err(refusal.what),
            }
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), Refusal> {
        let is_grpc = self.protocol == TraceProtocol::Grpc;
        let client = self.clients.get(&self.url, |builder| {
            let builder = builder.redirect(redirect::Policy::none());
            if is_grpc { builder.http2_prior_knowledge() } else { builder }
        });
        let client = client.map_err(|what| Refusal::lasting(what.to_owned()))?;
        let request = client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        if is_grpc { called(request).await } else { posted(request).await }
    }
}

/// Makes a request of OTLP over HTTP.
async fn posted(request: RequestBuilder) -> Result<(), Refusal> {
    let response = request.send().await.map_err(Refusal::of_transport)?;
    let status = response.status();
    let is_json = is_json(&response);
    let body = response.bytes().await.map_err(Refusal::of_transport)?;
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body);
        let text = if is_json { text.trim() } else { "" };
        let text = text.get(..text.floor_char_boundary(REFUSAL)).unwrap_or_default();
        let is_transient = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        return Err(Refusal {
            what: format!("{status} {text}").trim_end().to_owned(),
            is_transient,
        });
    }
    if is_json { accepted_in_json(&body) } else { accepted(&body) }
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.contains("json") || kind.starts_with("text/plain"))
}

/// Makes a unary call of gRPC: one framed message there, one back, the status in the trailers.
async fn called(request: RequestBuilder) -> Result<(), Refusal> {
    let response = request.send().await.map_err(Refusal::of_transport)?;
    let status = response.status();
    if !status.is_success() {
        return Err(Refusal::lasting(status.to_string()));
    }
    let (parts, body) = http::Response::<Body>::from(response).into_parts();
    let body = body.collect().await.map_err(Refusal::of_transport)?;
    // A call that fails at once has its status where others have their headers.
    let trailers = body.trailers().cloned().unwrap_or(parts.headers);
    let word = |name| trailers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    match word("grpc-status") {
        Some("0") => accepted(body.to_bytes().get(5..).unwrap_or_default()),
        Some(code) => {
            let message = word("grpc-message").unwrap_or_default();
            let what = format!("gRPC status {code} {message}").trim_end().to_owned();
            let is_transient = matches!(code, "1" | "4" | "8" | "10" | "11" | "14" | "15");
            Err(Refusal { what, is_transient })
        }
        None => Err(Refusal::lasting("it does not speak gRPC".to_owned())),
    }
}

/// Returns a message as gRPC sends it: not compressed, and how long it is.
fn framed(message: &impl Message) -> Vec<u8> {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    let mut frame = vec![0];
    frame.extend(length.to_be_bytes());
    frame.extend(message.encode_to_vec());
    frame
}

/// Looks whether a receiver that took a message took all of it. One that says nothing, or says it in a
/// way that is not understood, did.
fn accepted(body: &[u8]) -> Result<(), Refusal> {
    let partial = otlp::Accepted::decode(body).ok().and_then(|accepted| accepted.partial_success);
    match partial {
        Some(partial) if partial.rejected > 0 => {
            let otlp::PartialSuccess { rejected, error_message } = partial;
            Err(Refusal::lasting(format!("{rejected} rejected: {error_message}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// As [`accepted`], of an answer in JSON.
fn accepted_in_json(body: &[u8]) -> Result<(), Refusal> {
    let answer: Json = serde_json::from_slice(body).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let counts = [&partial["rejectedSpans"], &partial["rejectedDataPoints"]];
    // Long numbers are texts in this JSON.
    let count = |count: &Json| count.as_i64().or_else(|| count.as_str()?.parse().ok());
    match counts.into_iter().filter_map(count).find(|count| *count > 0) {
        Some(rejected) => {
            let message = partial["errorMessage"].as_str().unwrap_or_default();
            Err(Refusal::lasting(format!("{rejected} rejected: {message}")))
        }
        None => Ok(()),
    }
}

impl Refusal {
    fn lasting(what: String) -> Self {
        Self { what, is_transient: false }
    }

    /// What cannot be reached is not asked again: it will not be there in a second.
    fn of_transport(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let causes = std::iter::successors(error.source(), |&error| error.source());
        let cause = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
        Self::lasting(cause)
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.address()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(accepted: Result<(), Refusal>) -> Option<String> {
        accepted.err().map(|refusal| refusal.what)
    }

    #[test]
    fn what_a_receiver_did_not_take_is_told() {
        let partial = |rejected| {
            let error_message = "too old".to_owned();
            let partial_success = Some(otlp::PartialSuccess { rejected, error_message });
            otlp::Accepted { partial_success }.encode_to_vec()
        };
        assert_eq!(what(accepted(&partial(2))).as_deref(), Some("2 rejected: too old"));
        // A message alone is advice.
        assert_eq!(what(accepted(&partial(0))), None);
        assert_eq!(what(accepted(b"")), None);
        assert_eq!(what(accepted(b"<html>")), None);
        for (answer, told) in [
            (r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}"#, true),
            (r#"{"partialSuccess":{"rejectedDataPoints":2,"errorMessage":"too old"}}"#, true),
            (r#"{"partialSuccess":{"rejectedSpans":"0","errorMessage":"hm"}}"#, false),
            (r#"{"partialSuccess":{}}"#, false),
            ("", false),
        ] {
            let told = told.then(|| "2 rejected: too old".to_owned());
            assert_eq!(what(accepted_in_json(answer.as_bytes())), told, "{answer}");
        }
    }
}
