//! Tracing as a middleware, for programs that embed agents.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bowline_agent::event::AgentMeta;
use bowline_agent::id::AgentId;
use bowline_agent::middleware::{Activation, Middleware, Next, Watched};
use bowline_agent::{AgentError, Outcome, Redaction};
use bowline_llm::http::Proxy;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::TraceConfig;
use crate::environment::Environment;

use super::{Settings, Telemetry};

/// A middleware that tells OpenTelemetry of the runs it wraps, and of all that sub-agents do within
/// them: one run with everything below it is one trace.
///
/// It may wrap any number of agents, and sub-agents that have it too are told once. Nobody waits for
/// a receiver; before a program ends it says [`Trace::close`].
///
/// ```
/// use std::sync::Arc;
///
/// use bowline_agent::Agent;
/// use bowline_llm::ScriptedModel;
/// use bowline_llm::scripted::Reply;
/// use bowline_runtime::telemetry::Trace;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trace = Arc::new(Trace::to("http://127.0.0.1:4318")?);
/// let model = ScriptedModel::new([Reply::text("Hello.")]);
/// let agent = Agent { middleware: vec![trace.clone()], ..Agent::new(Arc::new(model)) };
/// assert_eq!(agent.start().prompt("Say hello.").await?.text(), "Hello.");
/// if let Some(what) = trace.close().await {
///     eprintln!("{what}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct Trace {
    shared: Arc<Mutex<Shared>>,
    // One for each run that is being told, and what ends those whose runs go on.
    listeners: Mutex<JoinSet<()>>,
    closing: watch::Sender<bool>,
}

struct Shared {
    // Gone when it was closed.
    telemetry: Option<Telemetry>,
    // The agents whose runs are being told, with everything below them.
    watched: Vec<AgentId>,
}

impl Trace {
    /// Tells a receiver, over HTTP, and nothing of what is said. It must be called within a runtime of
    /// tokio.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn to(endpoint: &str) -> Result<Self, String> {
        let config = TraceConfig { endpoint: Some(endpoint.to_owned()), ..TraceConfig::default() };
        let settings = Settings::read(&Environment::default(), &config)?;
        let settings = settings.ok_or_else(|| "there is no address".to_owned())?;
        let (redaction, proxy) = (Redaction::default(), Proxy::default());
        Telemetry::start(settings, &config, redaction, &proxy).map(Self::new)
    }

    /// Tells whom the settings name, such as [`Runtime::telemetry`](crate::Runtime::telemetry) reads
    /// them.
    pub fn new(telemetry: Telemetry) -> Self {
        let shared = Shared { telemetry: Some(telemetry), watched: Vec::new() };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            listeners: Mutex::default(),
            closing: watch::Sender::new(false),
        }
    }

    /// Sends what is left, for three seconds at most, and returns what a person should know: that
    /// something did not arrive, and why. Nothing more is told after that.
    pub async fn close(&self) -> Option<String> {
        self.closing.send_replace(true);
        let listeners = std::mem::take(&mut *lock(&self.listeners));
        listeners.join_all().await;
        let telemetry = lock(&self.shared).telemetry.take();
        telemetry?.close().await
    }

    /// Has everything told that happens in a run, if it is not being told already as a part of another.
    async fn watch(&self, activation: &Activation) {
        let agent = &activation.agent;
        if !lock(&self.shared).begin(agent) {
            return;
        }
        let watched = activation.watch().await;
        let (shared, mut closing) = (Arc::clone(&self.shared), self.closing.subscribe());
        let id = agent.id;
        let mut listeners = lock(&self.listeners);
        while listeners.try_join_next().is_some() {}
        listeners.spawn(async move {
            // A log that cannot be read ends the run soon enough.
            if let Ok(watched) = watched {
                listen(&shared, watched, &mut closing).await;
            }
            lock(&shared).end(id);
        });
    }
}

#[async_trait]
impl Middleware for Trace {
    async fn run(&self, activation: &Activation, next: Next<'_>) -> Result<Outcome, AgentError> {
        self.watch(activation).await;
        next.run().await
    }
}

impl Shared {
    /// Notes that a run of an agent is about to be told; returns whether it is to be.
    fn begin(&mut self, agent: &AgentMeta) -> bool {
        let is_within = self.watched.iter().any(|above| agent.ancestors.contains(above));
        let begins = self.telemetry.is_some() && !is_within;
        if begins {
            self.watched.push(agent.id);
        }
        begins
    }

    fn end(&mut self, agent: AgentId) {
        // The runs of one agent come one after the other, and their ends may be noted late.
        if let Some(at) = self.watched.iter().position(|watched| *watched == agent) {
            self.watched.swap_remove(at);
        }
    }

    fn telemetry(&mut self, tell: impl FnOnce(&mut Telemetry)) {
        if let Some(telemetry) = &mut self.telemetry {
            tell(telemetry);
        }
    }
}

/// Hears a run to its end. If there is to be an end before, what has happened by then is heard.
async fn listen(shared: &Mutex<Shared>, mut watched: Watched, closing: &mut watch::Receiver<bool>) {
    for event in &watched.before {
        lock(shared).telemetry(|telemetry| telemetry.recall(event));
    }
    loop {
        let event = tokio::select! {
            biased;
            event = watched.events.recv() => event,
            _ = closing.wait_for(|closing| *closing) => None,
        };
        let Some(event) = event else { return };
        lock(shared).telemetry(|telemetry| telemetry.event(&event));
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").finish_non_exhaustive()
    }
}
