//! Programs that are given a program: shells are read, other languages are not.

use super::program::Seen;
use super::{Word, variable};

const SHELLS: &[&str] = &["bash", "sh", "dash", "ash", "ksh", "mksh", "rbash"];
const FOREIGN_SHELLS: &[&str] = &[
    "zsh",
    "fish",
    "csh",
    "tcsh",
    "nu",
    "pwsh",
    "powershell",
    "xonsh",
    "elvish",
    "rc",
    "es",
    "yash",
    "posh",
    "oksh",
    "loksh",
    "bash-static",
    "sash",
    "zsh-static",
];
const INTERPRETERS: &[&str] = &[
    "python",
    "pypy",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "wish",
    "guile",
    "Rscript",
    "R",
    "julia",
    "swift",
    "ghci",
    "runghc",
    "scala",
    "groovy",
    "jshell",
    "irb",
    "ipython",
    "elixir",
    "erl",
    "escript",
    "ocaml",
    "racket",
    "sbcl",
    "clisp",
    "octave",
    "m4",
    "gnuplot",
    "sqlite3",
    "psql",
    "mysql",
    "mariadb",
    "mongosh",
    "redis-cli",
    "duckdb",
    "bc",
    "dc",
    "osascript",
    "ts-node",
    "tsx",
];

pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Whether a program is a shell, with whatever version.
pub(super) fn is_any_shell(name: &str) -> bool {
    let name = without_version(name);
    is_shell(name) || FOREIGN_SHELLS.contains(&name)
}

/// Reads a program that is given a program. `None` if it is another.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Seen> {
    let unversioned = without_version(name);
    if is_shell(unversioned) {
        return Some(shell(unversioned, words));
    }
    if FOREIGN_SHELLS.contains(&unversioned) {
        return Some(Seen::doubt("the language of this shell is not read"));
    }
    match name {
        "awk" | "gawk" | "mawk" | "nawk" => return Some(awk(words)),
        "sed" | "gsed" => return Some(sed(words)),
        _ => {}
    }
    is_interpreter(name).then(|| interpreter(unversioned, words))
}

/// Whether a program runs whatever text it is given.
pub(super) fn runs_texts(name: &str) -> bool {
    is_shell(without_version(name))
        || FOREIGN_SHELLS.contains(&without_version(name))
        || is_interpreter(name)
}

fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name) || INTERPRETERS.contains(&without_version(name))
}

/// `python3.12` is Python.
pub(super) fn without_version(name: &str) -> &str {
    name.trim_end_matches(|last: char| matches!(last, '0'..='9' | '.' | '-'))
}

/// Reads the options of a shell, and what it is given to run.
fn shell(name: &str, words: &[Word]) -> Seen {
    const UNREAD: &str = "an option of the shell is not understood";
    let is_plain = name != "bash" && name != "rbash";
    let mut runs_text = false;
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.known() else {
            if word.may_be_option() || word.is_many() {
                return Seen::doubt("what the shell is given to run is only known when it runs");
            }
            break;
        };
        at += 1;
        match text {
            "--" | "-" => break,
            "--norc" | "--noprofile" | "--login" | "--posix" | "--verbose" | "--noediting" => {}
            "--version" | "--help" => return Seen::itself(),
            _ if text.starts_with("--") => return Seen::doubt(UNREAD),
            _ if text.starts_with(['-', '+']) => {
                let letters = &text[1..];
                if !letters.chars().all(|letter| "abcefhilmnoprtuvxBCEHTO".contains(letter)) {
                    return Seen::doubt(UNREAD);
                }
                runs_text |= letters.contains('c');
                let named = letters.chars().filter(|letter| matches!(letter, 'o' | 'O')).count();
                for option in words.get(at..at + named).unwrap_or_default() {
                    if !matches!(
                        option.known(),
                        Some("pipefail" | "errexit" | "nounset" | "xtrace")
                    ) {
                        return Seen::doubt(UNREAD);
                    }
                }
                at += named;
            }
            _ => {
                at -= 1;
                break;
            }
        }
    }
    if runs_text {
        return Seen::script(words.get(at), is_plain);
    }
    match words.get(at..) {
        Some(file @ [first, ..]) if first.known().is_none_or(|file| !is_input(file)) => {
            Seen::file(file.to_vec())
        }
        _ => Seen::doubt("the shell reads its commands from its input"),
    }
}

/// Whether a file is the input of the program that reads it.
fn is_input(file: &str) -> bool {
    let names: Vec<&str> = file.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let is_special = file.starts_with('/') && matches!(names.first(), Some(&("dev" | "proc")));
    // In one of these folders, wherever it is called from.
    let is_number = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
    let last = names.last().filter(|name| matches!(**name, "-" | "stdin") || is_number(name));
    is_special || last.is_some() || file.starts_with('/') && names.contains(&"..")
}

/// Python and the like: a file is run as it is, a text is not read.
fn interpreter(name: &str, words: &[Word]) -> Seen {
    if matches!(
        name,
        "sqlite" | "sqlite3" | "psql" | "mysql" | "mariadb" | "mongosh" | "bc" | "dc" | "m4"
    ) {
        return Seen::reading();
    }
    let is_python = matches!(name, "python" | "pypy");
    for (at, word) in words.iter().enumerate().skip(1) {
        match word.known() {
            Some("-m") if is_python && !is_plain_module(words.get(at + 1)) => {
                return Seen::opaque();
            }
            Some("-m" | "--version" | "-V" | "--help" | "--test") => return Seen::itself(),
            Some("run" | "test" | "install" | "fmt" | "lint" | "check" | "build" | "add")
                if matches!(name, "deno" | "bun") =>
            {
                return Seen::itself();
            }
            // For others some of these take the next word.
            Some("-u" | "-B" | "-I" | "-s" | "-S" | "-O" | "-q") if is_python => {}
            Some("-w") => {}
            Some(file) if is_input(file) => return Seen::reading(),
            Some(file) if !file.starts_with('-') && !is_input(file) => return Seen::itself(),
            None if !word.may_be_option() && !word.is_many() => return Seen::itself(),
            _ => return Seen::opaque(),
        }
    }
    Seen::reading()
}

/// Whether a module of Python is known, and runs no text that it is given.
fn is_plain_module(module: Option<&Word>) -> bool {
    const RUNNING: &[&str] =
        &["timeit", "code", "pdb", "cProfile", "profile", "trace", "asyncio", "IPython", "idlelib"];
    let module = module.and_then(Word::known).map(|module| module.split('.').next());
    module.flatten().is_some_and(|module| !RUNNING.contains(&module))
}

/// Words of awk that run a program or write a file.
const AWK_ACTS: &[&str] = &["system", "getline", "|", "@", "\\", "printf >", "close", "extension"];

fn awk(words: &[Word]) -> Seen {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.known() {
            Some("-F" | "-v") => {
                if words.get(at + 1).is_none_or(Word::is_many) {
                    return Seen::opaque();
                }
                at += 2;
            }
            Some(option) if option.starts_with("-F") || option.starts_with("-v") => at += 1,
            Some("--") => {
                at += 1;
                break;
            }
            Some(option) if option.starts_with('-') => return Seen::reading(),
            Some(_) => break,
            None => return Seen::opaque(),
        }
    }
    let Some(program) = words.get(at).and_then(Word::known) else { return Seen::opaque() };
    // A `>` compares within parentheses or a pattern, and writes after print.
    let writes = program.contains('>') && program.contains("print");
    let acts = AWK_ACTS.iter().any(|act| program.contains(act));
    // An operand may set a variable, but no program is made of one.
    if acts || writes {
        let mut seen = Seen::opaque();
        if program.contains("system") || program.contains('|') || program.contains('@') {
            seen.add_doubt("the program of awk runs others");
        }
        return seen;
    }
    Seen::itself()
}

/// Programs of sed that only edit text: anything else may run a program or write a file.
fn sed(words: &[Word]) -> Seen {
    let mut scripts = Vec::new();
    let mut operands = Vec::new();
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match word.known() {
            Some("-e" | "--expression") => scripts.extend(words.next()),
            Some(
                "-n" | "-i" | "-E" | "-r" | "-s" | "-u" | "-z" | "-ne" | "-ie" | "-Ee" | "-i.bak",
            )
            | Some("--quiet" | "--silent" | "--in-place" | "--regexp-extended" | "--debug")
            | Some("-En" | "-nE" | "-rn" | "-nr" | "-Ei" | "-iE" | "-ri" | "--sandbox" | "--") => {
                if word.known().is_some_and(|word| word.ends_with('e') && !word.starts_with("--")) {
                    scripts.extend(words.next());
                }
            }
            Some(option) if option.starts_with('-') && option.len() > 1 => return unread_sed(),
            _ => operands.push(word),
        }
    }
    if scripts.is_empty() {
        let Some(script) = operands.first() else { return unread_sed() };
        scripts.push(script);
    }
    let is_plain = |script: &&Word| script.known().is_some_and(is_plain_sed);
    if scripts.iter().all(is_plain) { Seen::itself() } else { unread_sed() }
}

fn unread_sed() -> Seen {
    Seen::doubt("the program of sed may run others or write files")
}

/// Whether a program of sed consists of plain commands: `s`, `y`, `p`, `d`, `q` and the like.
fn is_plain_sed(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = sed_address(rest) else { return false };
        let Some(after) = sed_command(after.trim_start_matches([' ', '!'])) else { return false };
        rest = after;
    }
}

fn sed_address(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = match rest.as_bytes().first()? {
            b'0'..=b'9' | b'$' | b',' | b'+' | b'~' | b' ' => &rest[1..],
            b'/' => delimited(&rest[1..], '/')?.trim_start_matches(['I', 'M']),
            _ => return Some(rest),
        };
    }
}

/// The text after the next delimiter that is not escaped.
fn delimited(text: &str, delimiter: char) -> Option<&str> {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == '\n'
            || character == '[' && text[at..].contains([']']) && delimiter == ']'
        {
            return None;
        } else if character == delimiter {
            // Within brackets a delimiter is one for some and a character for others.
            let before = &text[..at];
            let is_in_brackets = before.rfind('[') > before.rfind(']');
            return (!is_in_brackets).then(|| &text[at + delimiter.len_utf8()..]);
        }
    }
    None
}

fn sed_command(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    let command = characters.next()?;
    let rest = characters.as_str();
    match command {
        's' | 'y' => {
            let delimiter = rest.chars().next().filter(char::is_ascii_punctuation)?;
            if delimiter == '\\' {
                return None;
            }
            let rest = delimited(&rest[1..], delimiter)?;
            let rest = delimited(rest, delimiter)?;
            let flags = rest.find([';', '\n', '}', ' ']).unwrap_or(rest.len());
            let is_plain = rest[..flags].chars().all(|flag| "gIipmM0123456789".contains(flag));
            is_plain.then(|| &rest[flags..])
        }
        'p' | 'd' | 'q' | 'Q' | '=' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'P' | 'D' | '{'
        | '}' | 'F' | 'l' => {
            let is_end = rest.is_empty()
                || rest.starts_with([';', '\n', '}', ' '])
                || matches!(command, '{' | '}');
            is_end.then_some(rest)
        }
        _ => None,
    }
}

/// Whether a word sets a variable that steers a program, as in `make CC=...`.
pub(super) fn sets_steering(word: &Word) -> bool {
    let text = word.starts();
    text.split_once('=')
        .is_some_and(|(name, value)| variable::steers(name, &Word::Known(value.to_owned())))
}
