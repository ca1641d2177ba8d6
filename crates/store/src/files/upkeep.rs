//! Finding, reading and deleting sessions.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use bowline_agent::id::SessionId;
use bowline_agent::journal::{JournalError, Pos};

use super::commits::{Choice, Commits};
use super::lock::{Lock, open_locked};
use super::place::{Place, failed, is_absent};
use super::{Files, blobs};

/// Why a prefix names no session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResolveError {
    /// No id has these digits at its beginning.
    #[error("no session has an id that begins with {0:?}")]
    Missing(String),
    /// More than one id has.
    #[error("{count} sessions have an id that begins with {prefix:?}: {first} and {second} differ")]
    Ambiguous {
        /// The prefix.
        prefix: String,
        /// How many sessions it fits.
        count: usize,
        /// One of them.
        first: SessionId,
        /// Another.
        second: SessionId,
    },
    /// The sessions could not be listed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Files {
    /// Returns the session whose id begins with `prefix`.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn resolve(&self, prefix: &str) -> Result<SessionId, ResolveError> {
        let prefix = prefix.to_ascii_lowercase();
        if let Ok(id) = prefix.parse()
            && self.0.find(id)?.is_some()
        {
            return Ok(id);
        }
        let mut fitting: Vec<SessionId> =
            self.places()?.into_iter().map(|found| found.id).collect();
        fitting.retain(|id| !prefix.is_empty() && id.to_string().starts_with(&prefix));
        match *fitting.as_slice() {
            [] => Err(ResolveError::Missing(prefix)),
            [id] => Ok(id),
            [first, second, ..] => {
                Err(ResolveError::Ambiguous { prefix, count: fitting.len(), first, second })
            }
        }
    }

    /// Reads the commits of a session that hold entries from `from` on, without a lock and one at
    /// a time. The first one may begin before `from`.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] or [`JournalError::Io`].
    pub fn read(&self, id: SessionId, from: Pos) -> Result<Commits, JournalError> {
        Commits::open(&self.place(id)?, Choice { from, ..Choice::default() })
    }

    /// Returns a large body of a session, whether or not somebody writes to it.
    ///
    /// # Errors
    /// As [`Blobs::get`](bowline_agent::journal::Blobs::get).
    pub fn blob(&self, id: SessionId, hash: &str) -> Result<Vec<u8>, JournalError> {
        blobs::get(&self.place(id)?, hash)
    }

    /// Brings large bodies from one session to another, which may not have its first commit yet:
    /// a fork does this before it is written.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] if `from` or one of the bodies is not there,
    /// [`JournalError::Corrupt`] if a body was altered, or [`JournalError::Io`].
    pub fn copy_blobs(
        &self,
        from: SessionId,
        to: SessionId,
        hashes: &[&str],
    ) -> Result<(), JournalError> {
        let from = self.place(from)?;
        let to = self.0.find(to)?.unwrap_or_else(|| Place::new(self.root(), to));
        hashes.iter().try_for_each(|hash| blobs::copy(&from, &to, hash))
    }

    /// Deletes a session with everything that is kept of it.
    ///
    /// # Errors
    /// [`JournalError::Busy`] if somebody writes to it, [`JournalError::NotFound`] or
    /// [`JournalError::Io`]. After an error it can be deleted again.
    pub fn delete(&self, id: SessionId) -> Result<(), JournalError> {
        let place = self.place(id)?;
        if !place.exists()? {
            return Err(place.missing());
        }
        let _lock = Lock::take(&place)?;
        // Held until the log is gone, so that a post meets the whole session or none.
        let inbox = open_locked(&place.inbox())?;
        remove(&place.folder(), |path| fs::remove_dir_all(path))?;
        remove(&place.log(), |path| fs::remove_file(path))?;
        remove(&place.inbox(), |path| fs::remove_file(path))?;
        drop(inbox);
        Ok(())
    }

    /// Lists all sessions, the one written to last first.
    pub(crate) fn places(&self) -> Result<Vec<Place>, JournalError> {
        let mut found = Vec::new();
        for day in self.0.days()? {
            let entries = fs::read_dir(&day).map_err(failed("read folder", &day))?;
            for entry in entries {
                let path = entry.map_err(failed("read folder", &day))?.path();
                let Some(id) = id_of(&path) else { continue };
                let metadata = match fs::metadata(&path) {
                    Ok(metadata) => metadata,
                    Err(error) if is_absent(&error) => continue,
                    Err(error) => return Err(failed("look at", &path)(error)),
                };
                if metadata.len() > 0 {
                    let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((written, Place { id, day: day.clone() }));
                }
            }
        }
        found.sort_by_key(|(written, place)| std::cmp::Reverse((*written, place.id)));
        Ok(found.into_iter().map(|(_, place)| place).collect())
    }
}

/// Returns the session whose log has this path; inboxes and other files are no logs.
fn id_of(path: &Path) -> Option<SessionId> {
    if path.extension() != Some(OsStr::new("jsonl")) {
        return None;
    }
    path.file_stem()?.to_str()?.parse().ok()
}

fn remove(path: &Path, remove: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), JournalError> {
    match remove(path) {
        Ok(()) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(failed("delete", path)(error)),
    }
}
