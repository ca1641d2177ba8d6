//! Running the command of a hook.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use bowline_tools::process::{Pipes, ProcessError, Processes, Running, Service, Status};

use super::found::Hook;

/// How much of what a hook prints is read.
const MOST: usize = 1 << 20;

/// How long to wait for what a hook has printed once it is over: what it left behind may hold its output
/// open.
const REST: Duration = Duration::from_millis(200);

/// How long a hook may take to end when its time is up.
const GRACE: Duration = Duration::from_millis(500);

/// Starts the commands of hooks.
#[derive(Debug)]
pub(super) struct Shell {
    pub(super) processes: Arc<Processes>,
    pub(super) program: PathBuf,
    pub(super) environment: Vec<(String, String)>,
    pub(super) cwd: PathBuf,
}

/// How the command of a hook ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself.
    Exit(Printed),
    /// Its time was up.
    Late(Duration),
    /// Nobody knows, or it did not start.
    Lost(String),
}

/// What a command that ended by itself has printed.
#[derive(Debug)]
pub(super) struct Printed {
    /// Its exit code; `None` if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Shell {
    /// Runs a hook with this on its standard input, for so long at most. When its time is up, and when this is dropped, it and
    /// everything it has started is ended.
    pub(super) async fn run(&self, hook: &Hook, input: &str, time: Duration) -> Ended {
        let service = Service {
            owner: "hooks".to_owned(),
            program: self.program.clone(),
            arguments: vec!["-c".to_owned(), hook.command.clone()],
            cwd: self.cwd.clone(),
            environment: self.environment.clone(),
            confinement: None,
        };
        let (mut running, pipes) = match self.processes.serve(service).await {
            Ok(started) => started,
            Err(error) => return Ended::Lost(error.to_string()),
        };
        let Pipes { mut stdin, stdout, stderr } = pipes;
        let told = async move {
            // Who does not read does not want to know.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let heard = async {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let talk = async { tokio::join!(told, read(stdout, &mut out), read(stderr, &mut err)) };
            let status = over(&mut running, talk).await;
            (status, out, err)
        };
        let heard = tokio::time::timeout(time, heard).await;
        match heard {
            Ok((Ok(Status { code, .. }), out, err)) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                Ended::Exit(Printed { code, stdout: text(out), stderr: text(err) })
            }
            Ok((Err(error), ..)) => Ended::Lost(error.to_string()),
            Err(_) => {
                running.end(GRACE).await;
                Ended::Late(time)
            }
        }
    }
}

/// Waits for the end of a command while it is spoken with, and a moment longer for its last words.
async fn over(
    running: &mut Running,
    talk: impl Future<Output = ((), (), ())>,
) -> Result<Status, ProcessError> {
    let mut talk = std::pin::pin!(talk);
    let mut is_over = false;
    let status = loop {
        tokio::select! {
            _ = &mut talk, if !is_over => is_over = true,
            status = running.exit() => break status,
        }
    };
    if !is_over {
        let _ = tokio::time::timeout(REST, talk).await;
    }
    status
}

/// Reads to the end, and keeps the beginning.
async fn read(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut piece = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let room = MOST.saturating_sub(kept.len()).min(count);
        kept.extend(piece.iter().take(room));
    }
}
