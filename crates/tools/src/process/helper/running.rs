//! One command that a helper has started.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::process::geteuid;

use super::super::confine::{RoomId, Way};
use super::super::family::{Process, ROUND, TAG, tag};
use super::super::output::{Output, now_ms};
use super::super::program::Program;
use super::super::protocol::{Cause, CommandId, Kept, Start, Streams, owns};

/// A command that runs, or is over and may have left processes behind.
pub(super) struct Running {
    pub(super) id: CommandId,
    pub(super) owner: String,
    pub(super) pid: i32,
    pub(super) tag: String,
    pub(super) output: Option<Output>,
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

/// What is still to be written to a command's standard input.
pub(super) struct Input {
    pub(super) pipe: PipeWriter,
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
    pub(super) opened: Opened,
    /// Its way into what confines it.
    pub(super) confined: Option<(Way, Option<RoomId>)>,
}

/// What a command reads from and writes to, opened.
pub(super) struct Opened {
    /// Its standard input, output and error.
    stdio: [OwnedFd; 3],
    output: Option<Output>,
    input: Option<Input>,
}

impl Running {
    /// Starts a command, which goes its way into what confines it first.
    pub(super) fn start(start: Start, means: Means) -> Result<Self, String> {
        let Means { helper, opened: Opened { stdio, output, input }, confined } = means;
        let tag = tag(helper, start.id);
        let given = start.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let environment = given.chain([(TAG, tag.as_str())]).collect();
        let (way, room) = confined.unzip();
        let pid = Program::new(&start.program, &start.arguments, &start.cwd, &environment)
            .and_then(|program| program.spawn(&stdio, way.as_ref()))
            .map_err(|error| {
                let (program, cwd) = (start.program.display(), start.cwd.display());
                format!("cannot run {program} in {cwd}: {error}")
            })?;
        let limits = start.confinement.map(|confinement| confinement.limits);
        // Of root the kernel counts none.
        let most = limits.and_then(|limits| limits.processes).filter(|_| geteuid().is_root());
        Ok(Self {
            id: start.id,
            owner: start.owner,
            pid: pid.as_raw_pid(),
            tag,
            output,
            started_ms: now_ms(),
            stdin: input,
            is_over: false,
            cause: None,
            ending: None,
            strays: Vec::new(),
            room: room.flatten(),
            most,
        })
    }

    pub(super) fn is_owned_by(&self, owner: &str) -> bool {
        owns(owner, &self.owner)
    }
}

impl Opened {
    /// Opens what a command reads from and writes to; `pipes` came with the request.
    pub(super) fn open(streams: &Streams, pipes: Vec<OwnedFd>) -> Result<Self, String> {
        match streams {
            Streams::Kept(kept) => Self::of_files(kept)
                .map_err(|error| format!("cannot write {}: {error}", kept.output.display())),
            Streams::Pipes => {
                let stdio = <[OwnedFd; 3]>::try_from(pipes)
                    .map_err(|_| "the pipes did not come with the request".to_owned())?;
                Ok(Self { stdio, output: None, input: None })
            }
        }
    }

    fn of_files(kept: &Kept) -> io::Result<Self> {
        let output = Output::open(kept)?;
        let (stdin, input) = match kept.stdin {
            true => {
                let (reader, pipe) = io::pipe()?;
                rustix::io::ioctl_fionbio(&pipe, true)?;
                (reader.into(), Some(Input { pipe, pending: VecDeque::new(), close: false }))
            }
            false => (File::open("/dev/null")?.into(), None),
        };
        let stdio = [stdin, output.descriptor()?, output.descriptor()?];
        Ok(Self { stdio, output: Some(output), input })
    }
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
