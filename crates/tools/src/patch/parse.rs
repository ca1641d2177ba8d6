//! Reading a patch.

/// What a patch does to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileChange {
    pub(super) path: String,
    pub(super) change: Change,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The whole content.
    Add(String),
    Delete,
    Update {
        /// The new name, if there is one.
        to: Option<String>,
        chunks: Vec<Chunk>,
    },
}

/// One place of a file that changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Lines that stand above the place, outermost first.
    pub(super) anchors: Vec<String>,
    pub(super) lines: Vec<Line>,
    /// Whether the place is at the end of the file.
    pub(super) at_end: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Add(String),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Reads a patch.
///
/// Space around marks does not count, and what a shell or a chat would wrap around a patch is taken
/// off.
///
/// # Errors
/// What is wrong in which line, and how it has to be.
pub(super) fn parse(patch: &str) -> Result<Vec<FileChange>, String> {
    let patch = patch.replace("\r\n", "\n");
    let (first, lines) = unwrap(&patch)?;
    let mut reader = Reader { lines, at: 0, first };
    let mut changes = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            reader.at += 1;
        } else {
            changes.push(reader.file_change()?);
        }
    }
    if changes.is_empty() {
        return Err(
            "the patch changes no file; put at least one *** Add File, *** Delete File or \
                    *** Update File between *** Begin Patch and *** End Patch"
                .to_owned(),
        );
    }
    Ok(changes)
}

/// Returns the lines between the first and the last mark, and the number of the first of them.
fn unwrap(patch: &str) -> Result<(usize, Vec<&str>), String> {
    let lines: Vec<&str> = patch.lines().collect();
    let is_wrapper = |line: &&str| {
        let line = line.trim();
        // A heredoc, with or without the command, its end, or a fence.
        line.is_empty() || line.contains("<<") || line.starts_with("```") || is_word(line)
    };
    let before = lines.iter().take_while(|line| is_wrapper(line)).count();
    let after = lines.iter().rev().take_while(|line| is_wrapper(line)).count();
    let inner = lines.get(before..lines.len() - after.min(lines.len())).unwrap_or_default();
    match inner {
        [begin, .., end] if begin.trim() == BEGIN && end.trim() == END => {
            let rest = inner.get(1..inner.len() - 1).unwrap_or_default();
            Ok((before + 2, rest.to_vec()))
        }
        [begin, ..] if begin.trim() == BEGIN => {
            Err(format!("the last line of the patch must be {END}"))
        }
        _ => Err(format!("the first line of the patch must be {BEGIN}")),
    }
}

fn is_word(line: &str) -> bool {
    line.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
    /// The number of the first line in the whole patch.
    first: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        self.at += 1;
        self.lines.get(self.at - 1).copied()
    }

    /// Takes the next line if `take` makes something of it.
    fn next_if<T>(&mut self, take: impl FnOnce(&'a str) -> Option<T>) -> Option<T> {
        let taken = take(self.peek()?)?;
        self.at += 1;
        Some(taken)
    }

    /// Describes a problem with the line that was read last.
    fn problem(&self, problem: &str) -> String {
        format!("line {} of the patch: {problem}", self.first + self.at - 1)
    }

    fn file_change(&mut self) -> Result<FileChange, String> {
        let line = self.next().unwrap_or_default().trim();
        let name = |mark: &str| line.strip_prefix(mark).map(|name| name.trim().to_owned());
        let (path, change) = if let Some(path) = name("*** Add File:") {
            (path, Change::Add(self.added()))
        } else if let Some(path) = name("*** Delete File:") {
            (path, Change::Delete)
        } else if let Some(path) = name("*** Update File:") {
            let update = self.update(&path)?;
            (path, update)
        } else {
            return Err(self.problem(&format!(
                "{line:?} begins no file; expected *** Add File: PATH, *** Delete File: PATH or \
                 *** Update File: PATH"
            )));
        };
        if path.is_empty() {
            return Err(self.problem("a path is missing"));
        }
        Ok(FileChange { path, change })
    }

    fn added(&mut self) -> String {
        let mut content = String::new();
        while let Some(line) = self.next_if(|line| line.strip_prefix('+')) {
            content.push_str(line);
            content.push('\n');
        }
        content
    }

    fn update(&mut self, path: &str) -> Result<Change, String> {
        let to = self.next_if(|line| {
            line.trim().strip_prefix("*** Move to:").map(|name| name.trim().to_owned())
        });
        let mut chunks = Vec::new();
        while let Some(line) = self.peek() {
            if line.trim().is_empty() && self.is_blank_before_mark() {
                self.at += 1;
            } else if line.trim_start().starts_with("*** ") && !is_end_of_file(line) {
                break;
            } else {
                chunks.push(self.chunk(chunks.is_empty())?);
            }
        }
        if chunks.is_empty() && to.is_none() {
            return Err(self.problem(&format!(
                "the update of {path} is empty; add chunks of @@ and lines with ' ', '-' or '+'"
            )));
        }
        Ok(Change::Update { to, chunks })
    }

    /// Tells whether nothing but blank lines comes before the next mark: they separate, and are no
    /// context.
    fn is_blank_before_mark(&self) -> bool {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|line| !line.is_empty());
        next.is_none_or(|line| line.starts_with("*** ") || line.starts_with("@@"))
    }

    fn chunk(&mut self, is_first: bool) -> Result<Chunk, String> {
        let mut chunk = Chunk::default();
        let mut has_mark = false;
        while let Some(anchor) = self.next_if(|line| line.trim_end().strip_prefix("@@")) {
            has_mark = true;
            let anchor = anchor.strip_prefix(' ').unwrap_or(anchor);
            if !anchor.is_empty() && !is_line_range(anchor) {
                chunk.anchors.push(anchor.to_owned());
            }
        }
        if !has_mark && !is_first {
            self.at += 1;
            return Err(self.problem("expected @@ before the next chunk"));
        }
        while let Some(line) = self.peek() {
            if line.starts_with("@@") || (line.is_empty() && self.is_blank_before_mark()) {
                break;
            }
            if is_end_of_file(line) {
                self.at += 1;
                chunk.at_end = true;
                break;
            }
            if line.starts_with("***") {
                break;
            }
            self.at += 1;
            chunk.lines.push(match (line.get(..1), line.get(1..)) {
                (Some(" "), Some(rest)) => Line::Keep(rest.to_owned()),
                (Some("-"), Some(rest)) => Line::Remove(rest.to_owned()),
                (Some("+"), Some(rest)) => Line::Add(rest.to_owned()),
                (None, _) if line.is_empty() => Line::Keep(String::new()),
                (Some(_) | None, _) => {
                    return Err(self.problem(&format!(
                        "{line:?} must begin with ' ' (context), '-' (remove) or '+' (add)"
                    )));
                }
            });
        }
        if chunk.lines.is_empty() {
            return Err(self.problem("this chunk has no lines; add lines with ' ', '-' or '+'"));
        }
        Ok(chunk)
    }
}

fn is_end_of_file(line: &str) -> bool {
    line.trim() == "*** End of File"
}

/// Tells whether an anchor is that of a unified diff, `-1,3 +1,4 @@`, which names no line's text.
fn is_line_range(anchor: &str) -> bool {
    let mut words = anchor.split_whitespace();
    let is_range = |word: Option<&str>, sign| {
        word.and_then(|word| word.strip_prefix(sign))
            .is_some_and(|range| range.chars().all(|c| c.is_ascii_digit() || c == ','))
    };
    is_range(words.next(), '-') && is_range(words.next(), '+')
}
