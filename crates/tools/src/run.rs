//! Running a program to its end and telling what it wrote: what `git` and configured commands share.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bowline_agent::tool::{ToolContext, ToolError};

use crate::bash::{GRACE, MAX_OUTPUT, OutputFile, Seen, after, describe_end, end_of, watch};
use crate::confined::{Sandboxed, confined};
use crate::process::Command;
use crate::workspace::{Workspace, owner};

/// A program to run, without a shell.
pub(crate) struct Program {
    /// Its absolute path.
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Its whole environment.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) cwd: PathBuf,
    /// After how long it is ended, at the latest.
    pub(crate) time: Option<Duration>,
}

impl Program {
    /// Returns it as a shell would take it.
    fn line(&self) -> String {
        let path = self.path.display().to_string();
        let words = [path.as_str()].into_iter().chain(self.arguments.iter().map(String::as_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// Writes a word as a shell takes it for that word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Runs a program with an empty standard input and returns what it has written, as much as a model
/// gets to see.
///
/// # Errors
/// With what it has written and how it ended, unless it ended well.
pub(crate) async fn run(
    workspace: &Workspace,
    program: Program,
    cx: &ToolContext,
) -> Result<String, ToolError> {
    let output = OutputFile::create(&workspace.folder(cx), cx.call.as_str())
        .map_err(|error| ToolError::Failed(format!("cannot keep the output: {error}")))?;
    let line = program.line();
    let command = Command {
        owner: owner(cx.session, cx.agent.id),
        program: program.path,
        arguments: program.arguments,
        cwd: program.cwd,
        environment: program.environment,
        output: output.path.clone(),
        max_output: MAX_OUTPUT,
        stdin: false,
        confinement: None,
    };
    let command = confined(workspace, command, &line, cx)?;
    let sandbox = Sandboxed::of(&command);
    let started = Instant::now();
    let running = workspace.processes.start(command).await;
    let mut running = running.map_err(|error| ToolError::Failed(error.to_string()))?;
    let time = shorter(program.time, cx.tool_time);
    let seen = watch(&mut running, &output.path, time, cx).await;
    if matches!(seen, Seen::Canceled | Seen::Late) {
        running.end(GRACE).await;
    }
    let (mut text, _) = output.excerpt(0, cx.output_bytes).await?;
    match seen {
        Seen::Over(Ok(status)) => {
            describe_end(&mut text, &status, started.elapsed());
            let text = sandbox.explain(text, &status, workspace);
            if end_of(&status).is_some() { Err(ToolError::Failed(text)) } else { Ok(text) }
        }
        Seen::Over(Err(error)) => Err(ToolError::Failed(after(text, &error.to_string()))),
        Seen::Canceled => Err(ToolError::Failed(after(text, "[canceled: the command was ended]"))),
        Seen::Late => {
            let seconds = time.unwrap_or_default().as_secs_f64();
            let late = format!("[timed out after {seconds} s: the command was ended]");
            Err(ToolError::TimedOut(after(text, &late)))
        }
    }
}

/// Returns the shorter of two times; `None` is no limit.
pub(crate) fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}
