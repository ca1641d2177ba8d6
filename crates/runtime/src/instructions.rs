//! What the user and the project tell every model: `AGENTS.md` and its kin.
//!
//! The user's own file comes first, then one file of each directory from the root of the repository
//! down to the working directory, so that the nearest has the last word. Of one directory the first
//! of [`NAMES`] counts. A line with `@path` brings another file along. All of it goes into the first
//! message, each text tagged with the file it came from, never into the system text.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::project;

/// The files of a directory, best first.
pub const NAMES: [&str; 4] = ["AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"];

/// How many bytes of them all the model is told.
pub const LIMIT: usize = 32 * 1024;

/// How deep imports may lie in each other.
const DEPTH: usize = 5;

/// How many files one of a folder may bring along: each is read before it is known which have room.
const MOST: usize = 100;

/// What the user and the project tell every model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The text for the first message; empty if there is nothing to tell.
    pub text: String,
    /// The files, in the order in which they are told.
    pub files: Vec<PathBuf>,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
}

/// One text.
struct Piece {
    path: PathBuf,
    text: String,
    /// How many bytes the file has.
    size: usize,
}

/// Says why a file of a project is not to be read, if it is not.
pub type Refuse<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Reads the files for a working directory. The user's own files are the user's to choose; each of the
/// project is read only if nothing refuses it, for it may be a link to a file that is none of models.
pub fn read(config_folder: &Path, cwd: &Path, refuse: Refuse<'_>) -> Instructions {
    let mut reader = Reader::default();
    if let Some(path) = of_folder(config_folder) {
        // It may be a link into the folder where its owner keeps all such files.
        let own = real(&path).and_then(|path| path.parent().map(Path::to_owned));
        reader.roots = real(config_folder).into_iter().chain(own).collect();
        reader.with_imports(&path);
    }
    let root = project::git_root(cwd).unwrap_or(cwd);
    reader.roots = real(root).into_iter().collect();
    reader.refuse = Some(refuse);
    for folder in project::path_to(cwd) {
        if let Some(path) = of_folder(folder) {
            reader.with_imports(&path);
        }
    }
    reader.finish()
}

fn of_folder(folder: &Path) -> Option<PathBuf> {
    NAMES.into_iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[derive(Default)]
struct Reader<'a> {
    /// The folders from which files may be read, without links on the way.
    roots: Vec<PathBuf>,
    /// What is asked about each file.
    refuse: Option<Refuse<'a>>,
    seen: HashSet<PathBuf>,
    /// How many more files may be brought along.
    left: usize,
    /// Whether there were more.
    is_cut: bool,
    pieces: Vec<Piece>,
    notes: Vec<String>,
}

impl Reader<'_> {
    /// Reads the file of a folder with all that it brings along.
    fn with_imports(&mut self, path: &Path) {
        (self.left, self.is_cut) = (MOST, false);
        self.file(path, 0);
        if self.is_cut {
            let path = path.display();
            let note = format!("{path} brings more than {MOST} files along; those are not read");
            self.notes.push(note);
        }
    }

    /// Reads a file and, before it, what it imports.
    fn file(&mut self, path: &Path, depth: usize) {
        let Some(real) = real(path) else { return };
        if !self.roots.iter().any(|root| real.starts_with(root)) {
            self.notes.push(format!("{} lies outside and is not read", path.display()));
            return;
        }
        // Also what imports itself in a circle ends here.
        if self.seen.contains(&real) {
            return;
        }
        if depth > 0 {
            let Some(left) = self.left.checked_sub(1) else {
                self.is_cut = true;
                return;
            };
            self.left = left;
        }
        self.seen.insert(real.clone());
        if let Some(why) = self.refuse.and_then(|refuse| refuse(path)) {
            self.notes.push(format!("{} is not read: {why}", path.display()));
            return;
        }
        let (text, size) = match text_of(&real) {
            Ok(read) => read,
            Err(error) => {
                self.notes.push(format!("cannot read {}: {error}", path.display()));
                return;
            }
        };
        let folder = path.parent().unwrap_or(path);
        for import in imports(&text) {
            let import = folder.join(import);
            // What is no file is no import, but a name that begins with an @.
            if !import.is_file() {
                continue;
            }
            if depth == DEPTH {
                let import = import.display();
                self.notes
                    .push(format!("{import} is not read: imports lie too deep in each other"));
                continue;
            }
            self.file(&import, depth + 1);
        }
        if !text.trim().is_empty() {
            self.pieces.push(Piece { path: path.to_owned(), text, size });
        }
    }

    /// Puts the pieces together. If they are too long, the nearest ones stay.
    fn finish(mut self) -> Instructions {
        let mut left = LIMIT;
        for piece in self.pieces.iter_mut().rev() {
            let end = piece.text.floor_char_boundary(left);
            piece.text.truncate(end);
            left -= end;
        }
        let mut all = Instructions { notes: self.notes, ..Instructions::default() };
        for Piece { path, text, size } in self.pieces {
            let shown = path.display();
            let cut = size.saturating_sub(text.len());
            if cut > 0 {
                all.notes.push(format!(
                    "{shown}: the last {cut} of {size} bytes are left out; instructions have room \
                     for {LIMIT} bytes together"
                ));
            }
            if text.is_empty() {
                continue;
            }
            let _ = write!(all.text, "<instructions file=\"{shown}\">\n{}\n", text.trim_end());
            if cut > 0 {
                let _ = writeln!(all.text, "[{cut} more bytes are left out; read the file]");
            }
            all.text.push_str("</instructions>\n");
            all.files.push(path);
        }
        all
    }
}

/// Reads as much of a file as there can be room for; also returns how long it is.
fn text_of(path: &Path) -> std::io::Result<(String, usize)> {
    let file = File::open(path)?;
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    file.take(LIMIT as u64).read_to_end(&mut bytes)?;
    // The end may be within a character.
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if bytes.len() < size && text.ends_with(char::REPLACEMENT_CHARACTER) {
        text.pop();
    }
    let size = size.max(text.len());
    Ok((text, size))
}

/// Returns the paths that a text imports: words that begin with an `@`, outside of code.
fn imports(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut imports = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        // Every second part lies between backticks.
        for part in line.split('`').step_by(2) {
            let words = part.split_whitespace().filter_map(|word| word.strip_prefix('@'));
            let trimmed = words.map(|word| word.trim_end_matches(['.', ',', ';', ':', ')']));
            imports.extend(trimmed.filter(|path| !path.is_empty()));
        }
    }
    imports
}

#[cfg(test)]
mod tests;
