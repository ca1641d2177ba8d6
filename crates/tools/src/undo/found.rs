//! What is new to the record, and was there before: files that were ignored, or could not be read. The
//! session has not made them, though its calls may be why they are recorded now.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::journal::Line;
use super::plan::compare;
use super::{Undo, UndoError};

/// What every process of the session knows of the last state.
#[derive(Debug)]
pub(super) struct Last {
    tree: String,
    // When it began to be looked at.
    at: SystemTime,
}

/// Returns the time by the clock of files, behind that of programs: what is made from here on is not older.
pub(super) fn moment() -> SystemTime {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::RealtimeCoarse);
    let (seconds, nanoseconds) = (u64::try_from(tv_sec), u64::try_from(tv_nsec));
    UNIX_EPOCH
        + Duration::from_secs(seconds.unwrap_or_default())
        + Duration::from_nanos(nanoseconds.unwrap_or_default())
}

impl Undo {
    /// Returns the last state that was recorded; `None` if there was none.
    pub(super) fn last(&self) -> Result<Option<Last>, UndoError> {
        let path = self.last_path();
        let read = || -> io::Result<Last> {
            let at = path.metadata()?.modified()?;
            Ok(Last { tree: fs::read_to_string(&path)?, at })
        };
        match read() {
            Ok(last) => Ok(Some(last)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(UndoError::file(&path)(error)),
        }
    }

    /// Notes the last state, which was looked at from a moment on, in one step.
    pub(super) fn set_last(&self, tree: &str, at: SystemTime) -> Result<(), UndoError> {
        let path = self.last_path();
        let draft = path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&draft)?;
            file.write_all(tree.as_bytes())?;
            file.set_modified(at)
        };
        write().map_err(UndoError::file(&draft))?;
        fs::rename(&draft, &path).map_err(UndoError::file(&path))
    }

    /// Notes that the last state is still the last one, and was looked at again from a moment on.
    pub(super) fn renew_last(&self, at: SystemTime) -> Result<(), UndoError> {
        let path = self.last_path();
        let renew = || File::options().write(true).open(&path)?.set_modified(at);
        renew().map_err(UndoError::file(&path))
    }

    fn last_path(&self) -> PathBuf {
        self.git.store().join("last")
    }

    /// Notes which files a state has that were there at the last one, and were not recorded. `appeared` are
    /// those of which not even the name was there; `None` if nobody knows.
    pub(super) fn find(
        &mut self,
        last: &Last,
        tree: &str,
        appeared: Option<&BTreeSet<Vec<u8>>>,
    ) -> Result<(), UndoError> {
        let (mut gone, mut new) = (BTreeSet::new(), Vec::new());
        for (path, ends) in compare(&self.git, &last.tree, tree)? {
            match ends {
                [Some(old), None] => drop(gone.insert(old.id)),
                [None, Some(blob)] => new.push((path, blob)),
                _ => {}
            }
        }
        let was_there = |path: &Vec<u8>, id: &str| match appeared {
            Some(appeared) if !appeared.contains(path) => true,
            // What was recorded has been moved.
            Some(_) | None if gone.contains(id) => false,
            Some(_) | None => !self.is_born_since(path, last.at),
        };
        new.retain(|(path, blob)| was_there(path, &blob.id));
        if new.is_empty() {
            return Ok(());
        }
        let paths = new.iter().map(|(path, _)| path.escape_ascii().to_string()).collect();
        self.journal.append(Line::Found { paths })
    }

    /// Tells whether a file was made after a moment, or is not there. Where the file system does not say
    /// when it was made, it may have been there always.
    fn is_born_since(&self, path: &[u8], moment: SystemTime) -> bool {
        match self.absolute(path).symlink_metadata() {
            Ok(data) => data.created().is_ok_and(|born| born >= moment),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}
