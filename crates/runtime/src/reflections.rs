//! What agents remember of tasks that failed: one Markdown file for each failure.
//!
//! Anybody may have written to the folder, so a file counts only if it is one, of the size that is
//! ever told, and in UTF-8. Notes that a person has put there are as good as those of agents.

mod note;
mod relevance;

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use bowline_agent::Redaction;
use bowline_agent::crew::{self, Failure};

pub use note::{Note, Refused};

use note::Label;

/// How many notes are told of one task at most.
pub const TOLD: usize = 5;

/// How many bytes are told of one task at most. A larger file is never read.
pub const TOLD_BYTES: usize = 32 * 1024;

/// How many notes are kept: of those that agents wrote, the newest.
pub const KEPT: usize = 200;

/// What stands between notes that are told.
const BETWEEN: &str = "\n\n---\n\n";

/// A folder of notes on tasks that failed.
#[derive(Debug, Clone)]
pub struct Reflections {
    folder: PathBuf,
    redaction: Redaction,
}

/// The notes in a folder, newest first, and the files that are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// The notes.
    pub notes: Vec<Note>,
    /// What cannot be used.
    pub refused: Vec<Refused>,
}

impl Reflections {
    /// Makes reflections in a folder, which need not be there; what the redaction knows is neither
    /// written nor told.
    pub fn new(folder: PathBuf, redaction: Redaction) -> Self {
        Self { folder, redaction }
    }

    /// Returns where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the notes that count: the newest [`KEPT`].
    pub fn list(&self) -> Listed {
        let mut listed = Listed::default();
        for file in self.files().into_iter().take(KEPT) {
            match Note::read(&file) {
                Ok(note) => listed.notes.push(note),
                Err(refused) => listed.refused.push(refused),
            }
        }
        listed
    }

    /// Deletes the note of a name, also one that cannot be used. Returns whether there was one.
    ///
    /// # Errors
    /// What the system says.
    pub fn delete(&self, name: &str) -> io::Result<bool> {
        // What is not listed is not ours to delete, so no name leads out of the folder.
        match self.files().into_iter().find(|file| note::name_of(file) == Some(name)) {
            Some(file) => fs::remove_file(file).map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns the files that may be notes, newest first.
    fn files(&self) -> Vec<PathBuf> {
        // A link would have us read, and tidy up, in somebody else's folder.
        if !self.folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let named = paths.filter(|path| note::name_of(path).is_some());
        let mut files: Vec<_> = named.map(|path| (note::time_of(&path), path)).collect();
        files.sort_by(|a, b| b.cmp(a));
        files.into_iter().map(|(_, path)| path).collect()
    }

    fn lessons(&self, task: &str) -> Option<String> {
        let notes = self.list().notes;
        let mut told: Vec<(&Note, String)> = Vec::new();
        let mut seen = HashSet::new();
        let mut room = TOLD_BYTES;
        for note in relevance::like(task, &notes) {
            let text = self.redaction.apply(note.text.trim());
            let bytes = text.len() + BETWEEN.len();
            if told.len() == TOLD || bytes > room || !seen.insert(note.lesson()) {
                continue;
            }
            room -= bytes;
            told.push((note, text.into_owned()));
        }
        // What was learned last is what still holds.
        told.sort_by_key(|(note, _)| notes.iter().position(|listed| std::ptr::eq(listed, *note)));
        let told: Vec<_> = told.into_iter().map(|(_, text)| text).collect();
        (!told.is_empty()).then(|| told.join(BETWEEN))
    }

    fn remember(&self, failure: &Failure) -> io::Result<()> {
        let agent = self.redaction.apply(&failure.agent);
        let label = Label::new(&agent, failure);
        // An agent fails once: what a session tells again when it goes on is known.
        let known = self.files();
        let mut known = known.iter().filter_map(|file| note::label_of(file));
        if known.any(|known| known.is_of_agent(&label)) {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o750).create(&self.folder)?;
        if self.folder.symlink_metadata()?.is_symlink() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "the folder is a link"));
        }
        let text = note::text(failure, &self.redaction);
        note::write(&self.folder, &label, &text)?;
        self.forget();
        Ok(())
    }

    /// Deletes what agents wrote and too many others have followed.
    fn forget(&self) {
        let written = self.files().into_iter().filter(|file| note::label_of(file).is_some());
        for file in written.skip(KEPT) {
            // What cannot be deleted now can be after the next failure.
            let _ = fs::remove_file(file);
        }
    }
}

#[async_trait::async_trait]
impl crew::Reflections for Reflections {
    async fn prior(&self, task: &str) -> Option<String> {
        let (reflections, task) = (self.clone(), task.to_owned());
        tokio::task::spawn_blocking(move || reflections.lessons(&task)).await.ok().flatten()
    }

    async fn note(&self, failure: Failure) {
        let reflections = self.clone();
        // What cannot be remembered is no reason to fail.
        let _ = tokio::task::spawn_blocking(move || reflections.remember(&failure)).await;
    }
}

#[cfg(test)]
mod tests;
