//! One writer at a time in a folder, whatever process it is in.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// A lock on a folder, held until it is dropped.
///
/// Whoever holds it does a little with files and awaits nothing.
#[derive(Debug)]
pub(crate) struct FolderLock {
    // Closing it lets go.
    _file: File,
}

impl FolderLock {
    /// Waits for the lock; makes the folder if need be.
    pub(crate) fn take(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut options = OpenOptions::new();
        // Others may have put a pipe there, which waits for a reader, or a link to anywhere.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
        let file = options.create(true).truncate(false).write(true).open(folder.join(".lock"))?;
        file.lock()?;
        Ok(Self { _file: file })
    }
}
