//! HTTP clients set up without touching the state of the process.

use std::fmt;
use std::sync::{Arc, OnceLock};

use reqwest::{Client, ClientBuilder, NoProxy, Url};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::Proxy;

/// The addresses that never go through a proxy.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// The clients for addresses with and without TLS, each made when it is first needed: loading the
/// certificates of the machine takes milliseconds and memory.
///
/// Proxies are those it is told of; nothing is read from the environment.
pub struct Clients {
    proxies: Result<Vec<reqwest::Proxy>, String>,
    plain_needs_tls: bool,
    plain: OnceLock<Result<Client, String>>,
    tls: OnceLock<Result<Client, String>>,
}

impl Clients {
    /// Makes none yet.
    pub fn new(proxy: &Proxy) -> Self {
        // A proxy that itself speaks TLS needs the certificates for plain targets too.
        let plain_needs_tls = proxy.http.as_ref().is_some_and(|url| {
            url.expose().get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"))
        });
        let proxies = proxies(proxy);
        Self { proxies, plain_needs_tls, plain: OnceLock::new(), tls: OnceLock::new() }
    }

    /// Tells what is wrong with the addresses of the proxies.
    ///
    /// # Errors
    /// If one of them is no URL.
    pub fn check(&self) -> Result<(), String> {
        self.proxies.as_ref().map(|_| ()).map_err(String::clone)
    }

    /// Returns the client for an address, finished by `finish` if it is the first of its kind.
    ///
    /// # Errors
    /// If it cannot be made, which says why.
    pub fn get(
        &self,
        url: &Url,
        finish: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<&Client, &str> {
        let client = if url.scheme() == "https" || self.plain_needs_tls {
            self.tls.get_or_init(|| self.build(trusting_the_machine(), finish))
        } else {
            self.plain.get_or_init(|| self.build(trusting_nobody(), finish))
        };
        client.as_ref().map_err(String::as_str)
    }

    fn build(
        &self,
        tls: Result<ClientConfig, rustls::Error>,
        finish: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, String> {
        let tls = tls.map_err(|error| format!("cannot set up TLS: {error}"))?;
        let mut builder = finish(Client::builder().tls_backend_preconfigured(tls)).no_proxy();
        for proxy in self.proxies.as_ref().map_err(String::clone)? {
            builder = builder.proxy(proxy.clone());
        }
        builder.build().map_err(|error| format!("cannot set up HTTP: {error}"))
    }

    #[cfg(test)]
    pub(super) fn knows_certificates(&self) -> bool {
        self.tls.get().is_some()
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy's address may hold a password.
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

fn proxies(proxy: &Proxy) -> Result<Vec<reqwest::Proxy>, String> {
    let direct = NoProxy::from_string(&format!("{LOOPBACK},{}", proxy.no_proxy));
    let http = proxy.http.as_ref().map(|url| reqwest::Proxy::http(url.expose()));
    let https = proxy.https.as_ref().map(|url| reqwest::Proxy::https(url.expose()));
    let all = http.into_iter().chain(https);
    let all = all.map(|made| made.map(|proxy| proxy.no_proxy(direct.clone())));
    // The error itself would show the address.
    all.collect::<reqwest::Result<_>>().map_err(|_| "the address of the proxy is no URL".to_owned())
}

fn trusting_the_machine() -> Result<ClientConfig, rustls::Error> {
    Ok(with_protocols(builder()?.with_platform_verifier()?.with_no_client_auth()))
}

/// Trusts nobody; for clients that never speak TLS.
fn trusting_nobody() -> Result<ClientConfig, rustls::Error> {
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
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
