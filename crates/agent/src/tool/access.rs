//! What a call touches, and which calls may overlap.

use std::path::{Path, PathBuf};

/// What a call reads, writes, runs and reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// What it reads.
    pub reads: PathSet,
    /// What it writes.
    pub writes: PathSet,
    /// The command it runs, if it runs one.
    pub execute: Option<String>,
    /// The hosts it talks to.
    pub network: Vec<String>,
    /// Whether nothing may run beside it.
    pub exclusive: bool,
}

impl Access {
    /// Touches nothing anybody else could notice.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads one file or folder.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Self { reads: PathSet::one(path), ..Self::default() }
    }

    /// Reads and writes one file or folder.
    pub fn write(path: impl Into<PathBuf>) -> Self {
        Self { writes: PathSet::one(path), ..Self::default() }
    }

    /// Runs a command, which may read and write anything.
    pub fn execute(command: impl Into<String>) -> Self {
        Self { execute: Some(command.into()), ..Self::default() }
    }

    /// Must be alone.
    pub fn exclusive() -> Self {
        Self { exclusive: true, ..Self::default() }
    }

    /// Tells whether both calls may not run at the same time.
    ///
    /// They conflict when one writes what the other reads or writes. A command conflicts with
    /// writes and with other commands, not with reads.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.exclusive
            || other.exclusive
            || self.writes.overlaps(&other.writes)
            || self.writes.overlaps(&other.reads)
            || self.reads.overlaps(&other.writes)
            || (self.execute.is_some() && (other.execute.is_some() || !other.writes.is_empty()))
            || (other.execute.is_some() && !self.writes.is_empty())
    }

    /// Tells whether the call changes nothing: it writes no file, runs no command and reaches no
    /// host.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty()
            && self.execute.is_none()
            && self.network.is_empty()
            && !self.exclusive
    }
}

/// Some paths; a folder stands for all that is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathSet {
    paths: Vec<PathBuf>,
}

impl PathSet {
    /// Makes a set of one path.
    pub fn one(path: impl Into<PathBuf>) -> Self {
        Self { paths: vec![path.into()] }
    }

    /// Returns the paths.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Tells whether the set has no path.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Tells whether a path of one set is, holds, or lies in a path of the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let nested = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
        self.paths.iter().any(|a| other.paths.iter().any(|b| nested(a, b)))
    }
}

impl FromIterator<PathBuf> for PathSet {
    fn from_iter<I: IntoIterator<Item = PathBuf>>(paths: I) -> Self {
        Self { paths: paths.into_iter().collect() }
    }
}
