//! The helper process: starts commands, and outlives bowline just long enough to end them.
//!
//! It is one thread around one `poll`: the socket to bowline, and a pipe that signal handlers write
//! to. While nothing happens it does not wake up, except to watch the size of output files.

mod keeper;
mod running;
mod watch;

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, wait};

use super::cgroup::Cgroup;
use super::child::wake_on;
use super::confine::{Asked, RoomId, Rooms};
use super::family::{self, Process, TAG};
use super::output::{MEASURE, Output, now_ms};
use super::protocol::{Answer, Cause, CommandId, Request, Start, Status, Streams, owns};
use crate::guard::Network;
use running::{Ending, Means, Opened, Running};
use watch::{Lasts, watched};

pub(super) use keeper::keep;

/// Serves bowline over standard input until it is gone, then ends everything and returns.
pub(super) fn serve(socket: UnixStream) -> io::Result<()> {
    watched(Lasts::WithBowline, |name| {
        let line = Line { socket, watcher: getppid(), pipes: VecDeque::new() };
        let helper = Helper::new(name, Some(line))?;
        rustix::process::set_parent_process_death_signal(Some(Signal::USR1))?;
        helper.run();
        Ok(())
    })
}

struct Helper {
    /// What it is called by bowline: the number of its watcher.
    name: u32,
    /// Who says what to do; a keeper has nobody.
    line: Option<Line>,
    wakes: OwnedFd,
    stops: OwnedFd,
    /// Commands that run, and commands that are over but may have left processes behind.
    commands: Vec<Running>,
    /// Who waits for all commands of an owner to be gone.
    owners: Vec<(u64, String)>,
    /// What confines commands.
    rooms: Rooms,
    /// What none of them leaves, where it can be had.
    cgroup: Option<Cgroup>,
    /// When a keeper ends what it keeps.
    deadline: Option<Instant>,
}

/// The line to bowline.
struct Line {
    socket: UnixStream,
    watcher: Option<Pid>,
    /// What came with requests that have not been read yet.
    pipes: VecDeque<OwnedFd>,
}

/// What the loop woke up for.
struct Woken {
    request: bool,
    stop: bool,
}

impl Helper {
    /// Makes of this process the reaper of all that it will start.
    fn new(name: u32, line: Option<Line>) -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(getpid()))?;
        let pipe = || {
            use rustix::pipe::{PipeFlags, pipe_with};
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
        };
        let ((wakes, waker), (stops, stopper)) = (pipe()?, pipe()?);
        wake_on(Signal::CHILD, waker.try_clone()?)?;
        // It comes when the watcher has ended.
        wake_on(Signal::USR1, waker)?;
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            wake_on(signal, stopper.try_clone()?)?;
        }
        Ok(Self {
            name,
            line,
            wakes,
            stops,
            commands: Vec::new(),
            owners: Vec::new(),
            rooms: Rooms::default(),
            cgroup: Cgroup::enter(name),
            deadline: None,
        })
    }

    fn run(mut self) {
        let mut inbox = Vec::new();
        // Whatever goes wrong, nothing may be left behind.
        while matches!(self.turn(&mut inbox), Ok(true)) {}
        self.end_everything();
    }

    /// Sleeps, does what there is to do, and tells whether to go on.
    fn turn(&mut self, inbox: &mut Vec<u8>) -> io::Result<bool> {
        let woken = self.sleep()?;
        self.reap()?;
        let is_alone = self.line.as_ref().is_none_or(|line| getppid() != line.watcher);
        if woken.stop || is_alone || (woken.request && !self.serve_inbox(inbox)?) {
            return Ok(false);
        }
        self.feed();
        self.measure();
        self.pursue()?;
        self.tidy();
        Ok(true)
    }

    /// Sleeps until there is something to do.
    fn sleep(&self) -> io::Result<Woken> {
        let mut fds =
            vec![PollFd::new(&self.wakes, PollFlags::IN), PollFd::new(&self.stops, PollFlags::IN)];
        fds.extend(self.line.as_ref().map(|line| PollFd::new(&line.socket, PollFlags::IN)));
        let inputs = self.commands.iter().filter_map(|command| command.stdin.as_ref());
        let waiting = inputs.filter(|input| !input.pending.is_empty());
        fds.extend(waiting.map(|input| PollFd::new(&input.pipe, PollFlags::OUT)));
        let timeout = self.timeout().and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let woken = Woken { request: self.line.is_some() && is_ready(2), stop: is_ready(1) };
        let mut bytes = [0; 64];
        while matches!(rustix::io::read(&self.wakes, &mut bytes), Ok(1..)) {}
        Ok(woken)
    }

    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let endings = self.commands.iter().filter_map(|command| command.ending.as_ref());
        let ends = endings.map(|ending| ending.due().saturating_duration_since(now));
        let writes_files = self.commands.iter().any(|command| command.output.is_some());
        let measure = writes_files.then_some(MEASURE);
        let tidy = self.rooms.due(|room| is_used(&self.commands, room));
        let deadline = self.deadline.map(|deadline| deadline.saturating_duration_since(now));
        ends.chain(measure).chain(tidy).chain(deadline).min()
    }

    fn tidy(&mut self) {
        let commands = &self.commands;
        self.rooms.tidy(|room| is_used(commands, room));
    }

    /// Collects the processes that are over.
    fn reap(&mut self) -> io::Result<()> {
        let mut is_any = false;
        let has_children = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    is_any = true;
                    self.exited(pid.as_raw_pid(), status)?;
                }
                Ok(None) => break true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break false,
            }
        };
        if !has_children {
            for command in std::mem::take(&mut self.commands) {
                self.gone(&command)?;
            }
        } else if is_any {
            self.forget()?;
        }
        Ok(())
    }

    /// Takes note that a child is over; of an orphan nobody wants to know.
    fn exited(&mut self, pid: i32, status: WaitStatus) -> io::Result<()> {
        let is_it = |command: &&mut Running| command.pid == pid && !command.is_over;
        let Some(command) = self.commands.iter_mut().find(is_it) else { return Ok(()) };
        command.is_over = true;
        command.stdin = None;
        let status = Status {
            pid,
            code: status.exit_status(),
            signal: status.terminating_signal(),
            started_ms: command.started_ms,
            ended_ms: now_ms(),
            cause: command.cause,
        };
        if let Some(output) = &command.output {
            // A full disk must not keep bowline from hearing of it.
            let _ = output.note_end(&status);
        }
        let id = command.id;
        self.answer(&Answer::Exited { id, status })
    }

    /// Drops the commands that are over and have left nothing behind.
    fn forget(&mut self) -> io::Result<()> {
        if self.commands.iter().all(|command| !command.is_over) {
            return Ok(());
        }
        let is_command = |pid: &i32| self.commands.iter().any(|command| command.pid == *pid);
        let is_all_known = family::own_children().iter().all(is_command);
        let all = if is_all_known { Vec::new() } else { family::own() };
        self.adopt(&all);
        let is_left =
            |command: &Running| !command.is_over || !self.members(command, &all).is_empty();
        let kept: Vec<bool> = self.commands.iter().map(is_left).collect();
        let mut kept = kept.into_iter();
        let (commands, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.commands)
            .into_iter()
            .partition(|_| kept.next().unwrap_or(false));
        self.commands = commands;
        gone.iter().try_for_each(|command| self.gone(command))
    }

    /// Tells bowline, if it asked, that nothing is left of a command.
    fn gone(&mut self, command: &Running) -> io::Result<()> {
        if command.ending.as_ref().is_some_and(|ending| ending.is_asked) {
            self.answer(&Answer::Ended { id: command.id })?;
        }
        self.answer_owners()
    }

    fn answer_owners(&mut self) -> io::Result<()> {
        let commands = &self.commands;
        let is_gone = |owner: &String| !commands.iter().any(|command| command.is_owned_by(owner));
        let gone: Vec<u64> =
            self.owners.iter().filter(|(_, owner)| is_gone(owner)).map(|(id, _)| *id).collect();
        let left = |owner: &str| {
            let gone = self.owners.iter().filter(|(ticket, _)| gone.contains(ticket));
            gone.into_iter().any(|(_, gone)| owns(gone, owner))
        };
        self.rooms.close(left);
        self.owners.retain(|(ticket, _)| !gone.contains(ticket));
        gone.into_iter().try_for_each(|ticket| self.answer(&Answer::OwnerEnded { ticket }))
    }

    /// Reads and does what bowline asks; `false` when bowline is gone.
    fn serve_inbox(&mut self, inbox: &mut Vec<u8>) -> io::Result<bool> {
        let Some(line) = &mut self.line else { return Ok(false) };
        match line.receive(inbox) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(_) => return Ok(false),
        }
        while let Some(end) = inbox.iter().position(|byte| *byte == b'\n') {
            let rest = inbox.split_off(end + 1);
            let line = std::mem::replace(inbox, rest);
            match serde_json::from_slice(&line) {
                Ok(request) => self.serve(request)?,
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn serve(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Start(start) => {
                let id = start.id;
                let pipes = match start.streams {
                    Streams::Kept(_) => Vec::new(),
                    Streams::Pipes => self.line.as_mut().map(Line::take_pipes).unwrap_or_default(),
                };
                match self.start(*start, pipes) {
                    Ok(command) => self.commands.push(command),
                    Err(error) => self.answer(&Answer::Refused { id, error })?,
                }
                Ok(())
            }
            Request::Write { id, text, close } => {
                let mut commands = self.commands.iter_mut();
                let command = commands.find(|command| command.id == id);
                if let Some(input) = command.and_then(|command| command.stdin.as_mut()) {
                    input.pending.extend(text.into_bytes());
                    input.close |= close;
                }
                Ok(())
            }
            Request::End { id, grace_ms } => {
                let is_it = |command: &Running| command.id == id;
                if !self.commands.iter().any(is_it) {
                    return self.answer(&Answer::Ended { id });
                }
                self.end(is_it, Duration::from_millis(grace_ms), Cause::Asked);
                Ok(())
            }
            Request::EndOwner { ticket, owner, grace_ms } => {
                let grace = Duration::from_millis(grace_ms);
                self.end(|command| command.is_owned_by(&owner), grace, Cause::Asked);
                self.owners.push((ticket, owner));
                self.answer_owners()
            }
        }
    }

    /// Asks commands to end, and their descendants with them.
    fn end(&mut self, which: impl Fn(&Running) -> bool, grace: Duration, cause: Cause) {
        let all = family::own();
        self.adopt(&all);
        let now = Instant::now();
        let chosen: Vec<usize> = (0..self.commands.len())
            .filter(|at| self.commands.get(*at).is_some_and(&which))
            .collect();
        for at in chosen {
            let Some(command) = self.commands.get(at) else { continue };
            let members = self.members(command, &all);
            let signal = if grace.is_zero() { Signal::KILL } else { Signal::TERM };
            family::signal_all(&members, signal);
            let Some(command) = self.commands.get_mut(at) else { continue };
            let is_asked = cause == Cause::Asked
                || command.ending.as_ref().is_some_and(|ending| ending.is_asked);
            let killed_at = grace.is_zero().then_some(now);
            let kill_at = now + grace;
            command.ending = Some(Ending { kill_at, killed_at, rounds: 0, is_asked });
            command.cause = command.cause.or(Some(cause));
        }
    }

    /// Kills what has not ended in its time.
    fn pursue(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let is_due =
            |command: &Running| command.ending.as_ref().is_some_and(|ending| now >= ending.due());
        if !self.commands.iter().any(is_due) {
            return Ok(());
        }
        let all = family::own();
        self.adopt(&all);
        for command in self.commands.iter().filter(|command| is_due(command)) {
            let is_stubborn = command.ending.as_ref().is_some_and(|ending| ending.rounds > 0);
            match is_stubborn {
                true => family::kill_growing(|| self.members(command, &family::own())),
                false => family::signal_all(&self.members(command, &all), Signal::KILL),
            };
        }
        for command in self.commands.iter_mut().filter(|command| is_due(command)) {
            if let Some(ending) = &mut command.ending {
                ending.killed_at = Some(now);
                ending.rounds += 1;
            }
        }
        self.forget()
    }

    /// Writes what waits to be written to commands.
    fn feed(&mut self) {
        for command in &mut self.commands {
            let Some(input) = &mut command.stdin else { continue };
            let result = input.feed();
            let is_done = input.close && input.pending.is_empty();
            if is_done || result.is_err() {
                command.stdin = None;
            }
        }
    }

    /// Kills the commands that have written too much.
    fn measure(&mut self) {
        let is_too_much = |command: &Running| {
            command.ending.is_none() && command.output.as_ref().is_some_and(Output::is_too_large)
        };
        if self.commands.iter().any(is_too_much) {
            self.end(is_too_much, Duration::ZERO, Cause::Output);
        }
        self.count();
    }

    /// Kills the commands that have too many processes.
    fn count(&mut self) {
        if self.commands.iter().all(|command| command.most.is_none()) {
            return;
        }
        let all = family::own();
        let is_crowd = |command: &Running| {
            let members = || u64::try_from(self.members(command, &all).len()).unwrap_or(u64::MAX);
            command.ending.is_none() && command.most.is_some_and(|most| members() > most)
        };
        let crowds: Vec<CommandId> = self
            .commands
            .iter()
            .filter(|command| is_crowd(command))
            .map(|command| command.id)
            .collect();
        if !crowds.is_empty() {
            self.end(|command| crowds.contains(&command.id), Duration::ZERO, Cause::Processes);
        }
    }

    /// Finds what runs of a command: its first process, whatever descends from it, and orphans that
    /// it has left, known by their group or by the variable they were born with.
    fn members(&self, command: &Running, all: &[Process]) -> Vec<Process> {
        let roots = all.iter().filter(|process| self.owner(process) == Some(command.id));
        let roots: Vec<i32> = roots.map(|process| process.pid.as_raw_pid()).collect();
        if roots.is_empty() { Vec::new() } else { family::descendants(all, roots) }
    }

    /// Tells which command a child of the helper belongs to.
    fn owner(&self, process: &Process) -> Option<CommandId> {
        if process.parent != getpid().as_raw_pid() {
            return None;
        }
        let pid = process.pid.as_raw_pid();
        let mut commands = self.commands.iter();
        let is_first = |command: &&Running| !command.is_over && command.pid == pid;
        let first = self.commands.iter().find(is_first);
        let known = first.or_else(|| {
            commands.find(|command| {
                command.pid == process.group || command.strays.iter().any(|stray| stray.is(process))
            })
        });
        let known = known.or_else(|| {
            let tag = process.variable(TAG)?;
            self.commands.iter().find(|command| command.tag == tag)
        });
        known.map(|command| command.id)
    }

    /// Remembers children that hide where they come from, if only one command can have left them.
    fn adopt(&mut self, all: &[Process]) {
        let me = getpid().as_raw_pid();
        let strays: Vec<Process> = match self.commands.as_slice() {
            [_] => {
                let children = all.iter().filter(|process| process.parent == me);
                children.filter(|process| self.owner(process).is_none()).copied().collect()
            }
            _ => return,
        };
        if let [command] = self.commands.as_mut_slice() {
            command.strays.extend(strays);
        }
    }

    /// Kills all there is, again and again until nothing is left.
    fn end_everything(mut self) {
        for command in &mut self.commands {
            command.cause = command.cause.or(Some(Cause::Orphaned));
        }
        let cgroup = self.cgroup.take();
        if let Some(cgroup) = &cgroup {
            cgroup.kill_others();
        }
        // Answers go nowhere now; how commands ended is still written down.
        family::end_descendants(|| drop(self.reap()));
        if let Some(cgroup) = cgroup {
            cgroup.remove();
        }
    }

    fn start(&mut self, start: Start, pipes: Vec<OwnedFd>) -> Result<Running, String> {
        // The output must be there: a rule can only be about what is.
        let opened = Opened::open(&start.streams, pipes)?;
        let Some(confinement) = &start.confinement else {
            return Running::start(start, Means { helper: self.name, opened, confined: None });
        };
        let output = match &start.streams {
            Streams::Kept(kept) => Some(kept.output.as_path()),
            Streams::Pipes => None,
        };
        let asked = Asked { owner: &start.owner, confinement, output, cwd: &start.cwd };
        let entry = self.rooms.enter(&asked).map_err(|error| {
            format!("the sandbox cannot be had, so the command was not run: {error}")
        })?;
        if let (Some(listener), Network::Hosts(hosts)) = (&entry.listener, &confinement.network) {
            let answer = Answer::Listening { owner: start.owner.clone(), hosts: hosts.clone() };
            self.answer_with(&answer, &[listener.as_fd()]).map_err(|error| error.to_string())?;
        }
        let confined = Some((entry.way, entry.room));
        Running::start(start, Means { helper: self.name, opened, confined })
    }

    fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        self.answer_with(answer, &[])
    }

    fn answer_with(&mut self, answer: &Answer, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        // Who keeps a command tells nobody: what it writes down says it.
        self.line.as_mut().map_or(Ok(()), |line| line.answer(answer, descriptors))
    }
}

impl Line {
    fn take_pipes(&mut self) -> Vec<OwnedFd> {
        self.pipes.drain(..self.pipes.len().min(3)).collect()
    }

    /// Reads what there is of requests, and what comes with it.
    fn receive(&mut self, inbox: &mut Vec<u8>) -> rustix::io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(rustix::io::Errno::MSGSIZE);
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.pipes.extend(fds);
            }
        }
        inbox.extend(bytes.iter().take(received.bytes));
        Ok(received.bytes)
    }

    /// Answers, perhaps with descriptors, which come with the first byte.
    fn answer(&mut self, answer: &Answer, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        let mut sent = 0;
        if !descriptors.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(descriptors));
            let lines = [IoSlice::new(&line)];
            sent = sendmsg(&self.socket, &lines, &mut control, SendFlags::NOSIGNAL)?;
        }
        self.socket.write_all(line.get(sent..).unwrap_or_default())
    }
}

/// Tells whether any command is in a room.
fn is_used(commands: &[Running], room: RoomId) -> bool {
    commands.iter().any(|command| command.room == Some(room))
}
