//! A connection to a server, from its handshake to its end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::service::{
    ClientInitializeError, Peer, RoleClient, RunningService, ServiceError, serve_client,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::time::{Instant, timeout_at};

use super::call::Calls;
use super::client::Client;
use super::config::{Host, Reach, ServerConfig};
use super::http::Refusal;
use super::lines::Lines;
use super::listing::Tools;
use super::stdio::{Aside, Process};
use super::{content, http};

/// How much of what a server says on its standard error is shown with an error.
const SHOWN_ASIDE: usize = 2000;

/// How long a connection may take to close.
const CLOSE: Duration = Duration::from_secs(2);

/// A connection to a server. Dropping it closes it.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    calls: Arc<Calls>,
    aside: Option<Aside>,
    is_lost: AtomicBool,
    owned: Mutex<Owned>,
}

/// What ends with a connection.
#[derive(Default)]
struct Owned {
    service: Option<RunningService<RoleClient, Client>>,
    process: Option<Process>,
}

/// What a server offers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Offer {
    /// Its own name and version.
    pub(super) server: String,
    /// Its tools.
    pub(super) tools: Tools,
    /// Whether it has resources that can be read.
    pub(super) has_resources: bool,
}

/// A server that cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreachable {
    /// Why.
    pub(super) why: String,
    /// What it said on its standard error.
    pub(super) aside: String,
    /// Whether trying again soon may help.
    pub(super) may_recover: bool,
}

impl Connection {
    /// Reaches a server and hears what it offers, within its time to start.
    pub(super) async fn open(
        config: &ServerConfig,
        host: &Host,
        client: Client,
    ) -> Result<(Self, Offer), Unreachable> {
        let deadline = Instant::now() + config.startup_timeout;
        let never = |why: String| Unreachable { why, aside: String::new(), may_recover: false };
        let late = |process: Option<Process>| Unreachable {
            why: format!(
                "it did not answer within {} s (startup_timeout)",
                config.startup_timeout.as_secs_f64()
            ),
            aside: process.map(|process| process.aside().tail(SHOWN_ASIDE)).unwrap_or_default(),
            may_recover: false,
        };
        let calls = Arc::clone(&client.calls);
        let (mut process, service) =
            match config.reach.as_ref().map_err(|why| never(why.clone()))? {
                Reach::Program(program) => {
                    let started = Process::start(&config.name, program, host).await;
                    let (process, (read, write)) = started.map_err(never)?;
                    let transport = AsyncRwTransport::new(Lines::new(read), write);
                    // None of these lines is too long.
                    let transport = transport.with_max_line_length(usize::MAX);
                    let service = serve_client(client, transport);
                    (Some(process), timeout_at(deadline, service).await)
                }
                Reach::Http(address) => {
                    let transport = http::transport(address, host).map_err(never)?;
                    (None, timeout_at(deadline, serve_client(client, transport)).await)
                }
            };
        let (why, may_recover) = match service {
            Ok(Ok(service)) => {
                let peer = service.peer().clone();
                let aside = process.as_ref().map(|process| process.aside().clone());
                let owned = Mutex::new(Owned { service: Some(service), process: process.take() });
                let is_lost = AtomicBool::new(false);
                let connection = Self { peer, calls, aside, is_lost, owned };
                match timeout_at(deadline, connection.offer()).await {
                    Ok(Ok(offer)) => return Ok((connection, offer)),
                    Ok(Err(error)) => {
                        let why = format!("it does not say what it offers: {}", told(&error));
                        return Err(connection.unreachable(why, true).await);
                    }
                    Err(_) => return Err(late(connection.lock().process.take())),
                }
            }
            Ok(Err(error)) => (explained(&error), true),
            // That it ends now is our doing.
            Err(_) => return Err(late(process)),
        };
        Err(unreachable(why, may_recover, process).await)
    }

    /// Asks what the server offers.
    pub(super) async fn offer(&self) -> Result<Offer, ServiceError> {
        let info = self.peer.peer_info();
        let capabilities = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        let server = server.map(|server| format!("{} {}", server.name, server.version));
        let tools = match capabilities.tools {
            Some(_) => Tools::of(&self.peer).await?,
            None => Tools::default(),
        };
        let has_resources = capabilities.resources.is_some() && self.has_resources().await;
        Ok(Offer { server: server.unwrap_or_default(), tools, has_resources })
    }

    async fn has_resources(&self) -> bool {
        let listed = self.peer.list_resources(None).await;
        if listed.is_ok_and(|listed| !listed.resources.is_empty()) {
            return true;
        }
        let templates = self.peer.list_resource_templates(None).await;
        templates.is_ok_and(|listed| !listed.resource_templates.is_empty())
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    pub(super) fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// Tells whether nothing more can be said over it.
    pub(super) fn is_closed(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed) || self.peer.is_transport_closed()
    }

    /// Takes note that the server does not know of it any more.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Returns what the server has said on its standard error of late.
    pub(super) fn aside(&self) -> String {
        self.aside.as_ref().map(|aside| aside.tail(SHOWN_ASIDE)).unwrap_or_default()
    }

    /// Says what has become of a connection that broke.
    pub(super) async fn obituary(&self) -> String {
        let process = self.lock().process.take();
        let ending = match process {
            Some(mut process) => process.ending().await,
            None => None,
        };
        with_aside(ending.unwrap_or_default(), &self.aside())
    }

    /// Closes the connection, and ends its server if that is a program.
    pub(super) async fn close(&self) {
        let Owned { service, process } = std::mem::take(&mut *self.lock());
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(CLOSE).await;
        }
        if let Some(process) = process {
            process.end().await;
        }
    }

    async fn unreachable(self, why: String, may_recover: bool) -> Unreachable {
        let process = self.lock().process.take();
        unreachable(why, may_recover, process).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// Adds what a program says of it itself, and how it ended.
async fn unreachable(why: String, may_recover: bool, process: Option<Process>) -> Unreachable {
    let Some(mut process) = process else {
        return Unreachable { why, aside: String::new(), may_recover };
    };
    let why = match process.ending().await {
        Some(ending) => format!("{why}; {ending}"),
        None => why,
    };
    Unreachable { why, aside: process.aside().tail(SHOWN_ASIDE), may_recover }
}

/// Puts what a server said on its standard error behind what is said of it.
pub(super) fn with_aside(text: String, aside: &str) -> String {
    match (text.is_empty(), aside.is_empty()) {
        (_, true) => text,
        (true, false) => format!("it said: {aside}"),
        (false, false) => format!("{text}; it said: {aside}"),
    }
}

/// Says why there is no connection, in words for a person.
fn explained(error: &ClientInitializeError) -> String {
    if error.is_authorization_required() {
        return "it wants authorization: give it one in `headers`".to_owned();
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended before it had answered".to_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused: {}", content::protocol_error(error))
        }
        ClientInitializeError::TransportError { error, .. } => {
            let refusal = error.error.downcast_ref().and_then(http::refusal);
            refusal.map_or_else(|| causes(&*error.error), |refusal| refusal.why)
        }
        error => error.to_string(),
    }
}

/// Says what went wrong with a request that was sent, where the way it was sent tells.
pub(super) fn refusal(error: &ServiceError) -> Option<Refusal> {
    let ServiceError::TransportSend(error) = error else { return None };
    http::refusal(error.error.downcast_ref()?)
}

/// Says what went wrong with a request.
pub(super) fn told(error: &ServiceError) -> String {
    if let Some(refusal) = refusal(error) {
        return refusal.why;
    }
    match error {
        ServiceError::McpError(error) => content::protocol_error(error),
        ServiceError::TransportSend(error) => causes(&*error.error),
        ServiceError::TransportClosed => "the connection broke".to_owned(),
        error => error.to_string(),
    }
}

/// Returns an error with all that has led to it.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
