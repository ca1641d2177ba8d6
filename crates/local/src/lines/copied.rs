//! What a call may be filled with: nothing but what the request says.

use crate::grammar;

use super::dialogue::Turn;
use super::forms::{Form, Source};

/// How many words of a request are looked at.
const WORDS: usize = 200;

/// How many words may be the first of a text: more make a grammar slow.
const STARTS: usize = 40;

/// How many words are searched for at most.
const LONGEST: usize = 6;

/// Words that are everywhere, and words by which a search is asked for.
const COMMON: &[&str] = &[
    "a",
    "about",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "by",
    "can",
    "code",
    "contain",
    "contains",
    "containing",
    "defined",
    "do",
    "does",
    "file",
    "files",
    "find",
    "folder",
    "for",
    "from",
    "function",
    "has",
    "have",
    "here",
    "how",
    "i",
    "in",
    "is",
    "it",
    "line",
    "lines",
    "list",
    "look",
    "me",
    "mention",
    "mentions",
    "my",
    "of",
    "on",
    "or",
    "please",
    "say",
    "says",
    "search",
    "show",
    "string",
    "talk",
    "talks",
    "tell",
    "text",
    "that",
    "the",
    "there",
    "these",
    "this",
    "to",
    "used",
    "what",
    "where",
    "which",
    "who",
    "with",
    "word",
    "words",
    "you",
];

/// Names that files have without an extension.
const FILES: &[&str] = &[
    "AUTHORS",
    "CHANGELOG",
    "CODEOWNERS",
    "CONTRIBUTING",
    "COPYING",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "NOTICE",
    "README",
    "VERSION",
    "justfile",
];

/// Words that lead to the name of a file and belong to nothing else.
const LEADING: &[&str] = &[
    "a", "as", "called", "file", "in", "into", "inside", "named", "new", "of", "on", "the", "to",
    "under",
];

/// The parts of a request that calls are filled with.
#[derive(Debug)]
pub(super) struct Copied<'a> {
    /// The words, as they stand.
    words: Vec<&'a str>,
    is_question: bool,
    /// Files that the request names.
    named: Vec<&'a str>,
    /// Folders that the request names, and the one in which work is done.
    folders: Vec<&'a str>,
    /// What stands in quotes.
    quoted: Vec<&'a str>,
}

impl<'a> Copied<'a> {
    /// Takes a request apart.
    pub(super) fn from(turn: &'a Turn) -> Self {
        let words: Vec<&str> = turn.user.split_whitespace().take(WORDS).collect();
        let mut named: Vec<&str> =
            words.iter().map(|word| bare(word)).filter(|word| is_file(word)).collect();
        named.dedup();
        Self {
            folders: folders(&words),
            quoted: quoted(&turn.user),
            named,
            is_question: turn.user.split('"').step_by(2).any(|unquoted| unquoted.contains('?')),
            words,
        }
    }

    /// Tells whether a call may be what the request asks for. The rules are rough, and spare a small
    /// model what it gets wrong: a question is not answered by writing, and a request that names a file
    /// is about that file. Once a call has failed, only what cannot be filled is left out.
    pub(super) fn suggests(&self, form: &Form, has_failed: bool) -> bool {
        let can_fill = form.arguments.iter().all(|argument| match argument.source {
            Source::File => !self.named.is_empty(),
            Source::NewFile => !self.named.is_empty() && !self.is_question,
            Source::Folder => true,
            Source::Pattern => !self.quoted.is_empty() || !self.runs(Source::Pattern).is_empty(),
            Source::Text => !self.quoted.is_empty() || !self.runs(Source::Text).is_empty(),
        });
        let names_file = form
            .arguments
            .iter()
            .any(|argument| matches!(argument.source, Source::File | Source::NewFile));
        can_fill && (has_failed || names_file || self.named.is_empty() || self.folders.len() > 1)
    }

    /// Writes the grammar of a call, from the space after `Call:` to the end of the line.
    pub(super) fn grammar(&self, form: &Form) -> String {
        let rules: Vec<String> =
            (0..form.arguments.len()).map(|n| format!("\"\\\"\" a{n} \"\\\"\"")).collect();
        let mut out = format!(
            "root ::= {} {} {}\n",
            grammar::literal(&format!(" {}(", form.shown)),
            rules.join(" \", \" "),
            grammar::literal(")\n"),
        );
        for (n, argument) in form.arguments.iter().enumerate() {
            let runs = self.runs(argument.source);
            let texts: Vec<&str> = match argument.source {
                Source::File | Source::NewFile => self.named.clone(),
                Source::Folder => self.folders.clone(),
                Source::Pattern | Source::Text if !self.quoted.is_empty() => self.quoted.clone(),
                Source::Pattern | Source::Text => runs.iter().map(String::as_str).collect(),
            };
            out.push_str(&grammar::one_of(&format!("a{n}"), texts));
        }
        out
    }

    /// Returns the words of the request that may be searched for or written down.
    ///
    /// What is written ends where the request, or what it says before the file, ends. What is searched
    /// for neither begins nor ends with a word that is everywhere.
    fn runs(&self, source: Source) -> Vec<String> {
        let of_file = |word: &&str| self.named.contains(&bare(word));
        let after = self.words.iter().rposition(of_file).map_or(0, |n| n + 1);
        let before = self.words.iter().position(of_file).unwrap_or(self.words.len());
        let part = match self.words.get(after..) {
            Some([]) | None => self.words.get(..before),
            rest => rest,
        };
        let part = part.unwrap_or_default();
        let is_common = |word: &&str| COMMON.contains(&bare(word).to_ascii_lowercase().as_str());
        let runs: Vec<&[&str]> = match source {
            Source::Pattern => (0..part.len().min(STARTS))
                .flat_map(|start| {
                    (start + 1..=part.len().min(start + LONGEST)).map(move |end| (start, end))
                })
                .filter_map(|(start, end)| part.get(start..end))
                .filter(|run| {
                    !run.first().is_some_and(is_common) && !run.last().is_some_and(is_common)
                })
                .collect(),
            Source::Text | Source::File | Source::NewFile | Source::Folder => {
                let end = part.iter().rposition(|word| !LEADING.contains(&bare(word)));
                let end = end.map_or(0, |last| last + 1);
                (0..end.min(STARTS)).filter_map(|start| part.get(start..end)).collect()
            }
        };
        let texts = runs.into_iter().map(|run| bare(&run.join(" ")).to_owned());
        texts.filter(|text| !text.is_empty()).collect()
    }

    /// Reads a line that obeys the grammar; returns the arguments as the tool takes them.
    pub(super) fn arguments(&self, form: &Form, line: &str) -> Option<String> {
        let inner = line.strip_prefix(form.shown)?.strip_prefix("(\"")?.strip_suffix("\")")?;
        let texts: Vec<&str> = match form.arguments {
            [_] => vec![inner],
            // The first is the name of a file, which holds no quotes.
            _ => inner.splitn(form.arguments.len(), "\", \"").collect(),
        };
        (texts.len() == form.arguments.len()).then(|| form.to_json(&texts))
    }
}

/// What surrounds a word without belonging to it.
const MARKS: &[char] = &['"', '\'', '`', '“', '”', '.', ',', ';', ':', '!', '?', '(', ')'];

/// Returns a word without what surrounds it.
fn bare(word: &str) -> &str {
    let word = word.trim_end_matches(MARKS);
    // A leading dot belongs to the name of a hidden file.
    word.trim_start_matches(|c| c != '.' && MARKS.contains(&c))
}

fn is_file(word: &str) -> bool {
    let has_extension = word.rsplit_once('.').is_some_and(|(stem, extension)| {
        !extension.is_empty() && (!stem.is_empty() || extension.len() > 2)
    });
    let is_path = word.contains('/') && !word.ends_with('/');
    !word.contains('"') && (has_extension || is_path || FILES.contains(&word))
}

fn folders<'a>(words: &[&'a str]) -> Vec<&'a str> {
    const NONE: [&str; 14] = [
        "this", "the", "a", "my", "that", "current", "here", "it", "called", "named", "contain",
        "contains", "have", "folder",
    ];
    let words: Vec<&str> = words.iter().map(|word| bare(word)).collect();
    let mut folders = vec!["."];
    let mut add = |word: Option<&&'a str>| {
        let is_name = |word: &&'a str| !word.is_empty() && !is_file(word) && !NONE.contains(word);
        let Some(word) = word.copied().filter(is_name) else { return false };
        if !folders.contains(&word) {
            folders.push(word);
        }
        true
    };
    for (n, word) in words.iter().enumerate() {
        match *word {
            "folder" | "directory" => {
                // "the docs folder", or "the folder docs".
                let before = n.checked_sub(1).and_then(|before| words.get(before));
                if !add(before) {
                    add(words.get(n + 1));
                }
            }
            "in" | "inside" | "of" if n + 2 == words.len() => {
                add(words.get(n + 1));
            }
            path if path.ends_with('/') => {
                add(Some(&path));
            }
            _ => {}
        }
    }
    folders
}

/// Returns what stands in quotes.
fn quoted(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for mark in ['"', '`'] {
        let mut parts = text.split(mark).skip(1);
        while let (Some(inner), Some(_)) = (parts.next(), parts.next()) {
            if !inner.trim().is_empty() && !inner.contains('"') {
                found.push(inner);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn turn(user: &str) -> Turn {
        Turn { user: user.to_owned(), ..Turn::default() }
    }

    #[test]
    fn a_request_names_files_and_folders() {
        let turn = turn("Compare src/main.rs, \"b.txt\" and README in the docs folder. Then rest.");
        let copied = Copied::from(&turn);
        assert_eq!(copied.named, ["src/main.rs", "b.txt", "README"]);
        assert_eq!(copied.folders, [".", "docs"]);
        assert_eq!(copied.quoted, ["b.txt"]);
    }

    #[test]
    fn a_line_becomes_the_arguments_of_the_tool() {
        let turn = turn("Write x to a.txt");
        let copied = Copied::from(&turn);
        let write = Form::of("write").unwrap();
        let arguments = copied.arguments(write, "write_file(\"a.txt\", \"it's \"so\", he said\")");
        let expected = r#"{"content":"it's \"so\", he said\n","path":"a.txt"}"#;
        assert_eq!(arguments.unwrap(), expected);
        assert_eq!(copied.arguments(write, "write_file(\"a.txt\""), None);
    }

    #[test]
    fn what_is_searched_for_is_no_expression() {
        let turn = turn("Find print( in the code");
        let copied = Copied::from(&turn);
        let grep = Form::of("grep").unwrap();
        let arguments = copied.arguments(grep, "search(\"print(\")").unwrap();
        assert_eq!(arguments, r#"{"pattern":"print\\("}"#);
    }
}
