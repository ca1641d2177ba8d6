//! The calls that are in flight in this process.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use bowline_llm::{CallId, RawJson};

use crate::agent::ToolExecution;
use crate::children::Children;
use crate::driver::panic_text;
use crate::entry::CallStatus;
use crate::journal::JournalError;
use crate::tool::{
    Access, CallScope, Deadline, Rest, RunTool, ScopeMessage, ToolContext, ToolError, ToolOutput,
};

use super::admission::{Admitted, Kept};

/// How long a tool that was asked to stop may take before it is dropped.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// How often to look again at a call whose sub-agents work when its own time is nearly up.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// At most so many calls at once by default.
const AT_ONCE: usize = 8;

/// The calls in flight.
pub(super) struct Batch {
    tasks: JoinSet<Returned>,
    ids: HashMap<Id, CallId>,
    running: HashMap<CallId, Running>,
    /// Calls that cannot start yet.
    pub(super) prepared: HashMap<CallId, Kept>,
    /// What is being decided about calls that could start.
    pub(super) round: Option<BoxFuture<'static, Admitted>>,
    speaks: mpsc::UnboundedSender<CallId>,
    spoke: mpsc::UnboundedReceiver<CallId>,
    execution: ToolExecution,
}

struct Running {
    access: Access,
    began: Instant,
    // Without the time in which its sub-agents work from here on.
    time_is_up: Option<Instant>,
    worked: Duration,
    cancel: CancellationToken,
    children: Children,
    scope: Arc<CallScope>,
    task: AbortHandle,
    stopped: Option<Stopped>,
}

/// A call that was asked to stop.
#[derive(Clone, Copy)]
struct Stopped {
    status: CallStatus,
    // When patience ends.
    until: Instant,
}

/// What a tool's task hands back.
struct Returned {
    result: Result<Result<ToolOutput, ToolError>, String>,
    records: Vec<(Arc<str>, RawJson)>,
}

/// A call that is no longer in flight.
pub(super) struct Landed {
    pub(super) call: CallId,
    pub(super) result: Landing,
    /// What it said and nobody has heard yet.
    pub(super) unheard: VecDeque<ScopeMessage>,
    pub(super) records: Vec<(Arc<str>, RawJson)>,
    pub(super) ran: Duration,
    pub(super) children: Children,
    /// What goes on behind it.
    pub(super) rest: Option<Left>,
}

/// What a call leaves behind it, and what belongs to that.
pub(super) struct Left {
    pub(super) rest: Rest,
    pub(super) scope: Arc<CallScope>,
    pub(super) cancel: CancellationToken,
}

/// How a call landed.
pub(super) enum Landing {
    Returned(Result<ToolOutput, ToolError>),
    /// It was stopped, and said this about it, if anything.
    Stopped(CallStatus, Option<String>),
    Panicked(String),
}

/// What happens next among the calls in flight.
pub(super) enum Happening {
    Landed(Landed),
    Said(CallId, ScopeMessage),
    Admitted(Admitted),
}

/// What is needed to put a call in flight.
pub(super) struct Start {
    pub(super) call: CallId,
    pub(super) access: Access,
    pub(super) deadline: Deadline,
    pub(super) run: RunTool,
    pub(super) cx: ToolContext,
    pub(super) scope: Arc<CallScope>,
}

impl Batch {
    pub(super) fn new(execution: ToolExecution) -> Self {
        let (speaks, spoke) = mpsc::unbounded_channel();
        Self {
            tasks: JoinSet::new(),
            ids: HashMap::new(),
            running: HashMap::new(),
            prepared: HashMap::new(),
            round: None,
            speaks,
            spoke,
            execution,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn runs(&self, call: &CallId) -> bool {
        self.running.contains_key(call)
    }

    pub(super) fn voice(&self) -> mpsc::UnboundedSender<CallId> {
        self.speaks.clone()
    }

    /// Returns what may start beside the calls in flight.
    pub(super) fn room(&self) -> Room {
        let running = self.running.values().map(|running| running.access.clone()).collect();
        Room { execution: self.execution, running }
    }

    /// Puts a call in flight: its tool runs in a task that owns its context.
    pub(super) fn start(&mut self, start: Start) {
        let Start { call, access, deadline, run, cx, scope } = start;
        let (cancel, children) = (cx.cancel.clone(), cx.children.clone());
        let began = Instant::now();
        let time_is_up = match deadline {
            Deadline::Limit => cx.tool_time.map(|time| began + time),
            Deadline::Own => None,
        };
        let (its_children, its_scope) = (children.clone(), Arc::clone(&scope));
        let task = self.tasks.spawn(async move {
            // Within the caught future, so that a tool that panics before its first wait is caught.
            let work = AssertUnwindSafe(async move { run(cx).await });
            let result = work.catch_unwind().await;
            let (waits, goes_on) = match &result {
                Ok(Ok(ToolOutput::Waiting(_))) => (true, false),
                Ok(Ok(ToolOutput::Content(_))) => (false, its_scope.has_rest()),
                Ok(Ok(ToolOutput::Concluded { .. }) | Err(_)) | Err(_) => (false, false),
            };
            if !waits && !goes_on {
                its_children.close().await;
            }
            let records = if goes_on { its_scope.go_behind() } else { its_scope.close() };
            Returned { result: result.map_err(|panic| panic_text(&*panic).to_owned()), records }
        });
        self.ids.insert(task.id(), call.clone());
        let worked = children.worked().1;
        let stopped = None;
        let running =
            Running { access, began, time_is_up, worked, cancel, children, scope, task, stopped };
        self.running.insert(call, running);
    }

    /// Returns what happens next. It may be dropped at any time. Must not be called when idle and
    /// nothing is being decided.
    pub(super) async fn next(&mut self) -> Happening {
        loop {
            let alarm = self.alarm();
            tokio::select! {
                biased;
                // A tool that never stops talking must not keep the clock from being looked at.
                () = super::until(alarm) => self.overdue(),
                // What a tool said comes before its end.
                Some(call) = self.spoke.recv() => {
                    let running = self.running.get(&call);
                    if let Some(message) = running.and_then(|running| running.scope.hear()) {
                        return Happening::Said(call, message);
                    }
                }
                admitted = decided(&mut self.round) => {
                    self.round = None;
                    return Happening::Admitted(admitted);
                }
                Some(joined) = self.tasks.join_next_with_id() => {
                    let (id, returned) = match joined {
                        Ok((id, returned)) => (id, Some(returned)),
                        Err(error) => (error.id(), None),
                    };
                    if let Some(landed) = self.land(id, returned) {
                        return Happening::Landed(landed);
                    }
                }
            }
        }
    }

    /// Asks all calls in flight to stop.
    pub(super) fn stop(&mut self, status: CallStatus) {
        for running in self.running.values_mut() {
            running.stop(status);
        }
    }

    /// Tells the sub-agents of all calls in flight to write nothing more.
    pub(super) fn let_go(&self, error: &JournalError) {
        for running in self.running.values() {
            // Nothing is recorded any more.
            running.scope.close();
            running.children.let_go(error);
        }
    }

    /// Ends all calls in flight and returns when nothing of them is left.
    pub(super) async fn abort(&mut self) {
        for running in self.running.values() {
            running.cancel.cancel();
        }
        let patience = tokio::time::sleep(GRACE);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                joined = self.tasks.join_next() => if joined.is_none() { break },
                () = &mut patience, if !self.tasks.is_empty() => {
                    self.tasks.shutdown().await;
                }
            }
        }
        for running in self.running.drain().map(|(_, running)| running) {
            running.children.close().await;
        }
    }

    fn land(&mut self, id: Id, returned: Option<Returned>) -> Option<Landed> {
        let call = self.ids.remove(&id)?;
        let running = self.running.remove(&call)?;
        let stopped = running.stopped.map(|stopped| stopped.status);
        let ran = running.began.elapsed();
        let Some(Returned { result, records }) = returned else {
            let status = stopped.unwrap_or(CallStatus::Canceled);
            let records = running.scope.close();
            let unheard = running.scope.hear_all();
            let result = Landing::Stopped(status, None);
            let children = running.children;
            return Some(Landed { call, result, unheard, records, ran, children, rest: None });
        };
        let result = match (result, stopped) {
            (Err(panic), _) => Landing::Panicked(panic),
            // It had been asked to stop, and did not finish.
            (Ok(Err(ToolError::Failed(said) | ToolError::TimedOut(said))), Some(status)) => {
                Landing::Stopped(status, Some(said))
            }
            (Ok(Ok(ToolOutput::Waiting(_))), Some(status)) => Landing::Stopped(status, None),
            (Ok(result), _) => Landing::Returned(result),
        };
        let Running { scope, cancel, children, .. } = running;
        let unheard = scope.hear_all();
        let rest = scope.take_rest().map(|rest| Left { rest, scope, cancel });
        Some(Landed { call, result, unheard, records, ran, children, rest })
    }

    /// Returns when somebody's time or patience is up.
    fn alarm(&self) -> Option<Instant> {
        let times = self.running.values().filter_map(|running| match running.stopped {
            Some(stopped) => Some(stopped.until),
            None => running.due().map(|(due, _)| due),
        });
        times.min()
    }

    /// Stops those whose time is up, and drops those that do not stop.
    fn overdue(&mut self) {
        let now = Instant::now();
        for running in self.running.values_mut() {
            match (running.stopped, running.due()) {
                (Some(stopped), _) if stopped.until <= now => {
                    running.task.abort();
                    running.stopped = Some(Stopped { until: now + GRACE, ..stopped });
                }
                (None, Some((due, false))) if due <= now => running.stop(CallStatus::Timeout),
                (Some(_) | None, _) => {}
            }
        }
    }
}

async fn decided(round: &mut Option<BoxFuture<'static, Admitted>>) -> Admitted {
    match round {
        Some(round) => round.await,
        None => std::future::pending().await,
    }
}

/// What is in flight, and what may overlap with it.
pub(super) struct Room {
    execution: ToolExecution,
    running: Vec<Access>,
}

impl Room {
    /// Tells whether a call may start beside those in flight, the `starting` ones that are about to,
    /// and the `others`: these, and those that come before it and cannot start yet.
    pub(super) fn fits<'a>(
        &self,
        access: &Access,
        starting: usize,
        mut others: impl Iterator<Item = &'a Access>,
    ) -> bool {
        let in_flight = self.running.len() + starting;
        match self.execution {
            ToolExecution::Sequential => in_flight == 0 && others.next().is_none(),
            ToolExecution::Parallel { max } => in_flight < max.max(1),
            ToolExecution::Auto => {
                in_flight < AT_ONCE
                    && self.running.iter().all(|other| !access.conflicts_with(other))
                    && others.all(|other| !access.conflicts_with(other))
            }
        }
    }
}

impl Running {
    /// Returns when its time is up, or may be, and whether a sub-agent is at work: that is not the
    /// tool's time.
    fn due(&self) -> Option<(Instant, bool)> {
        let (is_busy, worked) = self.children.worked();
        let due = self.time_is_up? + worked.saturating_sub(self.worked);
        // While a sub-agent works, the end is as far away as before, but not so near as to spin.
        let soonest = Instant::now() + LOOK_AGAIN;
        Some((if is_busy { due.max(soonest) } else { due }, is_busy))
    }

    fn stop(&mut self, status: CallStatus) {
        if self.stopped.is_none() {
            self.cancel.cancel();
            self.children.stop();
            self.stopped = Some(Stopped { status, until: Instant::now() + GRACE });
        }
    }
}
