//! Applying a patch: everything is worked out before anything is written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::PathBuf;

use bowline_agent::tool::{ToolContext, ToolError};

use crate::files::{self, Loaded, Spot};
use crate::lines::{Pass, Reindent, closest};
use crate::text::Text;
use crate::workspace::Workspace;

use super::parse::{Change, Chunk, FileChange, Line};

/// Applies changes and says what was done; on any failure no file is changed.
pub(super) fn apply(
    workspace: &Workspace,
    changes: &[FileChange],
    cx: &ToolContext,
) -> Result<String, ToolError> {
    let mut plan = Plan { workspace, cx, files: BTreeMap::new(), notes: Vec::new() };
    for change in changes {
        plan.add(change)?;
    }
    plan.write()?;
    let mut summary = Vec::new();
    for file in plan.files.values() {
        let sign = match (&file.before, &file.after) {
            (None, None) => continue,
            (None, Some(_)) => 'A',
            (Some(_), Some(_)) => 'M',
            (Some(_), None) => 'D',
        };
        summary.push(format!("{sign} {}", workspace.shown(&file.path)));
        match &file.after {
            Some(content) => {
                let path = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
                files::remember(cx, &path, content)?;
            }
            None => files::forget(cx, &file.path)?,
        }
    }
    summary.extend(plan.notes);
    Ok(summary.join("\n"))
}

/// What the files will be.
struct Plan<'a> {
    workspace: &'a Workspace,
    cx: &'a ToolContext,
    files: BTreeMap<PathBuf, Planned>,
    notes: Vec<String>,
}

/// A file before and after.
struct Planned {
    path: PathBuf,
    before: Option<Loaded>,
    after: Option<Vec<u8>>,
    /// The mode of the file that this one was, if it is new by being moved.
    mode: Option<fs::Permissions>,
}

impl Plan<'_> {
    fn add(&mut self, change: &FileChange) -> Result<(), ToolError> {
        let path = &change.path;
        match &change.change {
            Change::Add(content) => {
                self.file(path)?.after = Some(content.clone().into_bytes());
            }
            Change::Delete => {
                if self.file(path)?.after.take().is_none() {
                    return Err(self.missing(path));
                }
            }
            Change::Update { to, chunks } => {
                let file = self.file(path)?;
                let mode = file.before.as_ref().map(|file| file.metadata.permissions());
                let Some(content) = file.after.take() else { return Err(self.missing(path)) };
                let text = Text::parse(&content).ok_or_else(|| {
                    ToolError::Failed(format!("{path} is not UTF-8; change it with bash"))
                })?;
                let (updated, passes) = update(&text.content, chunks)
                    .map_err(|problem| ToolError::Failed(format!("{path}: {problem}")))?;
                self.notes.extend(passes.into_iter().map(|note| format!("{path}: {note}")));
                let to = to.as_ref().unwrap_or(path);
                let file = self.file(to)?;
                file.after = Some(text.with(updated).to_bytes());
                file.mode = mode;
            }
        }
        Ok(())
    }

    /// Returns the plan for a file, which at first is to leave it as it is.
    fn file(&mut self, path: &str) -> Result<&mut Planned, ToolError> {
        // A file that is reached by two names is still one file.
        let path = files::target(&self.workspace.resolve(path));
        Ok(match self.files.entry(path) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let path = free.key().clone();
                let before = Loaded::read(self.workspace, &path, self.cx)?;
                let after = before.as_ref().map(|file| file.content.clone());
                free.insert(Planned { path, before, after, mode: None })
            }
        })
    }

    fn missing(&self, path: &str) -> ToolError {
        files::missing(self.workspace, &self.workspace.resolve(path))
    }

    /// Writes all files; if one cannot be written, what was written is undone.
    fn write(&self) -> Result<(), ToolError> {
        let changed = |file: &&Planned| file.before.is_some() || file.after.is_some();
        let planned: Vec<&Planned> = self.files.values().filter(changed).collect();
        // All that is not allowed is found before anything is written.
        let spots = planned.iter().map(|file| {
            let spot = Spot::to_write(self.workspace, &file.path, self.cx);
            spot.map_err(|why| ToolError::Failed(format!("{why}; no file was changed")))
        });
        let spots: Vec<Spot> = spots.collect::<Result<_, _>>()?;
        for (count, (file, spot)) in planned.iter().zip(&spots).enumerate() {
            let Err(error) = file.write(spot) else { continue };
            let mut written = planned.iter().zip(&spots).take(count);
            let undone = written.all(|(file, spot)| file.undo(spot).is_ok());
            let path = self.workspace.shown(&file.path);
            let rest = if undone {
                "no file was changed"
            } else {
                "and what was written before it could not be undone; check with git"
            };
            return Err(ToolError::Failed(format!("cannot write {path}: {error}; {rest}")));
        }
        Ok(())
    }
}

impl Planned {
    fn write(&self, spot: &Spot) -> std::io::Result<()> {
        let metadata = self.before.as_ref().map(|file| &file.metadata);
        match (&self.before, &self.after) {
            (None, None) => Ok(()),
            (Some(_), None) => spot.remove(),
            (Some(_) | None, Some(after)) => spot.replace(after, metadata, self.mode.as_ref()),
        }
    }

    fn undo(&self, spot: &Spot) -> std::io::Result<()> {
        match (&self.before, &self.after) {
            (None, None) => Ok(()),
            (None, Some(_)) => spot.remove(),
            (Some(before), _) => spot.replace(&before.content, Some(&before.metadata), None),
        }
    }
}

/// Lines that take the place of others.
struct Replacement {
    start: usize,
    end: usize,
    lines: Vec<String>,
}

/// Applies chunks to a text, and tells what had to be forgiven.
fn update(text: &str, chunks: &[Chunk]) -> Result<(String, Vec<&'static str>), String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut replacements = Vec::new();
    let mut notes = Vec::new();
    let mut cursor = 0;
    for (nth, chunk) in chunks.iter().enumerate() {
        let problem = |problem: &str| format!("chunk {} of {}: {problem}", nth + 1, chunks.len());
        for anchor in &chunk.anchors {
            let (at, _) = seek(&lines, &[anchor], cursor, false)
                .ok_or_else(|| problem(&not_found(&lines, &[anchor], cursor)))?;
            cursor = at + 1;
        }
        let (replacement, pass) = place(&lines, chunk, cursor)
            .ok_or_else(|| problem(&not_found(&lines, &quoted(chunk), cursor)))?;
        // What is only added at the end does not move the cursor there.
        if replacement.end > replacement.start {
            cursor = replacement.end;
        }
        notes.extend(pass.note().filter(|note| !notes.contains(note)));
        replacements.push(replacement);
    }
    replacements.sort_by_key(|replacement| replacement.start);
    let mut updated = Vec::new();
    let mut at = 0;
    for replacement in replacements {
        let kept = lines.get(at..replacement.start).unwrap_or_default();
        updated.extend(kept.iter().map(|line| (*line).to_owned()));
        updated.extend(replacement.lines);
        at = at.max(replacement.end);
    }
    updated.extend(lines.get(at..).unwrap_or_default().iter().map(|line| (*line).to_owned()));
    let mut content = updated.join("\n");
    if !updated.is_empty() {
        content.push('\n');
    }
    Ok((content, notes))
}

/// Returns the lines that a chunk says are there.
fn quoted(chunk: &Chunk) -> Vec<&str> {
    let quoted = chunk.lines.iter().filter_map(|line| match line {
        Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
        Line::Add(_) => None,
    });
    quoted.collect()
}

/// Finds where a chunk belongs and what it makes of that place.
fn place(lines: &[&str], chunk: &Chunk, cursor: usize) -> Option<(Replacement, Pass)> {
    let quoted = quoted(chunk);
    if quoted.is_empty() {
        let at = if chunk.anchors.is_empty() || chunk.at_end { lines.len() } else { cursor };
        let replacement = Replacement { start: at, end: at, lines: outcome(chunk, &[], None) };
        return Some((replacement, Pass::Exact));
    }
    let mut found = seek(lines, &quoted, cursor, chunk.at_end);
    let mut length = quoted.len();
    // An empty line at the end of a chunk may stand for the end of the last line.
    if found.is_none() && quoted.last().is_some_and(|last| last.is_empty()) {
        length -= 1;
        found = seek(lines, quoted.get(..length)?, cursor, chunk.at_end);
    }
    let (start, pass) = found?;
    let there = lines.get(start..start + length)?;
    let reindent = if pass == Pass::Indentation { Reindent::between(&quoted, there) } else { None };
    let lines = outcome(chunk, there, reindent.as_ref());
    Some((Replacement { start, end: start + length, lines }, pass))
}

/// Returns what becomes of the lines that are there. Those that stay keep what was forgiven.
fn outcome(chunk: &Chunk, there: &[&str], reindent: Option<&Reindent<'_>>) -> Vec<String> {
    let mut there = there.iter();
    let mut outcome = Vec::new();
    for line in &chunk.lines {
        match line {
            Line::Keep(_) => outcome.extend(there.next().map(|line| (*line).to_owned())),
            Line::Remove(_) => drop(there.next()),
            Line::Add(text) => {
                outcome
                    .push(reindent.map_or_else(|| text.clone(), |reindent| reindent.apply(text)));
            }
        }
    }
    outcome
}

/// Finds lines from `from` on, by the strictest pass that finds any; those at the end first if they
/// should be there.
fn seek(lines: &[&str], quoted: &[&str], from: usize, at_end: bool) -> Option<(usize, Pass)> {
    let last = lines.len().checked_sub(quoted.len())?;
    let is_at = |pass: Pass, at: usize| {
        lines.get(at..at + quoted.len()).is_some_and(|window| pass.matches(window, quoted))
    };
    let end = if at_end { Pass::ALL.into_iter().find(|pass| is_at(*pass, last)) } else { None };
    end.map(|pass| (last, pass)).or_else(|| {
        Pass::ALL.into_iter().find_map(|pass| {
            let at = (from..=last).find(|at| is_at(pass, *at))?;
            Some((at, pass))
        })
    })
}

fn not_found(lines: &[&str], quoted: &[&str], from: usize) -> String {
    let wanted = quoted.iter().take(5).copied().collect::<Vec<_>>().join("\n");
    let place = if from == 0 { String::new() } else { format!(" after line {from}") };
    let closest = closest(&lines.join("\n"), &quoted.join("\n"));
    let closest =
        closest.map_or_else(String::new, |lines| format!("\nthe closest lines are:\n{lines}"));
    format!("these lines do not occur{place}:\n{wanted}{closest}")
}

#[cfg(test)]
mod tests;
