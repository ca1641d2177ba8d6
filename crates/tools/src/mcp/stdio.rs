//! Servers that are programs: started by the helper process, which ends them with bowline.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Access, access};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio_util::task::AbortOnDropHandle;

use crate::excerpt::to_text;
use crate::process::{Pipes, Running, Service};

use super::config::{Host, Program};

/// How much is kept of what a server says on its standard error.
const MAX_ASIDE: usize = 16 * 1024;

/// How long a server may take to end when its standard input is closed, and then when it is asked to.
const GRACE: Duration = Duration::from_millis(500);

/// A server that runs. Dropping it kills it with all it has started.
#[derive(Debug)]
pub(super) struct Process {
    running: Running,
    aside: Aside,
    _reader: AbortOnDropHandle<()>,
}

/// Both directions in which to speak with a server.
pub(super) type Streams = (pipe::Receiver, pipe::Sender);

impl Process {
    /// Starts a server.
    pub(super) async fn start(
        name: &str,
        program: &Program,
        host: &Host,
    ) -> Result<(Self, Streams), String> {
        let workspace = &host.workspace;
        let cwd = match &program.cwd {
            Some(cwd) => workspace.cwd.join(cwd),
            None => workspace.cwd.clone(),
        };
        let mut environment = workspace.environment.clone();
        for (name, value) in &program.environment {
            environment.set(name, value.expose());
        }
        let path = environment.get("PATH").unwrap_or_default();
        let service = Service {
            owner: format!("mcp/{name}"),
            program: find(&program.command, path, &cwd)?,
            arguments: program.arguments.clone(),
            cwd,
            environment: environment.variables().to_vec(),
            // A server is the user's own program, with the user's rights.
            confinement: None,
        };
        let started = workspace.processes.serve(service).await;
        let (running, pipes) = started.map_err(|error| error.to_string())?;
        let Pipes { stdin, stdout, stderr } = pipes;
        let aside = Aside::default();
        let reader = AbortOnDropHandle::new(tokio::spawn(listen(stderr, aside.clone())));
        Ok((Self { running, aside, _reader: reader }, (stdout, stdin)))
    }

    /// Returns what it has said on its standard error, of late.
    pub(super) fn aside(&self) -> &Aside {
        &self.aside
    }

    /// Tells how it has ended, if it has or is just about to.
    pub(super) async fn ending(&mut self) -> Option<String> {
        let exit = tokio::time::timeout(GRACE, self.running.exit()).await.ok()?;
        Some(match exit {
            Ok(status) => match (status.code, status.signal) {
                // So it ends too when nobody listens to it any more: that tells nothing.
                (Some(0), _) => return None,
                (Some(code), _) => format!("it ended with exit code {code}"),
                (None, Some(signal)) => format!("it was killed by signal {signal}"),
                (None, None) => "it ended".to_owned(),
            },
            Err(error) => error.to_string(),
        })
    }

    /// Waits for the end of a server whose standard input is closed, and else ends it.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(GRACE, self.running.exit()).await;
        // It may have left something behind.
        self.running.end(GRACE).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.running.kill();
    }
}

/// Finds a program as a shell would.
fn find(command: &str, path: &str, cwd: &Path) -> Result<PathBuf, String> {
    if command.contains('/') {
        let program = cwd.join(command);
        return match program.is_file() {
            true => Ok(program),
            false => Err(format!("there is no program {}", program.display())),
        };
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let mut candidates = folders.map(|folder| Path::new(folder).join(command));
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let found = candidates.find(is_program);
    found.ok_or_else(|| format!("there is no program {command:?} in PATH"))
}

/// What a server says on its standard error: the end of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Aside(Arc<Mutex<VecDeque<u8>>>);

impl Aside {
    /// Returns the end of it, at most so many bytes.
    pub(super) fn tail(&self, bytes: usize) -> String {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = said.make_contiguous();
        let tail = said.get(said.len().saturating_sub(bytes)..).unwrap_or_default();
        to_text(tail).trim().to_owned()
    }

    fn add(&self, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(bytes);
        let surplus = said.len().saturating_sub(MAX_ASIDE);
        said.drain(..surplus);
    }
}

/// Reads on, so that the server is never held up by what nobody reads.
async fn listen(mut stderr: pipe::Receiver, aside: Aside) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
        aside.add(bytes.get(..read).unwrap_or_default());
    }
}
