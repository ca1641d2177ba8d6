//! The inbox of a session: a file that anybody may append to and only the writer shortens.
//!
//! Whoever changes it holds a short lock on the file itself. It is shortened by renaming a new file
//! over it, so that a crash loses nothing, or removed when nothing is left; who waited for the lock
//! of the old file notices and takes the new one.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use serde::Deserialize;

use bowline_agent::id::{OpId, SessionId};
use bowline_agent::journal::{Inbox, JournalError};
use bowline_agent::op::Op;

use super::blobs::write_whole;
use super::commits::place as line_of;
use super::disk::blocking;
use super::lock::open_locked;
use super::place::{Place, failed, is_absent, lock, make_folder, sync_folder, write_once};
use super::watch;
use super::{Durability, Root};

#[derive(Debug)]
pub(crate) struct FileInbox {
    root: Arc<Root>,
    id: SessionId,
    /// Known once the session was seen.
    place: OnceLock<Place>,
    /// What the file was when `take` read it last; nothing if that file is gone.
    seen: Arc<Mutex<Option<Sight>>>,
}

/// Tells one state of an inbox from the next. It grows, or becomes another file; the time tells of
/// a torn line that a whole one of its length replaced, and of what is done by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sight {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileInbox {
    /// Makes the inbox of a session that may be anywhere, or nowhere.
    pub(crate) fn new(root: Arc<Root>, id: SessionId) -> Self {
        Self { root, id, place: OnceLock::new(), seen: Arc::default() }
    }

    /// Makes the inbox of a session that is held by its writer.
    pub(crate) fn at(root: Arc<Root>, place: Place) -> Self {
        let inbox = Self::new(root, place.id);
        // It is new: nobody has set the place.
        let _ = inbox.place.set(place);
        inbox
    }

    /// Removes what was posted to a session that never came to be.
    pub(crate) fn discard(&self) {
        // A session that could not be created because it is there keeps its inbox.
        if let Some(place) = self.place.get()
            && place.exists().is_ok_and(|exists| !exists)
        {
            let _ = fs::remove_file(place.inbox());
        }
    }

    fn place(&self) -> Result<Option<&Place>, JournalError> {
        if let Some(place) = self.place.get() {
            return Ok(Some(place));
        }
        let found = self.root.find(self.id)?;
        Ok(found.map(|place| self.place.get_or_init(|| place)))
    }
}

#[async_trait]
impl Inbox for FileInbox {
    async fn post(&self, op: Op) -> Result<(), JournalError> {
        let missing = || JournalError::NotFound(format!("session {}", self.id));
        let place = self.place()?.ok_or_else(missing)?.clone();
        let root = Arc::clone(&self.root);
        blocking(move || post(&root, &place, &op)).await
    }

    async fn take(&self) -> Result<Vec<Op>, JournalError> {
        let Some(place) = self.place()? else { return Ok(Vec::new()) };
        let path = place.inbox();
        let (bytes, sight) = match File::open(&path) {
            Ok(file) => read(&file).map_err(failed("read", &path))?,
            Err(error) if is_absent(&error) => {
                *lock(&self.seen) = None;
                return Ok(Vec::new());
            }
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let ops = parse(&path, &bytes)?;
        *lock(&self.seen) = Some(sight);
        Ok(ops)
    }

    async fn forget(&self, ops: &[OpId]) -> Result<(), JournalError> {
        let Some(place) = self.place()? else { return Ok(()) };
        if ops.is_empty() {
            return Ok(());
        }
        let (place, ops, seen) = (place.clone(), ops.to_vec(), Arc::clone(&self.seen));
        let durability = self.root.durability;
        blocking(move || {
            // What we did ourselves is no news; what was posted since `take` still is. The file that
            // was seen is gone either way, and another one may come to look like it.
            let Some((before, after)) = forget(&place, &ops, durability)? else { return Ok(()) };
            let mut seen = lock(&seen);
            *seen = if *seen == Some(before) { after } else { None };
            Ok(())
        })
        .await
    }

    async fn changed(&self) {
        let is_changed = || {
            let Ok(Some(place)) = self.place() else { return false };
            let now = fs::metadata(place.inbox()).ok().map(|metadata| sight(&metadata));
            now != *lock(&self.seen)
        };
        let day = match self.place() {
            Ok(Some(place)) => place.day.clone(),
            Ok(None) | Err(_) => Place::new(&self.root.path, self.id).day,
        };
        watch::until(&self.root.watch, &day, is_changed).await;
    }
}

fn post(root: &Root, place: &Place, op: &Op) -> Result<(), JournalError> {
    let is_there = || Ok::<_, JournalError>(root.is_announced(place.id) || place.exists()?);
    if !is_there()? {
        return Err(place.missing());
    }
    make_folder(&place.day)?;
    let path = place.inbox();
    let file = open_locked(&path)?;
    // It may have been deleted before we had the lock; then the inbox is not left behind.
    if !is_there()? {
        let _ = fs::remove_file(&path);
        return Err(place.missing());
    }
    let (bytes, sight) = read(&file).map_err(failed("read", &path))?;
    let whole = whole_lines(&bytes);
    if ids(whole).any(|id| id == Some(op.id)) {
        return Ok(());
    }
    let length = whole.len() as u64;
    if length < sight.length {
        // Its poster died before it was told that anything was kept.
        file.set_len(length).map_err(failed("repair", &path))?;
    }
    let mut line = serde_json::to_vec(op)
        .map_err(|error| failed("encode an operation for", &path)(error.into()))?;
    line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    line.push(b'\n');
    if let Err(error) = write_once(&file, &line) {
        // If this fails too, the next poster does it.
        let _ = file.set_len(length);
        return Err(failed("write to", &path)(error));
    }
    match root.durability {
        Durability::Process => Ok(()),
        Durability::Power => {
            file.sync_data().map_err(failed("sync", &path))?;
            // The name of a file that was not empty is safe already.
            if length == 0 {
                sync_folder(&place.day).map_err(failed("sync", &path))
            } else {
                Ok(())
            }
        }
    }
}

/// Returns what the inbox was and what it became, if it changed.
fn forget(
    place: &Place,
    ops: &[OpId],
    durability: Durability,
) -> Result<Option<(Sight, Option<Sight>)>, JournalError> {
    let path = place.inbox();
    if !path.try_exists().map_err(failed("look at", &path))? {
        return Ok(None);
    }
    let file = open_locked(&path)?;
    let (bytes, before) = read(&file).map_err(failed("read", &path))?;
    let whole = whole_lines(&bytes);
    let lines = whole.split_inclusive(|byte| *byte == b'\n').zip(ids(whole));
    let left: Vec<u8> = lines
        .filter(|(_, id)| id.is_none_or(|id| !ops.contains(&id)))
        .flat_map(|(line, _)| line)
        .copied()
        .collect();
    if left.len() == whole.len() {
        return Ok(None);
    }
    if left.is_empty() {
        fs::remove_file(&path).map_err(failed("remove", &path))?;
        return Ok(Some((before, None)));
    }
    let file = write_whole(&path, &left, durability)?;
    let metadata = file.metadata().map_err(failed("look at", &path))?;
    // Whoever finds the new file may post to it at once: that is not what we left.
    let after = Sight { length: left.len() as u64, ..sight(&metadata) };
    Ok(Some((before, Some(after))))
}

fn read(mut file: &File) -> io::Result<(Vec<u8>, Sight)> {
    let metadata = file.metadata()?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.read_to_end(&mut bytes)?;
    // It may have grown since we asked.
    let sight = Sight { length: bytes.len() as u64, ..sight(&metadata) };
    Ok((bytes, sight))
}

fn sight(metadata: &fs::Metadata) -> Sight {
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    Sight { inode: metadata.ino(), length: metadata.len(), modified }
}

/// Leaves out a last line without its newline.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

/// Reads the id of each line, where there is one.
fn ids(whole: &[u8]) -> impl Iterator<Item = Option<OpId>> {
    #[derive(Deserialize)]
    struct Named {
        id: OpId,
    }
    whole
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice::<Named>(line).ok().map(|named| named.id))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Op>, JournalError> {
    let mut ops = Vec::new();
    for (number, line) in (1..).zip(whole_lines(bytes).split_inclusive(|byte| *byte == b'\n')) {
        match serde_json::from_slice(line) {
            Ok(op) => ops.push(op),
            // An operation of a later version waits for one.
            Err(_) if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() => {}
            Err(error) => {
                let what = format!("it is no operation: {error}");
                return Err(JournalError::Corrupt { place: line_of(path, number), what });
            }
        }
    }
    Ok(ops)
}
