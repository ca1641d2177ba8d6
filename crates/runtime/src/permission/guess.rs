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
                let choices = choices_of(choices);
                left.extend(choices.iter().map(|choice| format!("{before}{choice}{after}")));
            }
            Some(_) | None => done.push(text),
        }
    }
    done
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
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match behind_bracket(rest).filter(|_| character == '[') {
            Some(behind) => {
                pieces.push('?');
                rest = behind;
            }
            None => pieces.push(character),
        }
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

/// A star may also be nothing.
fn past_stars(pieces: &[char], mut found: BTreeSet<usize>) -> BTreeSet<usize> {
    for (at, piece) in pieces.iter().enumerate() {
        if *piece == '*' && found.contains(&at) {
            found.insert(at + 1);
        }
    }
    found
}
