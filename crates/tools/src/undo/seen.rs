//! What was seen of the files when their state was recorded: while all of it is still so, nothing has
//! changed, and git need not be asked.
//!
//! A file is as it was if its place on the disk, size, mode and times are. One of the times, that of the
//! last change of any kind, nobody can set. But what changes twice within a tick of the clock may have the
//! same twice, so of what had changed just before it was seen the content is compared. Of folders only the
//! names in them count; they are read again if the folder has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::Limits;
use super::git::{Git, joined, paths};

/// How far apart two times are at least that a clock tells apart: of most file systems, and of those
/// that have nothing below the second, or two of them.
const TICK: Duration = Duration::from_millis(20);
const COARSE_TICK: Duration = Duration::from_secs(2);

/// So many files and folders are looked at in a fraction of a millisecond.
const FEW: usize = 256;

/// What says in a folder which names do not matter.
const RULES: &str = ".gitignore";

/// What was seen of a project.
#[derive(Debug, Default)]
pub(super) struct Seen {
    // By their paths in the project.
    folders: BTreeMap<PathBuf, Folder>,
    // Folders that are looked into whenever they are there.
    watched: BTreeSet<PathBuf>,
    // Folders that are not looked into.
    ignored: BTreeSet<PathBuf>,
}

/// How a project is not as it was seen.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Whether there are any.
    pub(super) is_any: bool,
    /// Files that may look unchanged to git, which knows times by the second.
    pub(super) unnoticed: BTreeSet<Vec<u8>>,
    /// Files of which not even the name was seen before.
    pub(super) appeared: BTreeSet<Vec<u8>>,
}

impl Seen {
    /// Returns the places of files of which nothing has been seen yet. Their folders are looked into even
    /// if they are ignored.
    pub(super) fn nothing_of<'a>(files: impl IntoIterator<Item = &'a Vec<u8>>) -> Self {
        let mut seen = Self::default();
        seen.folders.entry(PathBuf::new()).or_default();
        for path in files {
            let mut path = Path::new(OsStr::from_bytes(path));
            let mut is_file = true;
            while let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                let folder = seen.folders.entry(parent.to_path_buf()).or_default();
                match is_file {
                    true => drop(folder.files.insert(name.to_owned(), None)),
                    false => drop(folder.folders.insert(name.to_owned())),
                }
                (path, is_file) = (parent, false);
            }
        }
        seen.watched = seen.folders.keys().cloned().collect();
        seen
    }

    /// Tells whether all is as it was seen, beyond doubt; of what is much it is not told.
    pub(super) fn is_still(&self, root: &Path) -> bool {
        let files: usize = self.folders.values().map(|folder| folder.files.len()).sum();
        self.folders.len() + files <= FEW
            && self.folders.iter().all(|(path, folder)| folder.is_still(&root.join(path)))
    }

    /// Tells whether the folder of a file is looked into.
    pub(super) fn covers(&self, file: &[u8]) -> bool {
        let parent = Path::new(OsStr::from_bytes(file)).parent();
        parent.is_some_and(|parent| self.folders.contains_key(parent))
    }

    /// Looks at everything again, and says how it differs. If git records the state after that, it
    /// is as it was seen now: a file that changes in between will be another one the next time.
    ///
    /// # Errors
    /// If something cannot be looked at. What was seen is worth nothing then.
    pub(super) fn look(&mut self, git: &Git, limits: Limits) -> io::Result<Changes> {
        let mut look =
            Look { at: SystemTime::now(), limits, files: 0, changes: Changes::default() };
        let mut known = std::mem::take(&mut self.folders);
        let mut level = vec![PathBuf::new()];
        while !level.is_empty() {
            level.retain(|path| !self.ignored.contains(path));
            let new = level.extract_if(.., |path| !self.watched.contains(path)).collect();
            let (ignored, watched) = sorted_out(git, new);
            self.ignored.extend(ignored);
            level.extend_from_slice(&watched);
            self.watched.extend(watched);
            let mut below = Vec::new();
            for path in level {
                let mut folder = known.remove(&path).unwrap_or_default();
                if folder.look(git.root(), &path, &mut look)? {
                    self.ignored.retain(|ignored| !ignored.starts_with(&path));
                }
                below.extend(folder.folders.iter().map(|name| path.join(name)));
                self.folders.insert(path, folder);
            }
            level = below;
        }
        look.changes.is_any |= known.values().any(|folder| !folder.files.is_empty());
        Ok(look.changes)
    }
}

/// Tells apart the folders that git ignores, which come first, and the others.
fn sorted_out(git: &Git, folders: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    if folders.is_empty() {
        return (Vec::new(), Vec::new());
    }
    // A name that begins so is nothing but a name for git.
    let name = |path: &Path| [b"./", path.as_os_str().as_bytes()].concat();
    let names: Vec<_> = folders.iter().map(|path| name(path)).collect();
    // It fails where nothing is ignored, too.
    let said = git.run(&["check-ignore", "-z", "--stdin"], &joined(&names)).unwrap_or_default();
    let ignored: BTreeSet<_> = paths(&said).into_iter().collect();
    folders.into_iter().partition(|path| ignored.contains(&name(path)))
}

/// A look at everything.
struct Look {
    at: SystemTime,
    limits: Limits,
    files: usize,
    changes: Changes,
}

#[derive(Debug, Default)]
struct Folder {
    // `None` if it has changed since, or may have without a sign of it.
    stamp: Option<Stamp>,
    // `None` if nothing has been seen of the file, or it was not there.
    files: BTreeMap<OsString, Option<File>>,
    folders: BTreeSet<OsString>,
}

impl Folder {
    fn is_still(&self, absolute: &Path) -> bool {
        let is_still = |(name, file): (&OsString, &Option<File>)| {
            let stamp = file.as_ref().filter(|file| file.content.is_none()).map(|file| file.stamp);
            stamp.is_some() && stamp == Stamp::at(&absolute.join(name))
        };
        self.stamp.is_some() && self.stamp == Stamp::at(absolute) && self.files.iter().all(is_still)
    }

    /// Looks at the folder and the files in it; tells whether it has other rules about what is ignored.
    fn look(&mut self, root: &Path, path: &Path, look: &mut Look) -> io::Result<bool> {
        let mut absolute = root.join(path);
        let data = absolute.symlink_metadata()?;
        let stamp = Stamp::of(&data);
        let mut has_other_rules = false;
        if self.stamp != Some(stamp) {
            if !data.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            let names = self.read(&absolute)?;
            for name in names.gone {
                look.changes.is_any = true;
                has_other_rules |= name == RULES;
            }
            let appeared = names.new.iter().map(|name| path.join(name).into_os_string().into_vec());
            look.changes.appeared.extend(appeared);
            self.stamp = (!stamp.is_fresh(look.at)).then_some(stamp);
        }
        look.files += self.files.len();
        if look.files > look.limits.files {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        for (name, file) in &mut self.files {
            absolute.push(name);
            let now = File::look(&absolute, file.as_ref(), look)?;
            if !now.is_same {
                look.changes.is_any = true;
                has_other_rules |= name == RULES;
            }
            if now.is_unnoticed {
                look.changes.unnoticed.insert(path.join(name).into_os_string().into_vec());
            }
            *file = now.file;
            absolute.pop();
        }
        Ok(has_other_rules)
    }

    /// Reads the names, and returns how those of files differ. What was known of those that stay stays.
    fn read(&mut self, absolute: &Path) -> io::Result<Names> {
        let entries = match fs::read_dir(absolute) {
            Ok(entries) => entries,
            // Of what has never been seen git sees nothing either.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && self.files.is_empty()
                    && self.folders.is_empty() =>
            {
                return Ok(Names::default());
            }
            Err(error) => return Err(error),
        };
        let mut known = std::mem::take(&mut self.files);
        let mut new = Vec::new();
        self.folders.clear();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if name == ".git" {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => drop(self.folders.insert(name)),
                false => {
                    let file = known.remove(&name);
                    if file.is_none() {
                        new.push(name.clone());
                    }
                    self.files.insert(name, file.flatten());
                }
            }
        }
        Ok(Names { gone: known.into_keys().collect(), new })
    }
}

/// How the names of files in a folder differ from those that were there.
#[derive(Debug, Default)]
struct Names {
    gone: Vec<OsString>,
    new: Vec<OsString>,
}

#[derive(Debug)]
struct File {
    stamp: Stamp,
    // If it may change without getting another stamp.
    content: Option<Box<[u8]>>,
}

/// What became of a file.
#[derive(Debug, Default)]
struct Now {
    file: Option<File>,
    is_same: bool,
    is_unnoticed: bool,
}

impl File {
    fn look(path: &Path, before: Option<&Self>, look: &Look) -> io::Result<Now> {
        let data = match path.symlink_metadata() {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Now::default()),
            Err(error) => return Err(error),
        };
        let stamp = Stamp::of(&data);
        let is_fresh = stamp.is_fresh(look.at);
        let known = before.and_then(|before| before.content.as_deref());
        let is_small = data.len() <= look.limits.file_bytes;
        let is_doubtful = is_small && (is_fresh || known.is_some());
        let content = if is_doubtful { Some(digest(path, &data)?) } else { None };
        let is_same = before.is_some_and(|before| {
            before.stamp == stamp && (known.is_none() || known == content.as_deref())
        });
        let is_unnoticed = !is_same && before.is_some_and(|before| before.stamp.is_near(&stamp));
        let content = content.filter(|_| is_fresh);
        Ok(Now { file: Some(Self { stamp, content }), is_same, is_unnoticed })
    }
}

/// Returns a digest of what is in a file, or of where a link leads.
fn digest(path: &Path, data: &Metadata) -> io::Result<Box<[u8]>> {
    let mut digest = Sha256::new();
    if data.is_symlink() {
        digest.update(fs::read_link(path)?.as_os_str().as_bytes());
    } else if data.is_file() {
        // Should it be something else by now, it is neither followed nor waited for.
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            // It is not recorded, and gets another stamp if it can be read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Box::default());
            }
            Err(error) => return Err(error),
        };
        let mut chunk = [0; 1 << 14];
        while let read @ 1.. = file.read(&mut chunk)? {
            digest.update(&chunk[..read]);
        }
    }
    Ok(digest.finalize().as_slice().into())
}

/// What changes whenever a file does, in nanoseconds where it is a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    mode: u32,
    size: u64,
    modified: i64,
    changed: i64,
}

const SECOND: i64 = 1_000_000_000;

impl Stamp {
    /// Returns that of a file, if it is there.
    pub(super) fn at(path: &Path) -> Option<Self> {
        Some(Self::of(&path.symlink_metadata().ok()?))
    }

    fn of(data: &Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, more: i64| seconds.saturating_mul(SECOND).saturating_add(more);
        Self {
            device: data.dev(),
            inode: data.ino(),
            mode: data.mode(),
            size: data.size(),
            modified: nanoseconds(data.mtime(), data.mtime_nsec()),
            changed: nanoseconds(data.ctime(), data.ctime_nsec()),
        }
    }

    /// Tells whether what has this stamp now may change and keep it.
    fn is_fresh(&self, now: SystemTime) -> bool {
        let tick = if self.changed % SECOND == 0 { COARSE_TICK } else { TICK };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = Duration::from_nanos(u64::try_from(self.changed).unwrap_or_default());
        changed + tick >= now
    }

    /// Tells whether it is another one but not for who sees only seconds.
    fn is_near(&self, other: &Self) -> bool {
        let seconds = |stamp: &Self| (stamp.modified / SECOND, stamp.changed / SECOND);
        (self.inode, self.mode, self.size) == (other.inode, other.mode, other.size)
            && seconds(self) == seconds(other)
    }
}
