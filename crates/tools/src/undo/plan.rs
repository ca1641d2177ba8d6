//! What a session changed, and what going back would do.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::git::Git;
use super::{LeftOut, Stretch, Undo, UndoError};

/// The files that a session changed and that are not as they were before.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The files, by their paths.
    pub changes: Vec<Change>,
    /// What is not recorded.
    pub left_out: Vec<LeftOut>,
    pub(super) now: String,
}

/// A file that a session changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path in the project.
    pub path: PathBuf,
    /// What the session did with it.
    pub kind: Kind,
    /// Whether somebody else has changed it since the session did first.
    pub is_changed_since: bool,
    pub(super) then: Option<Blob>,
}

/// What was done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It was made.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

impl Kind {
    /// Returns the letter that git has for it.
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Modified => 'M',
            Self::Deleted => 'D',
        }
    }

    /// Returns what takes it back.
    pub fn reversed(self) -> Self {
        match self {
            Self::Added => Self::Deleted,
            Self::Modified => Self::Modified,
            Self::Deleted => Self::Added,
        }
    }
}

/// How changes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Line by line.
    Patch,
    /// How many lines of each file.
    Stat,
    /// How many lines of each file, for programs: added, removed, path, with a zero byte behind.
    Numbers,
}

/// What is in a file, and whether it may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) mode: String,
    pub(super) id: String,
}

/// What a stretch has touched, by the paths.
#[derive(Default)]
struct Touched {
    ends: BTreeMap<Vec<u8>, Ends>,
    // What was there before, and was not recorded.
    found: BTreeSet<Vec<u8>>,
}

/// The first and the last state of a file within a stretch.
struct Ends {
    first: Option<Blob>,
    last: Option<Blob>,
    // When the last one was reached.
    ended: usize,
    // Whether somebody else has changed it between two calls that did.
    is_torn: bool,
}

impl Undo {
    /// Says what a stretch has changed, and is not as it was before. For that it records the state of now.
    ///
    /// # Errors
    /// As [`Undo::before`].
    pub fn plan(&mut self, stretch: &Stretch) -> Result<Plan, UndoError> {
        let _lock = self.lock()?;
        let now = self.take(&[])?;
        let Touched { mut ends, found } = self.touched(stretch, &now)?;
        // What was there before, and not recorded, nobody can bring back.
        let is_left_out = |path: &[u8]| {
            let path = String::from_utf8_lossy(path);
            self.left_out.iter().any(|left_out| left_out.path == path)
        };
        let is_named = |path: &Vec<u8>| ends.contains_key(path) || is_left_out(path);
        let found = found.into_iter().filter(|path| !is_named(path)).map(|path| LeftOut {
            path: String::from_utf8_lossy(&path).into_owned(),
            why: "it was there before".to_owned(),
        });
        let left_out: BTreeSet<LeftOut> = self.left_out.iter().cloned().chain(found).collect();
        ends.retain(|path, ends| ends.first.is_some() || !is_left_out(path));
        let present = present(&self.git, &ends)?;
        let changes = ends.into_iter().filter_map(|(path, Ends { first, last, is_torn, .. })| {
            let now = present.get(&path);
            let kind = match (first.as_ref(), now) {
                (None, Some(_)) => Kind::Added,
                (Some(_), None) => Kind::Deleted,
                (first, now) if first == now => return None,
                (_, _) => Kind::Modified,
            };
            let path = Path::new(OsStr::from_bytes(&path)).to_path_buf();
            let is_changed_since = is_torn || last.as_ref() != now;
            Some(Change { path, kind, is_changed_since, then: first })
        });
        let changes = changes.collect();
        Ok(Plan { changes, left_out: left_out.into_iter().collect(), now })
    }

    /// Returns which files a stretch has changed, and which it has only made known.
    fn touched(&self, stretch: &Stretch, now: &str) -> Result<Touched, UndoError> {
        let mut touched = Touched::default();
        let mut ended = 0;
        let spans = self.journal.spans();
        for span in spans.get(stretch.0.clone()).unwrap_or_default() {
            let after = span.after.as_deref().unwrap_or(now);
            for (path, [old, new]) in compare(&self.git, &span.before, after)? {
                if old.is_none() && span.has_found(&path) {
                    touched.found.insert(path);
                    continue;
                }
                let first =
                    || Ends { first: old.clone(), last: old.clone(), ended: 0, is_torn: false };
                let ends = touched.ends.entry(path).or_insert_with(first);
                // While another call ran nobody knows who did what.
                ends.is_torn |= span.begun >= ended && ends.last != old;
                if span.ended >= ends.ended {
                    (ends.last, ends.ended) = (new, span.ended);
                }
            }
            ended = ended.max(span.ended);
        }
        Ok(touched)
    }

    /// Shows what a session changed, as git does.
    ///
    /// # Errors
    /// [`UndoError`] if what was recorded is not there any more.
    pub fn diff(&self, plan: &Plan, view: View) -> Result<Vec<u8>, UndoError> {
        let _lock = self.lock()?;
        let (_, then) = self.target(plan.changes.iter(), &plan.now)?;
        let view: &[&str] = match view {
            View::Patch => &["--patch"],
            View::Stat => &["--stat"],
            View::Numbers => &["--numstat", "-z", "--no-renames"],
        };
        let how = ["diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color"];
        self.git.run(&[&how[..], view, &[&then, &plan.now]].concat(), &[])
    }

    /// Makes the state in which these changes are taken back: an index, and its name.
    pub(super) fn target<'a>(
        &self,
        changes: impl Iterator<Item = &'a Change> + Clone,
        now: &str,
    ) -> Result<(Git, String), UndoError> {
        let git = self.git.with_index("target");
        // What is left of an earlier one.
        let _ = fs::remove_file(git.index());
        git.run(&["read-tree", now], &[])?;
        let then = |change: &'a Change| (change.path.as_os_str().as_bytes(), change.then.as_ref());
        git.update_index(&[], changes.map(then))?;
        let tree = git.run(&["write-tree", "--missing-ok"], &[])?;
        Ok((git, String::from_utf8_lossy(tree.trim_ascii()).into_owned()))
    }
}

pub(super) type Compared = Vec<(Vec<u8>, [Option<Blob>; 2])>;

/// Compares two states.
pub(super) fn compare(git: &Git, before: &str, after: &str) -> Result<Compared, UndoError> {
    if before == after {
        return Ok(Vec::new());
    }
    let said = git.run(&["diff-tree", "-r", "-z", "--raw", "--no-renames", before, after], &[])?;
    let fields: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
    let mut compared = Vec::new();
    for pair in fields.chunks_exact(2) {
        let &[said, path] = pair else { continue };
        let said = String::from_utf8_lossy(said);
        let words: Vec<&str> = said.trim_start_matches(':').split(' ').collect();
        let &[old_mode, mode, old_id, id, ..] = &words[..] else { continue };
        compared.push((path.to_vec(), [blob(old_mode, old_id), blob(mode, id)]));
    }
    Ok(compared)
}

fn blob(mode: &str, id: &str) -> Option<Blob> {
    (mode != "000000").then(|| Blob { mode: mode.to_owned(), id: id.to_owned() })
}

/// Returns what is now in files; the index has just been brought up to date.
fn present(
    git: &Git,
    wanted: &BTreeMap<Vec<u8>, Ends>,
) -> Result<BTreeMap<Vec<u8>, Blob>, UndoError> {
    let mut present = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(present);
    }
    for entry in super::git::paths(&git.run(&["ls-files", "-s", "-z"], &[])?) {
        let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
        let (said, path) = (String::from_utf8_lossy(&entry[..tab]), &entry[tab + 1..]);
        let mut words = said.split(' ');
        if let (true, Some(mode), Some(id)) =
            (wanted.contains_key(path), words.next(), words.next())
        {
            let blob = Blob { mode: mode.to_owned(), id: id.to_owned() };
            present.insert(path.to_vec(), blob);
        }
    }
    Ok(present)
}
