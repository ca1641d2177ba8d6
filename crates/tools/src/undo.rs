//! What agents change in files can be taken back.
//!
//! The state of the project is recorded before a call writes and after it has written, in a git
//! repository beside the session's log: the user's own repository is only read. What a session changed
//! is the sum of the stretches between those two moments, so that what a person changes in between is
//! neither shown as the session's nor taken back with it.
//!
//! [`Undo`] is the door: [`Undo::before`] and [`Undo::after`] record, [`Undo::plan`] says what going back
//! would do, [`Undo::restore`] does it, and is itself recorded, so that it can be taken back too. In reading
//! order: `journal` (which states there are, and what lies between them), `store` (how the repository is
//! made), `snapshot` (how a state is recorded), `content` (how git gets what is in files), `seen` (how it is known
//! that nothing has changed), `found` (what the session has not made though it is new to the record), `plan` and
//! `restore`, `git` (how git is run).

mod content;
mod found;
mod git;
mod journal;
mod plan;
mod restore;
mod seen;
mod snapshot;
mod store;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_agent::id::{AgentId, EntryId};
use bowline_llm::CallId;
use serde::{Deserialize, Serialize};

use crate::folder_lock::FolderLock;

use git::Git;
use journal::{Journal, Line};
use snapshot::Recorded;

pub use plan::{Change, Kind, Plan, View};
pub use restore::Restored;

/// The folder of the repository, in that of the session.
const STORE: &str = "undo.git";

/// What is recorded, and what is too much.
#[derive(Debug, Clone)]
pub struct Place {
    /// The root of the project.
    pub root: PathBuf,
    /// Folders in it that are no part of it, such as those where bowline keeps its own.
    pub left_out: Vec<PathBuf>,
    /// The program `git`.
    pub git: PathBuf,
    /// The variables with which the user's repository is read; those of git itself do not count.
    pub variables: Vec<(String, String)>,
    /// What is too much.
    pub limits: Limits,
}

/// What is too much to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A project of more files is not recorded at all.
    pub files: usize,
    /// A file of more bytes is left out.
    pub file_bytes: u64,
    /// More bytes that are new at once are not recorded.
    pub bytes: u64,
    /// How long one look at the project may take: it may hold pipes in the place of files, which end never.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 200_000, file_bytes: 50 << 20, bytes: 2 << 30, time: Duration::from_secs(30) }
    }
}

impl Limits {
    /// Fails if so many bytes are too many to be recorded at once.
    fn check_new(&self, bytes: u64) -> Result<(), UndoError> {
        match bytes > self.bytes {
            true => {
                let most = self.bytes >> 20;
                Err(UndoError::Unable(format!("more than {most} MB are new at once")))
            }
            false => Ok(()),
        }
    }
}

/// Why files could not be recorded or brought back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// This project cannot be recorded, now or later.
    #[error("{0}")]
    Unable(String),
    /// git did not do what it should.
    #[error("git {what}: {said}")]
    Git {
        /// What it should do.
        what: String,
        /// What it said.
        said: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        source: io::Error,
    },
}

impl UndoError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }
}

/// A file that is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its path in the project.
    pub path: String,
    /// Why.
    pub why: String,
}

/// Where a conversation was before files were brought back, and where it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// The entry from which it would have gone on.
    pub from: Option<EntryId>,
    /// The entry from which it goes on.
    pub to: Option<EntryId>,
}

/// Some of what was recorded, one change after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch(std::ops::Range<usize>);

/// What is recorded of the files of a session.
///
/// Every method looks at all files, and may run git and wait for it. Several processes may use what is recorded at the same time.
#[derive(Debug)]
pub struct Undo {
    git: Git,
    journal: Journal,
    folder: PathBuf,
    limits: Limits,
    // Files that are ignored, and recorded because a call has named them.
    named: BTreeSet<Vec<u8>>,
    // Paths of which it is known whether they are ignored.
    looked_at: BTreeSet<PathBuf>,
    left_out: BTreeSet<LeftOut>,
    // If this process has recorded something.
    recorded: Option<Recorded>,
}

impl Undo {
    /// Opens what is recorded in the folder of a session; begins to record if nothing is.
    ///
    /// # Errors
    /// [`UndoError::Unable`] if the project is too large, or is another one than that which is recorded.
    pub fn open(session: &Path, place: &Place) -> Result<Self, UndoError> {
        let folder = session.join(STORE);
        let _lock = FolderLock::take(&folder).map_err(UndoError::file(&folder))?;
        let git = Git::new(&place.git, &place.root, &folder, place.limits.time);
        let journal = Journal::open(&folder)?;
        match journal.root() {
            Some(root) if root == place.root => {}
            Some(root) => {
                let why = format!("the session began in {}", root.display());
                return Err(UndoError::Unable(why));
            }
            None => {
                let tracked = store::make(&git, place)?;
                let mut undo = Self::with(git, Journal::open(&folder)?, folder, place.limits);
                // Only what is recorded whole counts as begun.
                undo.take(&tracked)?;
                undo.journal.append(Line::Opened { root: place.root.clone() })?;
                return Ok(undo);
            }
        }
        Ok(Self::with(git, journal, folder, place.limits))
    }

    /// Opens what is recorded in the folder of a session; `None` if nothing is.
    ///
    /// # Errors
    /// [`UndoError::File`] if it cannot be read.
    pub fn existing(session: &Path, git: &Path) -> Result<Option<Self>, UndoError> {
        let folder = session.join(STORE);
        let journal = Journal::open(&folder)?;
        let Some(root) = journal.root().map(Path::to_path_buf) else { return Ok(None) };
        let git = Git::new(git, &root, &folder, Limits::default().time);
        Ok(Some(Self::with(git, journal, folder, Limits::default())))
    }

    fn with(git: Git, journal: Journal, folder: PathBuf, limits: Limits) -> Self {
        Self {
            named: journal.named(),
            left_out: journal.left_out(),
            git,
            journal,
            folder,
            limits,
            looked_at: BTreeSet::new(),
            recorded: None,
        }
    }

    /// Returns the root of the project.
    pub fn root(&self) -> &Path {
        self.git.root()
    }

    /// Records the state before a call writes; `writes` are the paths that it names.
    ///
    /// # Errors
    /// [`UndoError`] if it cannot be recorded; nothing has changed then.
    pub fn before(
        &mut self,
        agent: AgentId,
        call: &CallId,
        writes: &[PathBuf],
    ) -> Result<(), UndoError> {
        let _lock = self.lock()?;
        self.name(writes)?;
        let tree = self.take(&[])?;
        self.journal.append(Line::Before { agent, call: call.clone(), tree })
    }

    /// Notes that a call writes beside another one of its agent that was recorded before and still runs.
    ///
    /// # Errors
    /// As [`Undo::before`].
    pub fn beside(
        &mut self,
        agent: AgentId,
        call: &CallId,
        writes: &[PathBuf],
    ) -> Result<(), UndoError> {
        let _lock = self.lock()?;
        self.name(writes)?;
        let tree = match self.journal.open_tree(agent) {
            Some(tree) => tree,
            None => self.take(&[])?,
        };
        self.journal.append(Line::Before { agent, call: call.clone(), tree })
    }

    /// Records the state after the calls of an agent that wrote at the same time.
    ///
    /// # Errors
    /// As [`Undo::before`].
    pub fn after(&mut self, agent: AgentId) -> Result<(), UndoError> {
        let _lock = self.lock()?;
        let tree = self.take(&[])?;
        self.journal.append(Line::After { agent, tree })
    }

    /// Does what [`Undo::before`] does if that takes next to no time: the files are few, none of them has
    /// changed since they were recorded, and nobody else records. Tells whether it has.
    ///
    /// # Errors
    /// As [`Undo::before`].
    pub fn before_at_once(
        &mut self,
        agent: AgentId,
        call: &CallId,
        writes: &[PathBuf],
    ) -> Result<bool, UndoError> {
        if !writes.iter().all(|path| self.looked_at.contains(path)) {
            return Ok(false);
        }
        self.at_once(|tree| Line::Before { agent, call: call.clone(), tree })
    }

    /// Does what [`Undo::after`] does, as [`Undo::before_at_once`].
    ///
    /// # Errors
    /// As [`Undo::before`].
    pub fn after_at_once(&mut self, agent: AgentId) -> Result<bool, UndoError> {
        self.at_once(|tree| Line::After { agent, tree })
    }

    fn at_once(&mut self, line: impl FnOnce(String) -> Line) -> Result<bool, UndoError> {
        let lock = FolderLock::try_take(&self.folder).map_err(UndoError::file(&self.folder))?;
        let at = found::moment();
        let Some((_lock, tree)) = lock.zip(self.unchanged()) else { return Ok(false) };
        self.renew_last(at)?;
        self.journal.append(line(tree))?;
        Ok(true)
    }

    /// Returns all that is recorded.
    pub fn all(&self) -> Stretch {
        Stretch(0..self.journal.spans().len())
    }

    /// Returns what is recorded from the first call on that is wanted.
    pub fn since(&self, is_wanted: impl Fn(AgentId, &CallId) -> bool) -> Stretch {
        let spans = self.journal.spans();
        let is_first = |span: &journal::Span| match &span.call {
            Some((agent, call)) => is_wanted(*agent, call),
            None => false,
        };
        Stretch(spans.iter().position(is_first).unwrap_or(spans.len())..spans.len())
    }

    /// Returns the last time that files were brought back, and what became of the conversation then.
    pub fn last_restored(&self) -> Option<(Stretch, Option<Turned>)> {
        let spans = self.journal.spans();
        let (index, span) = spans.iter().enumerate().rfind(|(_, span)| span.call.is_none())?;
        Some((Stretch(index..index + 1), span.turned))
    }

    fn lock(&self) -> Result<FolderLock, UndoError> {
        FolderLock::take(&self.folder).map_err(UndoError::file(&self.folder))
    }
}
