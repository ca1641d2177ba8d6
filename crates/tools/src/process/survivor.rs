//! Commands that outlive bowline, each under a keeper of its own.
//!
//! A keeper is a helper process for one command. It belongs to nobody: it neither sees bowline end nor minds.
//! All that ties it to a later bowline is its note, a file that it holds a lock on as long as it lives. So
//! nobody has to guess from the number of a process whether that is still the same one: the lock is there or
//! it is not, also after the machine was restarted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep};

use super::output::{ended, now_ms};
use super::protocol::{Keep, Start, Status};
use super::{HELPER_ARGUMENT, KEEPER_ARGUMENT, PATIENCE, ProcessError};

/// How the names of notes end.
const NOTE: &str = "keeper";

/// How often a note is looked at by those who wait for something to be in it.
const LOOK: Duration = Duration::from_millis(20);

/// How long a command has when its keeper is asked to end it.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// The longest note.
const MAX_NOTE: u64 = 1 << 20;

/// What a command that outlives bowline is known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Whose it is, as [`Command::owner`](super::Command::owner).
    pub owner: String,
    /// The call that started it.
    pub call: String,
    /// What its owner calls it.
    pub id: String,
    /// What it runs, in words for those who look at it.
    pub command: String,
    /// The file that takes its output.
    pub output: PathBuf,
}

/// What a keeper says of itself before it starts the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Who takes signals.
    pub(super) pid: u32,
    /// What its commands are marked with.
    pub(super) name: u32,
    /// Tells one start of the machine from another.
    pub(super) boot: String,
    pub(super) started_ms: u64,
    /// The cgroup that it is in with its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<PathBuf>,
}

/// A line of a note.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// Bowline wants the command; the first line.
    Asked(Asked),
    /// The keeper is about to start it.
    Kept(Kept),
    /// It could not be started.
    Failed(String),
}

/// A command that outlives bowline, or has ended.
#[derive(Debug, Clone)]
pub struct Survivor {
    note: PathBuf,
    asked: Asked,
}

/// What has become of a command that outlives bowline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Running {
        /// For how long.
        time: Duration,
    },
    /// It has ended.
    Over(Status),
    /// It could not be started.
    Refused(String),
    /// Its keeper is gone and has left no word.
    Lost {
        /// Whether the machine was restarted meanwhile.
        is_restarted: bool,
    },
}

impl Survivor {
    /// Finds what was started in a folder, in the order in which it is called.
    pub fn all_in(folder: &Path) -> Vec<Self> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let notes = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let notes = notes.filter(|path| path.extension().is_some_and(|end| end == NOTE));
        let mut all: Vec<Self> = notes.filter_map(Self::at).collect();
        all.sort_by(|a, b| (a.asked.id.len(), &a.asked.id).cmp(&(b.asked.id.len(), &b.asked.id)));
        all
    }

    fn at(note: PathBuf) -> Option<Self> {
        let asked = lines(&note).into_iter().find_map(|line| match line {
            Line::Asked(asked) => Some(asked),
            Line::Kept(_) | Line::Failed(_) => None,
        })?;
        Some(Self { note, asked })
    }

    /// Returns what it is known by.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Returns the file by which it is found again.
    pub fn note(&self) -> &Path {
        &self.note
    }

    /// Tells whether a keeper has ever had it: one that had not has started nothing.
    pub fn has_begun(&self) -> bool {
        self.is_held() || !matches!(lines(&self.note).as_slice(), [] | [Line::Asked(_)])
    }

    /// Says what has become of it.
    pub fn fate(&self) -> Fate {
        if let Some(status) = self.status() {
            return Fate::Over(status);
        }
        let is_held = self.is_held();
        let kept = self.kept();
        if is_held {
            let since = kept.map_or_else(now_ms, |kept| kept.started_ms);
            return Fate::Running { time: Duration::from_millis(now_ms().saturating_sub(since)) };
        }
        // It may have ended between the two looks.
        if let Some(status) = self.status() {
            return Fate::Over(status);
        }
        let failed = lines(&self.note).into_iter().find_map(|line| match line {
            Line::Failed(error) => Some(error),
            Line::Asked(_) | Line::Kept(_) => None,
        });
        match failed {
            Some(error) => Fate::Refused(error),
            None => Fate::Lost { is_restarted: kept.is_some_and(|kept| kept.boot != boot()) },
        }
    }

    /// Waits until it is over.
    pub async fn over(&self) {
        while self.is_held() {
            sleep(LOOK).await;
        }
    }

    /// Ends it with all that it has started; returns when nothing is left of it, or when what is left cannot
    /// be killed.
    pub async fn end(&self) {
        for signal in [Signal::TERM, Signal::KILL] {
            let until = Instant::now() + GRACE + PATIENCE;
            let mut is_told = false;
            while self.is_held() && Instant::now() < until {
                // Of one that has just begun it is not known yet who keeps it.
                let keeper = self.kept().and_then(|kept| Pid::from_raw(kept.pid.cast_signed()));
                if let (false, Some(keeper)) = (is_told, keeper) {
                    // It holds the lock, so the number is still its own.
                    is_told = kill_process(keeper, signal).is_ok();
                }
                sleep(LOOK).await;
            }
        }
        if let (None, Some(kept)) = (self.status(), self.kept())
            && kept.boot == boot()
        {
            let clear = move || super::end_what_is_left(kept.name, kept.cgroup.as_deref());
            let _ = tokio::task::spawn_blocking(clear).await;
        }
    }

    /// Tells whether its keeper lives.
    fn is_held(&self) -> bool {
        let lock = |file| flock(&file, FlockOperation::NonBlockingLockShared);
        File::open(&self.note).is_ok_and(|file| lock(file) == Err(rustix::io::Errno::WOULDBLOCK))
    }

    fn kept(&self) -> Option<Kept> {
        lines(&self.note).into_iter().find_map(|line| match line {
            Line::Kept(kept) => Some(kept),
            Line::Asked(_) | Line::Failed(_) => None,
        })
    }

    fn status(&self) -> Option<Status> {
        ended(&self.asked.output)
    }
}

/// Starts a keeper.
pub(super) async fn start(
    program: &Path,
    start: Start,
    asked: Asked,
    time: Option<Duration>,
) -> Result<Survivor, ProcessError> {
    let note = asked.output.with_extension(NOTE);
    let failed = |source| ProcessError::Helper { program: program.to_owned(), source };
    let keep = Keep { start, time_ms: time.map(super::millis) };
    let keep = serde_json::to_vec(&keep).map_err(|error| failed(error.into()))?;
    let file = make_note(&note, &asked).map_err(failed)?;
    // Its file is the keeper's own from here on, and the lock on it.
    let mut keeper = tokio::process::Command::new(program)
        .args([HELPER_ARGUMENT, KEEPER_ARGUMENT])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = keeper.stdin.take() {
        stdin.write_all(&keep).await.map_err(failed)?;
    }
    Ok(Survivor { note, asked })
}

/// Makes a note with its first line, and takes the lock on it.
fn make_note(note: &Path, asked: &Asked) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(note)?;
    flock(&file, FlockOperation::LockExclusive)?;
    write_line(&mut file, &Line::Asked(asked.clone()))?;
    Ok(file)
}

/// Adds a line to a note.
pub(super) fn write_line(note: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    note.write_all(&text)
}

/// Reads a note; what is no line of ours says nothing.
fn lines(note: &Path) -> Vec<Line> {
    let mut text = Vec::new();
    // Of one that cannot be read nothing is known.
    let _ = File::open(note).and_then(|file| file.take(MAX_NOTE).read_to_end(&mut text));
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Returns what tells this start of the machine from others.
pub(super) fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
