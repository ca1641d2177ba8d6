//! One note: its name, its text and its file.

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Serialize;

use bowline_agent::Redaction;
use bowline_agent::crew::Failure;

use super::TOLD_BYTES;

/// How many bytes a note says of each thing: five of them fit into what is told.
const PART: usize = 6 * 1024;

/// How many characters the name of an agent has in the name of a file.
const AGENT: usize = 60;

/// How the time is written in the name of a file.
const TIME: &str = "%Y%m%d-%H%M%S";

const TASK: &str = "## Task";
const APPROACH: &str = "## What was done";
const REASON: &str = "## Why it failed";
const FILES: &str = "## Files changed";
const CAVEATS: &str = "## What to try";

/// A note on a task that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Its name: that of the file without `.md`.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// When it was written.
    pub time: Timestamp,
    /// Who failed, if an agent wrote it.
    pub agent: Option<String>,
    /// The task. Of a note that does not have it as agents write it, the whole text.
    pub task: String,
    /// Why it failed, if an agent wrote it.
    pub reason: Option<String>,
    /// All of it.
    pub text: String,
}

/// A file that is no note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub what: String,
}

impl Note {
    pub(super) fn read(file: &Path) -> Result<Self, Refused> {
        let text = text_of(file).map_err(|what| Refused { file: file.to_owned(), what })?;
        let (task, reason) = parts(&text);
        Ok(Self {
            name: name_of(file).unwrap_or_default().to_owned(),
            file: file.to_owned(),
            time: time_of(file),
            agent: label_of(file).map(|label| label.agent),
            task,
            reason,
            text,
        })
    }

    /// Returns what there is to learn from it: twice the same is told once.
    pub(super) fn lesson(&self) -> (String, Option<String>) {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        (words(&self.task), self.reason.as_deref().map(words))
    }
}

/// What the name of a note says that an agent wrote: `coder-fix-1-20261122-090003-1a2b3c4d`.
#[derive(Debug)]
pub(super) struct Label {
    agent: String,
    at: Timestamp,
    /// The end of the agent's id: its beginning is a time for some.
    id: String,
}

impl Label {
    pub(super) fn new(agent: &str, failure: &Failure) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let agent = agent.chars().take(AGENT).map(|c| if is_plain(c) { c } else { '-' });
        let id = failure.id.to_string();
        let (_, id) = id.split_at(id.len() - 8);
        Self { agent: agent.collect(), at: failure.at, id: id.to_owned() }
    }

    fn parse(name: &str) -> Option<Self> {
        let (rest, id) = name.rsplit_once('-')?;
        let is_id = id.len() == 8 && id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        let (date, _) = rest.rsplit_once('-').filter(|_| is_id)?;
        let (agent, _) = date.rsplit_once('-')?;
        let at = rest.strip_prefix(agent)?.strip_prefix('-')?;
        let at = DateTime::strptime(TIME, at).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
        Some(Self { agent: agent.to_owned(), at, id: id.to_owned() })
    }

    /// Tells whether both name the same agent, whatever the time.
    pub(super) fn is_of_agent(&self, other: &Self) -> bool {
        (&self.agent, &self.id) == (&other.agent, &other.id)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.agent, self.at.strftime(TIME), self.id)
    }
}

/// Returns the name of the note in a file, if it is named like one.
pub(super) fn name_of(file: &Path) -> Option<&str> {
    file.file_name()?.to_str()?.strip_suffix(".md").filter(|name| !name.starts_with('.'))
}

/// Reads the name of a note that an agent wrote.
pub(super) fn label_of(file: &Path) -> Option<Label> {
    Label::parse(name_of(file)?)
}

/// Returns when a note was written: as its name says, else as the system says.
pub(super) fn time_of(file: &Path) -> Timestamp {
    let changed = || -> Option<SystemTime> { file.symlink_metadata().ok()?.modified().ok() };
    let named = label_of(file).map(|label| label.at);
    named.or_else(|| changed()?.try_into().ok()).unwrap_or_default()
}

/// Writes what is remembered of a failure.
pub(super) fn text(failure: &Failure, redaction: &Redaction) -> String {
    // What is cut off must not leave half a secret.
    let said = |text: &str| clip(redaction.apply(text).trim());
    let agent = said(&failure.agent).replace(char::is_control, " ");
    let time = failure.at.strftime("%Y-%m-%dT%H:%M:%SZ");
    let files: Vec<_> = failure.files_modified.iter().map(|file| format!("- {file}")).collect();
    let parts = [
        (TASK, said(&failure.task)),
        (APPROACH, said(failure.approach.as_deref().unwrap_or_default())),
        (REASON, said(&failure.summary)),
        (FILES, said(&files.join("\n"))),
        (CAVEATS, said(failure.caveats.as_deref().unwrap_or_default())),
    ];
    let mut text = format!("# {agent} failed\n\nTime: {time}\n");
    for (title, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
        // To write to a string does not fail.
        let _ = write!(text, "\n{title}\n\n{part}\n");
    }
    text
}

/// Cuts off what is too long, and says so.
fn clip(text: &str) -> String {
    match text.get(..text.floor_char_boundary(PART)) {
        Some(beginning) if beginning.len() < text.len() => format!("{beginning}\n[cut off]"),
        Some(_) | None => text.to_owned(),
    }
}

/// Reads the task of a note, and why it failed.
fn parts(text: &str) -> (String, Option<String>) {
    let part = |title: &str| {
        let lines = text.lines().skip_while(|line| *line != title).skip(1);
        let titles = [TASK, APPROACH, REASON, FILES, CAVEATS];
        let part: Vec<_> = lines.take_while(|line| !titles.contains(line)).collect();
        let part = part.join("\n").trim().to_owned();
        (!part.is_empty()).then_some(part)
    };
    match part(TASK) {
        Some(task) => (task, part(REASON)),
        None => (text.to_owned(), None),
    }
}

fn text_of(file: &Path) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    // Nothing but a file is opened: a link may lead anywhere, a pipe waits for whoever writes to it.
    let metadata = file.symlink_metadata().map_err(failed)?;
    if metadata.is_symlink() {
        return Err("is a link; put the file itself there".to_owned());
    }
    if !metadata.is_file() {
        return Err("is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(failed)?;
    opened.take(TOLD_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > TOLD_BYTES {
        return Err(format!("has more than the {} KiB that are told", TOLD_BYTES / 1024));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// Writes a note, for the eyes of its owner; at no time is there a part of one.
pub(super) fn write(folder: &Path, label: &Label, text: &str) -> io::Result<()> {
    let draft = folder.join(format!(".{}.draft", label.id));
    // One may be left of a process that died.
    let _ = fs::remove_file(&draft);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    let finish = |mut file: File| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, folder.join(format!("{label}.md")))
    };
    written.and_then(finish).inspect_err(|_| drop(fs::remove_file(&draft)))
}
