//! One command that a helper has started.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Instant;

use rustix::process::geteuid;

use super::super::child::dies_with_parent;
use super::super::confine::{RoomId, Way};
use super::super::family::{Process, ROUND, TAG, tag};
use super::super::output::{now_ms, open_output};
use super::super::protocol::{Cause, CommandId, Kept, Start, Streams};

/// A command that runs, or is over and may have left processes behind.
pub(super) struct Running {
    pub(super) id: CommandId,
    pub(super) owner: String,
    pub(super) pid: i32,
    pub(super) tag: String,
    pub(super) files: Option<Files>,
    pub(super) started_ms: u64,
    pub(super) stdin: Option<Input>,
    pub(super) is_over: bool,
    pub(super) cause: Option<Cause>,
    pub(super) ending: Option<Ending>,
    /// Orphans that hide where they come from but can only be this command's.
    pub(super) strays: Vec<Process>,
    /// What it shares with other commands that are confined as it is.
    pub(super) room: Option<RoomId>,
    /// How many processes it may have, if the kernel does not count them.
    pub(super) most: Option<u64>,
}

/// The files of a command.
pub(super) struct Files {
    pub(super) output: File,
    pub(super) max_output: u64,
    pub(super) status: PathBuf,
}

/// What is still to be written to a command's standard input.
pub(super) struct Input {
    pub(super) pipe: ChildStdin,
    pub(super) pending: VecDeque<u8>,
    pub(super) close: bool,
}

/// A command that is made to end.
pub(super) struct Ending {
    pub(super) kill_at: Instant,
    pub(super) killed_at: Option<Instant>,
    /// How often it has been killed; what cannot be killed is tried less and less often.
    pub(super) rounds: u32,
    pub(super) is_asked: bool,
}

impl Ending {
    /// Returns when there is something to do.
    pub(super) fn due(&self) -> Instant {
        let pause = ROUND * 2_u32.pow(self.rounds.min(8));
        self.killed_at.map_or(self.kill_at, |killed_at| killed_at + pause)
    }
}

/// What a command is started with.
pub(super) struct Means {
    /// The name of its helper.
    pub(super) helper: u32,
    /// What came with the request.
    pub(super) pipes: Vec<OwnedFd>,
    /// Its way into what confines it.
    pub(super) confined: Option<(Way, Option<RoomId>)>,
}

impl Running {
    /// Starts a command, which goes its way into what confines it first.
    pub(super) fn start(start: Start, means: Means) -> Result<Self, String> {
        let Means { helper, pipes, confined } = means;
        let tag = tag(helper, start.id);
        let mut command = Command::new(&start.program);
        command
            .args(&start.arguments)
            .current_dir(&start.cwd)
            .env_clear()
            .envs(start.environment)
            .env(TAG, &tag)
            .process_group(0);
        let limits = start.confinement.map(|confinement| confinement.limits);
        // Of root it counts none.
        let most = limits.and_then(|limits| limits.processes).filter(|_| geteuid().is_root());
        let files = set_streams(&mut command, start.streams, pipes)?;
        let room = confined.and_then(|(way, room)| {
            way.lead(&mut command);
            room
        });
        // Last, since changing what one may makes the kernel forget it.
        dies_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| {
            let (program, cwd) = (start.program.display(), start.cwd.display());
            format!("cannot run {program} in {cwd}: {error}")
        })?;
        let stdin = child.stdin.take().and_then(|pipe| {
            rustix::io::ioctl_fionbio(pipe.as_fd(), true).ok()?;
            Some(Input { pipe, pending: VecDeque::new(), close: false })
        });
        Ok(Self {
            id: start.id,
            owner: start.owner,
            pid: child.id().cast_signed(),
            tag,
            files,
            started_ms: now_ms(),
            stdin,
            is_over: false,
            cause: None,
            ending: None,
            strays: Vec::new(),
            room,
            most,
        })
    }

    pub(super) fn is_owned_by(&self, owner: &str) -> bool {
        owns(owner, &self.owner)
    }
}

/// Tells whether an owner owns what another does.
pub(super) fn owns(owner: &str, other: &str) -> bool {
    let rest = other.strip_prefix(owner);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Sets what a command reads from and writes to; returns its files if it has some.
fn set_streams(
    command: &mut Command,
    streams: Streams,
    pipes: Vec<OwnedFd>,
) -> Result<Option<Files>, String> {
    let Kept { output: path, status, max_output, stdin } = match streams {
        Streams::Kept(kept) => kept,
        Streams::Pipes => {
            let [stdin, stdout, stderr] = <[OwnedFd; 3]>::try_from(pipes)
                .map_err(|_| "the pipes did not come with the request".to_owned())?;
            command.stdin(stdin).stdout(stdout).stderr(stderr);
            return Ok(None);
        }
    };
    let output =
        open_output(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let copy = || output.try_clone().map_err(|error| error.to_string());
    command
        .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(copy()?)
        .stderr(copy()?);
    Ok(Some(Files { output, max_output, status }))
}

impl Input {
    pub(super) fn feed(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let (next, _) = self.pending.as_slices();
            match self.pipe.write(next) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
