//! Telling whether what is kept is what was written.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bowline_agent::id::SessionId;
use bowline_agent::journal::{JournalError, Pos};

use super::commits::{Choice, Commit, Commits};
use super::{Files, blobs};

/// What was found in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The session.
    pub session: SessionId,
    /// Its log.
    pub log: PathBuf,
    /// The commits before the first problem.
    pub commits: u64,
    /// The entries in them.
    pub entries: u64,
    /// The first problem of the log, behind which nothing was read.
    pub problem: Option<Problem>,
    /// The last line if it has no newline: a commit that never happened, or that somebody is just
    /// writing. Opening the session cuts it off.
    pub torn_line: Option<u64>,
    /// Large bodies that the log refers to and that are not there, by their hashes.
    pub missing_blobs: Vec<String>,
    /// Large bodies that are not what they were, by their hashes.
    pub altered_blobs: Vec<String>,
}

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl Report {
    /// Tells whether all that was committed is there. A torn last line was not committed.
    pub fn is_sound(&self) -> bool {
        self.problem.is_none() && self.missing_blobs.is_empty() && self.altered_blobs.is_empty()
    }
}

impl Files {
    /// Checks a session: every line of its log and every large body it refers to.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] or [`JournalError::Io`] if it could not be read; what is wrong
    /// with it is no error but in the report.
    pub fn verify(&self, id: SessionId) -> Result<Report, JournalError> {
        let place = self.place(id)?;
        let mut commits = Commits::open(&place, Choice::default())?;
        let mut report = Report {
            session: id,
            log: place.log(),
            commits: 0,
            entries: 0,
            problem: None,
            torn_line: None,
            missing_blobs: Vec::new(),
            altered_blobs: Vec::new(),
        };
        let mut hashes = BTreeSet::new();
        while let Some(commit) = commits.next() {
            match commit {
                Ok(Commit { entries, .. }) => {
                    hashes.extend(
                        entries.iter().flat_map(|entry| entry.kind.bodies()).map(ToOwned::to_owned),
                    );
                }
                Err(JournalError::Corrupt { what, .. }) => {
                    let line = commits.mark().lines + 1;
                    report.problem = Some(Problem { line, reason: what });
                }
                Err(error) => return Err(error),
            }
        }
        let end = commits.mark();
        let Pos(entries) = end.pos;
        (report.commits, report.entries) = (end.lines, entries);
        report.torn_line = commits.is_torn().then_some(end.lines + 1);
        for hash in hashes {
            match blobs::get(&place, &hash) {
                Ok(_) => {}
                Err(JournalError::NotFound(_)) => report.missing_blobs.push(hash),
                Err(JournalError::Corrupt { .. }) => report.altered_blobs.push(hash),
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    /// Checks all sessions, the one written to last first. A session that cannot be read does not
    /// hide the others.
    ///
    /// # Errors
    /// [`JournalError::Io`] if the sessions could not be listed.
    pub fn verify_all(
        &self,
    ) -> Result<impl Iterator<Item = (SessionId, Result<Report, JournalError>)>, JournalError> {
        Ok(self.places()?.into_iter().map(|place| (place.id, self.verify(place.id))))
    }
}
