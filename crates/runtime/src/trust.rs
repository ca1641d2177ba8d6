//! Which folders the user trusts.
//!
//! What a project brings with it (configuration, agents, skills, MCP servers, hooks) can run programs and
//! send data away, and comes with a `git clone`. So none of it counts before the user has said that the folder is
//! trusted, for one start or once and for all. What is said is kept with the user, one folder a line.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::environment::Folders;
use crate::project;

/// The file below the user's data.
const FILE: &str = "trusted";

/// The folders that the user trusts.
#[derive(Debug, Clone)]
pub struct Trusted {
    file: PathBuf,
}

impl Trusted {
    /// Finds what is kept in the user's folders.
    pub fn new(folders: &Folders) -> Self {
        Self { file: folders.data.join(FILE) }
    }

    /// Returns the folder that must be trusted for what a directory brings: the root of its repository, or
    /// itself, without links.
    pub fn place(directory: &Path) -> PathBuf {
        let root = project::git_root(directory).unwrap_or(directory);
        root.canonicalize().unwrap_or_else(|_| root.to_owned())
    }

    /// Tells whether what a directory brings counts. What cannot be read is not trusted.
    pub fn holds(&self, directory: &Path) -> bool {
        let place = Self::place(directory);
        self.list().is_ok_and(|folders| folders.contains(&place))
    }

    /// Returns all folders, in the order in which they were added.
    ///
    /// # Errors
    /// If the list is there and cannot be read.
    pub fn list(&self) -> io::Result<Vec<PathBuf>> {
        match fs::read_to_string(&self.file) {
            Ok(text) => Ok(text.lines().map(PathBuf::from).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Trusts the project of a directory from now on; returns its folder, and whether that is new.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn add(&self, directory: &Path) -> io::Result<(PathBuf, bool)> {
        let place = Self::place(directory);
        let mut folders = self.list()?;
        if folders.contains(&place) {
            return Ok((place, false));
        }
        if place.to_str().is_none_or(|path| path.contains(['\n', '\r'])) {
            let what = "its path cannot be written down in a line";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        folders.push(place.clone());
        self.write(&folders)?;
        Ok((place, true))
    }

    /// Trusts the project of a directory no longer; returns its folder, and whether it was trusted.
    ///
    /// # Errors
    /// As [`Trusted::add`].
    pub fn remove(&self, directory: &Path) -> io::Result<(PathBuf, bool)> {
        let place = Self::place(directory);
        let mut folders = self.list()?;
        let before = folders.len();
        folders.retain(|folder| *folder != place);
        let was_there = folders.len() < before;
        if was_there {
            self.write(&folders)?;
        }
        Ok((place, was_there))
    }

    /// Writes the list so that nobody finds half of it.
    fn write(&self, folders: &[PathBuf]) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let new = folder.join(format!("{FILE}.{}.new", std::process::id()));
        let mut file = fs::File::create(&new)?;
        for folder in folders {
            writeln!(file, "{}", folder.display())?;
        }
        file.sync_all()?;
        fs::rename(new, &self.file)
    }
}
