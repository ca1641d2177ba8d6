//! How git gets what is in files.
//!
//! A command that goes on may put a link in the place of a folder at any moment, and git would follow it to
//! what nobody allowed. So git opens no file of the project to store it: files are opened in folders that
//! are held open, and git reads copies. Those are written over each other, as to make a file costs more than
//! to fill one.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::io::Errno;

use super::git::Git;
use super::plan::Blob;
use super::{Limits, UndoError};
use crate::files::Spot;

/// How many copies there are at once, and about how many bytes they have.
const COPIES: usize = 256;
const BYTES: u64 = 64 << 20;

/// How often it is tried while a file becomes a link and a link a file.
const TRIES: u32 = 3;

/// The path of a file, and what of it is stored; nothing if no file is there.
pub(super) type Stored<'a> = (&'a [u8], Option<Blob>);

/// What is in a file or a link.
#[derive(Debug)]
pub(super) enum Content {
    File(File, Metadata),
    Link(OsString),
}

impl Content {
    /// Opens what is at a path in the project; `None` if that is no file, or not there.
    ///
    /// # Errors
    /// If it may not be read.
    pub(super) fn at(root: &Path, path: &[u8]) -> io::Result<Option<Self>> {
        for _ in 1..TRIES {
            match Self::now_at(root, path) {
                Err(error) if is_swapped(&error) => {}
                found => return found,
            }
        }
        Self::now_at(root, path)
    }

    fn now_at(root: &Path, path: &[u8]) -> io::Result<Option<Self>> {
        let open = || {
            let spot = Spot::beneath(root, Path::new(OsStr::from_bytes(path)), false)?;
            let data = spot.metadata()?;
            if data.is_symlink() {
                return Ok(Some(Self::Link(spot.leads_to()?)));
            }
            if !data.is_file() {
                return Ok(None);
            }
            let file = spot.open()?;
            let data = file.metadata()?;
            Ok(data.is_file().then_some(Self::File(file, data)))
        };
        match open() {
            Err(error) if is_gone(&error) => Ok(None),
            opened => opened,
        }
    }

    /// Returns how many bytes it has.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File(_, data) => data.len(),
            Self::Link(target) => target.len() as u64,
        }
    }

    /// Returns what git calls its kind.
    fn mode(&self) -> &'static str {
        match self {
            Self::File(_, data) if data.mode() & 0o100 != 0 => "100755",
            Self::File(..) => "100644",
            Self::Link(_) => "120000",
        }
    }

    /// Writes it over a file, and returns how many bytes it has: all of it if those are no more than `most`.
    fn copy(&self, to: &Path, most: u64) -> io::Result<u64> {
        // To empty it first may make the file system write it to the disk.
        let mut to = File::options().write(true).create(true).truncate(false).open(to)?;
        let count = match self {
            Self::File(file, _) => io::copy(&mut file.take(most.saturating_add(1)), &mut to)?,
            Self::Link(target) => to.write_all(target.as_bytes()).map(|()| self.size())?,
        };
        to.set_len(count)?;
        Ok(count)
    }
}

/// Tells whether nothing is there, or something else where a folder should be.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Tells whether what was a file is a link by now, or the other way round.
fn is_swapped(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::INVAL))
}

/// Stores what is in files, but for those that are left out by now: they are found so at the next look.
///
/// # Errors
/// [`UndoError::Unable`] if there is too much in them.
pub(super) fn stored<'a>(
    git: &Git,
    files: &'a BTreeSet<Vec<u8>>,
    limits: Limits,
) -> Result<Vec<Stored<'a>>, UndoError> {
    let mut copies = Copies::begin(git)?;
    let (mut all, mut bytes) = (Vec::new(), 0);
    for path in files {
        let content = match Content::at(git.root(), path) {
            Ok(Some(content)) => content,
            Ok(None) => {
                all.push((&path[..], None));
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) if is_swapped(&error) => continue,
            Err(error) => return Err(UndoError::file(&git.absolute(path))(error)),
        };
        let count = copies.add(path, &content, limits.file_bytes)?;
        bytes += count;
        limits.check_new(bytes)?;
        if copies.are_enough() {
            all.extend(copies.store()?);
        }
    }
    all.extend(copies.store()?);
    Ok(all)
}

/// Copies of files, which go when they are dropped.
struct Copies<'a> {
    // Its working tree is the folder where they are; there they are called by their numbers.
    git: Git,
    files: Vec<(&'a [u8], &'static str)>,
    bytes: u64,
    begun: Instant,
}

impl<'a> Copies<'a> {
    fn begin(git: &Git) -> Result<Self, UndoError> {
        let git = git.within(&git.store().join("copies"));
        let copies = Self { git, files: Vec::new(), bytes: 0, begun: Instant::now() };
        // Whoever left them died: the folder is locked.
        copies.remove();
        let folder = copies.git.root();
        fs::create_dir(folder).map_err(UndoError::file(folder))?;
        Ok(copies)
    }

    /// Makes a copy, unless it would have more than `most` bytes; returns how many it has.
    fn add(&mut self, path: &'a [u8], content: &Content, most: u64) -> Result<u64, UndoError> {
        let copy = self.path(self.files.len());
        let count = content.copy(&copy, most).map_err(UndoError::file(&copy))?;
        if count > most {
            return Ok(0);
        }
        self.files.push((path, content.mode()));
        self.bytes += count;
        Ok(count)
    }

    fn are_enough(&self) -> bool {
        self.files.len() >= COPIES || self.bytes >= BYTES
    }

    /// Stores what is in them, and begins anew.
    fn store(&mut self) -> Result<Vec<Stored<'a>>, UndoError> {
        let files = std::mem::take(&mut self.files);
        self.bytes = 0;
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let names: String = (0..files.len()).map(|number| format!("{number}\n")).collect();
        let arguments = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
        let said = self.git.begun(self.begun).run(&arguments, names.as_bytes())?;
        let said = String::from_utf8_lossy(&said);
        let ids: Vec<&str> = said.lines().collect();
        if ids.len() != files.len() {
            let said = format!("{} ids for {} files", ids.len(), files.len());
            return Err(UndoError::Git { what: "hash-object".to_owned(), said });
        }
        let blob = |mode: &str, id: &str| Blob { mode: mode.to_owned(), id: id.to_owned() };
        let files = files.into_iter().zip(ids);
        Ok(files.map(|((path, mode), id)| (path, Some(blob(mode, id)))).collect())
    }

    fn path(&self, number: usize) -> PathBuf {
        self.git.root().join(number.to_string())
    }

    fn remove(&self) {
        // If it cannot be removed, none can be made.
        let _ = fs::remove_dir_all(self.git.root());
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
