//! What an agent needs of a place that keeps sessions.
//!
//! This crate does no IO. A store implements these traits; [`Memory`](crate::Memory) is the one
//! that forgets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::entry::Entry;
use crate::id::{AgentId, OpId, SessionId};
use crate::op::Op;

/// How many entries the log of one agent holds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// The position of an entry in its session, counted from 0 over the logs of all its agents, without
/// gaps: the cursor of every stream.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Pos(pub u64);

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A place that keeps sessions.
#[async_trait]
pub trait Store: Send + Sync {
    /// Prepares a new session. Nothing is kept before its first commit.
    fn create(&self, id: SessionId) -> Arc<dyn SessionLog>;

    /// Opens a session for writing; there is one writer at a time.
    ///
    /// # Errors
    /// [`JournalError::Busy`] if another writer has it, [`JournalError::NotFound`],
    /// [`JournalError::Corrupt`], [`JournalError::ReadOnly`] or [`JournalError::Io`].
    async fn open(&self, id: SessionId) -> Result<Arc<dyn SessionLog>, JournalError>;

    /// Returns the inbox of a session, which needs no writer.
    fn inbox(&self, id: SessionId) -> Arc<dyn Inbox>;

    /// Returns the large bodies of a session; to read them needs no writer.
    fn blobs(&self, id: SessionId) -> Arc<dyn Blobs>;
}

/// One session, held by its one writer until the last clone is dropped.
#[async_trait]
pub trait SessionLog: Send + Sync {
    /// Returns one agent's handle.
    fn journal(&self, agent: AgentId) -> Arc<dyn Journal>;

    /// Reads the entries of all agents from a position on, in order of their positions.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] or [`JournalError::Io`].
    async fn read(&self, from: Pos) -> Result<Vec<(Pos, Entry)>, JournalError>;

    /// Returns the position after the last commit and the hash of the log up to there, where the
    /// store keeps one.
    fn tip(&self) -> (Pos, Option<String>);

    /// Returns the session's inbox.
    fn inbox(&self) -> Arc<dyn Inbox>;

    /// Returns where the session's large bodies are.
    fn blobs(&self) -> Arc<dyn Blobs>;

    /// Returns the folder for what tools keep of this session (command output, job files), if the
    /// store has one; it may not exist yet.
    fn folder(&self) -> Option<PathBuf>;

    /// Returns when everything appended so far would survive a loss of power.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    async fn sync(&self) -> Result<(), JournalError>;
}

/// One agent's log.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends one commit, whole or not at all, if the log holds exactly `after` entries.
    ///
    /// When it returns, the commit survives the death of the process. Appending entries again that
    /// are there already, under the same ids, changes nothing and returns their first position.
    ///
    /// # Errors
    /// [`JournalError::Fenced`] if the log is longer than `after`: somebody else writes to it.
    /// [`JournalError::ReadOnly`] or [`JournalError::Io`] if it could not be kept.
    async fn append(&self, after: Seq, entries: &[Entry]) -> Result<Pos, JournalError>;

    /// Reads the log from its beginning.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] or [`JournalError::Io`].
    async fn read(&self) -> Result<Vec<(Pos, Entry)>, JournalError>;
}

/// The way into a session for everybody who is not its writer.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Posts an operation; when it returns, the operation is kept. The same id again changes
    /// nothing.
    ///
    /// # Errors
    /// [`JournalError::Io`], or [`JournalError::NotFound`] if there is no such session.
    async fn post(&self, op: Op) -> Result<(), JournalError>;

    /// Returns what was posted and not yet forgotten, in order.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    async fn take(&self) -> Result<Vec<Op>, JournalError>;

    /// Forgets operations, because they are in the log. Only the session's writer may call this.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    async fn forget(&self, ops: &[OpId]) -> Result<(), JournalError>;

    /// Returns when something may have been posted since `take` was last called. It may return
    /// early, and it may be dropped at any time.
    async fn changed(&self);
}

/// Large bodies, kept by their hash.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Keeps a body and returns its SHA-256 in lower-case hex.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    async fn put(&self, body: &[u8]) -> Result<String, JournalError>;

    /// Returns a body.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] or [`JournalError::Io`]; [`JournalError::Corrupt`] if the body no
    /// longer has the hash.
    async fn get(&self, hash: &str) -> Result<Vec<u8>, JournalError>;
}

/// What can go wrong with a place that keeps sessions.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Another process writes to the session.
    #[error("session {session} is busy, held by pid {pid}")]
    Busy {
        /// The session.
        session: SessionId,
        /// The process; 0 if it cannot be told.
        pid: u32,
    },
    /// Another writer has gone on with the log.
    #[error("another writer has gone on with the log of agent {0}")]
    Fenced(AgentId),
    /// There is no such thing.
    #[error("{0} not found")]
    NotFound(String),
    /// The log has entries that this version must not write behind.
    #[error("session {session} is read-only for this version: {why}")]
    ReadOnly {
        /// The session.
        session: SessionId,
        /// What stands in the way.
        why: String,
    },
    /// What is kept is not what was written.
    #[error("{place} is corrupt: {what}")]
    Corrupt {
        /// The file, and the line or position in it.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// The machine failed to do it.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried, with the path.
        doing: String,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
}

impl JournalError {
    /// Makes an IO error.
    pub fn io(doing: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { doing: doing.into(), source: Arc::new(source) }
    }
}
