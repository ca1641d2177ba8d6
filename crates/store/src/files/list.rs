//! Listing sessions by the beginning and the end of their logs.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use jiff::Timestamp;

use bowline_agent::entry::{Custom, Ending, Entry, EntryKind, Origin, RunStarted, Via};
use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::journal::{JournalError, Pos};
use bowline_llm::{Part, RawJson, UserMessage};

use super::Files;
use super::commits::{Choice, Commits};
use super::line;
use super::place::{Place, failed};

/// How far into a log we look for the first thing that was said, in bytes.
const HEAD: u64 = 512 * 1024;

/// How much of the end of a log we look at first, in bytes; more only if it does not tell whether a
/// run is open.
const TAIL: u64 = 32 * 1024;

/// What the lines that say something of a run hold.
const TELLING: [&str; 3] = [STARTED, r#""kind":"run_ended""#, r#""kind":"assistant""#];

/// What the line holds that begins a run.
const STARTED: &str = r#""kind":"run_started""#;

/// What the line holds that records something.
const RECORDED: &str = r#""kind":"custom""#;

/// The most bytes of a preview.
const PREVIEW: usize = 200;

/// What a list of sessions shows of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The session.
    pub id: SessionId,
    /// When its first entry was written.
    pub created: Timestamp,
    /// When its last entry was written.
    pub updated: Timestamp,
    /// The directory in which it works.
    pub cwd: Option<String>,
    /// The name of its root agent.
    pub name: Option<String>,
    /// The name of the configuration that its root agent was made from.
    pub config: Option<String>,
    /// Where it was forked from.
    pub from: Option<Origin>,
    /// The beginning of its first prompt, on one line, at most 200 bytes. Of a prompt in several
    /// parts it is the last text, as what a program puts before the words of a person comes first.
    pub preview: Option<String>,
    /// The model it used last, as `provider/model`.
    pub model: Option<String>,
    /// What has become of its last run.
    pub run: RunState,
    /// How many entries it has.
    pub entries: u64,
    /// The length of its log.
    pub bytes: u64,
}

/// What has become of the last run of a session's root agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// There was none.
    None,
    /// It has not ended: it is going on now, or goes on when the session is opened.
    Open,
    /// It is over.
    Ended(Ending),
}

impl Files {
    /// Lists sessions, the one written to last first, those that work in `cwd` or all of them.
    ///
    /// Of each log only the beginning and the end are read, when its turn comes. A session that
    /// cannot be read is listed with the reason and does not hide the others.
    ///
    /// # Errors
    /// [`JournalError::Io`] if the folder could not be read; [`JournalError::Corrupt`] or
    /// [`JournalError::Io`] of a session.
    pub fn list(
        &self,
        cwd: Option<&str>,
    ) -> Result<impl Iterator<Item = (SessionId, Result<Summary, JournalError>)>, JournalError>
    {
        let all = self.places()?.into_iter().map(|place| (place.id, summarize(&place)));
        Ok(all.filter(move |(_, summary)| match summary {
            Ok(summary) => cwd.is_none_or(|cwd| summary.cwd.as_deref() == Some(cwd)),
            // It was deleted, or has no commit yet.
            Err(JournalError::NotFound(_)) => false,
            Err(_) => true,
        }))
    }

    /// Returns the session written to last of those that work in `cwd`.
    ///
    /// # Errors
    /// [`JournalError::Io`] if the folder could not be read.
    pub fn newest(&self, cwd: &str) -> Result<Option<Summary>, JournalError> {
        Ok(self.list(Some(cwd))?.find_map(|(_, summary)| summary.ok()))
    }

    /// Returns what a list shows of one session.
    ///
    /// # Errors
    /// [`JournalError::NotFound`], [`JournalError::Corrupt`] or [`JournalError::Io`].
    pub fn summary(&self, id: SessionId) -> Result<Summary, JournalError> {
        summarize(&self.place(id)?)
    }

    /// Returns how the latest run of a session's root agent began; `None` if there was none. The log
    /// is searched from its end.
    ///
    /// # Errors
    /// [`JournalError::NotFound`], [`JournalError::Corrupt`] or [`JournalError::Io`].
    pub fn latest_start(&self, id: SessionId) -> Result<Option<RunStarted>, JournalError> {
        let place = self.place(id)?;
        let started = |kind| match kind {
            EntryKind::RunStarted(started) => Some(started),
            _ => None,
        };
        let find = |lines: Vec<&[u8]>| latest(lines, &place, STARTED, started);
        Ok(at_the_end(&place, find, Option::is_some)?.0)
    }

    /// Returns what the embedding program has recorded last under a name, with a session's root agent;
    /// `None` if it has not. The log is searched from its end.
    ///
    /// # Errors
    /// [`JournalError::NotFound`], [`JournalError::Corrupt`] or [`JournalError::Io`].
    pub fn latest_record(
        &self,
        id: SessionId,
        name: &str,
    ) -> Result<Option<RawJson>, JournalError> {
        let place = self.place(id)?;
        let recorded = |kind| match kind {
            EntryKind::Custom(Custom { name: of, call: None, data }) if of == name => Some(data),
            _ => None,
        };
        let find = |lines: Vec<&[u8]>| latest(lines, &place, RECORDED, recorded);
        Ok(at_the_end(&place, find, Option::is_some)?.0)
    }
}

fn summarize(place: &Place) -> Result<Summary, JournalError> {
    let head = Head::read(place)?;
    let tail = Tail::read(place)?;
    let Some(created) = head.at else { return Err(place.missing()) };
    Ok(Summary {
        id: place.id,
        created,
        updated: tail.at.unwrap_or(created),
        cwd: head.cwd,
        name: head.name,
        config: head.config,
        from: head.from,
        preview: head.prompt.or(head.said),
        model: tail.model.or(head.model),
        run: tail.run.unwrap_or(RunState::None),
        entries: tail.entries,
        bytes: tail.bytes,
    })
}

/// What the beginning of a log tells.
#[derive(Debug, Default)]
struct Head {
    at: Option<Timestamp>,
    cwd: Option<String>,
    name: Option<String>,
    config: Option<String>,
    from: Option<Origin>,
    model: Option<String>,
    /// What was said first, and the first of it that was a prompt.
    said: Option<String>,
    prompt: Option<String>,
}

impl Head {
    fn read(place: &Place) -> Result<Self, JournalError> {
        let mut head = Self::default();
        let mut commits = Commits::open(place, Choice::of(place.id.root()))?;
        while let Some(commit) = commits.next().transpose()? {
            for entry in commit.entries {
                head.add(entry, place.id.root());
            }
            if head.prompt.is_some() || commits.mark().offset > HEAD {
                break;
            }
        }
        Ok(head)
    }

    fn add(&mut self, entry: Entry, root: AgentId) {
        self.at.get_or_insert(entry.at);
        if entry.agent != root {
            return;
        }
        // What else there is does not show in a list.
        if let EntryKind::Created(created) = entry.kind {
            self.name = Some(created.name);
            self.config = Some(created.config);
            self.cwd = created.cwd;
            self.from = created.from;
        } else if let EntryKind::RunStarted(started) = entry.kind {
            self.model = Some(started.model);
        } else if let EntryKind::User(said) = entry.kind {
            let preview = preview(&said.message);
            if said.via == Via::Prompt && self.prompt.is_none() {
                self.prompt.clone_from(&preview);
            }
            self.said = self.said.take().or(preview);
        }
    }
}

/// What the end of a log tells.
#[derive(Debug, Default)]
struct Tail {
    at: Option<Timestamp>,
    run: Option<RunState>,
    model: Option<String>,
    entries: u64,
    bytes: u64,
}

impl Tail {
    fn read(place: &Place) -> Result<Self, JournalError> {
        let find = |lines: Vec<&[u8]>| Self::find(lines, place);
        let (tail, bytes) = at_the_end(place, find, |tail| tail.run.is_some())?;
        Ok(Self { bytes, ..tail })
    }

    fn find(lines: Vec<&[u8]>, place: &Place) -> Result<Self, JournalError> {
        let mut tail = Self::default();
        for line in lines.into_iter().rev() {
            // A line that has this somewhere else is taken apart in vain.
            let text = String::from_utf8_lossy(line);
            let is_telling = TELLING.iter().any(|kind| text.contains(kind));
            if !is_telling && tail.at.is_some() {
                continue;
            }
            let (Pos(pos), entries) = take_apart(line, place)?;
            if tail.at.is_none() {
                tail.at = entries.last().map(|entry| entry.at);
                tail.entries = pos + entries.len() as u64;
            }
            for entry in entries.into_iter().rev().filter(|entry| entry.agent == place.id.root()) {
                tail.add(entry);
            }
            if tail.run.is_some() && tail.model.is_some() {
                break;
            }
        }
        Ok(tail)
    }

    /// Takes note of an entry, the last one first.
    fn add(&mut self, entry: Entry) {
        // What else there is does not show in a list.
        if let EntryKind::RunEnded(ended) = entry.kind {
            self.run.get_or_insert(RunState::Ended(ended.outcome));
        } else if let EntryKind::RunStarted(started) = entry.kind {
            self.run.get_or_insert(RunState::Open);
            self.model.get_or_insert(started.model);
        } else if let EntryKind::Assistant(said) = entry.kind {
            self.model.get_or_insert(said.model);
        }
    }
}

/// Returns the last thing of a kind that the root agent wrote, of those of which lines tell. Such a line
/// holds the mark.
fn latest<T>(
    lines: Vec<&[u8]>,
    place: &Place,
    mark: &str,
    pick: impl Fn(EntryKind) -> Option<T>,
) -> Result<Option<T>, JournalError> {
    let root = place.id.root();
    for line in lines.into_iter().rev() {
        if !String::from_utf8_lossy(line).contains(mark) {
            continue;
        }
        let (_, entries) = take_apart(line, place)?;
        let own = entries.into_iter().rev().filter(|entry| entry.agent == root);
        if let Some(found) = own.map(|entry| entry.kind).find_map(&pick) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Looks for something in the lines at the end of a log, in more and more of them until it is enough
/// or there are no more; returns it and the length of the log.
fn at_the_end<T>(
    place: &Place,
    find: impl Fn(Vec<&[u8]>) -> Result<T, JournalError>,
    is_enough: impl Fn(&T) -> bool,
) -> Result<(T, u64), JournalError> {
    let path = place.log();
    let file = File::open(&path).map_err(failed("open", &path))?;
    let length = file.metadata().map_err(failed("look at", &path))?.len();
    let mut size = TAIL;
    loop {
        let start = length.saturating_sub(size);
        let mut bytes = vec![0; usize::try_from(length - start).unwrap_or_default()];
        file.read_exact_at(&mut bytes, start).map_err(failed("read", &path))?;
        let found = find(lines(&bytes, start > 0))?;
        if is_enough(&found) || start == 0 {
            return Ok((found, length));
        }
        size *= 16;
    }
}

/// Cuts the end of a log into whole lines.
fn lines(bytes: &[u8], is_cut: bool) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // What follows the last newline is no commit.
    lines.pop();
    lines.split_off(usize::from(is_cut).min(lines.len()))
}

fn take_apart(line: &[u8], place: &Place) -> Result<(Pos, Vec<Entry>), JournalError> {
    line::peek(line).map_err(|what| {
        let what = format!("near its end: {what}");
        JournalError::Corrupt { place: place.log().display().to_string(), what }
    })
}

fn preview(message: &UserMessage) -> Option<String> {
    let text = message.content.iter().rev().find_map(Part::as_text)?;
    let mut preview = String::new();
    for word in text.split_whitespace() {
        if !preview.is_empty() {
            preview.push(' ');
        }
        preview.push_str(word);
        if preview.len() > PREVIEW {
            break;
        }
    }
    preview.truncate(preview.floor_char_boundary(PREVIEW));
    Some(preview)
}
