//! `find`: programs that it runs for what it finds.

use super::Word;
use super::program::Seen;
use super::wrapper::replace;

/// Tests and options with one argument.
const WITH_ARGUMENT: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-newer",
    "-anewer",
    "-cnewer",
    "-maxdepth",
    "-mindepth",
    "-perm",
    "-user",
    "-group",
    "-printf",
    "-lname",
    "-ilname",
    "-samefile",
    "-inum",
    "-links",
    "-fstype",
    "-uid",
    "-gid",
    "-used",
    "-context",
    "-D",
    "-files0-from",
];

/// Reads the words of `find`.
pub(super) fn look(words: &[Word]) -> Seen {
    let mut seen = Seen::itself();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += 1;
        let Some(text) = word.known() else {
            if word.may_be_option() || word.is_many() && !word.starts().contains('/') {
                seen.add_doubt("an argument of find could be one that runs a program");
            }
            continue;
        };
        match text {
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let rest = words.get(at..).unwrap_or_default();
                let Some(length) = length(rest) else {
                    seen.add_doubt("where the command of find ends is not known");
                    return seen;
                };
                let mut command = rest[..length].to_vec();
                replace(&mut command, "{}");
                seen.add_command(command);
                at += length + 1;
            }
            "-delete" => seen.add_doubt("find deletes what it finds"),
            "-fprint" | "-fprint0" | "-fls" => {
                seen.writes.extend(words.get(at).cloned());
                at += 1;
            }
            "-fprintf" => {
                seen.writes.extend(words.get(at).cloned());
                at += 2;
            }
            _ if WITH_ARGUMENT.contains(&text) || is_newer(text) => {
                if words.get(at).is_some_and(Word::is_many) {
                    seen.add_doubt("an argument of find could be one that runs a program");
                }
                at += 1;
            }
            _ => {}
        }
    }
    seen
}

/// Returns how many words the command has that find runs; a `+` ends it only behind `{}`.
fn length(words: &[Word]) -> Option<usize> {
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| words.get(before)).map(Word::known);
        match (word.known(), before) {
            (Some(";"), _) | (Some("+"), Some(Some("{}"))) => return Some(at),
            // It may end it.
            (Some("+"), Some(None)) => return None,
            _ => {}
        }
    }
    None
}

/// Whether a word is one of find's tests `-newerXY`.
fn is_newer(word: &str) -> bool {
    word.strip_prefix("-newer").is_some_and(|kinds| kinds.len() == 2)
}
