//! Local servers: finding one that runs on this machine, when nothing else names a model.
//!
//! A server is known by what it answers, never by its port. Until it is known it gets no prompt and
//! no key: only `GET`s of addresses that say what it is.

mod http;
mod recognise;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::config::Config;
use crate::environment::Environment;

pub use recognise::{Kind, Offer};

/// Where local servers usually are: Ollama, llama-server, LM Studio, vLLM.
pub const ADDRESSES: [&str; 4] =
    ["127.0.0.1:11434", "127.0.0.1:8080", "127.0.0.1:1234", "127.0.0.1:8000"];

/// How long looking for a server may take.
const TIME: Duration = Duration::from_millis(500);

/// A server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub address: SocketAddr,
    /// Its models that can hold a conversation, best first.
    pub models: Vec<Offer>,
}

/// A model of a local server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The server's kind, which is also the name of its provider.
    pub kind: Kind,
    /// Where Chat Completions are spoken.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// How many tokens a request and its answer may have together, if the server says so.
    pub context_window: Option<u64>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, base_url, model, context_window } = self;
        write!(f, "no model is named; taking {model} of {kind} at {base_url}")?;
        match context_window {
            Some(window) => write!(f, ", {window} tokens"),
            None => Ok(()),
        }
    }
}

/// Returns the addresses to look at: that of `OLLAMA_HOST`, and the configured or the usual ones.
pub fn addresses(config: &Config, environment: &Environment) -> Vec<SocketAddr> {
    let configured = match &config.local_servers {
        Some(addresses) => addresses.clone(),
        None => ADDRESSES.map(str::to_owned).to_vec(),
    };
    let mut addresses = Vec::new();
    for text in ollama_host(environment).into_iter().chain(configured) {
        if let Some(address) = loopback(&text)
            && !addresses.contains(&address)
        {
            addresses.push(address);
        }
    }
    addresses
}

/// Says that nothing listens at the address of a provider, and what to do. Only this machine is asked.
pub(crate) async fn silence(provider: &str, base_url: &str) -> Option<(String, String)> {
    let place = base_url.strip_prefix("http://")?.split(['/', '?']).next()?;
    let address = loopback(place)?;
    if timeout(TIME, http::knock(address)).await.ok().flatten().is_some() {
        return None;
    }
    let why = format!("nothing answers at {address}");
    Some((why, format!("start its server, or correct [providers.{provider}] base_url")))
}

/// Returns the host and port that `OLLAMA_HOST` names, as Ollama itself reads it.
pub(crate) fn ollama_host(environment: &Environment) -> Option<String> {
    let host = environment.get("OLLAMA_HOST")?.trim();
    let (default_port, host) = match host.split_once("://") {
        Some(("http", rest)) => ("80", rest),
        Some(("https", _)) => return None,
        Some(_) | None => ("11434", host.strip_prefix("http://").unwrap_or(host)),
    };
    let host = host.split('/').next().unwrap_or_default();
    let is_bare_v6 = host.starts_with('[') && host.ends_with(']');
    let (name, port) = match host.rsplit_once(':').filter(|_| !is_bare_v6) {
        Some((name, port)) => (name, port),
        None => (host, default_port),
    };
    // A server that listens everywhere is reached at home.
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        name => name,
    };
    port.parse::<u16>().ok().map(|port| format!("{name}:{port}"))
}

/// Reads an address on this machine.
pub(crate) fn loopback(text: &str) -> Option<SocketAddr> {
    let text = text.trim().trim_start_matches("http://").trim_end_matches('/');
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback())
}

/// Looks for servers, at all addresses at once.
pub async fn servers(addresses: &[SocketAddr]) -> Vec<Server> {
    let looks = addresses.iter().map(|address| async move {
        // Each for itself: one that hangs must not hide the others.
        timeout(TIME, look(*address)).await.ok().flatten()
    });
    join_all(looks).await.into_iter().flatten().collect()
}

async fn look(address: SocketAddr) -> Option<Server> {
    // Where nobody listens, nothing else is tried.
    http::knock(address).await?;
    let paths = recognise::PATHS.map(|path| http::get(address, path));
    let answers = join_all(paths).await.into_iter().map(Option::unwrap_or_default);
    let answers: Vec<Value> = answers.collect();
    let (kind, models) = recognise::recognise(&answers)?;
    Some(Server { kind, address, models })
}

/// Returns the first model of the first server that has one.
pub async fn find(addresses: &[SocketAddr]) -> Option<Found> {
    let servers = servers(addresses).await;
    let server = servers.into_iter().find(|server| !server.models.is_empty())?;
    let offer = server.models.into_iter().next()?;
    let context_window = match (offer.context_window, server.kind) {
        (None, Kind::Ollama) => ollama_window(server.address, &offer.name).await,
        (window, _) => window,
    };
    Some(Found {
        kind: server.kind,
        base_url: format!("http://{}/v1", server.address),
        model: offer.name,
        context_window,
    })
}

/// Asks Ollama for the window of a model: what it runs with, or what it is set to. What the model
/// could do is of no use, since Ollama cuts off what is more than it runs with.
async fn ollama_window(address: SocketAddr, model: &str) -> Option<u64> {
    let running = http::get(address, "/api/ps");
    let question = json!({ "model": model });
    let settings = http::post(address, "/api/show", &question);
    let (running, settings) =
        timeout(TIME, async { (running.await, settings.await) }).await.ok()?;
    recognise::ollama_window(model, &running.unwrap_or_default(), &settings.unwrap_or_default())
}

#[cfg(test)]
mod tests;
