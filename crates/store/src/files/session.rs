//! A session held by its writer, and the handles of its agents.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use bowline_agent::entry::Entry;
use bowline_agent::id::AgentId;
use bowline_agent::journal::{Blobs, Inbox, Journal, JournalError, Pos, Seq, SessionLog};

use super::blobs::FileBlobs;
use super::commits::{Choice, Commits, collect, collect_of};
use super::disk::{Disk, blocking};
use super::inbox::FileInbox;
use super::place::{Place, lock};
use super::writer::{Source, Writer};
use super::{Durability, Root};

/// What the handles of a session share; the last one lets go of the lock.
#[derive(Debug)]
struct Held {
    root: Arc<Root>,
    place: Place,
    disk: Arc<Disk>,
    writer: Mutex<Writer>,
    inbox: Arc<FileInbox>,
}

#[derive(Debug)]
pub(crate) struct FileSession(Arc<Held>);

impl FileSession {
    /// Prepares a session that is not there yet.
    pub(crate) fn create(root: &Arc<Root>, place: Place) -> Self {
        root.announce(place.id);
        let disk = Disk::new(&place);
        let writer = Writer::new(place.clone(), Arc::clone(&disk));
        Self::new(root, place, disk, writer)
    }

    /// Opens a session for writing.
    pub(crate) fn open(root: &Arc<Root>, place: Place) -> Result<Self, JournalError> {
        let disk = Disk::new(&place);
        let writer = Writer::open(place.clone(), Arc::clone(&disk))?;
        Ok(Self::new(root, place, disk, writer))
    }

    fn new(root: &Arc<Root>, place: Place, disk: Arc<Disk>, writer: Writer) -> Self {
        let inbox = Arc::new(FileInbox::at(Arc::clone(root), place.clone()));
        let root = Arc::clone(root);
        Self(Arc::new(Held { root, place, disk, writer: Mutex::new(writer), inbox }))
    }
}

impl Held {
    fn append(&self, agent: AgentId, after: Seq, entries: &[Entry]) -> Result<Pos, JournalError> {
        let mut writer = lock(&self.writer);
        let was_born = writer.is_born();
        let result = writer.append(agent, after, entries);
        if !was_born && writer.end().lines > 0 {
            self.root.withdraw(self.place.id);
        }
        result
    }

    async fn read(self: &Arc<Self>, from: Pos) -> Result<Vec<(Pos, Entry)>, JournalError> {
        let (source, end) = {
            let mut writer = lock(&self.writer);
            (writer.source(from), writer.end())
        };
        match source {
            Source::Loaded(entries) => Ok(entries),
            Source::Log(_) if end.lines == 0 => Ok(Vec::new()),
            Source::Log(mark) => {
                let held = Arc::clone(self);
                let choice = Choice { from, ..Choice::default() };
                blocking(move || collect(&mut Commits::open(&held.place, choice)?.after(mark)?))
                    .await
            }
        }
    }

    async fn read_of(self: &Arc<Self>, agent: AgentId) -> Result<Vec<(Pos, Entry)>, JournalError> {
        let source = lock(&self.writer).source_of(agent);
        match source {
            Source::Loaded(entries) => Ok(entries),
            Source::Log(stretches) => {
                let held = Arc::clone(self);
                blocking(move || collect_of(agent, &held.place, &stretches)).await
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if lock(&self.writer).end().lines == 0 {
            self.root.withdraw(self.place.id);
            self.inbox.discard();
        }
    }
}

#[async_trait]
impl SessionLog for FileSession {
    fn journal(&self, agent: AgentId) -> Arc<dyn Journal> {
        Arc::new(FileJournal { agent, held: Arc::clone(&self.0) })
    }

    async fn read(&self, from: Pos) -> Result<Vec<(Pos, Entry)>, JournalError> {
        self.0.read(from).await
    }

    fn tip(&self) -> (Pos, Option<String>) {
        let end = lock(&self.0.writer).end();
        (end.pos, (end.lines > 0).then(|| end.hash.to_string()))
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::clone(&self.0.inbox) as Arc<dyn Inbox>
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(FileBlobs::new(
            self.0.place.clone(),
            Arc::clone(&self.0.disk),
            self.0.root.durability,
        ))
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.0.place.folder())
    }

    async fn sync(&self) -> Result<(), JournalError> {
        self.0.disk.sync().await
    }
}

/// One agent's log in the file of its session.
#[derive(Debug)]
struct FileJournal {
    agent: AgentId,
    held: Arc<Held>,
}

#[async_trait]
impl Journal for FileJournal {
    async fn append(&self, after: Seq, entries: &[Entry]) -> Result<Pos, JournalError> {
        // A write into the page cache takes less than handing it to a thread would.
        let pos = self.held.append(self.agent, after, entries)?;
        match self.held.root.durability {
            Durability::Process => self.held.disk.sync_later(),
            Durability::Power => self.held.disk.sync().await?,
        }
        Ok(pos)
    }

    async fn read(&self) -> Result<Vec<(Pos, Entry)>, JournalError> {
        self.held.read_of(self.agent).await
    }
}
