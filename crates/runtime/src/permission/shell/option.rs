//! Options of a program, read as getopt does, up to its first operand.

use super::{Word, variable};

/// The options that a program knows.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Options {
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters with one.
    pub(super) valued: &'static str,
    /// Long options without a value, or with one after `=`.
    pub(super) long: &'static [&'static str],
    /// Long options with one.
    pub(super) long_valued: &'static [&'static str],
}

/// What stands before the operands.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Where the first operand is.
    pub(super) operands: usize,
    /// Options as they are called, without dashes, with their values.
    pub(super) given: Vec<(String, Option<Word>)>,
}

impl Parsed {
    pub(super) fn has(&self, option: &str) -> bool {
        self.given.iter().any(|(name, _)| name == option)
    }

    pub(super) fn value(&self, option: &str) -> Option<&Word> {
        let (_, value) = self.given.iter().find(|(name, _)| name == option)?;
        value.as_ref()
    }
}

/// Reads the options after the program's name. `None` if they are not all understood.
pub(super) fn parse(words: &[Word], options: Options) -> Option<Parsed> {
    let mut parsed = Parsed { operands: 1, given: Vec::new() };
    while let Some(word) = words.get(parsed.operands) {
        let Some(text) = word.known() else {
            // An operand of which the beginning is known; anything else could be an option.
            return (!word.may_be_option() && !word.is_many()).then_some(parsed);
        };
        if text == "--" {
            parsed.operands += 1;
            break;
        }
        let next = words.get(parsed.operands + 1);
        let takes_next = if let Some(long) = text.strip_prefix("--") {
            long_option(long, next, options, &mut parsed)?
        } else if text.len() > 1 && text.starts_with('-') {
            cluster(&text[1..], next, options, &mut parsed)?
        } else {
            break;
        };
        parsed.operands += if takes_next { 2 } else { 1 };
    }
    Some(parsed)
}

fn long_option(
    text: &str,
    next: Option<&Word>,
    options: Options,
    parsed: &mut Parsed,
) -> Option<bool> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(Word::Known(value.to_owned()))),
        None => (text, None),
    };
    if options.long.contains(&name) {
        parsed.given.push((name.to_owned(), value));
        return Some(false);
    }
    if !options.long_valued.contains(&name) {
        return None;
    }
    if value.is_some() {
        parsed.given.push((name.to_owned(), value));
        return Some(false);
    }
    parsed.given.push((name.to_owned(), Some(one(next)?)));
    Some(true)
}

fn cluster(
    letters: &str,
    next: Option<&Word>,
    options: Options,
    parsed: &mut Parsed,
) -> Option<bool> {
    for (at, letter) in letters.char_indices() {
        if options.flags.contains(letter) {
            parsed.given.push((letter.to_string(), None));
            continue;
        }
        if !options.valued.contains(letter) {
            return None;
        }
        let rest = &letters[at + letter.len_utf8()..];
        let is_attached = !rest.is_empty();
        let value = if is_attached { Word::Known(rest.to_owned()) } else { one(next)? };
        parsed.given.push((letter.to_string(), Some(value)));
        return Some(!is_attached);
    }
    Some(false)
}

/// A word that is one word.
fn one(word: Option<&Word>) -> Option<Word> {
    word.filter(|word| !word.is_many()).cloned()
}

/// Takes `NAME=value` words from the front. `None` if one may or may not be such.
pub(super) fn assignments(words: &[Word]) -> Option<Vec<(String, Word)>> {
    let mut taken = Vec::new();
    for word in words {
        match word {
            Word::Known(text) => match text.split_once('=') {
                Some((name, value)) => {
                    taken.push((name.to_owned(), Word::Known(value.to_owned())));
                }
                None => break,
            },
            Word::Unknown { source, starts, count } => {
                let Some((name, known)) = starts.split_once('=') else {
                    if starts.is_empty() || variable::is_name(starts) {
                        return None;
                    }
                    break;
                };
                let starts = known.to_owned();
                let value = Word::Unknown { source: source.clone(), starts, count: *count };
                taken.push((name.to_owned(), value));
            }
        }
    }
    Some(taken)
}

/// Whether a word is a long option or an abbreviation of it, with a value or without.
pub(super) fn is_long(word: &str, option: &str) -> bool {
    let Some(name) = word.strip_prefix("--") else { return false };
    let name = name.split('=').next().unwrap_or_default();
    !name.is_empty() && option.starts_with(name)
}
