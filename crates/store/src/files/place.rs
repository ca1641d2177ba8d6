//! Where the files of a session are.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use uuid::Uuid;

use bowline_agent::id::SessionId;
use bowline_agent::journal::JournalError;

/// The paths of one session.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) id: SessionId,
    /// The folder of the day, which it shares with other sessions.
    pub(crate) day: PathBuf,
}

impl Place {
    /// Returns where a session belongs: under the day that its id tells.
    pub(crate) fn new(root: &Path, id: SessionId) -> Self {
        Self { id, day: root.join(day(id)) }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.beside("jsonl")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.beside("lock")
    }

    pub(crate) fn inbox(&self) -> PathBuf {
        self.beside("inbox.jsonl")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.day.join(self.id.to_string())
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.folder().join("blobs")
    }

    /// Tells whether there is such a session. An empty file is none: its first commit never was.
    pub(crate) fn exists(&self) -> Result<bool, JournalError> {
        let path = self.log();
        match path.metadata() {
            Ok(metadata) => Ok(metadata.len() > 0),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(failed("look at", &path)(error)),
        }
    }

    pub(crate) fn missing(&self) -> JournalError {
        JournalError::NotFound(format!("session {}", self.id))
    }

    fn beside(&self, extension: &str) -> PathBuf {
        self.day.join(format!("{}.{extension}", self.id))
    }
}

/// The UTC date at which an id was made. Ids that do not tell are kept under the epoch, where they
/// are found again as well.
fn day(id: SessionId) -> String {
    let made = Uuid::from(id).get_timestamp().map_or(0, |time| time.to_unix().0);
    let made = i64::try_from(made).ok().and_then(|made| Timestamp::from_second(made).ok());
    made.unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// Tells whether the path leads to nothing.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Returns what makes an error of the system one of the journal.
pub(crate) fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    move |error| JournalError::io(format!("{doing} {}", path.display()), error)
}

/// Makes a folder and those above it, for the eyes of its owner.
pub(crate) fn make_folder(path: &Path) -> Result<(), JournalError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make folder", path))
}

/// Opens a file for reading and appending, and makes it, for the eyes of its owner, if need be.
pub(crate) fn open_to_append(path: &Path) -> Result<File, JournalError> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("open for writing", path))
}

/// Writes with one call: a part of a line is an error.
pub(crate) fn write_once(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    loop {
        match file.write(bytes) {
            Ok(written) if written == bytes.len() => return Ok(()),
            Ok(written) => {
                let what = format!("only {written} of {} bytes were written", bytes.len());
                return Err(io::Error::new(io::ErrorKind::StorageFull, what));
            }
            // Nothing was written.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns when the names in a folder would survive a loss of power.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is whole at every point where its holder could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
