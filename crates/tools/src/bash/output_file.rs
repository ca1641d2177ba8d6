//! The file that a command leaves: its output.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bowline_agent::tool::ToolError;

use crate::excerpt::{Bounds, excerpt};

/// An output longer than this is read where it does not hold up others.
const LARGE: u64 = 1 << 20;

/// The file with the output of one command.
#[derive(Debug, Clone)]
pub(crate) struct OutputFile {
    pub(crate) path: PathBuf,
}

impl OutputFile {
    /// Makes the file, and the folder if need be. Calls with one id get different files.
    pub(crate) fn create(folder: &Path, call: &str) -> io::Result<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let plain = call.chars().map(|c| if is_plain(c) { c } else { '_' });
        let name: String = plain.take(100).collect();
        let mut ordinal = 1;
        loop {
            let mut unique = name.clone();
            if ordinal > 1 {
                let _ = write!(unique, "-{ordinal}");
            }
            let path = folder.join(format!("{unique}.out"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ordinal += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_dir() => {
                    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns what the model sees of the output from an offset on, and where the output ended.
    pub(crate) async fn excerpt(&self, from: u64, bytes: u64) -> Result<(String, u64), ToolError> {
        let bounds = Bounds::new(bytes);
        let is_large = fs::metadata(&self.path).is_ok_and(|meta| meta.len() > from + LARGE);
        let text = if is_large {
            let path = self.path.clone();
            let read = tokio::task::spawn_blocking(move || excerpt(&path, from, bounds)).await;
            read.unwrap_or_else(|error| Err(io::Error::other(error)))
        } else {
            excerpt(&self.path, from, bounds)
        };
        text.map_err(|error| {
            let path = self.path.display();
            ToolError::Failed(format!("the output in {path} cannot be read: {error}"))
        })
    }
}
