//! A server and who keeps it: one task that connects, and connects anew when the server is gone.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
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
    orders: mpsc::Sender<Waiter>,
    /// Hears that somebody wants to know what the server offers.
    asked: Arc<Notify>,
    closing: CancellationToken,
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
    /// What of its tools cannot be used, and why, in a line each.
    pub left_out: Vec<String>,
    /// What was changed of its tools so that providers take them, in a line each.
    pub changed: Vec<String>,
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

/// Who waits for a connection.
type Waiter = oneshot::Sender<Result<Arc<Connection>, String>>;

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
        let (asked, changed) = <(Arc<Notify>, Arc<Notify>)>::default();
        let closing = CancellationToken::new();
        let keeper = Keeper {
            config: Arc::clone(&config),
            host,
            root,
            asked: Arc::clone(&asked),
            changed,
            tell,
            live: None,
            asides: FuturesUnordered::new(),
        };
        let keeper = tokio::spawn(keeper.run(taken, closing.clone()));
        let _keeper = AbortOnDropHandle::new(keeper);
        Self { config, known, orders, asked, closing, asking: Mutex::default(), _keeper }
    }

    /// Waits until it is clear whether the server can be used.
    pub(super) async fn settled(&self) {
        // The task that tells lives as long as the server.
        let _ = self.known.clone().wait_for(|known| known.state != State::Starting).await;
    }

    /// Returns what the server offers, as it said last. If it has something else since, it is asked
    /// for that meanwhile.
    pub(super) fn ask_offer(&self) -> Arc<Offer> {
        self.asked.notify_one();
        self.offer()
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
            left_out: known.offer.tools.left_out.clone(),
            changed: known.offer.tools.changed.clone(),
            has_resources: known.offer.has_resources,
            took_ms: u64::try_from(known.took.as_millis()).unwrap_or(u64::MAX),
            aside: known.aside.clone(),
        }
    }

    /// Returns a connection that lives, made anew if need be.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, String> {
        let gone = || "its keeper is gone".to_owned();
        let (reply, answer) = oneshot::channel();
        self.orders.send(reply).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Ends the server, whatever it is doing.
    pub(super) async fn close(&self) {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.closing.cancel();
        self.orders.closed().await;
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
    asked: Arc<Notify>,
    changed: Arc<Notify>,
    tell: watch::Sender<Known>,
    live: Option<Arc<Connection>>,
    /// What goes on meanwhile and holds up no call.
    asides: FuturesUnordered<BoxFuture<'static, Option<Learned>>>,
}

/// What a server has said that it offers now, and over which connection; `None` if it could not say.
type Learned = (Arc<Connection>, Option<Offer>);

/// Whether what is known of a server's offer is what it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fresh {
    Yes,
    /// It is being asked.
    Asking,
    /// It is not, and the server was asked already since somebody wanted to know: one that changes
    /// all the time is not asked all the time.
    No,
}

impl Keeper {
    async fn run(mut self, mut waiters: mpsc::Receiver<Waiter>, closing: CancellationToken) {
        // Dropped, it leaves nothing that is half done: not even a server that is being started.
        tokio::select! {
            biased;
            () = closing.cancelled() => {}
            () = self.keep(&mut waiters) => {}
        }
        self.asides.clear();
        self.close().await;
    }

    async fn keep(&mut self, waiters: &mut mpsc::Receiver<Waiter>) {
        // Nobody else starts it, and whoever waits hears of it.
        let _ = self.connect().await;
        let (asked, changed) = (Arc::clone(&self.asked), Arc::clone(&self.changed));
        let mut root = self.root.clone();
        let (mut fresh, mut may_ask) = (Fresh::Yes, true);
        loop {
            tokio::select! {
                waiter = waiters.recv() => match waiter {
                    // Whoever has given up does not listen.
                    Some(waiter) => drop(waiter.send(self.connected().await)),
                    None => return,
                },
                () = changed.notified() => fresh = Fresh::No,
                () = asked.notified() => may_ask = true,
                Ok(()) = root.changed() => self.tell_root(),
                Some(learned) = self.asides.next() => {
                    if let Some(learned) = learned {
                        self.learn(learned);
                        // What has changed since is asked for when somebody wants to know.
                        fresh = if fresh == Fresh::Asking { Fresh::Yes } else { fresh };
                    }
                }
            }
            if fresh == Fresh::No && may_ask {
                (fresh, may_ask) = (Fresh::Asking, false);
                self.ask();
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
            changed: Arc::clone(&self.changed),
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

    /// Asks again what the server offers, and waits for no answer.
    fn ask(&self) {
        let Some(live) = self.live.clone() else { return };
        let time = self.config.startup_timeout;
        self.asides.push(Box::pin(async move {
            let offer = timeout(time, live.offer()).await;
            let offer = offer.ok().and_then(Result::ok);
            Some((live, offer))
        }));
    }

    /// Takes in what a server offers now. One that cannot say it offers what it did before.
    fn learn(&self, (of, offer): Learned) {
        let is_of_live = self.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, &of));
        if let (true, Some(offer)) = (is_of_live, offer) {
            self.tell.send_modify(|known| known.offer = Arc::new(offer));
        }
    }

    fn tell_root(&self) {
        let Some(live) = self.live.clone() else { return };
        let time = self.config.startup_timeout;
        self.asides.push(Box::pin(async move {
            // Whoever does not want to know says so, and that is all.
            let _ = timeout(time, live.peer().notify_roots_list_changed()).await;
            None
        }));
    }

    async fn close(&mut self) {
        if let Some(live) = self.live.take() {
            live.close().await;
        }
    }
}
