//! Programs that only look, with the options with which they do.
//!
//! The list is short on purpose: what is not in it is asked about, and what is in it is not. A program
//! is in it only if none of its options but those named here writes, runs something, or talks to anybody.

use super::shell::{Run, Word};

/// Programs that only look, whatever they are told.
const ALWAYS: [&str; 55] = [
    "[",
    "arch",
    "basename",
    "cal",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expand",
    "false",
    "fgrep",
    "fold",
    "free",
    "grep",
    "groups",
    "head",
    "hexdump",
    "id",
    "join",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "stat",
    "strings",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "type",
    "uname",
    "unexpand",
    "wc",
    "whoami",
];

/// Programs that only look but for some options.
const BUT_FOR: [(&str, &[&str]); 7] = [
    ("date", &["-s", "--set", "-f", "--file"]),
    ("file", &["-C", "--compile"]),
    (
        "find",
        &[
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-delete",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-fls",
            "-files0-from",
        ],
    ),
    ("rg", &["--pre", "--hostname-bin", "--search-zip", "-z"]),
    (
        "sort",
        &["-o", "--output", "--compress-program", "-T", "--temporary-directory", "--files0-from"],
    ),
    ("tree", &["-o", "-R"]),
    ("which", &[]),
];

/// Subcommands of git that only look, and those of their options with which they do not.
const GIT: [(&str, &[&str]); 17] = [
    ("blame", &[]),
    ("cat-file", &["--textconv", "--filters"]),
    ("count-objects", &[]),
    ("describe", &[]),
    ("diff", &["--ext-diff", "--textconv", "--output", "--no-index"]),
    ("diff-tree", &["--ext-diff", "--textconv", "--output"]),
    ("for-each-ref", &[]),
    ("log", &["--ext-diff", "--textconv", "--output"]),
    ("ls-files", &[]),
    ("ls-tree", &[]),
    ("merge-base", &[]),
    ("name-rev", &[]),
    ("rev-list", &[]),
    ("rev-parse", &[]),
    ("shortlog", &["--output"]),
    ("show", &["--ext-diff", "--textconv", "--output"]),
    ("status", &[]),
];

/// Whole commands that only look.
const EXACTLY: [&[&str]; 12] = [
    &["git", "branch"],
    &["git", "branch", "-a"],
    &["git", "branch", "-v"],
    &["git", "branch", "-vv"],
    &["git", "branch", "--show-current"],
    &["git", "remote"],
    &["git", "remote", "-v"],
    &["git", "stash", "list"],
    &["git", "tag"],
    &["git", "tag", "-l"],
    &["git", "worktree", "list"],
    &["hostname"],
];

/// Programs that say which version they are.
const VERSIONED: [&str; 16] = [
    "bash", "cargo", "clang", "docker", "gcc", "git", "go", "java", "make", "node", "npm",
    "python", "python3", "ruby", "rustc", "uv",
];

/// Programs that change nothing about what they run.
const SEEN_THROUGH: [&str; 6] = ["bash", "sh", "dash", "time", "command", "timeout"];

/// Tells whether a program does not run others unless one of its options says so.
pub(super) fn looks(name: &str) -> bool {
    ALWAYS.contains(&name) || BUT_FOR.iter().any(|(known, _)| *known == name)
}

/// Tells whether a program cannot change anything, as far as its words tell.
pub(super) fn is_harmless(run: &Run) -> bool {
    let is_bare = run.assignments.is_empty() && !run.is_opaque;
    let is_direct = run.through.iter().all(|name| SEEN_THROUGH.contains(&name.as_str()));
    if !is_bare || !is_direct || !run.writes.iter().all(is_sink) {
        return false;
    }
    let Some((program, arguments)) = run.words.split_first() else { return run.writes.is_empty() };
    let Some(program) = program.known() else { return false };
    let known: Option<Vec<&str>> = run.words.iter().map(Word::known).collect();
    if let Some(words) = &known
        && (EXACTLY.contains(&words.as_slice()) || is_version(words))
    {
        return true;
    }
    match program {
        "git" => is_harmless_git(arguments),
        "sed" => known.is_some_and(|words| is_harmless_sed(&words)),
        _ if ALWAYS.contains(&program) => true,
        _ => {
            let but_for = BUT_FOR.iter().find(|(name, _)| *name == program);
            but_for.is_some_and(|(_, options)| !may_have(arguments, options))
        }
    }
}

fn is_sink(word: &Word) -> bool {
    matches!(word.known(), Some("/dev/null" | "/dev/stdout" | "/dev/stderr"))
}

fn is_version(words: &[&str]) -> bool {
    matches!(words, [program, "--version" | "-V"] if VERSIONED.contains(program))
}

fn is_harmless_git(arguments: &[Word]) -> bool {
    let mut arguments = arguments;
    while let [Word::Known(option), rest @ ..] = arguments
        && matches!(option.as_str(), "--no-pager" | "--no-optional-locks" | "-P")
    {
        arguments = rest;
    }
    let Some((Word::Known(subcommand), rest)) = arguments.split_first() else { return false };
    let known = GIT.iter().find(|(name, _)| name == subcommand);
    known.is_some_and(|(_, options)| !may_have(rest, options) && !may_have(rest, &["-O"]))
}

/// `sed -n 1,20p`: prints lines, and nothing else.
fn is_harmless_sed(words: &[&str]) -> bool {
    let ["sed", "-n", script, files @ ..] = words else { return false };
    let is_line = |c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | 'p' | ';' | ' ');
    script.chars().all(is_line) && files.iter().all(|file| !file.starts_with('-'))
}

/// Tells whether one of these options is among the words, or could be.
fn may_have(words: &[Word], options: &[&str]) -> bool {
    if options.is_empty() {
        return false;
    }
    let is_one = |text: &str| {
        options.iter().any(|option| match (option.strip_prefix("--"), text.strip_prefix("--")) {
            // A long option may be shortened.
            (Some(option), Some(text)) => {
                let text = text.split('=').next().unwrap_or_default();
                !text.is_empty() && option.starts_with(text)
            }
            (None, None) if option.len() > 2 => text == *option,
            // A short one may stand among others.
            (None, None) => {
                text.starts_with('-') && option.chars().skip(1).all(|c| text.contains(c))
            }
            (Some(_), None) | (None, Some(_)) => false,
        })
    };
    words.iter().any(|word| match word {
        Word::Known(text) => is_one(text),
        Word::Unknown { starts, .. } => starts.is_empty() || starts.starts_with('-'),
    })
}
