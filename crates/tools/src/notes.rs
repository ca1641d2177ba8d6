//! Notes: what agents write down for each other, and for later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{
    Access, Recovery, Tool, ToolContext, ToolError, ToolOutput, Toolbox, ToolboxError,
};

use crate::files::{self, Spot};
use crate::folder_lock::FolderLock;
use crate::workspace::Workspace;

/// How much of a note's first line a list shows, in characters.
const SHOWN: usize = 80;

/// Where notes are kept.
#[derive(Debug, Clone)]
pub enum NotesPlace {
    /// With the session: for its agents.
    Session(Workspace),
    /// In a folder: for whoever works there.
    Folder(PathBuf),
}

/// Makes the tools for notes.
///
/// # Errors
/// None in practice: the names differ.
pub(crate) fn toolbox(place: &NotesPlace) -> Result<Toolbox, ToolboxError> {
    Toolbox::default()
        .with(WriteNote(place.clone()))?
        .with(ReadNote(place.clone()))?
        .with(ListNotes(place.clone()))
}

/// The tool `write_note`.
#[derive(Debug, Clone)]
pub struct WriteNote(pub NotesPlace);

/// Writes a note for other agents and for later; replaces a whole note.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteNoteInput {
    /// Letters, digits, - and _.
    name: String,
    content: String,
}

/// The tool `read_note`.
#[derive(Debug, Clone)]
pub struct ReadNote(pub NotesPlace);

/// Reads a note.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadNoteInput {
    name: String,
}

/// The tool `list_notes`.
#[derive(Debug, Clone)]
pub struct ListNotes(pub NotesPlace);

/// Lists the notes with their first lines.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListNotesInput {}

impl NotesPlace {
    fn folder(&self, cx: &ToolContext) -> PathBuf {
        match self {
            Self::Session(workspace) => workspace.folder(cx).join("notes"),
            Self::Folder(folder) => folder.clone(),
        }
    }

    /// Returns what to declare: the notes of a session are nobody else's.
    fn access(&self, path: impl FnOnce(&Path) -> Access) -> Access {
        match self {
            Self::Session(_) => Access::none(),
            Self::Folder(folder) => path(folder),
        }
    }
}

/// A note as it is in its file. One that a person has written has no head.
struct Note {
    author: Option<String>,
    time: Option<String>,
    content: String,
}

impl Note {
    fn parse(text: &str) -> Self {
        let head = |text: &str| {
            let (author, rest) = text.strip_prefix("---\nauthor: ")?.split_once("\ntime: ")?;
            let (time, content) = rest.split_once("\n---\n")?;
            let is_ours = !author.contains('\n') && !time.contains('\n');
            is_ours.then(|| (author.to_owned(), time.to_owned(), content.to_owned()))
        };
        match head(text) {
            Some((author, time, content)) => {
                Self { author: Some(author), time: Some(time), content }
            }
            None => Self { author: None, time: None, content: text.to_owned() },
        }
    }

    fn to_text(&self) -> String {
        let (author, time) = (self.author.as_deref(), self.time.as_deref());
        let (author, time) = (author.unwrap_or_default(), time.unwrap_or_default());
        format!("---\nauthor: {author}\ntime: {time}\n---\n{}", self.content)
    }

    /// Says who wrote it and when, as far as that is known.
    fn origin(&self) -> String {
        let known = [self.author.as_deref(), self.time.as_deref()];
        let known: Vec<&str> =
            known.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        if known.is_empty() { "author unknown".to_owned() } else { known.join(", ") }
    }

    fn first_line(&self) -> String {
        let line = self.content.lines().map(str::trim).find(|line| !line.is_empty());
        let line = line.unwrap_or("(empty)");
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
            None => line.to_owned(),
        }
    }
}

/// Returns the file of a note.
fn file(folder: &Path, name: &str) -> Result<PathBuf, ToolError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= 100 && name.chars().all(is_plain) {
        true => Ok(folder.join(format!("{name}.md"))),
        false => Err(ToolError::Failed(format!(
            "{name:?} is no name of a note: at most 100 letters, digits, - and _"
        ))),
    }
}

/// Returns the names of the notes in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>, ToolError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot("list", folder, &error)),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names = names.filter_map(|name| name.strip_suffix(".md").map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| file(folder, name).is_ok()).collect();
    names.sort();
    Ok(names)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> ToolError {
    ToolError::Failed(format!("cannot {what} {}: {error}", path.display()))
}

impl Tool for WriteNote {
    const NAME: &'static str = "write_note";
    type Input = WriteNoteInput;

    fn access(&self, _: &WriteNoteInput) -> Access {
        self.0.access(|folder| Access::write(folder))
    }

    // What was cut off has written this note or not; to write it again changes nothing else.
    fn recovery(&self, _: &WriteNoteInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: WriteNoteInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let WriteNoteInput { name, content } = input;
        let folder = self.0.folder(cx);
        let path = file(&folder, &name)?;
        let _lock =
            FolderLock::take(&folder).map_err(|error| cannot("write to", &folder, &error))?;
        let existing = match files::read_own(&path) {
            Ok(existing) => Some(existing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot("write", &path, &error)),
        };
        if let Some((before, _)) = &existing
            && !files::knows(cx, &path, before)
        {
            let before = Note::parse(&String::from_utf8_lossy(before));
            // A call that a crash cut off had written it already.
            if before.content != content || before.author.as_deref() != Some(&cx.agent.name) {
                return Err(ToolError::Failed(format!(
                    "there is a note {name} that you have not read as it is now ({}); read it first, \
                     or take another name",
                    before.origin()
                )));
            }
        }
        let note = Note {
            author: Some(cx.agent.name.clone()),
            time: Some(cx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            content,
        };
        let text = note.to_text();
        let metadata = existing.as_ref().map(|(_, metadata)| metadata);
        Spot::own(&path)
            .and_then(|spot| spot.replace(text.as_bytes(), metadata, None))
            .map_err(|error| cannot("write", &path, &error))?;
        files::remember(cx, &path, text.as_bytes())?;
        let done = if existing.is_some() { "replaced" } else { "written" };
        Ok(format!("note {name} {done}").into())
    }
}

impl Tool for ReadNote {
    const NAME: &'static str = "read_note";
    type Input = ReadNoteInput;

    fn access(&self, _: &ReadNoteInput) -> Access {
        self.0.access(|folder| Access::read(folder))
    }

    fn recovery(&self, _: &ReadNoteInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: ReadNoteInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let folder = self.0.folder(cx);
        let path = file(&folder, &input.name)?;
        let text = match files::read_own(&path) {
            Ok((text, _)) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let names = names(&folder)?;
                let near = files::nearest(&input.name, names.iter().map(String::as_str));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                return Err(ToolError::Failed(format!("there is no note {}{hint}", input.name)));
            }
            Err(error) => return Err(cannot("read", &path, &error)),
        };
        files::remember(cx, &path, &text)?;
        let note = Note::parse(&String::from_utf8_lossy(&text));
        Ok(format!("[{}]\n{}", note.origin(), note.content).into())
    }
}

impl Tool for ListNotes {
    const NAME: &'static str = "list_notes";
    type Input = ListNotesInput;

    fn access(&self, _: &ListNotesInput) -> Access {
        self.0.access(|folder| Access::read(folder))
    }

    fn recovery(&self, _: &ListNotesInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, _: ListNotesInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let folder = self.0.folder(cx);
        let mut lines = Vec::new();
        for name in names(&folder)? {
            let path = file(&folder, &name)?;
            // What is gone by now, or cannot be read, is no note.
            let Ok((text, _)) = files::read_own(&path) else { continue };
            let note = Note::parse(&String::from_utf8_lossy(&text));
            lines.push(format!("- {name}: {} — {}", note.first_line(), note.origin()));
        }
        match lines.is_empty() {
            true => Ok("No notes found.".into()),
            false => Ok(lines.join("\n").into()),
        }
    }
}
