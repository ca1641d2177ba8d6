//! The jobs of all agents of a session.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use bowline_agent::id::AgentId;
use bowline_agent::tool::{ToolContext, ToolError};

use super::Known;
use crate::bash::{Files, GRACE};
use crate::process::{Running, Status};

/// The name under which jobs are recorded.
const RECORD: &str = "job";

/// The longest part of a command that is kept to tell jobs apart.
const MAX_COMMAND: usize = 200;

/// What `bash` has left running, for all agents of a session. Dropping it ends all of it.
#[derive(Debug, Default)]
pub struct Jobs {
    live: Mutex<HashMap<AgentId, Vec<Arc<Live>>>>,
}

/// What the log keeps of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) command: String,
    output: PathBuf,
    status: PathBuf,
}

/// A command that becomes a job.
#[derive(Debug)]
pub(crate) struct NewJob {
    pub(crate) command: String,
    pub(crate) running: Running,
    pub(crate) files: Files,
    pub(crate) has_stdin: bool,
    pub(crate) started: Instant,
    /// How long it may still run.
    pub(crate) time_left: Option<Duration>,
    /// How much of its output the model has seen.
    pub(crate) shown: u64,
}

impl Jobs {
    /// Takes a command over and returns the id by which its agent knows it.
    pub(crate) fn keep(&self, job: NewJob, cx: &ToolContext) -> Result<String, ToolError> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let own = live.entry(cx.agent.id).or_default();
        let recorded = recorded(cx);
        let ids = recorded.iter().chain(own.iter().map(|job| &job.kept)).map(|kept| &kept.id);
        let numbers = ids.filter_map(|id| id.strip_prefix('j')?.parse::<u32>().ok());
        let id = format!("j{}", numbers.max().unwrap_or(0) + 1);
        let mut command = job.command.replace('\n', " ");
        command.truncate(command.floor_char_boundary(MAX_COMMAND));
        let kept = Kept {
            id: id.clone(),
            command,
            output: job.files.output.clone(),
            status: job.files.status.clone(),
        };
        cx.record(RECORD, &kept)?;
        own.push(Arc::new(Live::new(kept, job)));
        Ok(id)
    }

    /// Returns the jobs of the agent, those of earlier processes first.
    pub(super) fn known(&self, cx: &ToolContext) -> Vec<Known> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let own = live.get(&cx.agent.id).map(Vec::as_slice).unwrap_or_default();
        let is_past = |kept: &Kept| !own.iter().any(|job| job.kept == *kept);
        let past = recorded(cx).into_iter().filter(is_past).map(Known::Past);
        past.chain(own.iter().map(|job| Known::Live(Arc::clone(job)))).collect()
    }
}

fn recorded(cx: &ToolContext) -> Vec<Kept> {
    cx.recorded(RECORD).iter().filter_map(|kept| kept.read().ok()).collect()
}

impl Kept {
    pub(super) fn files(&self) -> Files {
        Files { output: self.output.clone(), status: self.status.clone() }
    }

    /// Reads how it ended, if that was written down.
    pub(super) fn status(&self) -> Option<Status> {
        serde_json::from_slice(&std::fs::read(&self.status).ok()?).ok()
    }
}

/// A job that this process has started; dropping it ends the job.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) kept: Kept,
    pub(super) started: Instant,
    has_stdin: bool,
    shown: AtomicU64,
    orders: mpsc::Sender<Order>,
    state: watch::Receiver<State>,
    _task: AbortOnDropHandle<()>,
}

/// Whether a job still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Over(Result<Status, String>),
}

#[derive(Debug)]
enum Order {
    Write { text: String, close: bool },
    Kill { done: oneshot::Sender<()> },
}

impl Live {
    fn new(kept: Kept, job: NewJob) -> Self {
        let (orders, taken) = mpsc::channel(8);
        let (tell, state) = watch::channel(State::Running);
        let task = tokio::spawn(run(job.running, taken, tell, job.time_left));
        Self {
            kept,
            started: job.started,
            has_stdin: job.has_stdin,
            shown: AtomicU64::new(job.shown),
            orders,
            state,
            _task: AbortOnDropHandle::new(task),
        }
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits until the job is over.
    pub(super) async fn over(&self) {
        // The task that tells lives as long as the job.
        let _ = self.state.clone().wait_for(|state| *state != State::Running).await;
    }

    pub(super) fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    pub(super) fn set_shown(&self, shown: u64) {
        self.shown.store(shown, Ordering::Relaxed);
    }

    /// Writes to the job's standard input.
    ///
    /// # Errors
    /// Why nothing would read it, for the model.
    pub(super) async fn write(&self, text: String, close: bool) -> Result<(), String> {
        let id = &self.kept.id;
        if self.state() != State::Running {
            return Err(format!("{id} is over"));
        }
        if !self.has_stdin {
            return Err(format!(
                "{id} has no standard input; only a command run with background can be written to"
            ));
        }
        let order = Order::Write { text, close };
        self.orders.send(order).await.map_err(|_| format!("{id} is over"))
    }

    /// Ends the job and all it has started.
    pub(super) async fn kill(&self) {
        let (done, ended) = oneshot::channel();
        if self.orders.send(Order::Kill { done }).await.is_ok() {
            let _ = ended.await;
            self.over().await;
        }
    }
}

/// Owns a running job.
async fn run(
    mut running: Running,
    mut orders: mpsc::Receiver<Order>,
    state: watch::Sender<State>,
    time_left: Option<Duration>,
) {
    let late = async {
        match time_left {
            Some(time_left) => tokio::time::sleep(time_left).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(late);
    let (mut is_over, mut is_late) = (false, false);
    loop {
        tokio::select! {
            exited = running.exit(), if !is_over => {
                is_over = true;
                state.send_replace(State::Over(exited.map_err(|error| error.to_string())));
            }
            () = &mut late, if !is_over && !is_late => {
                is_late = true;
                running.end(GRACE).await;
            }
            order = orders.recv() => match order {
                Some(Order::Write { text, close }) => running.write(text, close).await,
                Some(Order::Kill { done }) => {
                    running.end(GRACE).await;
                    let _ = done.send(());
                }
                None => return,
            },
        }
    }
}
