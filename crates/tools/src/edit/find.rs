//! Finding what is to be replaced.

use crate::lines::{Pass, Reindent, plain};
use crate::text::line_spans;

/// What was found, and by which pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pass: Pass,
    pub(super) matches: Vec<Match>,
}

/// A range of bytes and what takes its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) new: String,
}

/// Finds all places where `old` stands, by the first pass that finds any.
pub(super) fn find(text: &str, old: &str, new: &str) -> Found {
    let exact = exact(text, old, new);
    let is_blank = old.trim().is_empty();
    if !exact.is_empty() || is_blank {
        return Found { pass: Pass::Exact, matches: exact };
    }
    let spans = line_spans(text);
    let lines: Vec<&str> = spans.iter().map(|(start, end)| &text[*start..*end]).collect();
    let quoted: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    for pass in Pass::ALL {
        if pass == Pass::Typography {
            let matches = find_plain(text, old, new);
            if !matches.is_empty() {
                return Found { pass, matches };
            }
        }
        let mut matches = Vec::new();
        let mut at = 0;
        while let Some(window) = lines.get(at..at + quoted.len()) {
            if !pass.matches(window, &quoted) {
                at += 1;
                continue;
            }
            let place = (&spans[at..at + quoted.len()], window);
            matches.extend(whole_lines(text, place, &quoted, (old, new)));
            at += quoted.len();
        }
        if !matches.is_empty() {
            return Found { pass, matches };
        }
    }
    Found { pass: Pass::Exact, matches: Vec::new() }
}

/// Finds every place where `old` stands as it is, also where two of them overlap: which one is meant
/// is then just as unclear.
fn exact(text: &str, old: &str, new: &str) -> Vec<Match> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let (mut matches, mut at) = (Vec::new(), 0);
    while let Some(next) = text.get(at..).and_then(|rest| rest.find(old)) {
        let start = at + next;
        matches.push(Match { start, end: start + old.len(), new: new.to_owned() });
        at = start + step;
    }
    matches
}

/// Replaces whole lines, which keep their own indentation and kind of end.
fn whole_lines(
    text: &str,
    (spans, lines): (&[(usize, usize)], &[&str]),
    quoted: &[&str],
    (old, new): (&str, &str),
) -> Option<Match> {
    let ((start, _), (_, end)) = (spans.first()?, spans.last()?);
    let takes_end = old.ends_with('\n') && (new.is_empty() || new.ends_with('\n'));
    let is_end_there = text[*end..].starts_with('\n');
    let end = if takes_end && is_end_there { end + 1 } else { *end };
    let new = if takes_end && !is_end_there { new.strip_suffix('\n').unwrap_or(new) } else { new };
    let mut new = match Reindent::between(quoted, lines) {
        Some(reindent) => reindent.apply(new),
        None => new.to_owned(),
    };
    // In a file with both kinds of line ends the new lines get the kind of the old.
    if lines.iter().all(|line| line.ends_with('\r')) {
        new = new.replace('\n', "\r\n");
        if !takes_end {
            new.push('\r');
        }
    }
    Some(Match { start: *start, end, new })
}

/// Finds pieces of lines that differ only in typography. Characters correspond one to one.
fn find_plain(text: &str, old: &str, new: &str) -> Vec<Match> {
    let (mut plain_text, mut origins) = (String::with_capacity(text.len()), Vec::new());
    for (at, c) in text.char_indices() {
        let start = plain_text.len();
        plain_text.push(plain(c));
        origins.resize(plain_text.len(), at);
        if let Some(first) = origins.get_mut(start) {
            *first = at;
        }
    }
    origins.push(text.len());
    let old: String = old.chars().map(plain).collect();
    let origin = |at: usize| origins.get(at).copied();
    plain_text
        .match_indices(&old)
        .filter_map(|(at, _)| {
            Some(Match { start: origin(at)?, end: origin(at + old.len())?, new: new.to_owned() })
        })
        .collect()
}
