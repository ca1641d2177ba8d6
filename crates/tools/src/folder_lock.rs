//! One writer at a time in a folder, whatever process it is in.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// A lock on a folder, held until it is dropped.
///
/// Whoever holds it does a little with files and awaits nothing.
#[derive(Debug)]
pub(crate) struct FolderLock {
    // Closing it lets go.
    _file: File,
}

/// How long to wait for the lock, and how long before another try. Whoever may read the folder may hold it.
const LONGEST: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(5);

impl FolderLock {
    /// Waits for the lock; makes the folder if need be.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if somebody else keeps it for a minute.
    pub(crate) fn take(folder: &Path) -> io::Result<Self> {
        let until = Instant::now() + LONGEST;
        loop {
            if let Some(lock) = Self::try_take(folder)? {
                return Ok(lock);
            }
            if Instant::now() >= until {
                let why = "another process has kept it locked for a minute";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes the lock; `None` if somebody else has it.
    ///
    /// # Errors
    /// If the file cannot be made or locked.
    pub(crate) fn try_take(folder: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        // Others may have put a pipe there, which waits for a reader, or a link to anywhere.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
        options.create(true).truncate(false).write(true);
        let path = folder.join(".lock");
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(folder)?;
                options.open(&path)?
            }
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
