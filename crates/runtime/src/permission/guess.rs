//! Files that a word may name which is only known when its command runs: `.e*`, `{.env,x}`, `$PWD/.env`.
//!
//! Not all of them: what a variable holds nobody knows. Against that there is the sandbox.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::below;
use super::places::Places;

/// So many ways to read braces, and so many files, are looked at of one word.
const MOST: usize = 256;

/// Returns the files that are there and that a word may name, by the text of the word in its command.
pub(super) fn files(source: &str, folder: &Path, places: &Places) -> Vec<PathBuf> {
    let text: String = source.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let text = from_variable(&text);
    if text.contains(['$', '`', '(']) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for text in in_braces(text) {
        let (start, rest) = match (text.strip_prefix("~/"), text.strip_prefix('/')) {
            (Some(rest), _) => (places.absolute(Path::new("~")), rest),
            (None, Some(rest)) => (PathBuf::from("/"), rest),
            (None, None) => (folder.to_owned(), text.as_str()),
        };
        let names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty()).collect();
        follow(&start, &names, &mut found);
    }
    found
}

/// Puts in the folders that are known by variables.
fn from_variable(text: &str) -> String {
    let known = [("$PWD/", "./"), ("${PWD}/", "./"), ("$HOME/", "~/"), ("${HOME}/", "~/")];
    let put = |(name, folder): (&str, &str)| Some(format!("{folder}{}", text.strip_prefix(name)?));
    known.into_iter().find_map(put).unwrap_or_else(|| text.to_owned())
}

/// Returns what a word with braces becomes.
fn in_braces(text: String) -> Vec<String> {
    let mut left = vec![text];
    let mut done = Vec::new();
    while let Some(text) = left.pop() {
        match innermost(&text) {
            Some((before, choices, after)) if left.len() + done.len() < MOST => {
                left.extend(choices.split(',').map(|choice| format!("{before}{choice}{after}")));
            }
            Some(_) | None => done.push(text),
        }
    }
    done
}

fn innermost(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_at(text.find('}')?);
    let (before, choices) = before.rsplit_once('{')?;
    Some((before, choices, after.strip_prefix('}')?))
}

fn follow(path: &Path, names: &[&str], found: &mut Vec<PathBuf>) {
    let Some((name, rest)) = names.split_first() else {
        if path.symlink_metadata().is_ok() {
            found.push(path.to_owned());
        }
        return;
    };
    if !name.contains(['*', '?', '[']) {
        return follow(&path.join(name), rest, found);
    }
    for (entry, _) in below::entries(path) {
        // What begins with a dot is meant only by what does so too.
        let is_meant = name.starts_with('.') || !entry.starts_with('.');
        if is_meant && fits(name, &entry) && found.len() < MOST {
            follow(&path.join(entry), rest, found);
        }
    }
}

/// Compares a name with a pattern; what stands between `[` and `]` is any character.
fn fits(pattern: &str, name: &str) -> bool {
    let mut pieces = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        pieces.push(match character {
            '[' if characters.as_str().contains(']') => {
                let _ = characters.by_ref().find(|c| *c == ']');
                '?'
            }
            other => other,
        });
    }
    // How many of the pieces may have been found so far.
    let mut found = past_stars(&pieces, BTreeSet::from([0]));
    for character in name.chars() {
        let step = |at: usize| match pieces.get(at)? {
            '*' => Some(at),
            piece => (*piece == '?' || *piece == character).then_some(at + 1),
        };
        found = past_stars(&pieces, found.into_iter().filter_map(step).collect());
    }
    found.contains(&pieces.len())
}

/// A star may also be nothing.
fn past_stars(pieces: &[char], mut found: BTreeSet<usize>) -> BTreeSet<usize> {
    for (at, piece) in pieces.iter().enumerate() {
        if *piece == '*' && found.contains(&at) {
            found.insert(at + 1);
        }
    }
    found
}
