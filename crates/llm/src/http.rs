//! The transport all wires share: one pool of connections, bounded in time and size.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, Url, redirect};
use tokio::time::timeout;

use crate::{ErrorKind, ModelError, Secret};

mod answer;
mod clients;
mod retry_after;

pub(crate) use answer::Answer;
pub use clients::Clients;

/// How long the value of a header must be to be taken out of an error, in bytes. Those that are
/// configured are no keys for certain, and a short one may stand in any text.
const SHORTEST_SECRET: usize = 8;

/// A pool of kept connections. Clones share it; one for the whole process is right.
///
/// Certificates are loaded when the first `https` address is asked, not before.
#[derive(Clone)]
pub struct Transport(Arc<Pools>);

struct Pools {
    config: Config,
    clients: Clients,
    /// Whether anything was answered, so that a request may go over a connection that was kept.
    has_answered: AtomicBool,
}

/// How connections are made.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// The proxies to use. Nothing is read from the environment here.
    pub proxy: Proxy,
    /// What the client calls itself.
    pub user_agent: String,
}

/// The proxies for outgoing requests. Loopback addresses never go through one.
#[derive(Debug, Clone, Default)]
pub struct Proxy {
    /// The address of the proxy for `http` requests; it may hold a password.
    pub http: Option<Secret>,
    /// The address of the proxy for `https` requests; it may hold a password.
    pub https: Option<Secret>,
    /// Further hosts, domains and networks to reach directly, separated by commas.
    pub no_proxy: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            proxy: Proxy::default(),
            user_agent: concat!("bowline/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl Transport {
    /// Makes a pool. No connection is made before the first request.
    ///
    /// # Errors
    /// If the address of a proxy is none.
    pub fn new(config: Config) -> Result<Self, ModelError> {
        let transport = Self::with(config);
        let checked = transport.0.clients.check();
        checked.map_err(|error| ModelError::new(ErrorKind::InvalidRequest, error))?;
        Ok(transport)
    }

    fn with(config: Config) -> Self {
        let clients = Clients::new(&config.proxy);
        Self(Arc::new(Pools { config, clients, has_answered: AtomicBool::new(false) }))
    }

    /// Sends `body` as JSON and returns the answer if it is a success.
    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        body: Vec<u8>,
    ) -> Result<Answer, ModelError> {
        let idle_timeout = endpoint.idle_timeout;
        let request = self
            .client(&endpoint.url)?
            .post(endpoint.url.clone())
            .headers(endpoint.headers.clone())
            .body(body);
        let response = timeout(idle_timeout, self.send(request))
            .await
            .map_err(|_| silence(idle_timeout))?
            .map_err(transport_error)?;
        let answer = Answer::accept(response, idle_timeout).await;
        answer.map_err(|error| endpoint.conceal(error))
    }

    /// Sends a request, and once more if it may be that the server closed a kept connection while the
    /// request was on its way. llama-server promises to keep connections and closes them right after a
    /// stream, so that a turn that follows at once would fail every now and then.
    async fn send(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        let may_be_kept = self.0.has_answered.load(Ordering::Relaxed);
        let again = if may_be_kept { request.try_clone() } else { None };
        let response = match (request.send().await, again) {
            (Err(error), Some(again)) if is_hang_up(&error) => again.send().await,
            (sent, _) => sent,
        }?;
        self.0.has_answered.store(true, Ordering::Relaxed);
        Ok(response)
    }

    fn client(&self, url: &Url) -> Result<&Client, ModelError> {
        let Pools { config, clients, .. } = &*self.0;
        let client = clients.get(url, |builder| {
            builder
                .user_agent(&config.user_agent)
                .connect_timeout(config.connect_timeout)
                .tcp_nodelay(true)
                .redirect(redirect::Policy::custom(follow_same_origin))
        });
        client.map_err(|error| ModelError::new(ErrorKind::InvalidRequest, error))
    }
}

impl Default for Transport {
    fn default() -> Self {
        Self::with(Config::default())
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transport").field(&self.0.config).finish()
    }
}

/// Stays with the server that was asked, since the key in the headers is for nobody else, and
/// follows only where the request stays a POST.
fn follow_same_origin(attempt: redirect::Attempt) -> redirect::Action {
    let is_same =
        attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    let is_post = matches!(attempt.status().as_u16(), 307 | 308);
    if is_same && is_post && attempt.previous().len() <= 3 {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Where requests of one model go, and what always goes with them.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    url: Url,
    headers: HeaderMap,
    idle_timeout: Duration,
}

impl Endpoint {
    /// Makes an endpoint of a base address and a path below it.
    pub(crate) fn new(
        base_url: &str,
        path: &str,
        idle_timeout: Duration,
    ) -> Result<Self, ModelError> {
        let invalid = |why: &str| {
            let message = format!("base_url {base_url:?} {why}");
            ModelError::new(ErrorKind::InvalidRequest, message)
        };
        let mut url: Url = base_url.parse().map_err(|_| invalid("is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid("is no http or https address"));
        }
        // Setting the path keeps a query such as Azure's `api-version`.
        let full = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&full);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(Self { url, headers, idle_timeout })
    }

    /// Adds a header, in place of one of the same name; a secret one is never logged.
    pub(crate) fn header(
        &mut self,
        name: &str,
        value: &str,
        is_secret: bool,
    ) -> Result<(), ModelError> {
        let invalid = |what: &str| {
            let message = format!("header {name:?}: {what} has characters that are not allowed");
            ModelError::new(ErrorKind::InvalidRequest, message)
        };
        let key = HeaderName::try_from(name).map_err(|_| invalid("the name"))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| invalid("the value"))?;
        value.set_sensitive(is_secret);
        self.headers.insert(key, value);
        Ok(())
    }

    /// Adds a key as most servers want it.
    pub(crate) fn bearer(&mut self, key: &Secret) -> Result<(), ModelError> {
        self.header("authorization", &format!("Bearer {}", key.expose()), true)
    }

    /// Adds headers in place of any others of the same names; all are taken for secrets.
    pub(crate) fn secret_headers(
        &mut self,
        headers: &[(String, String)],
    ) -> Result<(), ModelError> {
        headers.iter().try_for_each(|(name, value)| self.header(name, value, true))
    }

    /// Adds a pair to the query of the address.
    pub(crate) fn query(&mut self, name: &str, value: &str) {
        self.url.query_pairs_mut().append_pair(name, value);
    }

    /// Takes the key out of what a server says: some repeat the one they do not accept.
    fn conceal(&self, mut error: ModelError) -> ModelError {
        let secrets = self.headers.values().filter(|value| value.is_sensitive());
        for secret in secrets.filter_map(|value| value.to_str().ok()) {
            let secret = secret.strip_prefix("Bearer ").unwrap_or(secret);
            if secret.len() >= SHORTEST_SECRET {
                error.message = error.message.replace(secret, "[secret]");
            }
        }
        error
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

fn silence(limit: Duration) -> ModelError {
    ModelError::new(ErrorKind::Timeout, format!("nothing came for {limit:?}"))
}

fn transport_error(error: reqwest::Error) -> ModelError {
    let kind = if error.is_timeout() {
        ErrorKind::Timeout
    } else if error.is_builder() || speaks_no_tls_we_trust(&error) {
        // Trying again would fail the same way.
        ErrorKind::InvalidRequest
    } else {
        ErrorKind::Transport
    };
    ModelError::new(kind, causes(error))
}

/// Tells whether a connection was made, and then failed before the answer began.
fn is_hang_up(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}

/// Tells whether the other side has a certificate that is not trusted, or speaks something else.
fn speaks_no_tls_we_trust(error: &reqwest::Error) -> bool {
    let mut cause: &(dyn Error + 'static) = error;
    loop {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return matches!(
                tls,
                rustls::Error::InvalidCertificate(_)
                    | rustls::Error::InvalidMessage(_)
                    | rustls::Error::PeerIncompatible(_)
            );
        }
        // An `io::Error` does not name what it wraps as its source.
        let next = match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => cause.source(),
        };
        let Some(next) = next else { return false };
        cause = next;
    }
}

/// Writes what lies below an error; the address is left out, since a query may hold a key.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut texts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // The layers between only repeat that a request failed, or what is below them.
        texts.retain(|above| !above.starts_with("client error") && !above.contains(&text));
        texts.push(text);
        source = cause.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_put_below_the_base_address() {
        let url = |base| {
            Endpoint::new(base, "chat/completions", Duration::ZERO).map(|e| e.url.to_string())
        };
        assert_eq!(url("http://a:1/v1").unwrap(), "http://a:1/v1/chat/completions");
        assert_eq!(url("http://a/v1/").unwrap(), "http://a/v1/chat/completions");
        assert_eq!(url("http://a").unwrap(), "http://a/chat/completions");
        assert_eq!(url("https://a/o?v=1").unwrap(), "https://a/o/chat/completions?v=1");
        assert!(url("a/v1").is_err());
        assert!(url("ftp://a").is_err());
    }

    #[test]
    fn plain_http_loads_no_certificates() {
        let transport = Transport::default();
        transport.client(&"http://127.0.0.1/".parse().unwrap()).unwrap();
        assert!(!transport.0.clients.knows_certificates());
    }

    #[test]
    fn a_proxy_that_is_no_address_is_refused_without_showing_it() {
        let proxy = Proxy { http: Some("http://user:pa ss@[".into()), ..Proxy::default() };
        let config = Config { proxy, ..Config::default() };
        assert!(!format!("{config:?}").contains("pa ss"));
        let error = Transport::new(config).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(!error.message.contains("pa ss"));
    }
}
