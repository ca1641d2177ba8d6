//! Running git so that nothing but the files themselves matters: no configuration of the user or of
//! the project, no hooks, no conversion of what is in files.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::UndoError;
use super::plan::Blob;

/// What nobody may configure otherwise.
const FIXED: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "gc.auto=0",
    "diff.renames=true",
    "safe.directory=*",
    // Names that mean something on other systems are names here.
    "core.protectNTFS=false",
    "core.protectHFS=false",
];

/// The repository of a session, whose working tree is the project.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
    root: PathBuf,
    store: PathBuf,
    index: PathBuf,
    /// How long it may take.
    time: Duration,
    /// Whether it has not ended in time.
    is_stuck: Arc<AtomicBool>,
}

impl Git {
    pub(super) fn new(program: &Path, root: &Path, store: &Path, time: Duration) -> Self {
        let index = store.join("index");
        let is_stuck = Arc::default();
        let (program, root, store) = (program.into(), root.into(), store.into());
        Self { program, root, store, index, time, is_stuck }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn store(&self) -> &Path {
        &self.store
    }

    pub(super) fn index(&self) -> &Path {
        &self.index
    }

    /// Returns the same repository with another index, which need not exist.
    pub(super) fn with_index(&self, name: &str) -> Self {
        Self { index: self.store.join(name), ..self.clone() }
    }

    /// Returns the same repository with a folder of the project as its working tree, and an empty index.
    pub(super) fn within(&self, folder: &Path) -> Self {
        Self { root: folder.into(), ..self.with_index("none") }
    }

    /// Returns the same repository with what is left of the time if it was begun then.
    pub(super) fn begun(&self, begun: Instant) -> Self {
        Self { time: self.time.saturating_sub(begun.elapsed()), ..self.clone() }
    }

    /// Returns where a file of the project is.
    pub(super) fn absolute(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    /// Tells the index what is in files, or that they are not there.
    pub(super) fn update_index<'a>(
        &self,
        arguments: &[&str],
        files: impl Iterator<Item = (&'a [u8], Option<&'a Blob>)> + Clone,
    ) -> Result<(), UndoError> {
        // What goes first makes way for what comes.
        let gone = files.clone().filter(|(_, blob)| blob.is_none());
        let there = files.filter(|(_, blob)| blob.is_some());
        let no_id = match (gone.clone().next(), there.clone().next()) {
            (None, _) => String::new(),
            (Some(_), Some((_, Some(blob)))) => "0".repeat(blob.id.len()),
            (Some(_), _) => "0".repeat(self.id_length()?),
        };
        let mut lines = Vec::new();
        for (path, blob) in gone.chain(there) {
            let said = match blob {
                Some(blob) => format!("{} {} 0\t", blob.mode, blob.id),
                None => format!("0 {no_id} 0\t"),
            };
            lines.extend_from_slice(said.as_bytes());
            lines.extend_from_slice(path);
            lines.push(0);
        }
        let fixed = ["--add", "--replace", "-z", "--index-info"];
        self.run(&[&["update-index"], arguments, &fixed].concat(), &lines).map(drop)
    }

    /// Returns how many digits the name of an object has.
    fn id_length(&self) -> Result<usize, UndoError> {
        let said = self.run(&["rev-parse", "--show-object-format"], &[])?;
        Ok(if said.trim_ascii() == b"sha256" { 64 } else { 40 })
    }

    /// Runs git and returns what it wrote.
    pub(super) fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, UndoError> {
        checked(arguments, self.output(self.command(arguments), input, |_| true))
    }

    /// Lists paths, each with a zero byte behind it; no more than `most`.
    pub(super) fn list(&self, arguments: &[&str], most: usize) -> Result<Vec<Vec<u8>>, UndoError> {
        let mut count = 0;
        let few = |piece: &[u8]| {
            count += piece.iter().filter(|byte| **byte == 0).count();
            count <= most
        };
        let output = self.output(self.command(arguments), &[], few);
        if count > most {
            return Err(UndoError::Unable(format!("there are more than {most} files")));
        }
        checked(arguments, output).map(|listed| paths(&listed))
    }

    /// Reads the user's own repository, with what the user has configured.
    pub(super) fn of_user(
        &self,
        variables: &[(String, String)],
        arguments: &[&str],
        input: &[u8],
    ) -> Result<Vec<u8>, UndoError> {
        let mut command = Command::new(&self.program);
        command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
        command.args(arguments).current_dir(&self.root).env_clear();
        let own = variables.iter().filter(|(name, _)| !name.starts_with("GIT_"));
        command.envs(own.map(|(name, value)| (name, value))).env("GIT_OPTIONAL_LOCKS", "0");
        checked(arguments, self.output(command, input, |_| true))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        for setting in FIXED {
            command.args(["-c", setting]);
        }
        command.args(arguments).current_dir(&self.root).env_clear();
        command
            .env("GIT_DIR", &self.store)
            .env("GIT_WORK_TREE", &self.root)
            .env("GIT_INDEX_FILE", &self.index)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("LC_ALL", "C");
        command
    }

    /// Runs git, and reads what it writes as long as that is wanted. It does not have all the time there
    /// is: a project may hold pipes in the place of files. Who made it wait once is not asked again.
    fn output(
        &self,
        mut command: Command,
        input: &[u8],
        mut wants: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Output> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "did not end in time");
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(late());
        }
        // Ctrl-C is not for it: half a state is none.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (group, time) = (Pid::from_child(&child), self.time);
        let (mut stdin, mut stdout) = (child.stdin.take(), child.stdout.take());
        let mut stderr = child.stderr.take();
        let (over, is_over) = mpsc::channel::<()>();
        let (said, complaint, is_late) = std::thread::scope(|scope| {
            // It is killed only before anybody waits for it, so that it is no other one.
            let watch = scope.spawn(move || match is_over.recv_timeout(time) {
                Err(RecvTimeoutError::Timeout) => kill_process_group(group, Signal::KILL).is_ok(),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => false,
            });
            // If git does not want to hear it, it says why itself.
            scope.spawn(move || stdin.take().map(|mut stdin| stdin.write_all(input)));
            let complaint = scope.spawn(move || read(&mut stderr, |_| true));
            let said = read(&mut stdout, &mut wants);
            if said.as_ref().is_ok_and(|(_, is_all)| !is_all) {
                // It may have ended by itself.
                let _ = kill_process_group(group, Signal::KILL);
            }
            let complaint = complaint.join();
            drop(over);
            (said, complaint, watch.join().unwrap_or(false))
        });
        let status = child.wait()?;
        if is_late {
            self.is_stuck.store(true, Ordering::Relaxed);
            return Err(late());
        }
        let complaint = complaint.map_err(|_| io::Error::other("the reader of git has failed"))?;
        Ok(Output { status, stdout: said?.0, stderr: complaint?.0 })
    }
}

/// Reads to the end, or as long as what comes is wanted; tells which.
fn read(
    from: &mut Option<impl io::Read>,
    mut wants: impl FnMut(&[u8]) -> bool,
) -> io::Result<(Vec<u8>, bool)> {
    let (mut all, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    while let Some(from) = from.as_mut() {
        let count = from.read(&mut chunk)?;
        let Some(piece) = chunk.get(..count).filter(|piece| !piece.is_empty()) else { break };
        all.extend_from_slice(piece);
        if !wants(piece) {
            return Ok((all, false));
        }
    }
    Ok((all, true))
}

/// Splits what has a zero byte behind each part.
pub(super) fn paths(listed: &[u8]) -> Vec<Vec<u8>> {
    listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Joins paths, each with a zero byte behind it.
pub(super) fn joined<'a>(paths: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    paths.into_iter().flat_map(|path| path.iter().copied().chain([0])).collect()
}

fn checked(arguments: &[&str], output: io::Result<Output>) -> Result<Vec<u8>, UndoError> {
    let output = output.map_err(|error| failure(arguments, error.to_string()))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(failure(arguments, said.trim().replace('\n', "; ")))
        }
    }
}

fn failure(arguments: &[&str], said: String) -> UndoError {
    UndoError::Git { what: arguments.first().copied().unwrap_or_default().to_owned(), said }
}
