//! Bringing files back.
//!
//! A command that goes on may put a link in the place of a folder at any moment. So git writes nothing: it
//! says what was in the files, and they are written in folders that are held open.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::git::Git;
use super::journal::Line;
use super::plan::Blob;
use super::{Change, Plan, Turned, Undo, UndoError};
use crate::files::Spot;

/// How many bytes are read at once, unless one file has more.
const BATCH: u64 = 64 << 20;

/// Which files were brought back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Those that are as they were.
    pub files: Vec<PathBuf>,
    /// Those where something stands in the way that nobody has recorded, such as a folder with ignored
    /// files.
    pub blocked: Vec<PathBuf>,
}

impl Undo {
    /// Brings files back to where they were before what a plan is about. Those that somebody else has
    /// changed since only if that is `forced`. The state of now was recorded by [`Undo::plan`], so this
    /// can be taken back: see [`Undo::last_restored`].
    ///
    /// # Errors
    /// [`UndoError`] if it cannot be noted, and nothing has changed then; or if what was recorded
    /// cannot be written.
    pub fn restore(
        &mut self,
        plan: &Plan,
        is_forced: bool,
        turned: Option<Turned>,
    ) -> Result<Restored, UndoError> {
        let _lock = self.lock()?;
        let wanted = plan.changes.iter().filter(|change| is_forced || !change.is_changed_since);
        let (_, after) = self.target(wanted.clone(), &plan.now)?;
        self.journal.append(Line::Restored { before: plan.now.clone(), after, turned })?;
        self.recorded = None;
        let mut restored = Restored::default();
        let mut note = |path: &Path, done: io::Result<()>| {
            match done {
                Ok(()) => restored.files.push(path.to_path_buf()),
                Err(error) if is_in_the_way(&error) => restored.blocked.push(path.to_path_buf()),
                Err(error) => return Err(UndoError::file(path)(error)),
            }
            Ok(())
        };
        for change in wanted.clone().filter(|change| change.then.is_none()) {
            note(&change.path, self.remove(&change.path))?;
        }
        let back = |change: &'_ Change| Some((change.path.clone(), change.then.clone()?));
        let back: Vec<(PathBuf, Blob)> = wanted.filter_map(back).collect();
        for batch in batches(&self.git, &back)? {
            for ((path, blob), content) in batch.iter().zip(contents(&self.git, batch)?) {
                note(path, self.write(path, blob, &content))?;
            }
        }
        restored.files.sort();
        Ok(restored)
    }

    /// Removes a file, and the folders that are empty without it.
    fn remove(&self, path: &Path) -> io::Result<()> {
        let root = self.git.root();
        let removed = Spot::beneath(root, path, false).and_then(|spot| spot.remove());
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        let folders = path.ancestors().skip(1).take_while(|folder| !folder.as_os_str().is_empty());
        for folder in folders {
            let removed = Spot::beneath(root, folder, false).and_then(|spot| spot.remove_folder());
            if removed.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Writes a file, which keeps who may do what with it but for running it.
    fn write(&self, path: &Path, blob: &Blob, content: &[u8]) -> io::Result<()> {
        let spot = Spot::beneath(self.git.root(), path, true)?;
        match blob.mode.as_str() {
            "120000" => spot.link(OsStr::from_bytes(content)),
            mode => spot.put_back(content, mode == "100755"),
        }
    }
}

/// Tells whether something stands in the way of a file: a folder, or what is no folder where one should be.
fn is_in_the_way(error: &io::Error) -> bool {
    let ways = [Errno::NOTDIR, Errno::LOOP, Errno::ISDIR, Errno::NOTEMPTY, Errno::EXIST];
    Errno::from_io_error(error).is_some_and(|error| ways.contains(&error))
}

/// Divides files so that what is in each part is not too much to be held at once.
fn batches<'a>(
    git: &Git,
    mut files: &'a [(PathBuf, Blob)],
) -> Result<Vec<&'a [(PathBuf, Blob)]>, UndoError> {
    let said = git.run(&["cat-file", "--batch-check=%(objectsize)"], &ids(files))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let (mut batches, mut count, mut bytes) = (Vec::new(), 0, 0);
    for line in said.lines() {
        let size: u64 = line.parse().map_err(|_| missing(line))?;
        if count > 0 && bytes + size > BATCH {
            let (batch, others) = files.split_at(count);
            batches.push(batch);
            (files, count, bytes) = (others, 0, 0);
        }
        count += 1;
        bytes += size;
    }
    batches.push(files);
    Ok(batches)
}

/// Returns what was in files.
fn contents(git: &Git, files: &[(PathBuf, Blob)]) -> Result<Vec<Vec<u8>>, UndoError> {
    let said = git.run(&["cat-file", "--batch=%(objectsize)"], &ids(files))?;
    let (mut contents, mut rest) = (Vec::new(), &said[..]);
    for (_, blob) in files {
        let cut = || missing(&blob.id);
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(cut)?;
        let (line, behind) = (String::from_utf8_lossy(&rest[..end]), &rest[end + 1..]);
        let size: usize = line.parse().map_err(|_| missing(&line))?;
        let (content, behind) = behind.split_at_checked(size).ok_or_else(cut)?;
        contents.push(content.to_vec());
        // A line break is behind it.
        rest = behind.get(1..).ok_or_else(cut)?;
    }
    Ok(contents)
}

fn ids(files: &[(PathBuf, Blob)]) -> Vec<u8> {
    files.iter().flat_map(|(_, blob)| format!("{}\n", blob.id).into_bytes()).collect()
}

fn missing(said: &str) -> UndoError {
    UndoError::Git { what: "cat-file".to_owned(), said: said.to_owned() }
}
