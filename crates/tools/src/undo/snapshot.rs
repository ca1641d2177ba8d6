//! How a state is recorded.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::content::{self, Content};
use super::found::moment;
use super::git::{Git, joined, paths};
use super::journal::Line;
use super::seen::{Changes, Seen, Stamp};
use super::{LeftOut, Undo, UndoError};

/// How often it is tried while files change under git's eyes.
const TRIES: u32 = 3;

/// How many files git may as well read once more.
const FEW: usize = 100;

/// What was recorded last.
#[derive(Debug)]
pub(super) struct Recorded {
    tree: String,
    // The index as it was left. Another process may bring it up to date.
    index: Stamp,
    // Nothing if what was recorded may not all have been looked at.
    seen: Option<Seen>,
}

impl Undo {
    /// Records the state of the project with these files beyond those that are not ignored, and returns
    /// its name. It costs one look at every file if nothing has changed.
    pub(super) fn take(&mut self, more: &[Vec<u8>]) -> Result<String, UndoError> {
        // What is made while it is looked at may be in the state or not, and is new in the next one.
        let at = moment();
        let index = Stamp::at(self.git.index());
        let last = self.recorded.take().filter(|recorded| Some(recorded.index) == index);
        let (tree, seen) = last.map(|last| (last.tree, last.seen)).unzip();
        let seen = seen.flatten();
        let is_first_look = seen.is_none();
        let mut seen = match seen {
            Some(seen) => seen,
            None => self.unseen(more)?,
        };
        // Before git looks, so that nothing changes between the two unseen.
        let changes = seen.look(&self.git, self.limits);
        let knows_names = changes.is_ok() && !is_first_look;
        let mut seen = changes.is_ok().then_some(seen);
        let changes = changes.unwrap_or_else(|_| Changes { is_any: true, ..Changes::default() });
        let mut is_changed = tree.is_none();
        if is_changed || changes.is_any {
            let changed = self.record(more, &changes.unnoticed)?;
            let mut there = changed.iter().filter(|path| self.is_file(path));
            seen = seen.filter(|seen| there.all(|path| seen.covers(path)));
            is_changed |= !changed.is_empty();
        }
        let tree = match tree {
            Some(tree) if !is_changed => {
                self.renew_last(at)?;
                tree
            }
            Some(_) | None => {
                let tree = self.written()?;
                if let Some(last) = self.last()? {
                    self.find(&last, &tree, knows_names.then_some(&changes.appeared))?;
                }
                self.set_last(&tree, at)?;
                tree
            }
        };
        let recorded = |index| Recorded { tree: tree.clone(), index, seen };
        self.recorded = Stamp::at(self.git.index()).map(recorded);
        Ok(tree)
    }

    /// Returns the state that was recorded last if nothing has changed since, and that is known at once.
    pub(super) fn unchanged(&self) -> Option<String> {
        let Recorded { tree, index, seen } = self.recorded.as_ref()?;
        let is_still = Stamp::at(self.git.index()) == Some(*index)
            && seen.as_ref().is_some_and(|seen| seen.is_still(self.git.root()));
        is_still.then(|| tree.clone())
    }

    /// Returns the places of all that is recorded or will be, of which nothing has been seen.
    fn unseen(&self, more: &[Vec<u8>]) -> Result<Seen, UndoError> {
        let known = self.known()?;
        Ok(Seen::nothing_of(known.iter().chain(&self.named).chain(more)))
    }

    /// Returns the files of the index.
    fn known(&self) -> Result<Vec<Vec<u8>>, UndoError> {
        if !self.git.index().exists() {
            return Ok(Vec::new());
        }
        self.git.list(&["ls-files", "-z"], self.limits.files)
    }

    /// Brings the index up to date, also with files that git may take for unchanged, and returns those that
    /// were not as it said.
    fn record(
        &mut self,
        more: &[Vec<u8>],
        unnoticed: &BTreeSet<Vec<u8>>,
    ) -> Result<BTreeSet<Vec<u8>>, UndoError> {
        let root = self.git.root();
        // Git would go on behind a link, where no file is found.
        if !root.symlink_metadata().is_ok_and(|data| data.is_dir()) {
            return Err(UndoError::file(root)(io::ErrorKind::NotADirectory.into()));
        }
        // Whoever left it died: the folder is locked.
        let _ = fs::remove_file(self.git.index().with_extension("lock"));
        let mut tries = 0;
        loop {
            tries += 1;
            let mut changed = match self.look(more) {
                Err(UndoError::Git { .. }) if tries < TRIES => continue,
                looked => looked?,
            };
            let hidden = self.hidden(unnoticed, &changed)?;
            changed.extend(hidden);
            if changed.is_empty() {
                return Ok(changed);
            }
            match self.update(&changed) {
                Err(_) if tries < TRIES => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(changed),
            }
        }
    }

    /// Returns those of these files that the index has, and git has not found changed.
    fn hidden(
        &self,
        unnoticed: &BTreeSet<Vec<u8>>,
        changed: &BTreeSet<Vec<u8>>,
    ) -> Result<BTreeSet<Vec<u8>>, UndoError> {
        // What is named is looked at whatever git finds.
        let is_found = |path: &Vec<u8>| changed.contains(path) && !self.named.contains(path);
        if unnoticed.iter().all(is_found) {
            return Ok(BTreeSet::new());
        }
        let is_hidden = |path: &Vec<u8>| unnoticed.contains(path) && !is_found(path);
        Ok(self.known()?.into_iter().filter(is_hidden).collect())
    }

    /// Brings the index up to date with these files.
    fn update(&self, changed: &BTreeSet<Vec<u8>>) -> Result<(), UndoError> {
        let stored = content::stored(&self.git, changed, self.limits)?;
        if stored.is_empty() {
            return Ok(());
        }
        let files = stored.iter().map(|(path, blob)| (*path, blob.as_ref()));
        let refresh = ["-q", "--refresh"];
        self.git.update_index(&refresh, files)?;
        // Git reads what it has not looked at itself, each time until then.
        if stored.len() > FEW {
            self.git.run(&[&["update-index"], &refresh[..]].concat(), &[])?;
        }
        Ok(())
    }

    fn written(&self) -> Result<String, UndoError> {
        let said = self.git.run(&["write-tree", "--missing-ok"], &[])?;
        Ok(String::from_utf8_lossy(said.trim_ascii()).into_owned())
    }

    /// Returns the files that are not as the index says, but for those that are too large.
    fn look(&mut self, more: &[Vec<u8>]) -> Result<BTreeSet<Vec<u8>>, UndoError> {
        let arguments = ["ls-files", "-z", "--modified", "--others", "--exclude-standard"];
        let listed = self.git.list(&arguments, self.limits.files)?;
        let mut changed = BTreeSet::new();
        for path in listed {
            self.add(path, &mut changed)?;
        }
        changed.extend(self.named.iter().chain(more).filter(|path| self.is_file(path)).cloned());
        if changed.len() > self.limits.files {
            let why = format!("there are more than {} files", self.limits.files);
            return Err(UndoError::Unable(why));
        }
        self.sift(changed)
    }

    /// Adds a path that git lists. A repository within the project is no file; those in it are.
    fn add(&self, path: Vec<u8>, all: &mut BTreeSet<Vec<u8>>) -> Result<(), UndoError> {
        let Some(folder) = path.strip_suffix(b"/") else {
            all.insert(path);
            return Ok(());
        };
        let mut folders = vec![folder.to_vec()];
        while let Some(folder) = folders.pop() {
            let git = self.git.within(&self.absolute(&folder));
            for path in others(&git, self.limits.files)? {
                let path = [&folder[..], b"/", &path].concat();
                match path.strip_suffix(b"/") {
                    Some(nested) => folders.push(nested.to_vec()),
                    None => drop(all.insert(path)),
                }
            }
        }
        Ok(())
    }

    /// Leaves out what is too large or cannot be read, and takes note of it.
    fn sift(&mut self, all: BTreeSet<Vec<u8>>) -> Result<BTreeSet<Vec<u8>>, UndoError> {
        let mut kept = BTreeSet::new();
        let mut bytes = 0;
        for path in all {
            let content = Content::at(self.git.root(), &path);
            let size =
                content.as_ref().map_or(0, |content| content.as_ref().map_or(0, Content::size));
            let why = if size > self.limits.file_bytes {
                format!("larger than {} MB", self.limits.file_bytes >> 20)
            } else if let Err(error) = content {
                error.to_string()
            } else if Path::new(OsStr::from_bytes(&path)).iter().any(is_git) {
                "git records no such name".to_owned()
            } else {
                bytes += size;
                kept.insert(path);
                continue;
            };
            let path = String::from_utf8_lossy(&path).into_owned();
            let left_out = LeftOut { path, why };
            if self.left_out.insert(left_out.clone()) {
                self.journal.append(Line::LeftOut(left_out))?;
            }
        }
        self.limits.check_new(bytes)?;
        Ok(kept)
    }

    /// Takes note of the paths that a call names: those that are ignored are recorded from now on.
    pub(super) fn name(&mut self, writes: &[PathBuf]) -> Result<(), UndoError> {
        let mut new = Vec::new();
        for path in writes {
            if self.looked_at.insert(path.clone()) {
                new.extend(self.relative(path));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        // A name that begins so is nothing but a name for git.
        let asked: Vec<_> = new.iter().map(|path| [b"./", &path[..]].concat()).collect();
        // It fails where nothing is ignored, too.
        let ignored = self.git.run(&["check-ignore", "-z", "--stdin"], &joined(&asked));
        for path in paths(&ignored.unwrap_or_default()) {
            let Some(path) = path.strip_prefix(b"./") else { continue };
            let Ok(text) = String::from_utf8(path.to_vec()) else { continue };
            if self.named.insert(path.to_vec()) {
                // It may lie where nobody has looked.
                self.recorded.as_mut().map(|recorded| recorded.seen.take());
                self.journal.append(Line::Named { path: text })?;
            }
        }
        Ok(())
    }

    /// Returns where a path lies in the project; `None` if it does not, or is of a repository itself.
    fn relative(&self, path: &Path) -> Option<Vec<u8>> {
        let root = self.git.root();
        let real = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        let inside = match path.strip_prefix(root) {
            Ok(inside) => inside.to_path_buf(),
            Err(_) => real()?.strip_prefix(root).ok()?.to_path_buf(),
        };
        let is_plain = inside.file_name().is_some() && !inside.iter().any(is_git);
        is_plain.then(|| inside.into_os_string().into_vec())
    }

    fn is_file(&self, path: &[u8]) -> bool {
        self.absolute(path).symlink_metadata().is_ok_and(|data| !data.is_dir())
    }

    pub(super) fn absolute(&self, path: &[u8]) -> PathBuf {
        self.git.absolute(path)
    }
}

/// Tells whether a name is that of a repository, for git.
fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Lists what is in a repository within the project.
fn others(git: &Git, most: usize) -> Result<Vec<Vec<u8>>, UndoError> {
    git.list(&["ls-files", "-z", "--others", "--exclude-standard"], most)
}
