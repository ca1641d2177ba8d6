//! Commands of the shell itself.

use super::found::Found;
use super::program::Seen;
use super::wrapper::joined;
use super::{Count, Run, Word, folder, variable};

const NAMES_VARIABLE: &str = "which variable it sets is only known when it runs";

/// Options of `shopt` that change nothing about how a command is read.
const HARMLESS: &[&str] = &[
    "nullglob",
    "globstar",
    "dotglob",
    "failglob",
    "nocaseglob",
    "nocasematch",
    "inherit_errexit",
    "checkwinsize",
    "cmdhist",
    "histappend",
];

/// Reads a command of the shell. `None` if it is a program.
pub(super) fn look(found: &mut Found, name: &str, run: &Run, is_plain: bool) -> Option<Seen> {
    let words = run.words.as_slice();
    let operands = words.get(1..).unwrap_or_default();
    let seen = match name {
        "eval" => evaluate(operands, is_plain),
        "." | "source" => Seen::doubt("the commands in the file that it reads are not known"),
        "trap" => trap(operands, is_plain),
        "alias"
            if operands.iter().any(|word| word.known().is_none_or(|word| word.contains('='))) =>
        {
            Seen::doubt("a name becomes another command")
        }
        "shopt" if !operands.iter().all(is_harmless) => {
            Seen::doubt("it changes how the shell reads commands")
        }
        "set" => set(operands),
        "declare" | "typeset" | "local" | "export" | "readonly" => {
            declare(found, operands, &run.text)
        }
        "read" | "mapfile" | "readarray" | "getopts" => fill(found, name, operands, &run.text),
        "printf" => print(found, operands, &run.text),
        "test" | "[" => test(found, operands),
        "unset" => unset(operands),
        "wait" => set_by_wait(operands),
        "let" => Seen::doubt("arithmetic runs commands in the text that it reads"),
        "hash" if operands.iter().any(Word::may_be_option) => {
            Seen::doubt("it changes which programs are found")
        }
        "enable" | "complete" | "compgen" | "compopt" | "bind" | "fc" | "history" => {
            Seen::doubt("it changes what the shell runs")
        }
        "cd" | "pushd" | "popd" => {
            folder::change(found, name, run);
            Seen::itself()
        }
        _ => return None,
    };
    Some(seen)
}

fn evaluate(operands: &[Word], is_plain: bool) -> Seen {
    let operands = match operands.first().and_then(Word::known) {
        Some("--") => &operands[1..],
        _ => operands,
    };
    Seen::evaluated(joined(operands).as_ref(), is_plain)
}

fn trap(operands: &[Word], is_plain: bool) -> Seen {
    let operands = match operands.first().and_then(Word::known) {
        Some("--") => &operands[1..],
        _ => operands,
    };
    match operands.first() {
        None => Seen::itself(),
        Some(Word::Known(word)) if matches!(word.as_str(), "-" | "" | "-l" | "-p") => {
            Seen::itself()
        }
        Some(text) => Seen::evaluated(Some(text), is_plain).and_itself(),
    }
}

fn is_harmless(word: &Word) -> bool {
    let Some(word) = word.known() else { return false };
    matches!(word, "-s" | "-u" | "-q" | "-p" | "-o") || HARMLESS.contains(&word)
}

fn set(operands: &[Word]) -> Seen {
    let mut words = operands.iter();
    while let Some(word) = words.next() {
        match word.known() {
            Some("--" | "-") => break,
            Some(option) if option.starts_with(['-', '+']) => {
                let letters = &option[1..];
                if !letters.chars().all(|letter| "euxfvnCbhmEToBHa".contains(letter)) {
                    return Seen::doubt("it changes how the shell reads commands");
                }
                if !letters.ends_with('o') {
                    continue;
                }
                let named = words.next().map(|word| word.known().unwrap_or("?"));
                let is_plain = matches!(
                    named,
                    None | Some(
                        "pipefail" | "errexit" | "nounset" | "xtrace" | "noglob" | "verbose"
                    )
                );
                if !is_plain {
                    return Seen::doubt("it changes how the shell reads commands");
                }
            }
            Some(_) => break,
            None if word.may_be_option() => {
                return Seen::doubt("it changes how the shell reads commands");
            }
            None => break,
        }
    }
    Seen::itself()
}

const RUNS_ELEMENTS: &str = "a list is read from a text, and what is in that would be run";

fn declare(found: &mut Found, operands: &[Word], text: &str) -> Seen {
    let mut makes_lists = false;
    for word in operands {
        let is_option = word.known().is_some_and(|word| word.starts_with(['-', '+']));
        if is_option {
            let letters = &word.starts()[1..];
            if !letters.chars().all(|letter| "aAfFglprtux-".contains(letter)) {
                return Seen::doubt("it changes what its variables mean");
            }
            makes_lists |= letters.contains(['a', 'A']);
            continue;
        }
        match word {
            Word::Known(assignment) => match variable::split(assignment) {
                // Whether it is a list may have been said long before.
                Some((_, value)) if value.starts_with('(') => return Seen::doubt(RUNS_ELEMENTS),
                Some((name, value)) => found.assign(name, &Word::Known(value.to_owned()), text),
                None if variable::is_name(assignment) => {
                    found.assign(assignment, &Word::Known(String::new()), text);
                    if makes_lists {
                        found.list(assignment);
                    }
                }
                None => return Seen::doubt(NAMES_VARIABLE),
            },
            Word::Unknown { source, starts, count } => {
                // `export name=$value` is no list of words, whatever the value is.
                let (known, _) = source.split_once('=').unwrap_or_default();
                let known = known.strip_suffix('+').unwrap_or(known);
                if !variable::is_name(known) && !starts.contains('=') {
                    return Seen::doubt(NAMES_VARIABLE);
                }
                let value = source.split_once('=').map_or("", |(_, value)| value);
                if may_be_list(value) {
                    if makes_lists {
                        return Seen::doubt(RUNS_ELEMENTS);
                    }
                    found.give_unread(known);
                }
                found.assign(known, &Word::unknown(value, *count), text);
            }
        }
    }
    Seen::itself()
}

/// Whether a value could begin with a parenthesis.
fn may_be_list(source: &str) -> bool {
    let plain = |first: char| first.is_ascii_alphanumeric() || "_-./:,+@%".contains(first);
    !source.trim_start_matches(['"', '\'']).starts_with(plain)
}

/// Reads `read`, `mapfile` and `getopts`, which fill variables from elsewhere.
fn fill(found: &mut Found, builtin: &str, operands: &[Word], text: &str) -> Seen {
    let mut words = operands.iter();
    if builtin == "getopts" {
        words.next();
    }
    while let Some(word) = words.next() {
        let Some(known) = word.known() else { return Seen::doubt(NAMES_VARIABLE) };
        if let Some(letters) = known.strip_prefix('-') {
            if builtin != "read" && letters.contains(['C', 'c']) {
                return Seen::doubt("it runs a command for each line");
            }
            let takes_value = if builtin == "read" { "aNdinptu" } else { "dnOsuCc" };
            let Some(at) = letters.find(|letter| takes_value.contains(letter)) else { continue };
            let is_array = builtin == "read" && letters[at..].starts_with('a');
            let attached = &letters[at + 1..];
            let value = if attached.is_empty() {
                words.next().and_then(Word::known).map(str::to_owned)
            } else {
                Some(attached.to_owned())
            };
            match value {
                Some(value) if is_array => {
                    found.list(&value);
                    fill_one(found, &value, text);
                }
                None if is_array => return Seen::doubt(NAMES_VARIABLE),
                _ => {}
            }
        } else if variable::is_name(known) {
            if matches!(builtin, "mapfile" | "readarray") {
                found.list(known);
            }
            fill_one(found, known, text);
        } else {
            return Seen::doubt("the subscript of a variable's name would be run");
        }
    }
    Seen::itself()
}

fn fill_one(found: &mut Found, name: &str, text: &str) {
    found.assign(name, &Word::unknown(name, Count::Any), text);
}

fn print(found: &mut Found, operands: &[Word], text: &str) -> Seen {
    let variable = match operands {
        [Word::Known(option), name, ..] if option == "-v" => name.known(),
        [Word::Known(option), ..] if option.starts_with("-v") => Some(&option[2..]),
        [word @ Word::Unknown { .. }, ..] if word.may_be_option() => None,
        _ => return Seen::itself(),
    };
    match variable {
        Some(name) if variable::is_name(name) => {
            fill_one(found, name, text);
            Seen::itself()
        }
        _ => Seen::doubt(NAMES_VARIABLE),
    }
}

/// `-v NAME` looks up a variable, and with it runs the commands in its subscript.
fn test(found: &mut Found, operands: &[Word]) -> Seen {
    const SUBSCRIPT: &str = "the subscript of a variable's name would be run";
    let is_plain = |pair: &[Word]| match pair {
        [Word::Known(operator), name] if operator == "-v" || operator == "-R" => {
            name.known().is_some_and(variable::is_name)
        }
        // The operator could be one of these.
        [Word::Unknown { .. }, Word::Unknown { .. }] => false,
        [Word::Unknown { .. }, Word::Known(name)] => !name.contains('[') || name.len() == 1,
        _ => true,
    };
    if !operands.windows(2).all(is_plain) {
        return Seen::doubt(SUBSCRIPT);
    }
    for word in operands.iter().filter(|word| word.is_many()) {
        let source = word.source();
        let name = source.strip_prefix('$').unwrap_or_default();
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        if !variable::is_name(name) {
            return Seen::doubt(SUBSCRIPT);
        }
        found.reckon(name, source);
    }
    Seen::itself()
}

/// Reads `wait`: `wait -p NAME` sets a variable to the number of a process.
fn set_by_wait(operands: &[Word]) -> Seen {
    let number = Word::Known("1".to_owned());
    let is_steering =
        |word: &Word| word.known().is_some_and(|name| variable::steers(name, &number));
    match operands.iter().any(is_steering) {
        true => Seen::doubt("it sets a variable that steers commands"),
        false => unset(operands),
    }
}

/// Reads `unset`: the subscript of a variable's name is run.
fn unset(operands: &[Word]) -> Seen {
    let is_plain = |word: &Word| word.known().is_some_and(|name| !name.contains('['));
    if operands.iter().any(|word| word.known() == Some("PATH")) {
        return Seen::doubt("without PATH programs are found in the working folder");
    }
    if operands.iter().all(is_plain) {
        return Seen::itself();
    }
    Seen::doubt("the subscript of a variable's name would be run")
}
