//! Running commands.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval_at, sleep_until};

use bowline_agent::tool::{Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use crate::excerpt::{Bounds, Tail, excerpt};
use crate::process::{Cause, Command, ProcessError, Running, Status};
use crate::workspace::Workspace;

/// The bytes of output from which on a command is killed.
const MAX_OUTPUT: u64 = 1 << 30;

/// How long a command may take to end when it is asked to.
const GRACE: Duration = Duration::from_millis(500);

/// How often a person is shown what a command has written.
const SHOW: Duration = Duration::from_millis(100);

/// A command that runs at least so long is worth a word about the time it took.
const LONG: Duration = Duration::from_secs(10);

/// An output longer than this is read where it does not hold up others.
const LARGE: u64 = 1 << 20;

/// The tool `bash`.
#[derive(Debug)]
pub struct Bash {
    workspace: Workspace,
    shell: PathBuf,
}

/// Runs a bash command in the working directory and returns its output.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BashInput {
    command: String,
    /// Seconds after which it is killed.
    timeout: Option<u64>,
}

/// How watching a command ended.
enum Seen {
    Over(Result<Status, ProcessError>),
    Canceled,
    Late,
}

impl Bash {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        let shell = workspace.environment.shell();
        Self { workspace, shell }
    }

    fn command(&self, command: String, files: &Files, cx: &ToolContext) -> Command {
        let mut environment = self.workspace.environment.variables().to_vec();
        environment.push(("BOWLINE_SESSION_ID".to_owned(), cx.session.to_string()));
        environment.push(("BOWLINE_AGENT_ID".to_owned(), cx.agent.id.to_string()));
        environment.push(("BOWLINE_CALL_ID".to_owned(), cx.call.to_string()));
        Command {
            owner: format!("{}/{}", cx.session, cx.agent.id),
            program: self.shell.clone(),
            arguments: vec!["-c".to_owned(), command],
            cwd: self.workspace.cwd.clone(),
            environment,
            output: files.output.clone(),
            status: files.status.clone(),
            max_output: MAX_OUTPUT,
            stdin: false,
        }
    }
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    type Input = BashInput;

    fn access(&self, input: &BashInput) -> Access {
        Access::execute(input.command.clone())
    }

    fn recovery(&self) -> Recovery {
        Recovery::Unknown
    }

    fn deadline(&self) -> Deadline {
        Deadline::Own
    }

    async fn run(&self, input: BashInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let files = Files::create(&self.workspace.folder(cx), cx.call.as_str())
            .map_err(|error| ToolError::Failed(format!("cannot keep the output: {error}")))?;
        let command = self.command(input.command, &files, cx);
        let started = Instant::now();
        let running = self.workspace.processes.start(command).await;
        let mut running = running.map_err(|error| ToolError::Failed(error.to_string()))?;
        let limits = [cx.tool_time, input.timeout.map(Duration::from_secs)];
        let time = limits.into_iter().flatten().min();
        let seen = watch(&mut running, &files.output, time, cx).await;
        if matches!(seen, Seen::Canceled | Seen::Late) {
            running.end(GRACE).await;
        }
        let mut text = files.excerpt(cx.output_bytes).await?;
        match seen {
            Seen::Over(Ok(status)) => {
                describe_end(&mut text, &status, started.elapsed());
                Ok(text.into())
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
async fn watch(
    running: &mut Running,
    output: &Path,
    time: Option<Duration>,
    cx: &ToolContext,
) -> Seen {
    let now = tokio::time::Instant::now();
    let mut show = interval_at(now + SHOW, SHOW);
    show.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tail = Tail::from(0);
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
fn describe_end(text: &mut String, status: &Status, took: Duration) {
    let end = match (status.cause, status.code, status.signal) {
        (Some(Cause::Output), _, _) => {
            format!("[killed: it wrote more than {} MiB of output]", MAX_OUTPUT >> 20)
        }
        (Some(Cause::Asked | Cause::Orphaned) | None, Some(0), _) => String::new(),
        (Some(Cause::Asked | Cause::Orphaned) | None, Some(code), _) => {
            format!("[exit code {code}]")
        }
        (Some(Cause::Asked | Cause::Orphaned) | None, None, Some(signal)) => {
            format!("[killed by signal {signal}]")
        }
        (Some(Cause::Asked | Cause::Orphaned) | None, None, None) => "[ended]".to_owned(),
    };
    if text.is_empty() && end.is_empty() {
        text.push_str("(no output)");
    }
    if !end.is_empty() {
        *text = after(std::mem::take(text), &end);
    }
    if took >= LONG {
        *text = after(std::mem::take(text), &format!("[took {} s]", took.as_secs()));
    }
}

/// Puts a line after an output.
fn after(mut text: String, line: &str) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text
}

/// The files of one call.
struct Files {
    output: PathBuf,
    status: PathBuf,
}

impl Files {
    /// Makes the output file, and the folder if need be. Calls with one id get different files.
    fn create(folder: &Path, call: &str) -> io::Result<Self> {
        let name: String = call
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
            .take(100)
            .collect();
        let mut ordinal = 1;
        loop {
            let mut unique = name.clone();
            if ordinal > 1 {
                let _ = write!(unique, "-{ordinal}");
            }
            let output = folder.join(format!("{unique}.out"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&output) {
                Ok(_) => {
                    let status = folder.join(format!("{unique}.status"));
                    return Ok(Self { output, status });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ordinal += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_dir() => {
                    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns what the model sees of the output.
    async fn excerpt(&self, bytes: u64) -> Result<String, ToolError> {
        let bounds = Bounds::new(bytes);
        let is_large = fs::metadata(&self.output).is_ok_and(|meta| meta.len() > LARGE);
        let text = if is_large {
            let path = self.output.clone();
            let read = tokio::task::spawn_blocking(move || excerpt(&path, bounds)).await;
            read.unwrap_or_else(|error| Err(io::Error::other(error)))
        } else {
            excerpt(&self.output, bounds)
        };
        text.map_err(|error| {
            let path = self.output.display();
            ToolError::Failed(format!("the output in {path} cannot be read: {error}"))
        })
    }
}
