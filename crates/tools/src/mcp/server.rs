//! A server and who keeps it: one task that connects, and connects anew when the server is gone.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use bowline_agent::id::AgentId;
use bowline_llm::CallId;

use super::call::{Calls, Flight};
use super::client::Client;
use super::config::{Host, ServerConfig};
use super::connection::{Connection, Offer, Unreachable, with_aside};

/// The pauses before each attempt to reach a server again that was there before.
const PAUSES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(250), Duration::from_millis(1500)];

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    known: watch::Receiver<Known>,
    orders: mpsc::Sender<Order>,
    /// Calls that wait for a person, by whose they are.
    asking: Mutex<HashMap<(AgentId, CallId), Flight>>,
    _keeper: AbortOnDropHandle<()>,
}

/// What is known of a server.
#[derive(Debug, Clone, Default)]
struct Known {
    state: State,
    offer: Arc<Offer>,
    aside: String,
    took: Duration,
}

/// Whether a server can be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being started.
    #[default]
    Starting,
    /// It can be called.
    Ready,
    /// It cannot be called.
    Failed(String),
}

/// What there is to say of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The name it is configured by.
    pub name: String,
    /// Whether it can be used.
    pub state: State,
    /// What it calls itself.
    pub server: String,
    /// Its tools.
    pub tools: Vec<ReportedTool>,
    /// Whether it has resources.
    pub has_resources: bool,
    /// How long it took to start, in milliseconds.
    pub took_ms: u64,
    /// The end of what it said on its standard error.
    pub aside: String,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedTool {
    /// The name by which models call it.
    pub name: String,
    /// How many bytes its name, its description and its schema take.
    pub bytes: usize,
}

#[derive(Debug)]
enum Order {
    Connect { reply: oneshot::Sender<Result<Arc<Connection>, String>> },
    Close { done: oneshot::Sender<()> },
}

impl Server {
    /// Begins to start a server.
    pub(super) fn start(
        config: ServerConfig,
        host: Arc<Host>,
        root: watch::Receiver<PathBuf>,
    ) -> Self {
        let config = Arc::new(config);
        let (tell, known) = watch::channel(Known::default());
        let (orders, taken) = mpsc::channel(16);
        let (changed, changes) = mpsc::channel(1);
        let keeper = Keeper { config: Arc::clone(&config), host, root, changed, tell, live: None };
        let keeper = AbortOnDropHandle::new(tokio::spawn(keeper.run(taken, changes)));
        Self { config, known, orders, asking: Mutex::default(), _keeper: keeper }
    }

    /// Waits until it is clear whether the server can be used.
    pub(super) async fn settled(&self) {
        // The task that tells lives as long as the server.
        let _ = self.known.clone().wait_for(|known| known.state != State::Starting).await;
    }

    /// Returns what the server offers, as it said last.
    pub(super) fn offer(&self) -> Arc<Offer> {
        Arc::clone(&self.known.borrow().offer)
    }

    /// Returns what there is to say of it, without its tools.
    pub(super) fn report(&self) -> Report {
        let known = self.known.borrow();
        Report {
            name: self.config.name.clone(),
            state: known.state.clone(),
            server: known.offer.server.clone(),
            tools: Vec::new(),
            has_resources: known.offer.has_resources,
            took_ms: u64::try_from(known.took.as_millis()).unwrap_or(u64::MAX),
            aside: known.aside.clone(),
        }
    }

    /// Returns a connection that lives, made anew if need be.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, String> {
        let gone = || "its keeper is gone".to_owned();
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Connect { reply }).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Ends the server.
    pub(super) async fn close(&self) {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close { done }).await.is_ok() {
            let _ = closed.await;
        }
    }

    /// Keeps a call that waits for a person. What its agent asked before is over: of one agent only
    /// one such call is under way.
    pub(super) fn keep_asking(&self, agent: AgentId, call: CallId, flight: Flight) {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.retain(|(owner, _), _| *owner != agent);
        asking.insert((agent, call), flight);
    }

    /// Takes a call that waited for a person.
    pub(super) fn take_asking(&self, agent: AgentId, call: &CallId) -> Option<Flight> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.remove(&(agent, call.clone()))
    }
}

/// Owns the connection to a server.
struct Keeper {
    config: Arc<ServerConfig>,
    host: Arc<Host>,
    root: watch::Receiver<PathBuf>,
    changed: mpsc::Sender<()>,
    tell: watch::Sender<Known>,
    live: Option<Arc<Connection>>,
}

impl Keeper {
    async fn run(mut self, mut orders: mpsc::Receiver<Order>, mut changes: mpsc::Receiver<()>) {
        // Nobody else starts it, and whoever waits hears of it.
        let _ = self.connect().await;
        let mut root = self.root.clone();
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    // Whoever has given up does not listen.
                    Some(Order::Connect { reply }) => drop(reply.send(self.connected().await)),
                    Some(Order::Close { done }) => {
                        self.close().await;
                        let _ = done.send(());
                        return;
                    }
                    None => return,
                },
                Some(()) = changes.recv() => self.learn().await,
                Ok(()) = root.changed() => self.tell_root().await,
            }
        }
    }

    async fn connected(&mut self) -> Result<Arc<Connection>, String> {
        if let Some(live) = self.live.as_ref().filter(|live| !live.is_closed()) {
            return Ok(Arc::clone(live));
        }
        let mut last = "it is not there".to_owned();
        for pause in PAUSES {
            sleep(pause).await;
            match self.connect().await {
                Ok(connection) => return Ok(connection),
                Err(Unreachable { why, aside, may_recover }) => {
                    last = with_aside(why, &aside);
                    if !may_recover {
                        break;
                    }
                }
            }
        }
        Err(last)
    }

    async fn connect(&mut self) -> Result<Arc<Connection>, Unreachable> {
        self.close().await;
        let client = Client {
            calls: Arc::new(Calls::default()),
            changed: self.changed.clone(),
            root: self.root.clone(),
            attended: self.host.attended,
        };
        let began = Instant::now();
        let opened = Connection::open(&self.config, &self.host, client).await;
        let took = began.elapsed();
        match opened {
            Ok((connection, offer)) => {
                let (state, aside) = (State::Ready, connection.aside());
                self.tell.send_replace(Known { state, offer: Arc::new(offer), aside, took });
                let connection = Arc::new(connection);
                self.live = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(unreachable) => {
                let (state, aside) =
                    (State::Failed(unreachable.why.clone()), unreachable.aside.clone());
                // What it offered it may offer again, when it is called.
                self.tell.send_modify(|known| {
                    *known = Known { state, aside, took, offer: Arc::clone(&known.offer) };
                });
                Err(unreachable)
            }
        }
    }

    /// Asks again what the server offers.
    async fn learn(&mut self) {
        let Some(live) = &self.live else { return };
        let offer = tokio::time::timeout(self.config.startup_timeout, live.offer()).await;
        // A server that cannot say it now offers what it did before.
        if let Ok(Ok(offer)) = offer {
            self.tell.send_modify(|known| known.offer = Arc::new(offer));
        }
    }

    async fn tell_root(&mut self) {
        if let Some(live) = &self.live {
            // Whoever does not want to know says so, and that is all.
            let _ = live.peer().notify_roots_list_changed().await;
        }
    }

    async fn close(&mut self) {
        if let Some(live) = self.live.take() {
            live.close().await;
        }
    }
}
