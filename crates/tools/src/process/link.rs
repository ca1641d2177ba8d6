//! Bowline's end of the line to its helper: one task that owns the socket.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::protocol::{Answer, CommandId, Request, Start, Status};
use super::{HELPER_ARGUMENT, ProcessError, plain};

/// What the rest of bowline wants done.
#[derive(Debug)]
pub(super) enum Order {
    Start { start: Box<Start>, exited: Exited },
    Write { id: CommandId, text: String, close: bool },
    End { id: CommandId, grace: Duration, done: Option<oneshot::Sender<()>> },
    EndOwner { owner: String, grace: Duration, done: oneshot::Sender<()> },
    Close,
}

/// Whom to tell how a command ended.
pub(super) type Exited = oneshot::Sender<Result<Status, ProcessError>>;

/// The way to those who start commands; dropping it ends them all.
#[derive(Debug)]
pub(super) struct Link {
    orders: mpsc::Sender<Order>,
    task: AbortOnDropHandle<()>,
}

impl Link {
    /// Starts a helper process.
    pub(super) fn to_helper(program: PathBuf) -> Result<Self, ProcessError> {
        let started = (|| {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            let socket = UnixStream::from_std(ours)?;
            let child = Command::new(&program)
                .arg(HELPER_ARGUMENT)
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok((socket, child))
        })();
        let (socket, child) = started.map_err(|source| ProcessError::Helper { program, source })?;
        let (orders, taken) = mpsc::channel(64);
        let (read, write) = socket.into_split();
        let line = Line {
            write,
            commands: HashMap::new(),
            ends: Vec::new(),
            owners: HashMap::new(),
            ticket: 0,
        };
        let task = tokio::spawn(line.run(BufReader::new(read), child, taken));
        Ok(Self { orders, task: AbortOnDropHandle::new(task) })
    }

    /// Starts commands without a helper.
    pub(super) fn plain() -> Self {
        let (orders, taken) = mpsc::channel(64);
        Self { orders, task: AbortOnDropHandle::new(tokio::spawn(plain::run(taken))) }
    }

    pub(super) fn is_live(&self) -> bool {
        !self.orders.is_closed()
    }

    pub(super) fn orders(&self) -> mpsc::Sender<Order> {
        self.orders.clone()
    }

    /// Ends everything and waits for it.
    pub(super) async fn close(self) {
        let _ = self.orders.send(Order::Close).await;
        // It only fails by a panic, and then everything has ended as well.
        let _ = self.task.await;
    }
}

/// The state of a line to a helper.
struct Line {
    write: OwnedWriteHalf,
    commands: HashMap<CommandId, Known>,
    /// Who waits for nothing of a command to be left.
    ends: Vec<(CommandId, oneshot::Sender<()>)>,
    owners: HashMap<u64, oneshot::Sender<()>>,
    ticket: u64,
}

/// A command that runs.
struct Known {
    pid: Option<i32>,
    exited: Exited,
}

impl Line {
    async fn run(
        mut self,
        read: BufReader<tokio::net::unix::OwnedReadHalf>,
        mut child: Child,
        mut orders: mpsc::Receiver<Order>,
    ) {
        let mut answers = read.lines();
        loop {
            let is_going_on = tokio::select! {
                answer = answers.next_line() => match answer {
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
                self.lost();
                break;
            }
        }
        drop(self.write);
        let _ = child.wait().await;
    }

    /// Passes on what the helper says; `false` if it makes no sense.
    fn answered(&mut self, line: &str) -> bool {
        match serde_json::from_str(line) {
            Ok(Answer::Started { id, pid }) => {
                if let Some(known) = self.commands.get_mut(&id) {
                    known.pid = Some(pid);
                }
            }
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
            Err(_) => return false,
        }
        true
    }

    fn exited(&mut self, id: CommandId, status: Result<Status, ProcessError>) {
        if let Some(known) = self.commands.remove(&id) {
            // Whoever has given up on the command does not listen.
            let _ = known.exited.send(status);
        }
    }

    async fn order(&mut self, order: Order) -> std::io::Result<()> {
        let request = match order {
            Order::Start { start, exited } => {
                let paths = [&start.program, &start.cwd, &start.output, &start.status];
                if let Some(path) = paths.into_iter().find(|path| path.to_str().is_none()) {
                    let problem = format!("the path {} is not UTF-8", path.display());
                    let _ = exited.send(Err(ProcessError::Refused(problem)));
                    return Ok(());
                }
                self.commands.insert(start.id, Known { pid: None, exited });
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
        self.write.write_all(&line).await
    }

    /// Kills what the lost helper has left; those who wait are told by the drop of their senders.
    fn lost(&mut self) {
        let pids = self.commands.values().filter_map(|known| known.pid);
        for group in pids.filter_map(rustix::process::Pid::from_raw) {
            // The commands themselves died with the helper; this reaches what they had started.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        self.commands.clear();
        self.ends.clear();
        self.owners.clear();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
