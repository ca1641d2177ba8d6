//! Making requests: checked, without state, and with the certificates of the machine.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, Url, redirect};

use bowline_agent::tool::ToolError;
use bowline_llm::http;

use super::FetchConfig;
use super::guard::{Guard, Refused};
use crate::guard::{self, Reach};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(30);

const USER_AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

/// What is asked for: text, rather than anything else.
const TEXT_FIRST: &str =
    "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5";

/// The clients for requests, and who looks where they go.
pub(crate) struct Clients {
    config: FetchConfig,
    guard: Guard,
    clients: http::Clients,
}

impl Clients {
    /// Makes clients; `rules` know the addresses that are named although they are not public.
    pub(crate) fn new(config: FetchConfig, rules: Arc<dyn guard::Guard>) -> Self {
        let proxies = [&config.proxy.http, &config.proxy.https].into_iter().flatten();
        let urls = proxies.filter_map(|proxy| Url::parse(proxy.expose()).ok());
        let hosts = urls.filter_map(|url| url.host_str().map(str::to_owned)).collect();
        let guard = Guard::new(config.allowed.clone(), hosts, rules);
        let clients = http::Clients::new(&config.proxy);
        Self { config, guard, clients }
    }

    /// Gets an address, following redirects, and tells whether there were any.
    pub(crate) async fn get(
        &self,
        mut url: Url,
        may_ask: impl Fn(&str) -> Result<Reach, String>,
    ) -> Result<(Response, bool), ToolError> {
        for redirects in 0..=MAX_REDIRECTS {
            let reach = may_ask(url.host_str().unwrap_or_default()).map_err(ToolError::Failed)?;
            let response = self.send(Request::get(url), reach).await?;
            let Some(next) = redirection(&response) else { return Ok((response, redirects > 0)) };
            url = next;
        }
        Err(ToolError::Failed(format!("more than {MAX_REDIRECTS} redirects; the last is to {url}")))
    }

    /// Sends one request, to where it may go: `reach` is what was said of its host.
    pub(crate) async fn send(&self, request: Request, reach: Reach) -> Result<Response, ToolError> {
        let Request { method, url, headers, body } = request;
        let checked = self.guard.check(&url, reach).await;
        checked.map_err(|why| ToolError::Failed(format!("{url}: {why}")))?;
        let mut request = self.client(&url)?.request(method, url).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| explain(&error))
    }

    fn client(&self, url: &Url) -> Result<&Client, ToolError> {
        let client = self.clients.get(url, |builder| {
            builder
                .user_agent(USER_AGENT)
                .connect_timeout(CONNECT)
                .read_timeout(SILENCE)
                .redirect(redirect::Policy::none())
                .referer(false)
                // No connection outlives its call.
                .pool_max_idle_per_host(0)
                .dns_resolver(self.guard.clone())
        });
        client.map_err(ToolError::failed)
    }
}

/// A request, as it is sent once.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<String>,
}

impl Request {
    /// Asks for a page.
    fn get(url: Url) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(TEXT_FIRST))]);
        Self { method: Method::GET, url, headers, body: None }
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clients").field(&self.config).finish()
    }
}

/// Returns where an answer sends the request.
fn redirection(response: &Response) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut url = response.url().join(location).ok()?;
    url.set_fragment(None);
    Some(url)
}

/// Says why a request failed: the refusal, if there was one, else all that is known.
pub(crate) fn explain(error: &reqwest::Error) -> ToolError {
    let first: &(dyn Error + 'static) = error;
    let chain: Vec<_> = std::iter::successors(Some(first), |&error| error.source()).collect();
    let url = error.url().map(Url::as_str).unwrap_or_default();
    if let Some(refused) = chain.iter().find_map(|error| error.downcast_ref::<Refused>()) {
        return ToolError::Failed(format!("{url}: {refused}"));
    }
    let last = chain.last().map(ToString::to_string).unwrap_or_default();
    let what = match () {
        () if error.is_timeout() => "no answer in time",
        () if error.is_connect() => "cannot connect",
        () => "the transfer failed",
    };
    ToolError::Failed(format!("{url}: {what}: {last}"))
}
