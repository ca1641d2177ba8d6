//! The jobs of all agents of a session.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use bowline_agent::id::AgentId;
use bowline_agent::tool::{ToolContext, ToolError};

use super::Known;
use crate::bash::{GRACE, OutputFile};
use crate::process::{Running, Status, Survivor, ended};
use crate::workspace::{Workspace, owner};

/// The name under which jobs are recorded.
const RECORD: &str = "job";

/// The longest part of a command that is kept to tell jobs apart.
const MAX_COMMAND: usize = 200;

/// What `bash` has left running, for all agents of a session. Dropping it ends all of it.
#[derive(Debug, Default)]
pub struct Jobs {
    live: Mutex<HashMap<AgentId, Vec<Arc<Live>>>>,
    /// What outlives bowline, by the files by which it is found.
    found: Mutex<HashMap<PathBuf, Arc<Found>>>,
    /// The last number that was given to a job of each agent.
    given: Mutex<HashMap<AgentId, u32>>,
}

/// What the log keeps of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) command: String,
    output: PathBuf,
    /// Whether it was to outlive the process that had started it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) survives: bool,
}

/// A command that becomes a job.
#[derive(Debug)]
pub(crate) struct NewJob {
    pub(crate) command: String,
    pub(crate) running: Running,
    pub(crate) output: OutputFile,
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
        let folder = job.output.path.parent().unwrap_or(Path::new(""));
        let id = self.next_id_in(folder, cx);
        let kept = Kept {
            id: id.clone(),
            command: short(&job.command),
            output: job.output.path.clone(),
            survives: false,
        };
        cx.record(RECORD, &kept)?;
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.entry(cx.agent.id).or_default().push(Arc::new(Live::new(kept, job)));
        Ok(id)
    }

    /// Returns the id of the next job of an agent.
    pub(crate) fn next_id(&self, cx: &ToolContext, workspace: &Workspace) -> String {
        self.next_id_in(&workspace.folder(cx), cx)
    }

    fn next_id_in(&self, folder: &Path, cx: &ToolContext) -> String {
        let known = self.known_in(folder, cx);
        let numbers = known.iter().filter_map(|job| job.id().strip_prefix('j')?.parse().ok());
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let last = given.entry(cx.agent.id).or_default();
        *last = numbers.max().unwrap_or(0).max(*last) + 1;
        format!("j{last}")
    }

    /// Returns what a call has started that survives, in this process or an earlier one.
    pub(crate) fn started_by(&self, cx: &ToolContext, workspace: &Workspace) -> Option<Arc<Found>> {
        let mut all = self.surviving(&workspace.folder(cx), cx).into_iter();
        all.find(|job| job.survivor.asked().call == cx.call.as_str() && job.survivor.has_begun())
    }

    /// Takes note of what survives, so that what was shown of it is not shown again.
    pub(crate) fn found(&self, survivor: Survivor) -> Arc<Found> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let note = survivor.note().to_owned();
        let new = || Arc::new(Found { survivor, shown: AtomicU64::new(0) });
        Arc::clone(found.entry(note).or_insert_with(new))
    }

    /// Records what survives, with the end of the call that started it.
    pub(crate) fn record_found(&self, job: &Found, cx: &ToolContext) -> Result<(), ToolError> {
        cx.record(RECORD, &job.kept())
    }

    /// Returns the jobs of the agent, those of earlier processes first.
    pub(super) fn known(&self, cx: &ToolContext) -> Vec<Known> {
        let folder = cx.folder().unwrap_or(Path::new(""));
        self.known_in(folder, cx)
    }

    fn known_in(&self, folder: &Path, cx: &ToolContext) -> Vec<Known> {
        let found = self.surviving(folder, cx);
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let own = live.get(&cx.agent.id).map(Vec::as_slice).unwrap_or_default();
        let is_past = |kept: &Kept| {
            !own.iter().any(|job| job.kept == *kept)
                && !found.iter().any(|job| job.survivor.asked().output == kept.output)
        };
        let past = recorded(cx).into_iter().filter(is_past).map(Known::Past);
        let live = own.iter().map(|job| Known::Live(Arc::clone(job)));
        let mut all: Vec<Known> = past.collect();
        all.extend(found.iter().map(|job| Known::Found(Arc::clone(job))));
        all.extend(live);
        all
    }

    /// Finds what of the agent survives. What another session has started is in another folder.
    fn surviving(&self, folder: &Path, cx: &ToolContext) -> Vec<Arc<Found>> {
        let owner = owner(cx.session, cx.agent.id);
        let all = Survivor::all_in(folder).into_iter();
        let own = all.filter(|survivor| survivor.asked().owner == owner && survivor.has_begun());
        own.map(|survivor| self.found(survivor)).collect()
    }
}

/// A job that outlives bowline.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) survivor: Survivor,
    shown: AtomicU64,
}

impl Found {
    pub(super) fn kept(&self) -> Kept {
        let asked = self.survivor.asked();
        Kept {
            id: asked.id.clone(),
            command: short(&asked.command),
            output: asked.output.clone(),
            survives: true,
        }
    }

    pub(super) fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    pub(super) fn set_shown(&self, shown: u64) {
        self.shown.store(shown, Ordering::Relaxed);
    }
}

/// Returns as much of a command as tells jobs apart.
fn short(command: &str) -> String {
    let mut command = command.replace('\n', " ");
    command.truncate(command.floor_char_boundary(MAX_COMMAND));
    command
}

fn recorded(cx: &ToolContext) -> Vec<Kept> {
    cx.recorded(RECORD).iter().filter_map(|kept| kept.read().ok()).collect()
}

impl Kept {
    pub(super) fn output(&self) -> OutputFile {
        OutputFile { path: self.output.clone() }
    }

    /// Tells whether it belongs to the session of another folder, from which this one was copied.
    pub(super) fn is_of_another(&self) -> bool {
        self.survives && self.output.exists()
    }

    /// Reads how it ended, if that was written down.
    pub(super) fn status(&self) -> Option<Status> {
        ended(&self.output)
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
