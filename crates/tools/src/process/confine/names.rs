//! Names that nothing may be made under: an empty folder keeps each taken.
//!
//! All that confine commands in one place, in whatever process, share such a folder. Each holds a lock on
//! it, and the last one removes it; one that was left behind by a process that was killed is taken over.

use std::ffi::CString;
use std::fs::{self, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, RawDir, RawDirEntry, SeekFrom, flock, open, seek};

use super::layout::{Identity, identity};

/// How such a folder is told from one that somebody else has made: an empty one that is sticky has no use.
/// Whoever wants to use the name outside can put something in.
const MODE: u32 = 0o1755;

/// How often a folder is tried to be taken over while others come and go.
const TRIES: u32 = 100;

/// The names that one room keeps taken.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Name>);

#[derive(Debug)]
struct Name {
    path: PathBuf,
    folder: Identity,
    /// Its lock is shared by all that keep the name taken.
    lock: OwnedFd,
    /// Whether it cannot be moved any more, in the mounts as they are.
    is_fixed: bool,
}

impl Names {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether nothing has been made where there must not be anything.
    pub(super) fn are_free(&self, absent: &[PathBuf]) -> bool {
        absent.iter().all(|path| match self.0.iter().find(|name| name.is_at(path)) {
            Some(name) => name.keeps_it(),
            None => fs::symlink_metadata(path).map_or(true, |found| keeps_a_name(path, &found)),
        })
    }

    /// Takes names. Returns those that a command has to make unmovable in the mounts.
    ///
    /// # Errors
    /// Which name cannot be taken.
    pub(super) fn take(&mut self, absent: &[PathBuf]) -> Result<Vec<CString>, String> {
        let mut movable = Vec::new();
        for path in absent {
            let name = match self.find(path) {
                Some(name) => name,
                None => match Name::take(path) {
                    Ok(name) => self.add(name),
                    // Who may more than a command cannot make it either.
                    Err(error) if is_impossible(&error) => continue,
                    Err(error) => {
                        let path = path.display();
                        return Err(format!("{path} cannot be kept from being made: {error}"));
                    }
                },
            };
            if !std::mem::replace(&mut name.is_fixed, true) {
                movable.push(super::path(path)?);
            }
        }
        Ok(movable)
    }

    /// Forgets which of them are unmovable: the mounts are new.
    pub(super) fn unfix(&mut self) {
        self.0.iter_mut().for_each(|name| name.is_fixed = false);
    }

    /// Lets go of all names.
    pub(super) fn free(&mut self) {
        self.0.drain(..).for_each(Name::free);
    }

    fn find(&mut self, path: &Path) -> Option<&mut Name> {
        self.0.iter_mut().find(|name| name.is_at(path))
    }

    fn add(&mut self, name: Name) -> &mut Name {
        self.0.retain(|old| old.path != name.path);
        self.0.push_mut(name)
    }
}

impl Name {
    fn take(path: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            match fs::DirBuilder::new().mode(MODE).create(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !fs::symlink_metadata(path).is_ok_and(|found| keeps_a_name(path, &found)) {
                        return Err(error);
                    }
                }
                made => made?,
            }
            if let Some(name) = Self::lock(path)? {
                return Ok(name);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Takes part in keeping a name; none if the folder is being removed.
    fn lock(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = match open(path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let folder = Identity::of(&rustix::fs::fstat(&lock)?);
        let is_there = identity(path) == Some(folder);
        Ok(is_there.then(|| Self { path: path.to_owned(), folder, lock, is_fixed: false }))
    }

    /// Lets go; the last one removes the folder, unless somebody has put something in.
    fn free(self) {
        let is_last = flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_last && identity(&self.path) == Some(self.folder) {
            let _ = fs::remove_dir(&self.path);
        }
    }

    fn is_at(&self, path: &Path) -> bool {
        self.path == path && identity(path) == Some(self.folder)
    }

    /// Tells whether it does nothing else: whether there is nothing in the folder.
    fn keeps_it(&self) -> bool {
        if seek(&self.lock, SeekFrom::Start(0)).is_err() {
            return false;
        }
        let mut buffer = [MaybeUninit::uninit(); 512];
        let mut entries = RawDir::new(&self.lock, &mut buffer);
        while let Some(entry) = entries.next() {
            let is_itself =
                |entry: RawDirEntry<'_>| matches!(entry.file_name().to_bytes(), b"." | b"..");
            if !entry.is_ok_and(is_itself) {
                return false;
            }
        }
        true
    }
}

/// Tells whether what has been found at a path only keeps its name taken.
pub(super) fn keeps_a_name(path: &Path, found: &Metadata) -> bool {
    // The mask of new files takes bits away, and adds none: a `/tmp` is not looked through.
    let is_marked = found.is_dir() && found.mode() & 0o1022 == 0o1000;
    is_marked
        && found.uid() == rustix::process::geteuid().as_raw()
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Tells whether nobody with the rights of this process could make the name either.
fn is_impossible(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem)
}
