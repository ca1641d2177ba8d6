//! Servers that are addresses: streamable HTTP with the certificates and proxies of bowline.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};

use bowline_llm::http::Clients;

use super::config::{Host, Http};
use super::connection::causes;
use super::content::{first_line, protocol_error};

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How much is shown of what a server says in place of an answer.
const LONGEST_WORDS: usize = 300;

const USER_AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

/// The least pause, in milliseconds, before a stream that has ended is asked for again: a server may
/// ask for none at all, and would be asked without end.
const LEAST_PAUSE: u64 = 1000;

/// Makes the way to a server. A session that the server has forgotten is begun anew by itself.
pub(super) fn transport(
    http: &Http,
    host: &Host,
) -> Result<StreamableHttpClientTransport<Patient>, String> {
    // The error itself would show the address, which may hold a password.
    let url = Url::parse(&http.url).map_err(|error| format!("its url is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its url begins with {}:, not with http: or https:", url.scheme()));
    }
    let clients = Clients::new(&host.proxy);
    let client = clients.get(&url, |builder| {
        builder.user_agent(USER_AGENT).connect_timeout(CONNECT).redirect(same_place())
    });
    let mut headers = HashMap::new();
    for (name, value) in &http.headers {
        let header = HeaderName::try_from(name.as_str());
        let header = header.map_err(|_| format!("{name:?} is no name of a header"))?;
        let value = HeaderValue::try_from(value.expose());
        let mut value = value.map_err(|_| format!("the value of header {name} is none"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(http.url.as_str())
        .custom_headers(headers)
        .reinit_on_expired_session(true);
    Ok(StreamableHttpClientTransport::with_client(Patient(client?.clone()), config))
}

/// Why a request came to nothing.
pub(super) type Error = StreamableHttpError<reqwest::Error>;

/// A client that pauses before it asks for a stream again, whatever the server says.
#[derive(Debug, Clone)]
pub(super) struct Patient(Client);

impl StreamableHttpClient for Patient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let posted = self.0.post_message(uri, message, session, auth, headers).await?;
        Ok(match posted {
            StreamableHttpPostResponse::Sse(stream, session) => {
                StreamableHttpPostResponse::Sse(patient(stream), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, Error> {
        self.0.get_stream(uri, session, last_event, auth, headers).await.map(patient)
    }
}

fn patient(events: BoxedSseResponse) -> BoxedSseResponse {
    let events = events.map(|event| {
        event.map(|mut event| {
            event.retry = event.retry.map(|pause| pause.max(LEAST_PAUSE));
            event
        })
    });
    events.boxed()
}

/// What is known of a call that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What went wrong.
    pub(super) why: String,
    /// Whether it is certain that the call did not run.
    pub(super) did_not_run: bool,
    /// Whether the server does not know the session any more.
    pub(super) is_session_gone: bool,
}

/// Says what has become of a request, if its failure tells.
pub(super) fn refusal(error: &Error) -> Option<Refusal> {
    let refused = |why: String| Refusal { why, did_not_run: true, is_session_gone: false };
    let unknown = |why: String| Refusal { did_not_run: false, ..refused(why) };
    let gone = |why: &str| Refusal { is_session_gone: true, ..refused(why.to_owned()) };
    Some(match error {
        StreamableHttpError::AuthRequired(_) => {
            refused("it wants authorization (HTTP 401): give it one in `headers`".to_owned())
        }
        StreamableHttpError::InsufficientScope(_) => {
            refused("it does not allow that with this authorization (HTTP 403)".to_owned())
        }
        StreamableHttpError::SessionExpired => gone("it does not know the session (HTTP 404)"),
        StreamableHttpError::ReinitializationFailed(error) => {
            gone(&format!("it does not begin the session anew: {}", protocol_error(error)))
        }
        StreamableHttpError::HttpStatus(status) if status.status == 429 => {
            refused("it takes no more calls now (HTTP 429)".to_owned())
        }
        StreamableHttpError::HttpStatus(status) => {
            unknown(format!("it failed (HTTP {})", status.status))
        }
        StreamableHttpError::UnexpectedServerResponse(text) => {
            let text: String = first_line(text).chars().take(LONGEST_WORDS).collect();
            match text.strip_prefix("HTTP 4") {
                Some(_) => {
                    Refusal { is_session_gone: text.starts_with("HTTP 404"), ..refused(text) }
                }
                None => unknown(format!("it answered with {text}")),
            }
        }
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("nothing");
            unknown(format!("it answered with {kind}, which is no answer of an MCP server"))
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            unknown(format!("its answer is longer than the {max_size} bytes that are taken"))
        }
        StreamableHttpError::Client(error) if error.is_connect() => {
            refused(format!("no connection: {}", causes(error)))
        }
        StreamableHttpError::UnexpectedEndOfStream => {
            unknown("its answer ended before it was whole".to_owned())
        }
        _ => return None,
    })
}

/// Follows a redirect only to where the request went: the headers are meant for nobody else.
fn same_place() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let from = attempt.previous().last().map(Url::origin);
        let is_same = from == Some(attempt.url().origin()) && attempt.previous().len() < 5;
        if is_same { attempt.follow() } else { attempt.stop() }
    })
}
