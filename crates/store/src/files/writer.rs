//! The one writer of a session: it puts the commits of all agents in order.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use uuid::Uuid;

use bowline_agent::entry::Entry;
use bowline_agent::id::{AgentId, EntryId};
use bowline_agent::journal::{JournalError, Pos, Seq};

use super::commits::{Choice, Commit, Commits, Mark, Stretch};
use super::disk::Disk;
use super::line;
use super::lock::Lock;
use super::place::{Place, failed, make_folder, open_to_append, write_once};

/// How far apart the marks are, in bytes: as much is read in vain at most to read from a position.
const STRIDE: u64 = 64 * 1024;

/// A buffer that one commit made larger than this is not kept.
const BUFFER: usize = 1024 * 1024;

/// What the writer knows of a log. It grows by a few bytes for an entry, not by the entry.
#[derive(Debug)]
pub(crate) struct Writer {
    place: Place,
    disk: Arc<Disk>,
    /// Held from the first commit, or the opening, on.
    lock: Option<Lock>,
    end: Mark,
    /// Whether bytes of a failed write may be behind the end.
    is_torn: bool,
    agents: HashMap<AgentId, Own>,
    ids: Ids,
    marks: Vec<Mark>,
    /// What opening has read, until somebody asks for it or the log goes on.
    loaded: Vec<(Pos, Entry)>,
    buffer: Vec<u8>,
}

/// What is known of one agent's log.
#[derive(Debug, Default)]
struct Own {
    entries: u64,
    stretches: Vec<Stretch>,
}

impl Own {
    /// Takes note of an entry of the commit that begins at a mark.
    fn note(&mut self, commit: Mark) {
        self.entries += 1;
        match self.stretches.last_mut() {
            // It is not the first one of its commit.
            Some(last) if last.start.lines + last.lines > commit.lines => {}
            Some(last) if last.start.lines + last.lines == commit.lines => last.lines += 1,
            Some(_) | None => self.stretches.push(Stretch { start: commit, lines: 1 }),
        }
    }
}

/// Where to read what is asked for: what opening has read already, or a place in the log.
pub(crate) enum Source<T> {
    Loaded(Vec<(Pos, Entry)>),
    Log(T),
}

impl Writer {
    /// Makes the writer of a session that has no commit yet.
    pub(crate) fn new(place: Place, disk: Arc<Disk>) -> Self {
        Self {
            place,
            disk,
            lock: None,
            end: Mark::default(),
            is_torn: false,
            agents: HashMap::new(),
            ids: Ids::default(),
            marks: Vec::new(),
            loaded: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Takes up a session: checks all of its log and cuts off a commit that never happened.
    pub(crate) fn open(place: Place, disk: Arc<Disk>) -> Result<Self, JournalError> {
        if !place.exists()? {
            return Err(place.missing());
        }
        let lock = Lock::take(&place)?;
        let mut commits = Commits::open(&place, Choice::default())?;
        let mut writer = Self::new(place, disk);
        while let Some(commit) = commits.next().transpose()? {
            let Commit { pos, entries, .. } = commit;
            writer.note(&entries, commits.mark())?;
            writer.loaded.extend((pos.0..).map(Pos).zip(entries));
        }
        if writer.end == Mark::default() {
            return Err(writer.place.missing());
        }
        let path = writer.place.log();
        let file = open_to_append(&path)?;
        if commits.is_torn() {
            file.set_len(writer.end.offset).map_err(failed("repair the last line of", &path))?;
        }
        writer.disk.set_file(file);
        writer.disk.wrote_line();
        writer.lock = Some(lock);
        Ok(writer)
    }

    pub(crate) fn end(&self) -> Mark {
        self.end
    }

    /// Tells whether the session has a commit.
    pub(crate) fn is_born(&self) -> bool {
        self.lock.is_some()
    }

    /// Appends one commit; see [`Journal::append`](bowline_agent::journal::Journal::append).
    pub(crate) fn append(
        &mut self,
        agent: AgentId,
        after: Seq,
        entries: &[Entry],
    ) -> Result<Pos, JournalError> {
        self.disk.check()?;
        if let Some(pos) = self.find(entries)? {
            return Ok(pos);
        }
        if self.agents.get(&agent).map_or(0, |own| own.entries) != after.0 {
            return Err(JournalError::Fenced(agent));
        }
        let pos = self.end.pos;
        if entries.is_empty() {
            return Ok(pos);
        }
        if let Some(stranger) = entries.iter().find(|entry| entry.agent != agent) {
            let what = format!("entry {} is not of this agent", stranger.id);
            let doing = format!("append to the log of agent {agent}");
            return Err(JournalError::io(doing, io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let path = self.place.log();
        let hash = line::encode(&mut self.buffer, self.end.hash, pos, entries)
            .map_err(|error| failed("encode a commit to", &path)(error.into()))?;
        if self.lock.is_none() {
            self.bear(agent)?;
        }
        self.write(agent)?;
        let end = Mark {
            offset: self.end.offset + self.buffer.len() as u64,
            lines: self.end.lines + 1,
            pos: Pos(pos.0 + entries.len() as u64),
            hash,
        };
        if self.buffer.capacity() > BUFFER {
            self.buffer = Vec::new();
        }
        self.loaded = Vec::new();
        self.disk.wrote_line();
        self.count(entries, end);
        Ok(pos)
    }

    /// Returns where to read entries from a position on.
    pub(crate) fn source(&mut self, from: Pos) -> Source<Mark> {
        if from == Pos(0) && self.loaded.len() as u64 == self.end.pos.0 {
            return Source::Loaded(std::mem::take(&mut self.loaded));
        }
        let behind = self.marks.partition_point(|mark| mark.pos <= from);
        let mark = behind.checked_sub(1).and_then(|index| self.marks.get(index));
        Source::Log(mark.copied().unwrap_or_default())
    }

    /// Returns where to read the entries of an agent.
    pub(crate) fn source_of(&mut self, agent: AgentId) -> Source<Vec<Stretch>> {
        let Some(own) = self.agents.get(&agent) else { return Source::Loaded(Vec::new()) };
        if !self.loaded.iter().any(|(_, entry)| entry.agent == agent) {
            return Source::Log(own.stretches.clone());
        }
        let loaded = std::mem::take(&mut self.loaded);
        let (its, others) = loaded.into_iter().partition(|(_, entry)| entry.agent == agent);
        self.loaded = others;
        Source::Loaded(its)
    }

    /// Makes the files of a session, for its first commit.
    fn bear(&mut self, agent: AgentId) -> Result<(), JournalError> {
        make_folder(&self.place.day)?;
        let lock = Lock::take(&self.place)?;
        if self.disk.file().is_none() {
            let path = self.place.log();
            let file = open_to_append(&path)?;
            // A file without a whole line is what a crash left of a first commit.
            if Commits::open(&self.place, Choice::default())?.next().is_some() {
                return Err(JournalError::Fenced(agent));
            }
            file.set_len(0).map_err(failed("repair", &path))?;
            self.disk.set_file(file);
        }
        self.lock = Some(lock);
        Ok(())
    }

    /// Writes the line in the buffer, whole or not at all.
    fn write(&mut self, agent: AgentId) -> Result<(), JournalError> {
        let path = self.place.log();
        let Some(file) = self.disk.file() else { return Err(self.place.missing()) };
        if self.is_torn {
            file.set_len(self.end.offset).map_err(failed("cut back", &path))?;
            self.is_torn = false;
        }
        let metadata = file.metadata().map_err(failed("look at", &path))?;
        if metadata.len() > self.end.offset {
            // Somebody wrote without the lock.
            return Err(JournalError::Fenced(agent));
        }
        if metadata.nlink() == 0 || metadata.len() < self.end.offset {
            let what = "it was removed or cut while it was written to".into();
            return Err(JournalError::Corrupt { place: path.display().to_string(), what });
        }
        let Err(error) = write_once(file, &self.buffer) else { return Ok(()) };
        self.is_torn = file.set_len(self.end.offset).is_err();
        Err(failed("write to", &path)(error))
    }

    /// Takes note of a commit that was read.
    fn note(&mut self, entries: &[Entry], end: Mark) -> Result<(), JournalError> {
        for entry in entries {
            if let Some(why) = entry.bars_writing() {
                return Err(JournalError::ReadOnly { session: self.place.id, why });
            }
        }
        self.count(entries, end);
        Ok(())
    }

    fn count(&mut self, entries: &[Entry], end: Mark) {
        let start = std::mem::replace(&mut self.end, end);
        let last = self.marks.last().map_or(0, |mark| mark.offset);
        if start.offset >= last + STRIDE {
            self.marks.push(start);
        }
        for entry in entries {
            self.agents.entry(entry.agent).or_default().note(start);
            self.ids.insert(entry.id);
        }
    }

    /// Returns where these entries are, if they are there already.
    fn find(&self, entries: &[Entry]) -> Result<Option<Pos>, JournalError> {
        let Some(first) = entries.first().filter(|first| self.ids.may_hold(first.id)) else {
            return Ok(None);
        };
        let mut found: Vec<(Pos, EntryId)> = Vec::new();
        for commit in Commits::open(&self.place, Choice::of(first.agent))? {
            let commit = commit?;
            for (pos, entry) in (commit.pos.0..).map(Pos).zip(&commit.entries) {
                let is_next = !found.is_empty() && entry.agent == first.agent;
                if is_next || entry.id == first.id {
                    found.push((pos, entry.id));
                }
            }
            if found.len() >= entries.len() {
                break;
            }
        }
        // Entries of which only a part is there are no repetition.
        let is_there = entries.len() <= found.len()
            && entries.iter().zip(&found).all(|(entry, (_, id))| entry.id == *id);
        Ok(found.first().filter(|_| is_there).map(|(pos, _)| *pos))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The first commit failed: nothing of the session is left.
        if self.lock.is_some() && self.end.lines == 0 && self.disk.file().is_some() {
            let _ = fs::remove_file(self.place.log());
        }
    }
}

/// Tells whether an id was seen before: surely not, or maybe.
///
/// A repeated append must be recognised however long ago the first one was, and whole ids would
/// take a long log's worth of memory. A quarter of each id tells well enough whether to look into
/// the log; a look in vain happens once in some hundred thousand appends to a log of 10 000.
#[derive(Debug, Default)]
struct Ids(HashSet<u32>);

impl Ids {
    fn insert(&mut self, id: EntryId) {
        self.0.insert(Self::quarter(id));
    }

    fn may_hold(&self, id: EntryId) -> bool {
        self.0.contains(&Self::quarter(id))
    }

    /// The end of an id: chance in all versions of ids, where the beginning may be the time.
    fn quarter(id: EntryId) -> u32 {
        let bits = Uuid::from(id).as_u128();
        u32::try_from(bits & u128::from(u32::MAX)).unwrap_or_default()
    }
}
