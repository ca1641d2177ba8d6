//! Bowline's end of the line to its helper: one task that owns the socket.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::link::{Ends, Exited, Order};
use super::protocol::{Answer, CommandId, Request, Start, Status, Streams};
use super::{HELPER_ARGUMENT, ProcessError, cgroup, family, millis};
use crate::proxy::{self, Permitted, Refused};

/// A line to a helper that runs.
pub(super) struct Line {
    helper: Child,
    socket: UnixStream,
    inbox: Inbox,
    /// What serves the commands that may talk to some hosts.
    proxies: JoinSet<()>,
    refused: Arc<Refused>,
    commands: HashMap<CommandId, Exited>,
    /// Who waits for nothing of a command to be left.
    ends: Vec<(CommandId, oneshot::Sender<()>)>,
    owners: HashMap<u64, oneshot::Sender<()>>,
    ticket: u64,
}

impl Line {
    /// Starts a helper process.
    pub(super) fn open(program: &Path, refused: Arc<Refused>) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = UnixStream::from_std(ours)?;
        let helper = Command::new(program)
            .arg(HELPER_ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            helper,
            socket,
            inbox: Inbox::default(),
            proxies: JoinSet::new(),
            refused,
            commands: HashMap::new(),
            ends: Vec::new(),
            owners: HashMap::new(),
            ticket: 0,
        })
    }

    /// Passes orders on until there are no more, or no helper.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let pid = self.helper.id();
        loop {
            let is_going_on = tokio::select! {
                answer = self.inbox.next_line(&self.socket) => match answer {
                    Ok(Some(line)) => self.answered(&line),
                    Ok(None) | Err(_) => false,
                },
                order = orders.recv() => match order {
                    None | Some(Order::Close) => break,
                    Some(order) => self.order(order).await.is_ok(),
                },
            };
            if !is_going_on {
                // New commands get a new helper from here on.
                orders.close();
                if let Some(pid) = pid {
                    // The commands died with the helper; what they had started did not.
                    let kill = move || {
                        cgroup::kill_of(pid);
                        family::kill_tagged(pid);
                    };
                    let _ = tokio::task::spawn_blocking(kill).await;
                }
                break;
            }
        }
        // Those who still wait are told by the drop of what they wait for.
        drop(self.socket);
        let _ = self.helper.wait().await;
    }

    /// Passes on what the helper says; `false` if it makes no sense.
    fn answered(&mut self, line: &[u8]) -> bool {
        match serde_json::from_slice(line) {
            Ok(Answer::Refused { id, error }) => self.exited(id, Err(ProcessError::Refused(error))),
            Ok(Answer::Exited { id, status }) => self.exited(id, Ok(status)),
            Ok(Answer::Ended { id }) => {
                for (_, done) in self.ends.extract_if(.., |(ending, _)| *ending == id) {
                    let _ = done.send(());
                }
            }
            Ok(Answer::OwnerEnded { ticket }) => {
                if let Some(done) = self.owners.remove(&ticket) {
                    let _ = done.send(());
                }
            }
            Ok(Answer::Listening { owner, hosts }) => {
                let Some(listener) = self.inbox.descriptors.pop_front() else { return false };
                let refused = Arc::clone(&self.refused);
                self.proxies.spawn(proxy::serve(listener, Permitted { owner, hosts, refused }));
            }
            Err(_) => return false,
        }
        true
    }

    fn exited(&mut self, id: CommandId, status: Result<Status, ProcessError>) {
        if let Some(exited) = self.commands.remove(&id) {
            // Whoever has given up on the command does not listen.
            let _ = exited.send(status);
        }
    }

    async fn order(&mut self, order: Order) -> io::Result<()> {
        let mut sent_along = None;
        let request = match order {
            Order::Start { start, pipes, exited } => {
                if let Some(path) = paths(&start).into_iter().find(|path| path.to_str().is_none()) {
                    let problem = format!("the path {} is not UTF-8", path.display());
                    let _ = exited.send(Err(ProcessError::Refused(problem)));
                    return Ok(());
                }
                self.commands.insert(start.id, exited);
                sent_along = pipes;
                Request::Start(start)
            }
            Order::Write { id, text, close } => Request::Write { id, text, close },
            Order::End { id, grace, done } => {
                self.ends.extend(done.map(|done| (id, done)));
                Request::End { id, grace_ms: millis(grace) }
            }
            Order::EndOwner { owner, grace, done } => {
                self.ticket += 1;
                self.owners.insert(self.ticket, done);
                Request::EndOwner { ticket: self.ticket, owner, grace_ms: millis(grace) }
            }
            Order::Close => return Ok(()),
        };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        let mut sent = match sent_along {
            Some(ends) => self.send_with(&line, &ends).await?,
            None => 0,
        };
        while let Some(rest) = line.get(sent..).filter(|rest| !rest.is_empty()) {
            self.socket.writable().await?;
            match self.socket.try_write(rest) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends descriptors with the beginning of a line, and tells how much of it has been sent.
    async fn send_with(&self, line: &[u8], ends: &Ends) -> io::Result<usize> {
        let fds = ends.each_ref().map(|end| end.as_fd());
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&fds));
            Ok(sendmsg(&self.socket, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?)
        };
        self.socket.async_io(Interest::WRITABLE, send).await
    }
}

/// What has come from the helper and has not been looked at.
#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Inbox {
    /// Returns the next line, without its end; none if there are no more. Dropping the future loses
    /// nothing.
    async fn next_line(&mut self, socket: &UnixStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let rest = self.bytes.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.pop();
                return Ok(Some(line));
            }
            if socket.async_io(Interest::READABLE, || self.receive(socket)).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn receive(&mut self, socket: &UnixStream) -> io::Result<usize> {
        let mut bytes = [0; 4 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.bytes.extend(bytes.iter().take(received.bytes));
        Ok(received.bytes)
    }
}

/// Returns the paths that a request names.
fn paths(start: &Start) -> Vec<&Path> {
    let mut paths = vec![start.program.as_path(), &start.cwd];
    if let Streams::Kept(kept) = &start.streams {
        paths.push(&kept.output);
    }
    if let Some(confinement) = &start.confinement {
        let named = confinement.writable.iter().chain(&confinement.protected);
        paths.extend(named.chain(&confinement.hidden).map(PathBuf::as_path));
    }
    paths
}
