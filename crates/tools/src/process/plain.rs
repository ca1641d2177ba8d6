//! Commands without a helper: children of bowline itself, each in a process group.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::ProcessError;
use super::link::{Ends, Exited, Order};
use super::output::{MEASURE, Output, now_ms};
use super::protocol::{Cause, Start, Status, Streams, owns};

/// Serves orders until there are no more; then everything is killed.
pub(super) async fn run(mut orders: mpsc::Receiver<Order>) {
    let mut groups = HashMap::new();
    let mut tasks = JoinSet::new();
    while let Some(order) = orders.recv().await {
        while tasks.try_join_next().is_some() {}
        groups.retain(|_, group: &mut Group| group.is_left());
        match order {
            Order::Start { start, pipes, exited } => {
                let id = start.id;
                match spawn(*start, pipes, exited, &mut tasks) {
                    Ok(group) => drop(groups.insert(id, group)),
                    Err((exited, error)) => {
                        let _ = exited.send(Err(ProcessError::Refused(error)));
                    }
                }
            }
            Order::Write { id, text, close } => {
                if let Some(group) = groups.get_mut(&id) {
                    group.write(text, close);
                }
            }
            Order::End { id, grace, done } => {
                let ended = groups.get(&id).map(|group| group.pid).into_iter().collect();
                tasks.spawn(end(ended, grace, done));
            }
            Order::EndOwner { owner, grace, done } => {
                let owned = groups.values().filter(|group| group.is_owned_by(&owner));
                tasks.spawn(end(owned.map(|group| group.pid).collect(), grace, Some(done)));
            }
            Order::Close => break,
        }
    }
}

/// Why a command that is to be confined is not run.
const NO_SANDBOX: &str =
    "the sandbox cannot be had without the helper process, so the command was not run";

/// A command's process group, killed when dropped.
#[derive(Debug)]
struct Group {
    pid: Pid,
    owner: String,
    stdin: Option<mpsc::UnboundedSender<String>>,
}

impl Group {
    fn is_left(&self) -> bool {
        test_kill_process_group(self.pid).is_ok()
    }

    fn is_owned_by(&self, owner: &str) -> bool {
        owns(owner, &self.owner)
    }

    fn write(&mut self, text: String, close: bool) {
        if let Some(stdin) = &self.stdin {
            let _ = stdin.send(text);
        }
        if close {
            self.stdin = None;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It fails if nothing is left, which is as good.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

fn spawn(
    start: Start,
    pipes: Option<Ends>,
    exited: Exited,
    tasks: &mut JoinSet<()>,
) -> Result<Group, (Exited, String)> {
    if start.confinement.is_some() {
        return Err((exited, NO_SANDBOX.to_owned()));
    }
    let (mut child, output) = match spawn_with(&start, pipes) {
        Ok(started) => started,
        Err(error) => {
            let (program, cwd) = (start.program.display(), start.cwd.display());
            return Err((exited, format!("cannot run {program} in {cwd}: {error}")));
        }
    };
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let Some(pid) = pid else { return Err((exited, "the command has no process".to_owned())) };
    let stdin = child.stdin.take().map(|pipe| {
        let (write, texts) = mpsc::unbounded_channel();
        tasks.spawn(feed(pipe, texts));
        write
    });
    tasks.spawn(watch(child, output, exited, pid));
    Ok(Group { pid, owner: start.owner, stdin })
}

fn spawn_with(start: &Start, pipes: Option<Ends>) -> std::io::Result<(Child, Option<Output>)> {
    let mut command = Command::new(&start.program);
    command
        .args(&start.arguments)
        .current_dir(&start.cwd)
        .env_clear()
        .envs(start.environment.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .kill_on_drop(true);
    let output = match (&start.streams, pipes) {
        (Streams::Kept(kept), _) => {
            let output = Output::open(kept)?;
            command
                .stdin(if kept.stdin { Stdio::piped() } else { Stdio::null() })
                .stdout(output.descriptor()?)
                .stderr(output.descriptor()?);
            Some(output)
        }
        (Streams::Pipes, Some([stdin, stdout, stderr])) => {
            command.stdin(stdin).stdout(stdout).stderr(stderr);
            None
        }
        (Streams::Pipes, None) => return Err(std::io::ErrorKind::BrokenPipe.into()),
    };
    Ok((command.spawn()?, output))
}

async fn feed(mut pipe: ChildStdin, mut texts: mpsc::UnboundedReceiver<String>) {
    while let Some(text) = texts.recv().await {
        if pipe.write_all(text.as_bytes()).await.is_err() {
            break;
        }
    }
}

/// Waits for a command's end, and kills it if it writes too much.
async fn watch(mut child: Child, output: Option<Output>, exited: Exited, pid: Pid) {
    let started_ms = now_ms();
    let mut cause = None;
    let mut measure = interval(MEASURE);
    measure.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = measure.tick(), if output.is_some() => {
                if output.as_ref().is_some_and(Output::is_too_large) {
                    cause = Some(Cause::Output);
                    let _ = kill_process_group(pid, Signal::KILL);
                }
            }
        }
    };
    let status = status.map(|status| Status {
        pid: pid.as_raw_pid(),
        code: status.code(),
        signal: std::os::unix::process::ExitStatusExt::signal(&status),
        started_ms,
        ended_ms: now_ms(),
        cause,
    });
    if let (Ok(status), Some(output)) = (&status, &output) {
        let _ = output.note_end(status);
    }
    let _ = exited.send(status.map_err(|error| ProcessError::Refused(error.to_string())));
}

/// Ends groups and tells when nothing is left of them.
async fn end(groups: Vec<Pid>, grace: Duration, done: Option<oneshot::Sender<()>>) {
    let kill_at = Instant::now() + grace;
    let mut signal = if grace.is_zero() { Signal::KILL } else { Signal::TERM };
    for group in &groups {
        let _ = kill_process_group(*group, signal);
    }
    // There is nothing to wait on but the group's absence.
    while groups.iter().any(|group| test_kill_process_group(*group).is_ok()) {
        sleep(Duration::from_millis(5)).await;
        if Instant::now() >= kill_at {
            signal = Signal::KILL;
        }
        if signal == Signal::KILL {
            for group in &groups {
                let _ = kill_process_group(*group, Signal::KILL);
            }
        }
    }
    if let Some(done) = done {
        let _ = done.send(());
    }
}
