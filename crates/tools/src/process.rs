//! Commands: starting them, hearing of their end, and leaving nothing of them behind.
//!
//! Commands are started by one small helper process per [`Processes`], made at first use. It is the
//! reaper of everything that descends from the commands, so that it finds also what has left its
//! process group, and it sees when bowline is gone, however it went, and ends it all. A second process
//! watches over it, and ends what a helper leaves that is killed itself. Where it can be had both are helped
//! by a cgroup. The helper has no terminal and an empty environment, and it writes down how each command
//! ended.
//!
//! A command that is to outlive bowline gets a helper of its own instead, its keeper: see [`Survivor`].
//!
//! Without a helper (see [`Helper`]) a command runs in a process group of bowline's own: what
//! leaves the group is not found when the command is ended, what runs when bowline is killed runs
//! on, and nobody notes how it ended.

mod available;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod family;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod line;
mod link;
mod output;
mod plain;
#[cfg(target_os = "linux")]
mod program;
mod protocol;
mod survivor;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use crate::guard::Confinement;
use crate::proxy::Refused;
use link::{Ends, Link, Order};
use protocol::{Kept, Start, Streams};

pub use available::Available;
pub use output::ended;
pub use protocol::{Cause, Status};
pub use survivor::{Asked, Fate, Survivor};

/// The argument that makes a bowline binary a helper; nobody else may use it.
const HELPER_ARGUMENT: &str = "__bowline-helper";

/// The proxy of confined commands that may talk to some hosts.
pub(crate) const PROXY: &str = "http://127.0.0.1:3128";

/// The argument that has a helper say what the machine can do, and end.
const PROBE_ARGUMENT: &str = "probe";

/// The argument that makes a helper a keeper.
const KEEPER_ARGUMENT: &str = "keeper";

/// How long to wait for what has been killed to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether this program has called [`helper`], so that it can be executed again as one.
static CAN_BE_HELPER: AtomicBool = AtomicBool::new(false);

/// Serves as helper process if this process was started as one, and then never returns.
///
/// A program that wants to be its own helper calls this first thing in `main`, before it starts
/// threads or prints anything. It costs nothing when the process is no helper.
pub fn helper() {
    CAN_BE_HELPER.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == HELPER_ARGUMENT) {
        let (task, more) = (arguments.next(), arguments.next());
        if more.is_none() {
            std::process::exit(serve(task.as_deref().and_then(std::ffi::OsStr::to_str)));
        }
    }
}

#[cfg(target_os = "linux")]
fn serve(task: Option<&str>) -> i32 {
    use std::io::Write as _;
    use std::os::fd::AsFd;

    child::close_inherited();
    // Whoever kills all processes named bowline does not mean the one that cleans up behind it.
    let _ = rustix::thread::set_name(c"bowl-helper");
    if task == Some(PROBE_ARGUMENT) {
        let found = serde_json::to_vec(&confine::probe()).unwrap_or_default();
        return i32::from(std::io::stdout().write_all(&found).is_err());
    }
    if task == Some(KEEPER_ARGUMENT) {
        return i32::from(helper::keep().is_err());
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let is_socket = |fd: &std::os::fd::OwnedFd| rustix::net::sockopt::socket_type(fd).is_ok();
    match (socket.ok().filter(is_socket), task) {
        (Some(socket), None) => i32::from(helper::serve(socket.into()).is_err()),
        (Some(_), Some(_)) | (None, _) => 2,
    }
}

#[cfg(not(target_os = "linux"))]
fn serve(_: Option<&str>) -> i32 {
    2
}

/// Ends what is left of the command of a keeper that was killed.
#[cfg(target_os = "linux")]
fn end_what_is_left(keeper: u32, cgroup: Option<&Path>) {
    if let Some(cgroup) = cgroup {
        cgroup::kill_left(cgroup);
    }
    // The number may have come to be that of another helper, whose commands are marked with it.
    if !Path::new("/proc").join(keeper.to_string()).exists() {
        family::kill_tagged(keeper);
    }
}

#[cfg(not(target_os = "linux"))]
fn end_what_is_left(_: u32, _: Option<&Path>) {}

#[cfg(target_os = "linux")]
use confine::confines_alone;

#[cfg(not(target_os = "linux"))]
fn confines_alone() -> bool {
    false
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Which program is the helper process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Helper {
    /// This program itself if its `main` calls [`helper`], otherwise none. Linux only.
    #[default]
    Own,
    /// A program whose `main` calls [`helper`], such as `bowline-helper`. Linux only.
    Program(PathBuf),
    /// None: see the [module](self) on what is lost.
    None,
}

/// Starts commands, and ends all of them when it is dropped.
#[derive(Debug, Default)]
pub struct Processes {
    helper: Helper,
    next: AtomicU64,
    link: Mutex<Option<Link>>,
    available: OnceLock<Available>,
    refused: Arc<Refused>,
}

/// A command to run.
#[derive(Debug, Clone)]
pub struct Command {
    /// Whose it is: names separated by slashes; who owns `a` owns `a/b`.
    pub owner: String,
    /// The program's absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// The file that takes standard output and standard error in the order in which they come.
    /// What is in it stays, and [`ended`] finds beside it how the command ended.
    pub output: PathBuf,
    /// The bytes in the output file from which on the command is killed.
    pub max_output: u64,
    /// Whether [`Running::write`] reaches its standard input; otherwise that is empty.
    pub stdin: bool,
    /// What it and everything it starts may touch; `None` is what bowline may. Where that cannot be
    /// enforced the command is refused.
    pub confinement: Option<Confinement>,
}

/// A program that is spoken with over pipes as long as it runs.
#[derive(Debug, Clone)]
pub struct Service {
    /// Whose it is, as [`Command::owner`].
    pub owner: String,
    /// The program's absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// As [`Command::confinement`].
    pub confinement: Option<Confinement>,
}

/// Bowline's ends of the pipes of a [`Service`].
#[derive(Debug)]
pub struct Pipes {
    /// Goes to its standard input; dropping it closes that.
    pub stdin: pipe::Sender,
    /// Comes from its standard output.
    pub stdout: pipe::Receiver,
    /// Comes from its standard error.
    pub stderr: pipe::Receiver,
}

impl Pipes {
    /// Makes the pipes; the second half is the service's, and blocks as every program expects.
    fn new() -> std::io::Result<(Self, Ends)> {
        let (stdin_end, stdin) = std::io::pipe()?;
        let (stdout, stdout_end) = std::io::pipe()?;
        let (stderr, stderr_end) = std::io::pipe()?;
        let pipes = Self {
            stdin: pipe::Sender::from_owned_fd(stdin.into())?,
            stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
        };
        Ok((pipes, [stdin_end.into(), stdout_end.into(), stderr_end.into()]))
    }
}

/// A command that cannot be started or whose end nobody can know.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The helper process cannot be started.
    #[error("the helper process {} cannot be started: {source}", program.display())]
    Helper {
        /// Its program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The command cannot be started.
    #[error("{0}")]
    Refused(String),
    /// The helper process ended while the command ran; the command was killed with it.
    #[error("the helper process ended unexpectedly and took the command with it")]
    Lost,
}

impl Processes {
    /// Makes a starter of commands that uses a helper; nothing happens until the first command.
    pub fn new(helper: Helper) -> Self {
        Self { helper, ..Self::default() }
    }

    /// Tells whether commands can be confined. That takes no process where the kernel alone decides it.
    pub fn confines(&self) -> bool {
        self.program().is_some() && confines_alone() || self.available().confines()
    }

    /// Returns what of the sandbox the machine has. The first time it is really tried, by a process that
    /// takes a few milliseconds; nothing is there without a helper.
    pub fn available(&self) -> &Available {
        self.available.get_or_init(|| {
            self.program().map(|program| probe(&program)).unwrap_or_else(|| {
                let why = "there is no helper process, which would make it".to_owned();
                Available { why: Some(why), ..Available::default() }
            })
        })
    }

    /// Returns the hosts that commands of an owner have asked for in vain since this was last called.
    pub(crate) fn take_refused(&self, owner: &str) -> Vec<String> {
        self.refused.take(owner)
    }

    /// Starts a command.
    ///
    /// Must be called within a tokio runtime with IO, in which what belongs to all commands lives.
    ///
    /// # Errors
    /// [`ProcessError::Helper`]; that the command itself cannot be started is known only to
    /// [`Running::exit`].
    pub async fn start(&self, command: Command) -> Result<Running, ProcessError> {
        self.order_start(self.start_of(command), None).await
    }

    /// Starts a command that goes on when bowline is gone, for at most `time`. Its note is written beside its
    /// output, where [`Survivor::all_in`] finds it again. What it leaves behind when it is over is ended.
    ///
    /// Must be called within a tokio runtime with IO and time.
    ///
    /// # Errors
    /// [`ProcessError::Helper`], and [`ProcessError::Refused`] without a helper; that the command itself
    /// cannot be started is told by [`Survivor::fate`].
    pub async fn survive(
        &self,
        command: Command,
        asked: Asked,
        time: Option<Duration>,
    ) -> Result<Survivor, ProcessError> {
        let program = self.program().ok_or_else(|| {
            let what = "there is no helper process, and nothing outlives bowline without one";
            ProcessError::Refused(what.to_owned())
        })?;
        survivor::start(&program, self.start_of(command), asked, time).await
    }

    fn start_of(&self, command: Command) -> Start {
        Start {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            owner: command.owner,
            program: command.program,
            arguments: command.arguments,
            cwd: command.cwd,
            environment: command.environment,
            streams: Streams::Kept(Kept {
                output: command.output,
                max_output: command.max_output,
                stdin: command.stdin,
            }),
            confinement: command.confinement,
        }
    }

    /// Starts a service; returns it with bowline's ends of its pipes.
    ///
    /// Must be called within a tokio runtime with IO.
    ///
    /// # Errors
    /// As [`Processes::start`], and [`ProcessError::Refused`] if there can be no more pipes.
    pub async fn serve(&self, service: Service) -> Result<(Running, Pipes), ProcessError> {
        let (pipes, ends) =
            Pipes::new().map_err(|error| ProcessError::Refused(error.to_string()))?;
        let start = Start {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            owner: service.owner,
            program: service.program,
            arguments: service.arguments,
            cwd: service.cwd,
            environment: service.environment,
            streams: Streams::Pipes,
            confinement: service.confinement,
        };
        Ok((self.order_start(start, Some(ends)).await?, pipes))
    }

    async fn order_start(
        &self,
        start: Start,
        pipes: Option<Ends>,
    ) -> Result<Running, ProcessError> {
        let (id, orders) = (start.id, self.orders()?);
        let (tell, exited) = oneshot::channel();
        let start = Order::Start { start: Box::new(start), pipes, exited: tell };
        orders.send(start).await.map_err(|_| ProcessError::Lost)?;
        Ok(Running { id, orders, exited, is_over: false })
    }

    /// Ends all commands of an owner and everything they have started, also what commands that are
    /// over have left behind; returns when nothing is left of them.
    ///
    /// They are asked to end and after `grace` are killed.
    pub async fn end_owner(&self, owner: &str, grace: Duration) {
        let Some(orders) = self.live_orders() else { return };
        let (done, ended) = oneshot::channel();
        let order = Order::EndOwner { owner: owner.to_owned(), grace, done };
        if orders.send(order).await.is_ok() {
            // The link drops its end when the helper is gone, and the commands with it.
            let _ = tokio::time::timeout(grace + PATIENCE, ended).await;
        }
    }

    /// Ends all commands and the helper; returns when nothing is left of them.
    ///
    /// Dropping does the same without waiting for it.
    pub async fn close(&self) {
        let link = self.lock().take();
        if let Some(link) = link {
            link.close().await;
        }
    }

    /// Returns where to send orders, starting the helper if there is none.
    fn orders(&self) -> Result<mpsc::Sender<Order>, ProcessError> {
        let mut link = self.lock();
        if let Some(link) = link.as_ref().filter(|link| link.is_live()) {
            return Ok(link.orders());
        }
        let new = match self.program() {
            #[cfg(target_os = "linux")]
            Some(program) => Link::to_helper(program, Arc::clone(&self.refused))?,
            #[cfg(not(target_os = "linux"))]
            Some(_) => Link::plain(),
            None => Link::plain(),
        };
        let orders = new.orders();
        *link = Some(new);
        Ok(orders)
    }

    /// Returns the program of the helper, if there is to be one.
    fn program(&self) -> Option<PathBuf> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        match &self.helper {
            // This very file, even if another has taken its place meanwhile.
            Helper::Own if CAN_BE_HELPER.load(Ordering::Relaxed) => Some("/proc/self/exe".into()),
            Helper::Program(program) => Some(program.clone()),
            Helper::Own | Helper::None => None,
        }
    }

    fn live_orders(&self) -> Option<mpsc::Sender<Order>> {
        self.lock().as_ref().filter(|link| link.is_live()).map(Link::orders)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a helper what the machine has.
fn probe(program: &Path) -> Available {
    let mut helper = std::process::Command::new(program);
    helper.args([HELPER_ARGUMENT, PROBE_ARGUMENT]).env_clear().current_dir("/");
    let found = helper.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let found = found.map_err(|error| error.to_string()).and_then(|output| {
        serde_json::from_slice(&output.stdout).map_err(|_| "the helper gave no answer".to_owned())
    });
    found.unwrap_or_else(|why| Available { why: Some(why), ..Available::default() })
}

/// A command that was started. Dropping it before it is over ends it.
#[derive(Debug)]
pub struct Running {
    id: u64,
    orders: mpsc::Sender<Order>,
    exited: oneshot::Receiver<Result<Status, ProcessError>>,
    is_over: bool,
}

impl Running {
    /// Waits until the command's first process is over; what it has started may live on.
    ///
    /// Dropping the future loses nothing, but once it is done it must not be asked again.
    ///
    /// # Errors
    /// If the command could not be started or the helper was lost.
    pub async fn exit(&mut self) -> Result<Status, ProcessError> {
        let exited = (&mut self.exited).await.unwrap_or(Err(ProcessError::Lost));
        self.is_over = true;
        exited
    }

    /// Ends the command and everything it has started; returns when nothing is left of it, or when
    /// what is left cannot be killed, such as a program of another user.
    pub async fn end(&mut self, grace: Duration) {
        let (done, ended) = oneshot::channel();
        let order = Order::End { id: self.id, grace, done: Some(done) };
        if self.orders.send(order).await.is_ok() {
            let _ = tokio::time::timeout(grace + PATIENCE, ended).await;
        }
    }

    /// Writes to the command's standard input, and closes it if asked to.
    pub async fn write(&self, text: String, close: bool) {
        // A command that is over reads no more.
        let _ = self.orders.send(Order::Write { id: self.id, text, close }).await;
    }

    /// Ends the command and everything it has started, also what it has left behind, without waiting
    /// for it.
    pub(crate) fn kill(&self) {
        let order = Order::End { id: self.id, grace: Duration::ZERO, done: None };
        // If the queue is full the order still must arrive.
        if let Err(mpsc::error::TrySendError::Full(order)) = self.orders.try_send(order)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let orders = self.orders.clone();
            runtime.spawn(async move { orders.send(order).await });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
        }
    }
}
