//! Running git so that nothing but the files themselves matters: no configuration of the user or of
//! the project, no hooks, no conversion of what is in files.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::UndoError;

/// What nobody may configure otherwise.
const FIXED: [&str; 8] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "gc.auto=0",
    "diff.renames=true",
    "safe.directory=*",
];

/// The repository of a session, whose working tree is the project.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
    root: PathBuf,
    store: PathBuf,
    index: PathBuf,
}

impl Git {
    pub(super) fn new(program: &Path, root: &Path, store: &Path) -> Self {
        let index = store.join("index");
        Self { program: program.into(), root: root.into(), store: store.into(), index }
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

    /// Runs git and returns what it wrote.
    pub(super) fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, UndoError> {
        let output = self.output(self.command(arguments), input);
        checked(arguments, output)
    }

    /// Lists paths, each with a zero byte behind it; no more than `most`.
    pub(super) fn list(&self, arguments: &[&str], most: usize) -> Result<Vec<Vec<u8>>, UndoError> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed = |error: io::Error| failure(arguments, error.to_string());
        let mut child = command.spawn().map_err(failed)?;
        let mut listed = Vec::new();
        let mut stdout = child.stdout.take().ok_or_else(|| failure(arguments, String::new()))?;
        let mut chunk = vec![0; 1 << 16];
        let mut count = 0;
        loop {
            let read = stdout.read(&mut chunk).map_err(failed)?;
            let Some(piece) = chunk.get(..read).filter(|piece| !piece.is_empty()) else { break };
            count += piece.iter().filter(|byte| **byte == 0).count();
            listed.extend_from_slice(piece);
            if count > most {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return Err(UndoError::Unable(format!("there are more than {most} files")));
            }
        }
        if !child.wait().map_err(failed)?.success() {
            return Err(failure(arguments, "failed".to_owned()));
        }
        Ok(paths(&listed))
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
        checked(arguments, self.output(command, input))
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
        // Ctrl-C is not for it: half a state is none.
        command.process_group(0);
        command
    }

    fn output(&self, mut command: Command, input: &[u8]) -> io::Result<Output> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_empty() {
            return command.stdin(Stdio::null()).output();
        }
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // If git does not want to hear it, it says why itself.
                stdin.map(|mut stdin| stdin.write_all(input))
            });
            child.wait_with_output()
        })
    }
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
