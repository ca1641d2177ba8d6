//! The files of commands: the output of each, and for all in a folder how they ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::protocol::{Kept, Status};

/// How often outputs are measured.
pub(super) const MEASURE: Duration = Duration::from_millis(250);

/// The file in a folder of outputs that says how their commands ended.
const ENDED: &str = "ended.jsonl";

/// A line of that file.
#[derive(Debug, Serialize, Deserialize)]
struct Ended {
    /// The name of the command's output.
    output: String,
    #[serde(flatten)]
    status: Status,
}

/// The output of a command, both standard output and standard error in the order in which they come.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    file: File,
    max_bytes: u64,
}

impl Output {
    /// Opens the file; each write goes to its end, whoever writes.
    pub(super) fn open(kept: &Kept) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&kept.output)?;
        Ok(Self { path: kept.output.clone(), file, max_bytes: kept.max_output })
    }

    /// Returns another descriptor of it.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }

    /// Tells whether the command has written more than it may.
    pub(super) fn is_too_large(&self) -> bool {
        self.file.metadata().is_ok_and(|meta| meta.len() > self.max_bytes)
    }

    /// Writes down how the command ended. To make a file of its own for that would cost more than all the
    /// rest of it.
    pub(super) fn note_end(&self, status: &Status) -> io::Result<()> {
        let ended = Ended { output: name(&self.path), status: status.clone() };
        // Half a line of somebody who was killed ends here.
        let line = [b"\n".as_slice(), &serde_json::to_vec(&ended)?].concat();
        let path = record(&self.path);
        options().append(true).create(true).mode(0o600).open(path)?.write_all(&line)
    }
}

/// Returns how the command ended whose output is in a file, if that was written down.
pub fn ended(output: &Path) -> Option<Status> {
    let (name, mut text) = (name(output), Vec::new());
    options().read(true).open(record(output)).ok()?.read_to_end(&mut text).ok()?;
    let ended = text.rsplit(|byte| *byte == b'\n').find_map(|line| {
        serde_json::from_slice(line).ok().filter(|ended: &Ended| ended.output == name)
    });
    ended.map(|ended| ended.status)
}

/// Returns how the record is opened: somebody may have put a pipe there, which waits for another end, or a
/// link to anywhere.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    options
}

fn record(output: &Path) -> PathBuf {
    output.with_file_name(ENDED)
}

fn name(output: &Path) -> String {
    output.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the time of day in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
