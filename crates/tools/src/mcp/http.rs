//! Servers that are addresses: streamable HTTP with the certificates and proxies of bowline.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use bowline_llm::http::Clients;

use super::config::{Host, Http};

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

const USER_AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

/// Makes the way to a server. A session that the server has forgotten is begun anew by itself.
pub(super) fn transport(
    http: &Http,
    host: &Host,
) -> Result<StreamableHttpClientTransport<Client>, String> {
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
    Ok(StreamableHttpClientTransport::with_client(client?.clone(), config))
}

/// Follows a redirect only to where the request went: the headers are meant for nobody else.
fn same_place() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let from = attempt.previous().last().map(Url::origin);
        let is_same = from == Some(attempt.url().origin()) && attempt.previous().len() < 5;
        if is_same { attempt.follow() } else { attempt.stop() }
    })
}
