//! Reads a shell command without running it.
//!
//! [`read`] says which programs a line of bash would run, with which words, and which files it
//! would open by redirection. It has one duty: nothing that the line would run goes unseen. So it
//! knows the grammar of bash and no more than it must of the rest: wherever what bash would do
//! depends on something that is only known when it runs, or could be read in two ways, it says so
//! with a [`Doubt`], and whoever decides asks a person instead of a rule.
//!
//! - `reader`: lists, pipelines and compound commands.
//! - `simple`: words, assignments, redirections and here-documents of one command.
//! - `word`, `expansion`, `arithmetic`, `condition`, `escape`: what a word becomes.
//! - `program`: what a program would run in turn, with `wrapper`, `interpreter`, `launch`,
//!   `find`, `git`, `option` and `builtin`.
//! - `folder`: where `cd` leads.
//! - `variable`: names whose value changes what a command does.
//! - `found`: what has been found so far.

mod arithmetic;
mod builtin;
mod condition;
mod escape;
mod expansion;
mod find;
mod folder;
mod found;
mod git;
mod interpreter;
mod launch;
mod option;
mod program;
mod reader;
mod simple;
mod variable;
mod word;
mod wrapper;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use folder::Folder;
use found::Found;
use reader::Reader;

/// Bytes of a command that are read; a longer one is a doubt.
const LONGEST: usize = 256 * 1024;

/// Reads a command as bash would, and says what it would run.
pub fn read(command: &str) -> Script {
    let mut found = Found::default();
    if command.len() > LONGEST {
        found.doubt("it is too long to be read", command);
    } else {
        Reader::new(command, &mut found).script();
    }
    found.into_script()
}

/// Tells whether a program runs whatever text it is given, as shells and Python do.
pub(super) fn runs_texts(program: &str) -> bool {
    interpreter::runs_texts(program)
}

/// Tells whether a text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    variable::is_name(text)
}

/// Tells whether a variable does not say which programs run, nor what they do.
pub(super) fn is_harmless(name: &str, value: &Word) -> bool {
    variable::is_harmless(name, value)
}

/// Tells whether a program runs what its words say, and is seen through.
pub(super) fn runs_others(program: &str) -> bool {
    program::runs_others(program)
}

/// Returns the name at the end of a path, such as a program's without its folder.
pub(super) fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Reads words that would be a command, if their program is one that runs what it is given.
pub(super) fn carried(words: &[Word]) -> Option<Script> {
    let program = words.first()?.known()?;
    if !runs_others(base(program)) {
        return None;
    }
    let mut found = Found::default();
    program::settle(&mut found, Run { words: words.to_vec(), ..Run::default() }, true);
    Some(found.into_script())
}

/// What a command would run, and what of it cannot be known beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// The programs, in the order in which the text names them.
    pub runs: Vec<Run>,
    /// Why the command may do more than the runs say; empty if they are all of it.
    pub doubts: Vec<Doubt>,
}

/// One program that a command would run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The program and its arguments. Empty where the shell itself opens files, as in `> file`.
    pub words: Vec<Word>,
    /// Programs that run this one and were seen through, the outermost first: `sudo`, `bash`.
    pub through: Vec<String>,
    /// Those programs with all their words, and `time`.
    pub outer: Vec<Arc<[Word]>>,
    /// Variables that are set for this program alone.
    pub assignments: Vec<(String, Word)>,
    /// Files that redirections open for reading.
    pub reads: Vec<Word>,
    /// Files that redirections open for writing.
    pub writes: Vec<Word>,
    /// The command as it stands in the text.
    pub text: String,
    /// Where it runs.
    pub folder: Folder,
    /// Whether it is given a program in a language that is not read, as `python -c`.
    pub is_opaque: bool,
    /// Whether it reads such a program from its input.
    pub is_reading: bool,
}

impl Run {
    /// Returns the program's name without its folder, if it is known.
    pub fn name(&self) -> Option<&str> {
        self.words.first()?.known().map(base)
    }
}

/// A word of a command, after all expansions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Exactly this text.
    Known(String),
    /// A text that is only known when the command runs.
    Unknown {
        /// As it stands in the text.
        source: String,
        /// What each of its words begins with for certain.
        starts: String,
        /// How many words it becomes.
        count: Count,
    },
}

/// How many words a word becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// One, possibly empty.
    One,
    /// None, one or several.
    Any,
}

impl Word {
    /// Returns its text if that is known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown { .. } => None,
        }
    }

    /// Returns what it begins with for certain.
    pub fn starts(&self) -> &str {
        match self {
            Self::Known(text) => text,
            Self::Unknown { starts, .. } => starts,
        }
    }

    /// Returns it as it stands in the text, or its text if that is known.
    pub fn source(&self) -> &str {
        match self {
            Self::Known(text) => text,
            Self::Unknown { source, .. } => source,
        }
    }

    /// Whether it could be an option, or could be several words of which one is.
    fn may_be_option(&self) -> bool {
        match self {
            Self::Known(text) => text.starts_with('-'),
            Self::Unknown { starts, .. } => starts.is_empty() || starts.starts_with('-'),
        }
    }

    fn is_many(&self) -> bool {
        matches!(self, Self::Unknown { count: Count::Any, .. })
    }

    fn unknown(source: &str, count: Count) -> Self {
        Self::Unknown { source: source.to_owned(), starts: String::new(), count }
    }
}

/// Something about a command that cannot be known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// A fragment of a sentence that says what: `the program is only known when it runs`.
    pub what: String,
    /// The part of the command that it is about.
    pub text: String,
}
