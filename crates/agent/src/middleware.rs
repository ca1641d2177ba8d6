//! Middleware: what wraps the runs of an agent.
//!
//! A [`Middleware`] wraps an activation of a run: from taking up an agent whose run is open to letting
//! go of it. It begins when the run has begun, lets the rest happen with [`Next::run`], and returns
//! what whoever waits for the run gets. The first one of an agent is the outermost. A run that a
//! process left open and another goes on with is activated again, and wrapped again; what must hold
//! across that is an [effect](crate::effect). A sub-agent has middleware of its own.
//!
//! The run itself lives in the task of its session, whatever becomes of those around it. Dropping a
//! [`Next`], or the future of [`Next::run`], before the run has ended cancels the run; the task
//! finishes its commits, and only then gets the one who waits what the outermost middleware returned.
//! Of a run that was canceled, or ended before they let it happen, they have [a moment](GRACE) to
//! return after its end, and so they have when the session is closed; then they are dropped, and its outcome is returned. If the log fails that error is returned, whatever they say.
//!
//! A panic in a middleware ends the run with an error. If the run has ended by then, the one who
//! waits gets the error instead of the outcome; [`CatchPanic`] keeps the outcome.
//!
//! The events of a run are the run's: what middleware returns changes nothing of them. One thing only
//! can take a final answer back, and is asked before the run ends: [`Middleware::judge`].

mod catch_panic;
mod guardrail;
mod logger;
mod timeout;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::entry::RunError;
use crate::error::AgentError;
use crate::event::{AgentMeta, Event, EventBody};
use crate::id::{OpId, RunId};
use crate::mailbox::{Command, Own};
use crate::op::{CancelReason, Input, Op, OpKind};
use crate::outcome::Outcome;
use crate::session::Session;

pub use catch_panic::CatchPanic;
pub use guardrail::OutputGuardrail;
pub use logger::{Logged, Logger};
pub use timeout::Timeout;

/// How long middleware may take to return after the end of a run that was canceled, or that they did
/// not let happen, and when the session is closed.
pub const GRACE: Duration = Duration::from_secs(2);

/// Wraps the runs of an agent.
#[async_trait]
pub trait Middleware: Send + Sync {
    /// Wraps an activation of a run: what is inside happens with [`Next::run`].
    ///
    /// # Errors
    /// Whatever the one who waits for the run is to get instead of an outcome;
    /// [`AgentError::Middleware`] is there for that.
    async fn run(&self, activation: &Activation, next: Next<'_>) -> Result<Outcome, AgentError> {
        let _ = activation;
        next.run().await
    }

    /// Judges an answer with which a run would end, the innermost middleware first. A crash before
    /// the run's end has it asked again.
    ///
    /// # Errors
    /// Why the answer is refused: the run fails with it, and has no answer. A panic refuses it too.
    async fn judge(&self, answer: &str) -> Result<(), String> {
        let _ = answer;
        Ok(())
    }
}

/// What is inside of a middleware: the next ones, and the run itself.
#[derive(Debug)]
#[must_use = "dropping it cancels the run"]
pub struct Next<'a> {
    rest: Rest<'a>,
    activation: &'a Activation,
    dropped: CancelOnDrop<'a>,
}

impl<'a> Next<'a> {
    fn new(rest: &'a [Arc<dyn Middleware>], activation: &'a Activation) -> Self {
        Self { rest: Rest(rest), activation, dropped: CancelOnDrop(activation) }
    }

    /// Lets the run happen, and returns how it came out as the next middleware says.
    ///
    /// # Errors
    /// What the next middleware says; from the run itself, that its log failed.
    pub async fn run(self) -> Result<Outcome, AgentError> {
        let Self { rest: Rest(rest), activation, dropped: _dropped } = self;
        match rest.split_first() {
            Some((first, rest)) => first.run(activation, Next::new(rest, activation)).await,
            None => {
                activation.control.go.notify_one();
                activation.ended().await
            }
        }
    }
}

/// A run that is being driven by a process.
#[derive(Debug, Clone)]
pub struct Activation {
    /// The run.
    pub run: RunId,
    /// Whose run it is.
    pub agent: Arc<AgentMeta>,
    control: Control,
}

impl Activation {
    /// Cancels the run, unless it is ending already.
    pub fn cancel(&self, reason: CancelReason) {
        self.tell(Command::CancelOwn { own: Own::Run(self.run), reason });
    }

    /// Ends the run with an error, unless it has ended.
    pub fn fail(&self, error: RunError) {
        self.tell(Command::FailOwn { run: self.run, error });
    }

    /// Says something to the model at the next boundary of the run, unless it has ended.
    pub fn say(&self, input: Input) {
        let source = &*self.control.session.source;
        let to = self.agent.parent.map(|_| self.agent.id);
        let (id, at) = (OpId::new(source), source.now());
        let (reply, _) = oneshot::channel();
        self.tell(Command::Post { op: Op { id, to, at, kind: OpKind::Queue(input) }, reply });
    }

    /// Tells those who watch something that a person should know.
    pub fn warn(&self, message: impl Into<String>) {
        let Control { session, .. } = &self.control;
        let warning = EventBody::Warning { message: message.into() };
        session.hub.live(&self.agent, session.source.now(), warning.into());
    }

    /// Returns what is told of the run, sub-agents included: what was told of it before, and what
    /// will be.
    ///
    /// # Errors
    /// [`AgentError::Closed`] if the session is, [`AgentError::Journal`] if its log cannot be read.
    pub async fn watch(&self) -> Result<Watched, AgentError> {
        self.control.session.watch_run(self.agent.id, self.run).await
    }

    /// Waits until the run has ended, and returns how it came out. It does not make the run happen.
    ///
    /// # Errors
    /// That its log failed.
    pub async fn ended(&self) -> Result<Outcome, AgentError> {
        let mut ended = self.control.ended.clone();
        let outcome = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        outcome.unwrap_or(Err(AgentError::Closed))
    }

    fn tell(&self, command: Command) {
        if self.control.ended.borrow().is_none() {
            // Whoever owns the agent listens until the run has ended.
            let _ = self.control.voice.send(command);
        }
    }
}

/// The events of a run, its agent's and those of all agents below it.
#[derive(Debug)]
pub struct Watched {
    /// What was told before, as the log has it: that the run began, and, if another process had
    /// driven it, what came of that.
    pub before: Vec<Event>,
    /// What happens from here on, to the end of the run. It loses nothing.
    pub events: mpsc::UnboundedReceiver<Arc<Event>>,
}

/// How those around a run and the task that drives it deal with each other.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) session: Arc<Session>,
    /// Heard by the one who owns the agent.
    pub(crate) voice: mpsc::UnboundedSender<Command>,
    /// The run may begin.
    pub(crate) go: Arc<Notify>,
    /// How the run came out.
    pub(crate) ended: watch::Receiver<Option<Result<Outcome, AgentError>>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

/// Wraps a run.
pub(crate) fn wrap(
    middleware: Vec<Arc<dyn Middleware>>,
    run: RunId,
    agent: Arc<AgentMeta>,
    control: Control,
) -> BoxFuture<'static, Result<Outcome, AgentError>> {
    Box::pin(async move {
        let activation = Activation { run, agent, control };
        Next::new(&middleware, &activation).run().await
    })
}

struct Rest<'a>(&'a [Arc<dyn Middleware>]);

impl fmt::Debug for Rest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} more", self.0.len())
    }
}

/// Whoever drops what is inside of it does not want the run any more.
#[derive(Debug)]
struct CancelOnDrop<'a>(&'a Activation);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel(CancelReason::User);
    }
}
