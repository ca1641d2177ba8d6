//! Commands that go on after the call that started them.

mod jobs;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use crate::bash::{after, end_of};
use crate::process::{Fate, Status, Survivor};
use jobs::{Kept, Live, State};

pub use jobs::Jobs;
pub(crate) use jobs::{Found, NewJob};

/// The tool `job`.
#[derive(Debug)]
pub struct Job {
    jobs: Arc<Jobs>,
}

/// Follows commands that bash left running. output shows what is new.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct JobInput {
    action: JobAction,
    id: Option<String>,
    /// output: seconds to wait for its end.
    wait: Option<u64>,
    /// write: for stdin of a background command.
    text: Option<String>,
    /// write: close stdin.
    close: Option<bool>,
}

// What to do with a job; a doc comment would only repeat to the model what it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobAction {
    List,
    Output,
    Write,
    Kill,
}

impl Job {
    /// Makes the tool for what `bash` has left running.
    pub fn new(jobs: Arc<Jobs>) -> Self {
        Self { jobs }
    }
}

impl Tool for Job {
    const NAME: &'static str = "job";
    type Input = JobInput;

    fn access(&self, input: &JobInput) -> Access {
        match (input.action, &input.text) {
            // What a shell reads it runs.
            (JobAction::Write, Some(text)) => Access::execute(text.clone()),
            (JobAction::Write, None)
            | (JobAction::List | JobAction::Output | JobAction::Kill, _) => Access::none(),
        }
    }

    fn recovery(&self, input: &JobInput) -> Recovery {
        match input.action {
            JobAction::List | JobAction::Output => Recovery::Rerun,
            JobAction::Write | JobAction::Kill => Recovery::Unknown,
        }
    }

    fn deadline(&self) -> Deadline {
        Deadline::Own
    }

    async fn run(&self, input: JobInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let known = self.jobs.known(cx);
        if input.action == JobAction::List {
            return Ok(list(&known).into());
        }
        let wanted = input.id.as_deref();
        let only = if wanted.is_none() && known.len() == 1 { known.first() } else { None };
        let named = known.iter().find(|job| Some(job.id()) == wanted);
        let job = named.or(only).ok_or_else(|| unknown(wanted, &known))?;
        let wait = Duration::from_secs(input.wait.unwrap_or(0));
        let wait = cx.tool_time.map_or(wait, |time| wait.min(time));
        let job = match job {
            Known::Live(live) => live,
            Known::Found(found) => return found_output(found, input.action, wait, cx).await,
            Known::Past(past) => return past_output(past, input.action, cx).await,
        };
        match input.action {
            JobAction::List | JobAction::Output => {
                tokio::select! {
                    () = job.over() => {}
                    () = cx.cancel.cancelled() => {}
                    () = tokio::time::sleep(wait) => {}
                }
                output(job, cx).await
            }
            JobAction::Write => {
                let text = input.text.unwrap_or_default();
                let bytes = text.len();
                job.write(text, input.close.unwrap_or(false)).await.map_err(ToolError::Failed)?;
                Ok(format!("wrote {bytes} bytes to {}", job.kept.id).into())
            }
            JobAction::Kill => {
                job.kill().await;
                output(job, cx).await
            }
        }
    }
}

/// A job of this agent.
#[derive(Debug)]
enum Known {
    /// It was started by this process.
    Live(Arc<Live>),
    /// It outlives the process that has started it, whichever that was.
    Found(Arc<Found>),
    /// It was started by an earlier process, with which it ended.
    Past(Kept),
}

impl Known {
    fn kept(&self) -> Kept {
        match self {
            Self::Live(live) => live.kept.clone(),
            Self::Found(found) => found.kept(),
            Self::Past(kept) => kept.clone(),
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Live(live) => &live.kept.id,
            Self::Found(found) => &found.survivor.asked().id,
            Self::Past(kept) => &kept.id,
        }
    }

    fn state(&self) -> String {
        match self {
            Self::Live(live) => live_state(live),
            Self::Found(found) => state_of(&found.survivor),
            Self::Past(kept) => past_state(kept),
        }
    }
}

fn live_state(live: &Live) -> String {
    match live.state() {
        State::Running => format!("running for {} s", live.started.elapsed().as_secs()),
        State::Over(Ok(status)) => over_state(&status),
        State::Over(Err(error)) => error,
    }
}

fn over_state(status: &Status) -> String {
    end_of(status).unwrap_or_else(|| "exit code 0".to_owned())
}

/// Says in what state a job is that outlives bowline.
pub fn state_of(survivor: &Survivor) -> String {
    match survivor.fate() {
        Fate::Running { time } => format!("running for {} s", time.as_secs()),
        Fate::Over(status) => over_state(&status),
        Fate::Refused(error) => error,
        Fate::Lost { is_restarted: true } => {
            "lost: the machine was restarted, and nobody knows how it ended".to_owned()
        }
        Fate::Lost { is_restarted: false } => {
            "lost: what kept it was killed, and nobody knows how it ended".to_owned()
        }
    }
}

/// Says what became of a job whose process is no longer ours.
fn past_state(kept: &Kept) -> String {
    match kept.status() {
        Some(status) => over_state(&status),
        None if kept.is_of_another() => {
            "it belongs to the session from which this one was copied".to_owned()
        }
        None if kept.survives => "lost: what was kept of it is gone".to_owned(),
        None => "ended with the bowline process that had started it; nobody knows how".to_owned(),
    }
}

fn list(known: &[Known]) -> String {
    let mut text = String::new();
    for job in known {
        let _ = writeln!(text, "{}: {}: {}", job.id(), job.state(), job.kept().command);
    }
    if text.is_empty() { "no jobs".to_owned() } else { text }
}

fn unknown(wanted: Option<&str>, known: &[Known]) -> ToolError {
    let ids: Vec<&str> = known.iter().map(Known::id).collect();
    let there = if ids.is_empty() { "no jobs".to_owned() } else { ids.join(", ") };
    ToolError::Failed(match wanted {
        Some(id) => format!("there is no job {id:?}; there are: {there}"),
        None => format!("say which job by its id; there are: {there}"),
    })
}

/// Returns what is new in a job's output, and its state.
async fn output(live: &Live, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let state = live_state(live);
    let (text, end) = live.kept.output().excerpt(live.shown(), cx.output_bytes).await?;
    live.set_shown(end);
    let text = if text.is_empty() { "(no new output)".to_owned() } else { text };
    Ok(after(text, &format!("[{}: {state}]", live.kept.id)).into())
}

/// Returns what is new in the output of a job that survives, and its state.
pub(crate) async fn new_output(found: &Found, cx: &ToolContext) -> Result<String, ToolError> {
    let state = state_of(&found.survivor);
    let (text, end) = found.kept().output().excerpt(found.shown(), cx.output_bytes).await?;
    found.set_shown(end);
    let text = if text.is_empty() { "(no new output)".to_owned() } else { text };
    Ok(after(text, &format!("[{}: {state}]", found.survivor.asked().id)))
}

async fn found_output(
    found: &Found,
    action: JobAction,
    wait: Duration,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    match action {
        JobAction::Write => {
            let id = &found.survivor.asked().id;
            return Err(ToolError::Failed(format!(
                "{id} has no standard input, since it survives"
            )));
        }
        JobAction::Kill => found.survivor.end().await,
        JobAction::List | JobAction::Output => tokio::select! {
            () = found.survivor.over() => {}
            () = cx.cancel.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        },
    }
    Ok(new_output(found, cx).await?.into())
}

async fn past_output(
    kept: &Kept,
    action: JobAction,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let state = past_state(kept);
    match action {
        JobAction::Write => Err(ToolError::Failed(format!("{} is over: {state}", kept.id))),
        JobAction::List | JobAction::Output | JobAction::Kill => {
            let (text, _) = kept.output().excerpt(0, cx.output_bytes).await?;
            Ok(after(text, &format!("[{}: {state}]", kept.id)).into())
        }
    }
}
