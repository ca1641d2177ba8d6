//! The place of a file, held open: what was judged is what is touched, however links change meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Mode, OFlags, mkdirat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use bowline_agent::tool::{ToolContext, ToolError};

use super::target;
use crate::guard::Want;
use crate::workspace::Workspace;

/// How a folder is held.
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::PATH);

/// A name in a folder that is held open.
#[derive(Debug)]
pub(crate) struct Spot {
    folder: OwnedFd,
    name: OsString,
    /// Where it really is.
    pub(crate) path: PathBuf,
}

impl Spot {
    /// Finds the place of a file that is to be written, links followed, also to what does not exist yet.
    /// The folders that are missing are made if the guard lets the call write there.
    ///
    /// # Errors
    /// If the guard does not, or the place cannot be reached.
    pub(crate) fn to_write(
        workspace: &Workspace,
        path: &Path,
        cx: &ToolContext,
    ) -> Result<Self, ToolError> {
        let allowed = |path: &Path| workspace.guard.check(&cx.call, path, Want::Write);
        let shown = workspace.shown(path);
        match Self::find(&target(path), |path| allowed(path).map_err(io::Error::other)) {
            Ok(spot) => Ok(spot),
            // What the guard says stands by itself.
            Err(error) if error.kind() == io::ErrorKind::Other => {
                Err(ToolError::Failed(error.to_string()))
            }
            Err(error) => Err(ToolError::Failed(format!("cannot write {shown}: {error}"))),
        }
    }

    /// Finds the place of a file of bowline's own. A link that somebody has put there is not followed: it
    /// is what is replaced.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub(crate) fn own(path: &Path) -> io::Result<Self> {
        Self::find(path, |_| Ok(()))
    }

    /// Finds the place of a file within a folder, by its path there. No link is followed: what it leads
    /// through are folders. Those that are missing are made if that is wanted.
    ///
    /// # Errors
    /// If it leads through something else, or cannot be reached.
    pub(crate) fn beneath(root: &Path, path: &Path, makes: bool) -> io::Result<Self> {
        let mut folder = openat(rustix::fs::CWD, root, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name),
                _ => return Err(Errno::INVAL.into()),
            }
        }
        let name = names.pop().ok_or(Errno::INVAL)?.to_owned();
        for name in names {
            if makes {
                make_folder(&folder, name)?;
            }
            folder = openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(Self { folder, name, path: root.join(path) })
    }

    fn find(path: &Path, allowed: impl Fn(&Path) -> io::Result<()>) -> io::Result<Self> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "that is no name of a file");
        let name = path.file_name().ok_or_else(no_name)?.to_owned();
        let mut missing = Vec::new();
        let mut there = path.parent().unwrap_or(Path::new("/"));
        let mut folder = loop {
            match openat(rustix::fs::CWD, there, FOLDER, Mode::empty()) {
                Ok(folder) => break folder,
                Err(Errno::NOENT) => {
                    missing.push(there.file_name().ok_or_else(no_name)?);
                    there = there.parent().ok_or_else(no_name)?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        missing.reverse();
        let mut real = real_path(&folder, there)?;
        real.extend(&missing);
        let path = real.join(&name);
        allowed(&path)?;
        for name in missing {
            make_folder(&folder, name)?;
            folder = openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(Self { folder, name, path })
    }

    /// Gives the file new content in one step. An existing one keeps its mode and, if that is allowed, its
    /// owner; a new one has `mode` if that is said. Other names of an existing file, which may be anywhere,
    /// go on naming what it was.
    ///
    /// # Errors
    /// If it cannot be written; it is then unchanged, unless it stands in a folder in which nothing can be
    /// made, and so had to be written in place.
    pub(crate) fn replace(
        &self,
        content: &[u8],
        existing: Option<&Metadata>,
        mode: Option<&Permissions>,
    ) -> io::Result<()> {
        match Draft::create(&self.folder, existing.is_some()) {
            Ok(draft) => {
                let kept = existing.map(Metadata::permissions);
                draft.finish(&self.name, content, existing, kept.as_ref().or(mode))
            }
            Err(Errno::ACCESS) if existing.is_some_and(|meta| meta.nlink() == 1) => {
                let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(&self.folder, &self.name, flags, Mode::empty())?;
                File::from(file).write_all(content)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the file new content in one step, as [`Spot::replace`]. Whoever may read it may run it, or
    /// nobody may. What stands there and is no file makes way, unless it is a folder.
    ///
    /// # Errors
    /// If it cannot be written; nothing has changed then.
    pub(crate) fn put_back(&self, content: &[u8], runs: bool) -> io::Result<()> {
        let existing = self.metadata().ok().filter(Metadata::is_file);
        let draft = Draft::create(&self.folder, existing.is_some())?;
        let kept = match &existing {
            Some(existing) => existing.mode() & 0o7777,
            None => draft.file.metadata()?.mode() & 0o7777,
        };
        let mode = if runs { kept | ((kept & 0o444) >> 2) } else { kept & !0o111 };
        draft.finish(&self.name, content, existing.as_ref(), Some(&Permissions::from_mode(mode)))
    }

    /// Makes a link in the place of the file, in one step.
    ///
    /// # Errors
    /// If it cannot be made; nothing has changed then.
    pub(crate) fn link(&self, target: &OsStr) -> io::Result<()> {
        loop {
            let name = draft_name();
            match symlinkat(target, &self.folder, &name) {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            }
            let renamed = renameat(&self.folder, &name, &self.folder, &self.name);
            if renamed.is_err() {
                // What is in the way says why.
                let _ = unlinkat(&self.folder, &name, AtFlags::empty());
            }
            return Ok(renamed?);
        }
    }

    /// Opens the file to read it. It is not followed if it is a link, nor waited for if it gives nothing.
    ///
    /// # Errors
    /// If it is a link, or cannot be read.
    pub(crate) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&self.folder, &self.name, flags, Mode::empty())?.into())
    }

    /// Returns where the link leads that stands in the place of the file.
    ///
    /// # Errors
    /// If there is no link.
    pub(crate) fn leads_to(&self) -> io::Result<OsString> {
        let target = readlinkat(&self.folder, &self.name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Returns what is known of the file itself, also if it is a link.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(&self.folder, &self.name, flags, Mode::empty())?).metadata()
    }

    /// Removes the file.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Removes the folder that stands in the place of a file, if it is empty.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove_folder(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?)
    }
}

/// Makes a folder if nothing has its name.
fn make_folder(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    match mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns where something that is open really is.
pub(super) fn real_path(opened: impl AsFd, path: &Path) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;

        let _ = path;
        std::fs::read_link(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = opened;
        path.canonicalize()
    }
}

/// Returns a name that nothing should have.
fn draft_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (pid, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!(".bowline-{pid}-{next}.tmp")
}

/// A file that is not yet what it is going to be; removed when dropped.
struct Draft<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
}

impl<'a> Draft<'a> {
    fn create(folder: &'a OwnedFd, is_private: bool) -> rustix::io::Result<Self> {
        loop {
            let name = draft_name();
            // What replaces a private file must at no time be readable by others.
            let mode = Mode::from_raw_mode(if is_private { 0o600 } else { 0o666 });
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            match openat(folder, &name, flags, mode) {
                Ok(file) => return Ok(Self { folder, name, file: file.into() }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn finish(
        mut self,
        to: &OsString,
        content: &[u8],
        existing: Option<&Metadata>,
        mode: Option<&Permissions>,
    ) -> io::Result<()> {
        self.file.write_all(content)?;
        if let Some(existing) = existing {
            let own = self.file.metadata()?;
            if (own.uid(), own.gid()) != (existing.uid(), existing.gid()) {
                // Only the superuser may give files away; others keep what they write.
                let (uid, gid) = (Some(existing.uid()), Some(existing.gid()));
                let _ = std::os::unix::fs::fchown(&self.file, uid, gid);
            }
        }
        if let Some(mode) = mode {
            self.file.set_permissions(mode.clone())?;
        }
        Ok(renameat(self.folder, &self.name, self.folder, to)?)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // After a successful rename there is nothing of that name.
        let _ = unlinkat(self.folder, &self.name, AtFlags::empty());
    }
}
