//! Making requests: checked, without state, and with the certificates of the machine.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{ACCEPT, LOCATION};
use reqwest::{Client, NoProxy, Response, Url, redirect};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use bowline_agent::tool::ToolError;

use super::FetchConfig;
use super::guard::{Guard, Refused};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// The addresses that never go through a proxy.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

const USER_AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

/// What is asked for: text, rather than anything else.
const TEXT_FIRST: &str =
    "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5";

/// The clients for requests with and without TLS, made when they are first needed.
pub(super) struct Clients {
    config: FetchConfig,
    guard: Guard,
    plain: OnceLock<Result<Client, String>>,
    tls: OnceLock<Result<Client, String>>,
}

impl Clients {
    pub(super) fn new(config: FetchConfig) -> Self {
        let proxies = [&config.proxy.http, &config.proxy.https].into_iter().flatten();
        let urls = proxies.filter_map(|proxy| Url::parse(proxy.expose()).ok());
        let hosts = urls.filter_map(|url| url.host_str().map(str::to_owned)).collect();
        let guard = Guard::new(config.allowed.clone(), hosts);
        Self { config, guard, plain: OnceLock::new(), tls: OnceLock::new() }
    }

    /// Gets an address, following redirects, and tells whether there were any.
    pub(super) async fn get(&self, mut url: Url) -> Result<(Response, bool), ToolError> {
        for redirects in 0..=MAX_REDIRECTS {
            self.guard
                .check(&url)
                .await
                .map_err(|why| ToolError::Failed(format!("{url}: {why}")))?;
            let client = self.client(&url)?;
            let request = client.get(url.clone()).header(ACCEPT, TEXT_FIRST);
            let response = request.send().await.map_err(|error| explain(&error))?;
            let Some(next) = redirection(&response) else { return Ok((response, redirects > 0)) };
            url = next;
        }
        Err(ToolError::Failed(format!("more than {MAX_REDIRECTS} redirects; the last is to {url}")))
    }

    fn client(&self, url: &Url) -> Result<&Client, ToolError> {
        // A proxy that itself speaks TLS needs the certificates for plain targets too.
        let needs_tls = url.scheme() == "https"
            || self.config.proxy.http.as_ref().is_some_and(|url| {
                url.expose().get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"))
            });
        let client = if needs_tls {
            self.tls.get_or_init(|| self.build(trusting_the_machine()))
        } else {
            self.plain.get_or_init(|| self.build(trusting_nobody()))
        };
        client.as_ref().map_err(|error| ToolError::failed(error.as_str()))
    }

    fn build(&self, tls: Result<ClientConfig, rustls::Error>) -> Result<Client, String> {
        let tls = tls.map_err(|error| format!("cannot set up TLS: {error}"))?;
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(redirect::Policy::none())
            .referer(false)
            // No connection outlives its call.
            .pool_max_idle_per_host(0)
            .dns_resolver(self.guard.clone())
            .no_proxy();
        let direct = format!("{LOOPBACK},{}", self.config.proxy.no_proxy);
        for proxy in self.proxies()? {
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(&direct)));
        }
        builder.build().map_err(|error| format!("cannot set up HTTP: {error}"))
    }

    fn proxies(&self) -> Result<Vec<reqwest::Proxy>, String> {
        let http = self.config.proxy.http.as_ref().map(|url| reqwest::Proxy::http(url.expose()));
        let https = self.config.proxy.https.as_ref().map(|url| reqwest::Proxy::https(url.expose()));
        let proxies = http.into_iter().chain(https).collect::<reqwest::Result<_>>();
        // The address may hold a password, which the error itself would show.
        proxies.map_err(|_| "the address of the proxy is no URL".to_owned())
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
pub(super) fn explain(error: &reqwest::Error) -> ToolError {
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

/// Trusts the certificates that the machine trusts. Loading them takes milliseconds and memory.
fn trusting_the_machine() -> Result<ClientConfig, rustls::Error> {
    Ok(with_protocols(builder()?.with_platform_verifier()?.with_no_client_auth()))
}

/// Trusts nobody; for a client that never speaks TLS.
fn trusting_nobody() -> Result<ClientConfig, rustls::Error> {
    Ok(with_protocols(
        builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    ))
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    // Naming the provider leaves the process-wide default to whoever embeds this crate.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
}

fn with_protocols(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
