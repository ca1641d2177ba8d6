//! A session in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_agent::entry::Entry;
use bowline_agent::id::SessionId;
use bowline_agent::journal::{JournalError, Pos, Seq, SessionLog, Store as _};
use bowline_store::conformance::{entry, session};
use bowline_store::{Durability, Files};
use tempfile::TempDir;

pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) files: Files,
    pub(crate) id: SessionId,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().join("sessions"), Durability::Process);
        Self { folder, files, id: session() }
    }

    /// Makes a session with a commit of the root agent for each number, of that many entries.
    pub(crate) async fn with(sizes: &[usize]) -> (Self, Vec<Entry>) {
        let fixture = Self::new();
        let log = fixture.files.create(fixture.id);
        let mut all = Vec::new();
        for size in sizes {
            let commit: Vec<Entry> =
                (0..*size).map(|n| entry(fixture.id.root(), &format!("entry {n}"))).collect();
            append(&*log, fixture.id, all.len(), &commit).await.unwrap();
            all.extend(commit);
        }
        (fixture, all)
    }

    /// The store as another process would open it.
    pub(crate) fn again(&self) -> Files {
        Files::new(self.files.root(), Durability::Process)
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn SessionLog>, JournalError> {
        self.again().open(self.id).await
    }

    /// Opens the session, reads all of it and lets go of it.
    pub(crate) async fn reread(&self) -> Result<Vec<Entry>, JournalError> {
        let read = self.open().await?.read(Pos(0)).await?;
        assert!(read.iter().map(|(pos, _)| *pos).eq((0..read.len() as u64).map(Pos)));
        Ok(read.into_iter().map(|(_, entry)| entry).collect())
    }

    pub(crate) fn day(&self) -> PathBuf {
        let mut days = fs::read_dir(self.files.root()).unwrap();
        days.next().unwrap().unwrap().path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.day().join(format!("{}.jsonl", self.id))
    }
}

pub(crate) async fn append(
    log: &dyn SessionLog,
    id: SessionId,
    after: usize,
    entries: &[Entry],
) -> Result<Pos, JournalError> {
    log.journal(id.root()).append(Seq(after as u64), entries).await
}

/// The names in a folder and below, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, prefix: &str, names: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{name}/"), names);
            } else {
                names.push(name);
            }
        }
    }
    let mut names = Vec::new();
    walk(folder, "", &mut names);
    names.sort();
    names
}
