//! Sessions in files.
//!
//! `<root>/<UTC date>/<session id>.jsonl` holds the log, one commit per line; lock, inbox, large
//! bodies and what tools keep are beside it. `docs/log.md` is the law of all of it.

mod blobs;
mod commits;
mod disk;
mod inbox;
mod line;
mod list;
mod lock;
mod place;
mod session;
mod upkeep;
mod verify;
mod watch;
mod writer;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use bowline_agent::id::SessionId;
use bowline_agent::journal::{Blobs, Inbox, JournalError, SessionLog, Store};

pub use commits::{Commit, Commits};
pub use list::{RunState, Summary};
pub use upkeep::ResolveError;
pub use verify::{Problem, Report};

use blobs::ReadBlobs;
use disk::blocking;
use inbox::FileInbox;
use place::{Place, failed, is_absent, lock};
use session::FileSession;

/// A folder of sessions.
///
/// As a [`Store`] it is what agents write to. Beyond that it lists, reads, verifies and deletes
/// sessions; those methods need no lock but for deleting, and block on the disk.
///
/// The async methods expect a Tokio runtime with time and IO enabled. Clones share everything.
#[derive(Debug, Clone)]
pub struct Files(Arc<Root>);

/// What a commit has survived when it returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process; the loss of power a second later.
    #[default]
    Process,
    /// The loss of power.
    Power,
}

/// What all sessions of a folder share.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    durability: Durability,
    /// Sessions of this process that have no file before their first commit.
    announced: Mutex<HashSet<SessionId>>,
    watch: watch::Watch,
}

impl Files {
    /// Takes the folder that holds the folders of the days; it is made with the first commit.
    pub fn new(root: impl Into<PathBuf>, durability: Durability) -> Self {
        Self(Arc::new(Root {
            path: root.into(),
            durability,
            announced: Mutex::default(),
            watch: watch::Watch::default(),
        }))
    }

    /// Returns the folder that holds the folders of the days.
    pub fn root(&self) -> &Path {
        &self.0.path
    }

    /// Returns the folder for what tools keep of a session; it may not exist.
    ///
    /// # Errors
    /// [`JournalError`] if there is no such session.
    pub fn folder(&self, id: SessionId) -> Result<PathBuf, JournalError> {
        Ok(self.place(id)?.folder())
    }

    /// Returns where the files of a session are.
    fn place(&self, id: SessionId) -> Result<Place, JournalError> {
        let missing = || JournalError::NotFound(format!("session {id}"));
        self.0.find(id)?.ok_or_else(missing)
    }
}

#[async_trait]
impl Store for Files {
    fn create(&self, id: SessionId) -> Arc<dyn SessionLog> {
        Arc::new(FileSession::create(&self.0, Place::new(&self.0.path, id)))
    }

    async fn open(&self, id: SessionId) -> Result<Arc<dyn SessionLog>, JournalError> {
        let files = self.clone();
        let session = blocking(move || FileSession::open(&files.0, files.place(id)?)).await?;
        Ok(Arc::new(session))
    }

    fn inbox(&self, id: SessionId) -> Arc<dyn Inbox> {
        Arc::new(FileInbox::new(Arc::clone(&self.0), id))
    }

    fn blobs(&self, id: SessionId) -> Arc<dyn Blobs> {
        Arc::new(ReadBlobs::new(self.clone(), id))
    }
}

impl Root {
    /// Returns where a session is: under the day its id tells, or wherever it was moved to.
    fn find(&self, id: SessionId) -> Result<Option<Place>, JournalError> {
        let place = Place::new(&self.path, id);
        if self.is_announced(id) || place.exists()? {
            return Ok(Some(place));
        }
        for day in self.days()? {
            let place = Place { id, day };
            if place.exists()? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Lists the folders of the days.
    fn days(&self) -> Result<Vec<PathBuf>, JournalError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(failed("read folder", &self.path)(error)),
        };
        let mut days = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("read folder", &self.path))?;
            if entry.path().is_dir() {
                days.push(entry.path());
            }
        }
        Ok(days)
    }

    fn announce(&self, id: SessionId) {
        lock(&self.announced).insert(id);
    }

    fn withdraw(&self, id: SessionId) {
        lock(&self.announced).remove(&id);
    }

    fn is_announced(&self, id: SessionId) -> bool {
        lock(&self.announced).contains(&id)
    }
}
