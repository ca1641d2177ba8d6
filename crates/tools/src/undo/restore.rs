//! Bringing files back.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::journal::Line;
use super::{Change, Plan, Turned, Undo, UndoError};

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
        let (git, after) = self.target(wanted.clone(), &plan.now)?;
        self.journal.append(Line::Restored { before: plan.now.clone(), after, turned })?;
        self.recorded = None;
        let mut restored = Restored::default();
        for change in wanted.clone().filter(|change| change.then.is_none()) {
            match self.remove(&change.path)? {
                true => restored.files.push(change.path.clone()),
                false => restored.blocked.push(change.path.clone()),
            }
        }
        let mut back: Vec<(&Change, Option<u32>)> = Vec::new();
        let mut names = Vec::new();
        for change in wanted.filter(|change| change.then.is_some()) {
            if !self.has_room_for(&change.path) {
                restored.blocked.push(change.path.clone());
                continue;
            }
            let mode = self.git.root().join(&change.path).symlink_metadata();
            back.push((change, mode.ok().filter(fs::Metadata::is_file).as_ref().map(mode_of)));
            names.extend_from_slice(change.path.as_os_str().as_bytes());
            names.push(0);
        }
        if !names.is_empty() {
            git.run(&["checkout-index", "--force", "-z", "--stdin"], &names)?;
        }
        for (change, mode) in back {
            self.give_mode(change, mode)?;
            restored.files.push(change.path.clone());
        }
        restored.files.sort();
        Ok(restored)
    }

    /// Removes a file, and the folders that are empty without it; tells whether it is gone.
    fn remove(&self, path: &Path) -> Result<bool, UndoError> {
        let file = self.git.root().join(path);
        if !self.leads_through_folders(path) {
            return Ok(false);
        }
        match fs::remove_file(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Ok(false),
            Err(error) => return Err(UndoError::file(&file)(error)),
        }
        for folder in file.ancestors().skip(1).take_while(|folder| *folder != self.git.root()) {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(true)
    }

    /// Tells whether git may write a file: it would remove a folder or a link that is in the way.
    fn has_room_for(&self, path: &Path) -> bool {
        let is_folder = self.git.root().join(path).symlink_metadata();
        let is_folder = is_folder.is_ok_and(|data| data.is_dir());
        !is_folder && self.leads_through_folders(path)
    }

    /// Tells whether all that a path leads through is a folder, or not there.
    pub(super) fn leads_through_folders(&self, path: &Path) -> bool {
        let mut parents = path.ancestors().skip(1);
        parents.all(|parent| match self.git.root().join(parent).symlink_metadata() {
            Ok(data) => data.is_dir(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
    }

    /// Gives a file who may do what with it, which git does not know.
    fn give_mode(&self, change: &Change, mode: Option<u32>) -> Result<(), UndoError> {
        let runs = match change.then.as_ref().map(|blob| blob.mode.as_str()) {
            Some("100755") => true,
            Some("100644") => false,
            Some(_) | None => return Ok(()),
        };
        let Some(mode) = mode else { return Ok(()) };
        let file = self.git.root().join(&change.path);
        // Whoever may read it may run it.
        let mode = if runs { mode | ((mode & 0o444) >> 2) } else { mode & !0o111 };
        fs::set_permissions(&file, Permissions::from_mode(mode)).map_err(UndoError::file(&file))
    }
}

fn mode_of(data: &fs::Metadata) -> u32 {
    data.permissions().mode() & 0o7777
}
