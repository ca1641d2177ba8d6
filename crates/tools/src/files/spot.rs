//! The place of a file, held open: what was judged is what is touched, however links change meanwhile.

use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
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
            match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
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
            Ok(draft) => draft.finish(&self.name, content, existing, mode),
            Err(Errno::ACCESS) if existing.is_some_and(|meta| meta.nlink() == 1) => {
                let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(&self.folder, &self.name, flags, Mode::empty())?;
                File::from(file).write_all(content)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the file.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
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

/// A file that is not yet what it is going to be; removed when dropped.
struct Draft<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
}

impl<'a> Draft<'a> {
    fn create(folder: &'a OwnedFd, is_private: bool) -> rustix::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let (pid, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let name = format!(".bowline-{pid}-{next}.tmp");
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
            self.file.set_permissions(existing.permissions())?;
        } else if let Some(mode) = mode {
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
