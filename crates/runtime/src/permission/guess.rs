//! Files that a word may name which is only known when its command runs: `.e*`, `{.env,x}`, `$PWD/.env`.
//!
//! Not all of them: what a variable holds nobody knows. Against that there is the sandbox.

use std::path::{Path, PathBuf};

use super::below;
use super::places::Places;

/// So many ways to read braces, and so many files, are looked at of one word.
const MOST: usize = 256;

/// So many names of files are looked at for all words of a command.
const MOST_NAMES: usize = 50_000;

/// So many bytes the words have at most that one pair of braces becomes.
const LONGEST_LIST: usize = 4 << 20;

/// So many bytes a name with a `*`, a `?` or a `[` has at most.
const LONGEST_NAME: usize = 1024;

/// A look at the files that the words of a command may name.
#[derive(Debug, Default)]
pub(super) struct Guess {
    names: usize,
    /// Whether a word may name more than was looked at.
    pub(super) is_cut: bool,
}

impl Guess {
    /// Returns the files that are there and that a word may name, by the text of the word in its command.
    pub(super) fn files(&mut self, source: &str, folder: &Path, places: &Places) -> Vec<PathBuf> {
        let text: String = source.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        let text = from_variable(&text);
        if text.contains(['$', '`', '(']) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for text in self.in_braces(text) {
            let (start, rest) = match (text.strip_prefix("~/"), text.strip_prefix('/')) {
                (Some(rest), _) => (places.absolute(Path::new("~")), rest),
                (None, Some(rest)) => (PathBuf::from("/"), rest),
                (None, None) => (folder.to_owned(), text.as_str()),
            };
            let names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty()).collect();
            self.follow(&start, &names, &mut found);
        }
        found
    }

    /// Returns what a word with braces becomes.
    fn in_braces(&mut self, text: String) -> Vec<String> {
        let mut left = vec![text];
        let mut done = Vec::new();
        while let Some(text) = left.pop() {
            let Some((before, choices, after)) = innermost(&text) else {
                done.push(text);
                continue;
            };
            let choices = choices_of(choices);
            let is_long = choices.len() * (before.len() + after.len()) > LONGEST_LIST;
            self.is_cut |= is_long;
            match is_long || left.len() + done.len() >= MOST {
                true => done.push(text),
                false => {
                    left.extend(choices.iter().map(|choice| format!("{before}{choice}{after}")));
                }
            }
        }
        done
    }

    /// Follows names from a folder, of which some may be patterns.
    fn follow(&mut self, folder: &Path, names: &[&str], found: &mut Vec<PathBuf>) {
        let is_pattern = |name: &&str| name.contains(['*', '?', '[']);
        let plain = names.iter().position(is_pattern).unwrap_or(names.len());
        let (plain, patterns) = names.split_at(plain);
        let mut path = folder.to_owned();
        path.extend(plain);
        let Some((name, rest)) = patterns.split_first() else {
            if self.may_look() && path.symlink_metadata().is_ok() {
                found.push(path);
            }
            return;
        };
        if name.len() > LONGEST_NAME {
            self.is_cut = true;
            return;
        }
        let pieces = pieces(name);
        for (entry, _) in below::entries(&path) {
            if found.len() >= MOST || !self.may_look() {
                break;
            }
            // What begins with a dot is meant only by what does so too.
            let is_meant = name.starts_with('.') || !entry.starts_with('.');
            if is_meant && fits(&pieces, &entry) {
                self.follow(&path.join(entry), rest, found);
            }
        }
    }

    /// Tells whether one more name is looked at.
    fn may_look(&mut self) -> bool {
        self.names += 1;
        self.is_cut |= self.names > MOST_NAMES;
        self.names <= MOST_NAMES
    }
}

/// Puts in the folders that are known by variables.
fn from_variable(text: &str) -> String {
    let known = [("$PWD/", "./"), ("${PWD}/", "./"), ("$HOME/", "~/"), ("${HOME}/", "~/")];
    let put = |(name, folder): (&str, &str)| Some(format!("{folder}{}", text.strip_prefix(name)?));
    known.into_iter().find_map(put).unwrap_or_else(|| text.to_owned())
}

/// Returns what `a,b` or `1..3` between braces stands for.
fn choices_of(text: &str) -> Vec<String> {
    let listed = || text.split(',').map(str::to_owned).collect();
    let mut ends = text.split("..");
    let (Some(from), Some(to), false) = (ends.next(), ends.next(), text.contains(',')) else {
        return listed();
    };
    if let (Ok(from), Ok(to)) = (from.parse::<char>(), to.parse::<char>()) {
        return (from.min(to)..=from.max(to)).take(MOST).map(String::from).collect();
    }
    match (from.parse::<i64>(), to.parse::<i64>()) {
        // With zeros before it or without, and in whatever steps.
        (Ok(_), Ok(_)) => vec!["*".to_owned()],
        _ => listed(),
    }
}

fn innermost(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_at(text.find('}')?);
    let (before, choices) = before.rsplit_once('{')?;
    Some((before, choices, after.strip_prefix('}')?))
}

/// Returns the pieces of a pattern, each for one character of a name, or `*` for any; what stands between `[`
/// and `]` is any character, `?`.
fn pieces(pattern: &str) -> Vec<char> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        let bracket = if character == '[' { behind_bracket(rest) } else { None };
        if let Some(behind) = bracket {
            pieces.push('?');
            rest = behind;
        } else {
            pieces.push(character);
        }
    }
    pieces.dedup_by(|next, piece| (*next, *piece) == ('*', '*'));
    pieces
}

/// Compares a name with the pieces of a pattern.
fn fits(pieces: &[char], name: &str) -> bool {
    let mut left = (pieces, name);
    // What is left of both behind the last star if that stands for as little as it may.
    let mut behind_star = None;
    loop {
        let mut characters = left.1.chars();
        match (left.0.split_first(), characters.next()) {
            (Some(('*', pieces)), _) => {
                left.0 = pieces;
                behind_star = Some(left);
                continue;
            }
            (None, None) => return true,
            (Some((piece, pieces)), Some(character)) if ['?', character].contains(piece) => {
                left = (pieces, characters.as_str());
                continue;
            }
            _ => {}
        }
        // The star stands for one character more.
        let Some((pieces, name)) = behind_star else { return false };
        let mut characters = name.chars();
        if characters.next().is_none() {
            return false;
        }
        left = (pieces, characters.as_str());
        behind_star = Some(left);
    }
}

/// Returns what follows the `]` that ends a bracket of which the inside begins a text.
fn behind_bracket(text: &str) -> Option<&str> {
    let mut rest = text.strip_prefix(['!', '^']).unwrap_or(text);
    // As the first one it is a character like any other.
    rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let at = rest.find([']', '['])?;
        let (found, behind) = rest[at..].split_at(1);
        if found == "]" {
            return Some(behind);
        }
        // `[:alpha:]`, `[=a=]` and `[.x.]` have a bracket of their own.
        let class = [":", "=", "."].into_iter().find(|mark| behind.starts_with(mark));
        let end = class.and_then(|mark| Some(behind[1..].find(&format!("{mark}]"))? + 3));
        rest = &behind[end.unwrap_or_default()..];
    }
}
