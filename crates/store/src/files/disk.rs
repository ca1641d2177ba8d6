//! When what was written reaches the disk.
//!
//! Writing a line makes it survive the death of the process. To survive a loss of power it must be
//! synced, which takes milliseconds: it is done on a thread that may block, and once for all
//! commits that wait for it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use bowline_agent::journal::JournalError;

use super::place::{Place, is_absent, lock, sync_folder};

/// How long the background waits for more to sync. The law allows a second.
const DELAY: Duration = Duration::from_millis(500);

/// What a session wrote, and how much of it is safe.
#[derive(Debug)]
pub(crate) struct Disk {
    log: PathBuf,
    /// The log, from its first commit on.
    file: OnceLock<File>,
    state: Mutex<State>,
    synced: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Things written: lines and large bodies.
    written: u64,
    /// How many of them would survive a loss of power.
    safe: u64,
    /// Large bodies that are not safe yet.
    bodies: Vec<PathBuf>,
    /// Whether the names of the log and its folder are safe.
    has_names: bool,
    is_syncing: bool,
    is_scheduled: bool,
    /// After a failed sync nobody knows what is on the disk, and asking again does not tell.
    failed: Option<Arc<io::Error>>,
}

impl Disk {
    pub(crate) fn new(place: &Place) -> Arc<Self> {
        let (file, state) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { log: place.log(), file, state, synced: Notify::new() })
    }

    /// Takes the file of the log, once.
    pub(crate) fn set_file(&self, file: File) {
        // There is one writer, and it opens the file once.
        let _ = self.file.set(file);
    }

    pub(crate) fn file(&self) -> Option<&File> {
        self.file.get()
    }

    /// Takes note that a line was written.
    pub(crate) fn wrote_line(&self) {
        lock(&self.state).written += 1;
    }

    /// Takes note that a large body was written.
    pub(crate) fn wrote_body(&self, path: PathBuf) {
        let mut state = lock(&self.state);
        state.written += 1;
        state.bodies.push(path);
    }

    /// Returns the error of a sync that failed.
    pub(crate) fn check(&self) -> Result<(), JournalError> {
        match &lock(&self.state).failed {
            Some(error) => Err(self.broken(error)),
            None => Ok(()),
        }
    }

    /// Sees to it that all that was written is synced soon.
    pub(crate) fn sync_later(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        if state.is_scheduled {
            return;
        }
        // Without a runtime there is nobody to do it later; `sync` still does it at the end.
        let Ok(runtime) = Handle::try_current() else { return };
        state.is_scheduled = true;
        drop(state);
        let scheduled = Scheduled(Arc::clone(self));
        // The task owns nothing but the file, and ends by itself within the second.
        runtime.spawn(async move {
            tokio::time::sleep(DELAY).await;
            let disk = Arc::clone(&scheduled.0);
            drop(scheduled);
            // An error is kept and told to the next commit.
            let _ = disk.sync().await;
        });
    }

    /// Returns when all that was written so far is safe.
    pub(crate) async fn sync(self: &Arc<Self>) -> Result<(), JournalError> {
        let target = lock(&self.state).written;
        loop {
            let synced = self.synced.notified();
            tokio::pin!(synced);
            // From here on no wake is missed.
            synced.as_mut().enable();
            if self.is_safe(target)? {
                return Ok(());
            }
            self.start_sync();
            synced.await;
        }
    }

    fn is_safe(&self, target: u64) -> Result<bool, JournalError> {
        let state = lock(&self.state);
        match &state.failed {
            Some(error) => Err(self.broken(error)),
            None => Ok(state.safe >= target),
        }
    }

    /// Starts a sync unless one is on its way. Who waits for one that began too early starts the
    /// next one, for everybody that has written in the meantime.
    fn start_sync(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        if state.is_syncing {
            return;
        }
        state.is_syncing = true;
        drop(state);
        let running = Running(Arc::clone(self));
        // It runs to its end even if nobody waits for it any longer.
        let run = move || running.0.run_sync();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(run)),
            Err(_) => run(),
        }
    }

    fn run_sync(&self) {
        let (target, has_names, bodies) = {
            let mut state = lock(&self.state);
            (state.written, state.has_names, std::mem::take(&mut state.bodies))
        };
        let result = self.sync_all(has_names, &bodies);
        let mut state = lock(&self.state);
        match result {
            Ok(()) => {
                state.safe = target;
                state.has_names = self.file.get().is_some();
            }
            Err(error) => state.failed = Some(Arc::new(error)),
        }
    }

    fn sync_all(&self, has_names: bool, bodies: &[PathBuf]) -> io::Result<()> {
        // The bodies come first: a line must not outlive what it refers to.
        bodies.iter().try_for_each(|body| sync_body(body))?;
        let Some(file) = self.file.get() else { return Ok(()) };
        file.sync_data()?;
        if !has_names {
            self.log.ancestors().skip(1).take(2).try_for_each(sync_folder)?;
        }
        Ok(())
    }

    fn broken(&self, error: &Arc<io::Error>) -> JournalError {
        let doing = format!("sync {}", self.log.display());
        JournalError::Io { doing, source: Arc::clone(error) }
    }
}

/// Syncs a large body and the names that lead to it.
fn sync_body(path: &Path) -> io::Result<()> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Ok(()) => {}
        // Deleted in the meantime.
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    path.ancestors().skip(1).take(3).try_for_each(sync_folder)
}

/// A sync on its way, or one that the end of its runtime prevented.
struct Running(Arc<Disk>);

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0.state).is_syncing = false;
        self.0.synced.notify_waiters();
    }
}

/// A background sync to come: allows the next one when it begins, or when its runtime ends first.
struct Scheduled(Arc<Disk>);

impl Drop for Scheduled {
    fn drop(&mut self) {
        lock(&self.0.state).is_scheduled = false;
    }
}

/// Runs what blocks on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Result<T, JournalError> {
    let Ok(runtime) = Handle::try_current() else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(JournalError::io("wait for a thread", io::Error::other(error))),
        },
    }
}
