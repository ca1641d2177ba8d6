//! Running commands.

mod output_file;
mod survive;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval_at, sleep_until};

use bowline_agent::tool::{Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use crate::confined::{Sandboxed, confined};
use crate::excerpt::Tail;
use crate::job::{Jobs, NewJob};
use crate::process::{Cause, Command, ProcessError, Running, Status};
use crate::workspace::{Workspace, owner};

pub(crate) use output_file::OutputFile;

/// The bytes of output from which on a command is killed.
pub(crate) const MAX_OUTPUT: u64 = 1 << 30;

/// The longest command: what the kernel takes as one argument.
const MAX_COMMAND: usize = 128 * 1024 - 1;

/// How long a command may take to end when it is asked to.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// How often a person is shown what a command has written.
const SHOW: Duration = Duration::from_millis(100);

/// How long a command that is to run in the background is watched, to see whether it fails at once.
const START: Duration = Duration::from_millis(500);

/// A command that runs at least so long is worth a word about the time it took.
const LONG: Duration = Duration::from_secs(10);

/// The tool `bash`.
#[derive(Debug)]
pub struct Bash {
    workspace: Workspace,
    jobs: Arc<Jobs>,
    shell: PathBuf,
}

/// Runs a bash command in the working directory. One that takes too long goes on as a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct BashInput {
    command: String,
    /// Seconds until it is killed.
    timeout: Option<u64>,
    /// Run as a job at once, e.g. a server.
    background: Option<bool>,
    /// A job that goes on when bowline ends.
    survive: Option<bool>,
}

/// How watching a command ended.
pub(crate) enum Seen {
    Over(Result<Status, ProcessError>),
    Canceled,
    Late,
}

impl Bash {
    /// Makes the tool for a workspace; what it leaves running is kept in `jobs`.
    pub fn new(workspace: Workspace, jobs: Arc<Jobs>) -> Self {
        let shell = workspace.environment.shell();
        Self { workspace, jobs, shell }
    }

    fn command(
        &self,
        input: &BashInput,
        output: &OutputFile,
        cx: &ToolContext,
    ) -> Result<Command, ToolError> {
        let mut environment = self.workspace.environment.variables().to_vec();
        environment.push(("BOWLINE_SESSION_ID".to_owned(), cx.session.to_string()));
        environment.push(("BOWLINE_AGENT_ID".to_owned(), cx.agent.id.to_string()));
        environment.push(("BOWLINE_CALL_ID".to_owned(), cx.call.to_string()));
        let command = Command {
            owner: owner(cx.session, cx.agent.id),
            program: self.shell.clone(),
            arguments: vec!["-c".to_owned(), input.command.clone()],
            cwd: self.workspace.cwd.clone(),
            environment,
            output: output.path.clone(),
            max_output: MAX_OUTPUT,
            // A command nobody can write to must find the end of its input, not wait for it.
            stdin: input.is_background(),
            confinement: None,
        };
        confined(&self.workspace, command, &input.command, cx)
    }

    /// Hands a running command over to the jobs and tells the model.
    async fn keep(&self, call: Call, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (text, shown) = call.output.excerpt(0, cx.output_bytes).await?;
        let ran = call.started.elapsed();
        let timeout = call.input.timeout.map(Duration::from_secs);
        let job = NewJob {
            has_stdin: call.input.is_background(),
            command: call.input.command,
            running: call.running,
            output: call.output,
            started: call.started,
            time_left: timeout.map(|timeout| timeout.saturating_sub(ran)),
            shown,
        };
        let id = self.jobs.keep(job, cx)?;
        let ran = ran.as_secs();
        let kept = format!("[running for {ran} s as job {id}; see how it goes on with job]");
        Ok(after(text, &kept).into())
    }
}

impl BashInput {
    fn is_background(&self) -> bool {
        self.background.unwrap_or(false)
    }

    fn is_surviving(&self) -> bool {
        self.survive.unwrap_or(false)
    }

    /// Returns how long the call may take, and whether the command ends with it.
    fn time(&self, tool_time: Option<Duration>) -> (Option<Duration>, bool) {
        let soft = if self.is_background() { Some(START) } else { tool_time };
        match (soft, self.timeout.map(Duration::from_secs)) {
            (Some(soft), Some(hard)) if soft < hard => (Some(soft), false),
            (Some(soft), None) => (Some(soft), false),
            (Some(_) | None, hard) => (hard, true),
        }
    }
}

/// A command that was started by a call.
struct Call {
    input: BashInput,
    output: OutputFile,
    running: Running,
    started: Instant,
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    type Input = BashInput;

    fn access(&self, input: &BashInput) -> Access {
        Access::execute(input.command.clone())
    }

    fn recovery(&self, input: &BashInput) -> Recovery {
        // What survives is there to be found.
        if input.is_surviving() { Recovery::Reattach } else { Recovery::Unknown }
    }

    fn deadline(&self) -> Deadline {
        Deadline::Own
    }

    async fn run(&self, input: BashInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if input.command.len() > MAX_COMMAND {
            return Err(ToolError::Failed(format!(
                "the command has {} bytes, more than the {MAX_COMMAND} that fit; write a script to a \
                 file and run that",
                input.command.len()
            )));
        }
        if input.is_surviving() {
            return self.survive(input, cx).await;
        }
        let output = OutputFile::create(&self.workspace.folder(cx), cx.call.as_str())
            .map_err(|error| ToolError::Failed(format!("cannot keep the output: {error}")))?;
        let command = self.command(&input, &output, cx)?;
        let sandbox = Sandboxed::of(&command);
        let started = Instant::now();
        let running = self.workspace.processes.start(command).await;
        let running = running.map_err(|error| ToolError::Failed(error.to_string()))?;
        let (time, is_last) = input.time(cx.tool_time);
        let mut call = Call { input, output, running, started };
        let seen = watch(&mut call.running, &call.output.path, time, cx).await;
        if matches!(seen, Seen::Late) && !is_last {
            return self.keep(call, cx).await;
        }
        if matches!(seen, Seen::Canceled | Seen::Late) {
            call.running.end(GRACE).await;
        }
        let (mut text, _) = call.output.excerpt(0, cx.output_bytes).await?;
        match seen {
            Seen::Over(Ok(status)) => {
                describe_end(&mut text, &status, started.elapsed());
                Ok(sandbox.explain(text, &status, &self.workspace).into())
            }
            Seen::Over(Err(error)) => Err(ToolError::Failed(after(text, &error.to_string()))),
            Seen::Canceled => {
                Err(ToolError::Failed(after(text, "[canceled: the command was ended]")))
            }
            Seen::Late => {
                let seconds = time.unwrap_or_default().as_secs_f64();
                let late = format!("[timed out after {seconds} s: the command was ended]");
                Err(ToolError::TimedOut(after(text, &late)))
            }
        }
    }
}

/// Waits for a command's end and shows a person what it writes.
pub(crate) async fn watch(
    running: &mut Running,
    output: &Path,
    time: Option<Duration>,
    cx: &ToolContext,
) -> Seen {
    let now = tokio::time::Instant::now();
    let mut show = interval_at(now + SHOW, SHOW);
    show.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tail = Tail::default();
    let canceled = cx.cancel.cancelled();
    let late = async {
        match time.and_then(|time| now.checked_add(time)) {
            Some(end) => sleep_until(end).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(canceled, late);
    loop {
        tokio::select! {
            biased;
            exited = running.exit() => return Seen::Over(exited),
            () = &mut canceled => return Seen::Canceled,
            () = &mut late => return Seen::Late,
            _ = show.tick() => {
                // What cannot be read now is reported when the command is over.
                if let Ok(Some(text)) = tail.read(output) {
                    cx.output(text);
                }
            }
        }
    }
}

/// Adds what the model must know of how a command ended.
pub(crate) fn describe_end(text: &mut String, status: &Status, took: Duration) {
    let end = end_of(status);
    if text.is_empty() && end.is_none() {
        text.push_str("(no output)");
    }
    if let Some(end) = end {
        *text = after(std::mem::take(text), &format!("[{end}]"));
    }
    if took >= LONG {
        *text = after(std::mem::take(text), &format!("[took {} s]", took.as_secs()));
    }
}

/// Says how a command ended; `None` if it did what it should.
pub(crate) fn end_of(status: &Status) -> Option<String> {
    match (status.cause, status.code, status.signal) {
        (Some(Cause::Output), _, _) => {
            Some(format!("killed: it wrote more than {} MiB of output", MAX_OUTPUT >> 20))
        }
        (Some(Cause::Processes), _, _) => {
            Some("killed: it had more processes than it may".to_owned())
        }
        (Some(Cause::Orphaned), _, _) => {
            Some("killed when the bowline process that had started it was gone".to_owned())
        }
        (Some(Cause::Asked) | None, Some(0), _) => None,
        (Some(Cause::Asked) | None, Some(code), _) => Some(format!("exit code {code}")),
        (Some(Cause::Asked) | None, None, Some(signal)) => {
            Some(format!("killed by signal {signal}"))
        }
        (Some(Cause::Asked) | None, None, None) => Some("ended, nobody knows how".to_owned()),
    }
}

/// Puts a line after an output.
pub(crate) fn after(mut text: String, line: &str) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text
}
