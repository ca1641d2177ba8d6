//! A place for confined commands, and a way to run them.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_tools::guard::{Confinement, Network, ResourceLimits};
use bowline_tools::process::{Command, Helper, ProcessError, Processes, Status};

use crate::desk::helper;

/// A folder with a working folder in it, which commands may write, and what starts them.
pub(crate) struct Cell {
    /// The folder of its helper, if that has one.
    _helper: Option<tempfile::TempDir>,
    root: tempfile::TempDir,
    /// What is special about it.
    pub(crate) kind: &'static str,
    pub(crate) processes: Processes,
    pub(crate) confinement: Confinement,
    count: AtomicU64,
}

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) text: String,
    kind: &'static str,
}

impl Ran {
    /// Says that the command could do what it wanted.
    #[track_caller]
    pub(crate) fn is_done(&self) -> &str {
        assert_eq!((self.code, self.signal), (Some(0), None), "{}: {}", self.kind, self.text);
        self.text.trim_end()
    }

    /// Says that the command was kept from what it wanted, and was told so by the system.
    #[track_caller]
    pub(crate) fn is_kept(&self) {
        assert!(self.code.is_some_and(|code| code != 0), "it was done: {self:?}");
    }
}

impl Cell {
    pub(crate) fn new() -> Self {
        Self::with(Processes::new(helper()))
    }

    pub(crate) fn with(processes: Processes) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        std::fs::create_dir(root.path().join("out")).unwrap();
        let path = root.path().canonicalize().unwrap();
        let confinement =
            Confinement { writable: vec![path.join("work")], ..Confinement::default() };
        Self {
            _helper: None,
            root,
            kind: "as it is",
            processes,
            confinement,
            count: AtomicU64::new(0),
        }
    }

    /// A cell of an ordinary user, where the tests run as root.
    pub(crate) fn ordinary() -> Option<Self> {
        let nobody = 65534;
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut cell = Self::behind(&format!(
            "exec setpriv --reuid {nobody} --regid {nobody} --clear-groups --bounding-set=-all"
        ));
        for path in [cell.root(), cell.work(), cell.root().join("out")] {
            std::os::unix::fs::chown(path, Some(nobody), Some(nobody)).unwrap();
        }
        cell.kind = "of an ordinary user";
        Some(cell)
    }

    /// All cells that have namespaces.
    pub(crate) fn with_namespaces() -> Vec<Self> {
        [Self::new()].into_iter().chain(Self::ordinary()).collect()
    }

    /// All cells.
    pub(crate) fn all() -> Vec<Self> {
        Self::with_namespaces().into_iter().chain([Self::without_namespaces()]).collect()
    }

    /// A cell on a machine without namespaces.
    pub(crate) fn without_namespaces() -> Self {
        Self::without("user")
    }

    /// A cell on a machine that lacks a kind of namespaces.
    pub(crate) fn without(namespaces: &str) -> Self {
        // What is said here holds for this one namespace of users, and for what is below it.
        let cell = Self::behind(&format!(
            "exec unshare --user --map-current-user --keep-caps /bin/sh -c \
             'echo 0 > /proc/sys/user/max_{namespaces}_namespaces; exec \"$@\"' sh"
        ));
        Self { kind: "without namespaces", ..cell }
    }

    /// A cell whose helper is executed by a line of shell that lacks only the program and its arguments.
    fn behind(line: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        // Only a program without arguments can be a helper.
        let program = root.path().join("helper");
        let script = format!("#!/bin/sh\n{line} {} \"$@\"\n", env!("CARGO_BIN_EXE_bowline-helper"));
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let cell = Self::with(Processes::new(Helper::Program(program)));
        Self { _helper: Some(root), ..cell }
    }

    pub(crate) fn network(mut self, network: Network) -> Self {
        self.confinement.network = network;
        self
    }

    pub(crate) fn limits(mut self, limits: ResourceLimits) -> Self {
        self.confinement.limits = limits;
        self
    }

    /// Makes a file outside the working folder.
    pub(crate) fn outside(&self, name: &str, content: &str) -> PathBuf {
        let path = self.root().join(name);
        std::fs::write(&path, content).unwrap();
        self.give(&path);
        path
    }

    /// Makes a file in the working folder.
    pub(crate) fn inside(&self, name: &str, content: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        self.give(&self.work());
        path
    }

    /// Makes all that is at a place belong to who runs the commands.
    pub(crate) fn give(&self, path: &Path) {
        let owner = self.root().metadata().unwrap().uid();
        std::os::unix::fs::lchown(path, Some(owner), Some(owner)).unwrap();
        if path.symlink_metadata().unwrap().is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                self.give(&entry.unwrap().path());
            }
        }
    }

    /// Makes something in the working folder protected.
    pub(crate) fn protect(&mut self, name: &str) -> PathBuf {
        let path = self.work().join(name);
        self.confinement.protected.push(path.clone());
        path
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// Returns a command of this cell.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Command {
            owner: "session/agent".to_owned(),
            program: program.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            cwd: self.work(),
            environment: vec![(
                "PATH".to_owned(),
                "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned(),
            )],
            output: self.root().join(format!("out/{count}.out")),
            max_output: 1 << 24,
            stdin: false,
            confinement: Some(self.confinement.clone()),
        }
    }

    pub(crate) async fn try_run(&self, command: Command) -> Result<Ran, ProcessError> {
        let output = command.output.clone();
        let Status { code, signal, .. } = self.processes.start(command).await?.exit().await?;
        let text = String::from_utf8_lossy(&std::fs::read(output).unwrap()).into_owned();
        Ok(Ran { code, signal, text, kind: self.kind })
    }

    pub(crate) async fn run(&self, command: Command) -> Ran {
        self.try_run(command).await.unwrap()
    }

    pub(crate) async fn bash(&self, script: &str) -> Ran {
        self.run(self.command("/bin/bash", &["-c", script])).await
    }

    pub(crate) async fn python(&self, script: &str) -> Ran {
        self.run(self.command(&python(), &["-I", "-c", script])).await
    }

    /// Runs a python script that prints the name of the error that a call ends with, or `done`.
    pub(crate) async fn errno(&self, call: &str) -> String {
        let script = format!(
            "import ctypes, errno, os, socket, sys, signal, fcntl, resource\n\
             libc = ctypes.CDLL(None, use_errno=True)\n\
             def syscall(*arguments):\n    \
                 wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]\n    \
                 if libc.syscall(*wide) < 0:\n        \
                     raise OSError(ctypes.get_errno(), '')\n\
             try:\n    {}\n    print('done')\n\
             except OSError as error: print(errno.errorcode[error.errno])",
            call.replace('\n', "\n    ")
        );
        self.python(&script).await.is_done().to_owned()
    }
}

/// Returns the python of the system.
fn python() -> String {
    let found = ["/usr/bin/python3", "/usr/local/bin/python3"];
    found.into_iter().find(|path| Path::new(path).exists()).unwrap_or("/usr/bin/python3").to_owned()
}
