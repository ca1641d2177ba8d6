//! Reading a log: commit by commit, checked, without holding all of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde::de::{DeserializeOwned, IgnoredAny};

use bowline_agent::entry::Entry;
use bowline_agent::id::AgentId;
use bowline_agent::journal::{JournalError, Pos};

use super::line::{self, Hash};
use super::place::{Place, failed, is_absent};

const BLOCK: usize = 128 * 1024;

/// As [`BLOCK`], where a little is read here and a little there.
const SMALL_BLOCK: usize = 8 * 1024;

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// Which line it is, from 1.
    pub line: u64,
    /// The position of its first entry; the others follow it.
    pub pos: Pos,
    /// What was committed.
    pub entries: Vec<Entry>,
}

/// The commits of a session, read one at a time and checked: whole lines, gapless positions,
/// fitting hashes.
///
/// It needs no lock and may run beside the session's writer: it ends where the log ended when it
/// got there. A last line without a newline is no commit, of which
/// [`verify`](super::Files::verify) would speak. After an error it yields nothing more.
#[derive(Debug)]
pub struct Commits {
    reader: BufReader<File>,
    path: PathBuf,
    /// After the last line read.
    mark: Mark,
    line: Vec<u8>,
    choice: Choice,
    end: Option<End>,
}

/// A place between two lines of a log, from which it can be read and checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The bytes before it.
    pub(crate) offset: u64,
    /// The lines before it.
    pub(crate) lines: u64,
    /// The entries before it.
    pub(crate) pos: Pos,
    /// The hash of the line before it.
    pub(crate) hash: Hash,
}

/// Neighbouring lines of a log that are all of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The place before its first line.
    pub(crate) start: Mark,
    /// How many lines it has.
    pub(crate) lines: u64,
}

/// What is asked of a log. All lines are checked, but only the chosen ones are taken apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// The first position of interest.
    pub(crate) from: Pos,
    /// The only agent of interest, as its id is written.
    pub(crate) agent: Option<String>,
}

impl Choice {
    pub(crate) fn of(agent: AgentId) -> Self {
        Self { agent: Some(agent.to_string()), ..Self::default() }
    }
}

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Torn,
    Failed,
}

impl Commits {
    pub(crate) fn open(place: &Place, choice: Choice) -> Result<Self, JournalError> {
        Self::open_by(BLOCK, place, choice)
    }

    /// Opens a log of which so many bytes are read at once.
    fn open_by(block: usize, place: &Place, choice: Choice) -> Result<Self, JournalError> {
        let path = place.log();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Err(place.missing()),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        Ok(Self {
            reader: BufReader::with_capacity(block, file),
            path,
            mark: Mark::default(),
            line: Vec::new(),
            choice,
            end: None,
        })
    }

    /// Goes on from a mark instead of from the beginning.
    pub(crate) fn after(mut self, mark: Mark) -> Result<Self, JournalError> {
        self.reader.seek(SeekFrom::Start(mark.offset)).map_err(failed("read", &self.path))?;
        self.mark = mark;
        Ok(self)
    }

    /// Returns the hash of the last commit read, which covers all before it; `None` before the
    /// first.
    pub fn hash(&self) -> Option<String> {
        (self.mark.lines > 0).then(|| self.mark.hash.to_string())
    }

    /// Returns the place after the last commit read.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Tells whether the log ended in a line without a newline.
    pub(crate) fn is_torn(&self) -> bool {
        self.end == Some(End::Torn)
    }

    /// Returns the next commit that was asked for.
    fn advance(&mut self) -> Result<Option<Commit>, JournalError> {
        while self.read_line()? {
            let before = self.mark;
            let Some(entries) = self.take_apart()? else { continue };
            return Ok(Some(Commit { line: self.mark.lines, pos: before.pos, entries }));
        }
        Ok(None)
    }

    /// Reads the next line without its newline, or finds the end.
    fn read_line(&mut self) -> Result<bool, JournalError> {
        self.line.clear();
        let read = self.reader.read_until(b'\n', &mut self.line);
        let read = read.map_err(failed("read", &self.path))?;
        if self.line.pop_if(|byte| *byte == b'\n').is_none() {
            self.end = Some(if read == 0 { End::Whole } else { End::Torn });
            return Ok(false);
        }
        Ok(true)
    }

    fn take_apart(&mut self) -> Result<Option<Vec<Entry>>, JournalError> {
        let is_wanted = self.choice.agent.as_ref().is_none_or(|agent| {
            // Ids are plain ASCII: a line that does not parse as text fails the check below.
            str::from_utf8(&self.line).is_ok_and(|line| line.contains(agent.as_str()))
        });
        if is_wanted && self.mark.pos >= self.choice.from {
            return self.check::<Entry>().map(Some);
        }
        let before = self.mark;
        self.check::<IgnoredAny>()?;
        if is_wanted && self.mark.pos > self.choice.from {
            self.mark = before;
            return self.check::<Entry>().map(Some);
        }
        Ok(None)
    }

    /// Takes the line apart and moves the mark behind it.
    fn check<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, JournalError> {
        let Mark { offset, lines, pos, hash } = self.mark;
        let (entries, hash) = line::decode::<T>(&self.line, hash, pos)
            .map_err(|what| JournalError::Corrupt { place: place(&self.path, lines + 1), what })?;
        self.mark = Mark {
            offset: offset + self.line.len() as u64 + 1,
            lines: lines + 1,
            pos: Pos(pos.0 + entries.len() as u64),
            hash,
        };
        Ok(entries)
    }
}

impl Iterator for Commits {
    type Item = Result<Commit, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let next = self.advance().transpose();
        if let Some(Err(_)) = &next {
            self.end = Some(End::Failed);
        }
        next
    }
}

/// Returns the entries of commits with their positions, those that were not asked for left out.
pub(crate) fn collect(commits: &mut Commits) -> Result<Vec<(Pos, Entry)>, JournalError> {
    let from = commits.choice.from;
    let mut found = Vec::new();
    for commit in commits {
        let Commit { pos, entries, .. } = commit?;
        let entries = (pos.0..).map(Pos).zip(entries);
        found.extend(entries.filter(|(pos, _)| *pos >= from));
    }
    Ok(found)
}

/// Returns the entries of an agent with their positions, however long the log is beside them.
pub(crate) fn collect_of(
    agent: AgentId,
    place: &Place,
    stretches: &[Stretch],
) -> Result<Vec<(Pos, Entry)>, JournalError> {
    let block = if stretches.len() > 1 { SMALL_BLOCK } else { BLOCK };
    let mut commits = Commits::open_by(block, place, Choice::default())?;
    let mut found = Vec::new();
    for stretch in stretches {
        commits = commits.after(stretch.start)?;
        for _ in 0..stretch.lines {
            let Some(Commit { pos, entries, .. }) = commits.next().transpose()? else { break };
            let entries = (pos.0..).map(Pos).zip(entries);
            found.extend(entries.filter(|(_, entry)| entry.agent == agent));
        }
    }
    Ok(found)
}

/// Names a line of a file.
pub(crate) fn place(path: &std::path::Path, line: u64) -> String {
    format!("{} line {line}", path.display())
}
