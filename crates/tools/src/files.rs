//! Files: what an agent knows of them, and writing them so that nobody sees them half written.

mod spot;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use bowline_agent::tool::{ToolContext, ToolError};
use bowline_agent::visible::name;

use crate::guard::Want;
use crate::workspace::Workspace;

pub(crate) use spot::Spot;

/// The largest file that is read or edited.
pub(crate) const MAX_BYTES: u64 = 32 << 20;

/// The name under which agents record what they know of files.
const RECORD: &str = "file";

/// What an agent has seen or written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// The file itself, not a link to it.
    path: String,
    sha256: String,
}

/// A regular file that has been read whole.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Where it is, links resolved.
    pub(crate) path: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) content: Vec<u8>,
}

impl Loaded {
    /// Reads a file, if the guard lets the call read what it really is; `None` if there is none.
    pub(crate) fn read(
        workspace: &Workspace,
        path: &Path,
        cx: &ToolContext,
    ) -> Result<Option<Self>, ToolError> {
        let shown = workspace.shown(path);
        let failed = |error: io::Error| ToolError::Failed(format!("cannot read {shown}: {error}"));
        let too_long = |length: u64| {
            let (size, most) = (length >> 20, MAX_BYTES >> 20);
            format!(
                "{shown} has {size} MiB, more than the {most} MiB that fit; look at parts with grep or \
                 bash"
            )
        };
        let unfit = |metadata: &Metadata| {
            if metadata.is_dir() {
                Some(format!("{shown} is a folder; see what is in it with list"))
            } else if !metadata.is_file() {
                Some(format!("{shown} is no regular file"))
            } else if metadata.len() > MAX_BYTES {
                Some(too_long(metadata.len()))
            } else {
                None
            }
        };
        // What is no file may do something when it is opened.
        match path.metadata() {
            Ok(metadata) => unfit(&metadata).map_or(Ok(()), |why| Err(ToolError::Failed(why)))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let (file, path) = match open(path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        workspace.guard.check(&cx.call, &path, Want::Read).map_err(ToolError::Failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if let Some(why) = unfit(&metadata) {
            return Err(ToolError::Failed(why));
        }
        // It may grow, and some files say that they are empty.
        let mut content = Vec::new();
        (&file).take(MAX_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
        if content.len() as u64 > MAX_BYTES {
            return Err(ToolError::Failed(too_long(content.len() as u64)));
        }
        Ok(Some(Self { path, metadata, content }))
    }

    /// Fails unless the agent has seen the file as it is now.
    pub(crate) fn check_seen(
        &self,
        workspace: &Workspace,
        cx: &ToolContext,
    ) -> Result<(), ToolError> {
        let shown = workspace.shown(&self.path);
        let seen = seen(cx, &self.path);
        match seen {
            Some(seen) if seen.sha256 == hash(&self.content) => Ok(()),
            Some(_) => Err(ToolError::Failed(format!(
                "{shown} has changed since you last read or wrote it; read it again first"
            ))),
            None => Err(ToolError::Failed(format!(
                "{shown} exists but you have not read it; read it first"
            ))),
        }
    }
}

/// Opens a file to read it, and tells where it really is. One that gives nothing is not waited for.
pub(crate) fn open(path: &Path) -> io::Result<(File, PathBuf)> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let real = spot::real_path(&file, path)?;
    Ok((file, real))
}

/// Reads a file that only bowline has a reason to write, in a folder where others may have put anything: a
/// link could lead to what nobody allowed, a pipe gives nothing, and some files never end.
pub(crate) fn read_own(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let refused = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(refused("it is a link".to_owned()));
        }
        file => file?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused("it is no file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_OWN + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_OWN {
        return Err(refused(format!("it has more than {} MiB", MAX_OWN >> 20)));
    }
    Ok((bytes, metadata))
}

/// The most that a file of bowline's own has, in bytes.
const MAX_OWN: u64 = 4 << 20;

/// Notes that the agent knows a file's content.
pub(crate) fn remember(cx: &ToolContext, path: &Path, content: &[u8]) -> Result<(), ToolError> {
    let seen = Seen { path: recorded(path), sha256: hash(content) };
    cx.record(RECORD, &seen)
}

/// Tells whether the agent knows a file's content as this.
pub(crate) fn knows(cx: &ToolContext, path: &Path, content: &[u8]) -> bool {
    seen(cx, path).is_some_and(|seen| seen.sha256 == hash(content))
}

/// Notes that the agent's file is gone.
pub(crate) fn forget(cx: &ToolContext, path: &Path) -> Result<(), ToolError> {
    let seen = Seen { path: recorded(path), sha256: String::new() };
    cx.record(RECORD, &seen)
}

fn seen(cx: &ToolContext, path: &Path) -> Option<Seen> {
    let path = recorded(path);
    cx.last_recorded(RECORD, |seen| seen.read::<Seen>().ok().filter(|seen| seen.path == path))
}

/// Returns a path as it is written down, where it must be text, and no two may be alike.
fn recorded(path: &Path) -> String {
    path.to_str().map_or_else(|| name::quoted(path), str::to_owned)
}

fn hash(content: &[u8]) -> String {
    use std::fmt::Write as _;

    Sha256::digest(content).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Returns the file that writing to a path would write: links are followed, also to what does not
/// exist yet.
pub(crate) fn target(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(link) => path = path.parent().unwrap_or(Path::new("/")).join(link),
            Err(_) => break,
        }
    }
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        (Some(_) | None, _) => path,
    }
}

/// Says that a file is missing, and which ones the model may have meant.
pub(crate) fn missing(workspace: &Workspace, path: &Path) -> ToolError {
    let shown = workspace.shown(path);
    let Some((folder, name)) = path.parent().zip(path.file_name()) else {
        return ToolError::Failed(format!("there is no {shown}"));
    };
    let Ok(entries) = fs::read_dir(folder) else {
        let there = path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(folder);
        let there = workspace.shown(there);
        return ToolError::Failed(format!(
            "there is no {shown}: its folder is missing; {there} exists"
        ));
    };
    let name = name.to_string_lossy().to_lowercase();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut near: Vec<(usize, String)> = names
        .map(|other| (distance(&name, &other.to_lowercase()), other))
        .filter(|(distance, other)| *distance <= name.len().max(other.len()).div_ceil(2))
        .collect();
    near.sort();
    let near: Vec<String> = near
        .iter()
        .take(3)
        .map(|(_, other)| workspace.shown(&folder.join(other)).into_owned())
        .collect();
    ToolError::Failed(if near.is_empty() {
        format!("there is no {shown}")
    } else {
        format!("there is no {shown}; did you mean {}?", near.join(" or "))
    })
}

/// Returns the name that is most like another one, if one is.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let near = names.map(|other| (distance(&lower, &other.to_lowercase()), other));
    let near =
        near.filter(|(distance, other)| *distance <= name.len().max(other.len()).div_ceil(2));
    near.min().map(|(_, other)| other)
}

/// Returns how many characters to insert, remove or replace to get from one name to the other.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX);
            let cost = (diagonal + usize::from(x != *y)).min(left + 1).min(above + 1);
            diagonal = above;
            if let Some(cell) = row.get_mut(j) {
                *cell = left;
            }
            left = cost;
        }
        if let Some(cell) = row.last_mut() {
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("main.rs", "main.rs"), 0);
    }
}
