//! What a call may be filled with: nothing but what the request says.

use crate::grammar;

use super::dialogue::Turn;
use super::forms::{Form, Source};

/// How many words of a request are looked at.
const WORDS: usize = 200;

/// The parts of a request that calls are filled with.
#[derive(Debug)]
pub(super) struct Copied<'a> {
    /// The words, as they stand.
    words: Vec<&'a str>,
    /// Files that the request names.
    named: Vec<&'a str>,
    /// Files that were listed.
    listed: Vec<&'a str>,
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
            listed: turn.listed.iter().map(String::as_str).collect(),
            words,
        }
    }

    /// Tells whether there is something for every argument.
    pub(super) fn can_fill(&self, form: &Form) -> bool {
        form.arguments.iter().all(|argument| match argument.source {
            Source::File => !self.named.is_empty() || !self.listed.is_empty(),
            Source::NewFile => !self.named.is_empty(),
            Source::Folder => true,
            Source::Pattern | Source::Text => {
                !self.quoted.is_empty() || self.words.iter().any(|word| is_text(word))
            }
        })
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
        let mut has_words = false;
        for (n, argument) in form.arguments.iter().enumerate() {
            let name = format!("a{n}");
            let rule = match argument.source {
                Source::File => {
                    grammar::one_of(&name, self.named.iter().chain(&self.listed).copied())
                }
                Source::NewFile => grammar::one_of(&name, self.named.iter().copied()),
                Source::Folder => grammar::one_of(&name, self.folders.iter().copied()),
                Source::Pattern | Source::Text if !self.quoted.is_empty() => {
                    grammar::one_of(&name, self.quoted.iter().copied())
                }
                Source::Pattern | Source::Text => {
                    has_words = true;
                    format!("{name} ::= words\n")
                }
            };
            out.push_str(&rule);
        }
        if has_words {
            self.write_words(&mut out);
        }
        out
    }

    /// Writes the rules for any words that follow each other in the request, names of files excepted.
    fn write_words(&self, out: &mut String) {
        let usable: Vec<bool> = self.words.iter().map(|word| is_text(word)).collect();
        let starts: Vec<String> = usable
            .iter()
            .enumerate()
            .filter(|(_, is_usable)| **is_usable)
            .map(|(n, _)| format!("w{n}"))
            .collect();
        out.push_str(&format!("words ::= {}\n", starts.join(" | ")));
        for (n, word) in self.words.iter().enumerate() {
            if usable.get(n) != Some(&true) {
                continue;
            }
            let end = grammar::literal(bare(word));
            let rule = match usable.get(n + 1) {
                Some(true) => {
                    let onward = grammar::literal(&format!("{} ", word.trim_start_matches(MARKS)));
                    format!("w{n} ::= {end} | {onward} w{}\n", n + 1)
                }
                Some(false) | None => format!("w{n} ::= {end}\n"),
            };
            out.push_str(&rule);
        }
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
    let is_shouted = word.len() > 3 && word.chars().all(|c| c.is_ascii_uppercase());
    let is_path = word.contains('/') && !word.ends_with('/');
    !word.contains('"') && (has_extension || is_shouted || is_path || word == "Makefile")
}

/// Tells whether a word can be searched for or written down.
fn is_text(word: &str) -> bool {
    let word = bare(word);
    !word.is_empty() && (!is_file(word) || !word.chars().any(char::is_lowercase))
}

fn folders<'a>(words: &[&'a str]) -> Vec<&'a str> {
    const NONE: [&str; 14] = [
        "this", "the", "a", "my", "that", "current", "here", "it", "called", "named", "contain",
        "contains", "have", "folder",
    ];
    let words: Vec<&str> = words.iter().map(|word| bare(word)).collect();
    let mut folders = vec!["."];
    let mut add = |word: Option<&&'a str>| {
        if let Some(word) = word.copied()
            && !word.is_empty()
            && !is_file(word)
            && !NONE.contains(&word)
            && !folders.contains(&word)
        {
            folders.push(word);
        }
    };
    for (n, word) in words.iter().enumerate() {
        match *word {
            "folder" | "directory" => {
                add(n.checked_sub(1).and_then(|before| words.get(before)));
                add(words.get(n + 1));
            }
            "in" | "inside" | "of" if n + 2 == words.len() => add(words.get(n + 1)),
            path if path.ends_with('/') => add(Some(&path)),
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
