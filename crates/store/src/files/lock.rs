//! One writer to a session, over all processes.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use bowline_agent::journal::JournalError;

use super::place::{Place, failed, is_absent, open_to_append};

/// How long to wait for a lock whose holder is dead.
const MOMENT: Duration = Duration::from_secs(2);

/// How long to wait before trying again.
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// The lock of a session. The kernel lets go of it when its holder dies, so a file that was left
/// behind is no obstacle.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, or tells who has it.
    pub(crate) fn take(place: &Place) -> Result<Self, JournalError> {
        let path = place.lock();
        let start = Instant::now();
        loop {
            let mut file = open_to_append(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let pid = holder(&mut file);
                    // A process that was killed while it started another leaves the lock to that for the
                    // moment until it has become another program.
                    if is_gone(pid) && start.elapsed() < MOMENT {
                        std::thread::sleep(BETWEEN_TRIES);
                        continue;
                    }
                    return Err(JournalError::Busy { session: place.id, pid });
                }
                Err(error) => return Err(failed("lock", &path)(error.into())),
            }
            // The last holder may have removed the file after we opened it: then what we hold is
            // the lock of nothing.
            if !is_at(&file, &path).map_err(failed("look at", &path))? {
                continue;
            }
            let named = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            named.map_err(failed("write", &path))?;
            return Ok(Self { file, path });
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is still held: who opens the path from here on makes a new file, and
        // who had it open finds that it is gone.
        if is_at(&self.file, &self.path).unwrap_or(false) {
            // A file left behind does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes the short lock of a file that several processes append to, waiting for it, and returns the
/// file that is at the path then; one that is renamed over or removed is never the result.
pub(crate) fn open_locked(path: &Path) -> Result<File, JournalError> {
    loop {
        let file = open_to_append(path)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("lock", path)(error.into())),
            }
        }
        if is_at(&file, path).map_err(failed("look at", path))? {
            return Ok(file);
        }
    }
}

/// Tells whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok(found.dev() == held.dev() && found.ino() == held.ino()),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tells whether there is no such process.
fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Reads who holds a lock; 0 if its holder has not written it yet.
fn holder(file: &mut File) -> u32 {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) => text.trim().parse().unwrap_or(0),
        Err(_) => 0,
    }
}
