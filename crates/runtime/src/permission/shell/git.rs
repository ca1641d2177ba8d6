//! `git`: its options, its configuration and some of its commands run other programs.

use super::Word;
use super::option::is_long;
use super::program::Seen;

const BY_OPTION: &str = "one of its options runs another program";
const UNREAD: &str = "the options of git are not all understood";

/// Keys that run nothing, or what they begin with.
const HARMLESS_KEYS: &[&str] = &[
    "user.name",
    "user.email",
    "color.",
    "advice.",
    "core.quotepath",
    "core.autocrlf",
    "core.safecrlf",
    "core.abbrev",
    "core.longpaths",
    "commit.gpgsign",
    "tag.gpgsign",
    "init.defaultbranch",
    "push.default",
    "push.autosetupremote",
    "pull.rebase",
    "pull.ff",
    "merge.conflictstyle",
    "diff.algorithm",
    "diff.renames",
    "diff.context",
    "log.date",
    "log.showsignature",
    "column.",
    "rebase.autostash",
    "rebase.autosquash",
    "gc.auto",
    "rerere.enabled",
    "fetch.prune",
    "http.version",
    "status.",
    "format.pretty",
    "grep.linenumber",
    "safe.directory",
    "branch.sort",
    "tag.sort",
    "versionsort.",
];

/// Commands whose words run programs.
const RUNNING: &[&str] = &[
    "bisect",
    "submodule",
    "filter-branch",
    "difftool",
    "mergetool",
    "daemon",
    "for-each-repo",
    "hook",
    "instaweb",
    "send-email",
    "shell",
    "http-backend",
    "upload-pack",
    "receive-pack",
    "credential",
    "maintenance",
    "web--browse",
    "gui",
    "citool",
    "svn",
    "p4",
    "cvsserver",
    "cvsimport",
    "cvsexportcommit",
    "fast-import",
    "submodule--helper",
    "merge-index",
    "merge-octopus",
    "remote-ext",
    "remote-fd",
    "filter-repo",
    "upload-archive",
    "imap-send",
    "fsmonitor--daemon",
    "scalar",
];

/// Those of them that run nothing.
const QUIET: &[(&str, &[&str])] = &[
    ("bisect", &["start", "good", "bad", "old", "new", "skip", "reset", "log", "next"]),
    ("submodule", &["status", "init", "sync", "update", "add", "summary"]),
];

/// Options of commands that run programs.
const LAUNCHING: &[&str] = &[
    "exec",
    "upload-pack",
    "receive-pack",
    "extcmd",
    "open-files-in-pager",
    "ext-diff",
    "tree-filter",
    "index-filter",
    "msg-filter",
    "env-filter",
    "config-env",
    "template",
    "config",
    "separate-git-dir",
];

/// Reads the words of `git`.
pub(super) fn look(words: &[Word]) -> Seen {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.known() else {
            if word.may_be_option() || word.is_many() {
                return Seen::doubt(UNREAD);
            }
            return Seen::doubt("which command of git it is is only known when it runs");
        };
        match text {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => {
                if words.get(at + 1).is_none_or(Word::is_many) {
                    return Seen::doubt(UNREAD);
                }
                at += 2;
            }
            "-c" => {
                let key = words.get(at + 1).map(Word::starts).unwrap_or_default();
                if !is_harmless(key) || words.get(at + 1).is_some_and(Word::is_many) {
                    return Seen::doubt("a setting of git runs another program");
                }
                at += 2;
            }
            "--no-pager"
            | "-P"
            | "--no-optional-locks"
            | "--bare"
            | "--no-replace-objects"
            | "--literal-pathspecs"
            | "--version"
            | "--help"
            | "-v"
            | "-h"
            | "--html-path"
            | "--man-path" => at += 1,
            _ if text.starts_with("--git-dir=") || text.starts_with("--work-tree=") => at += 1,
            _ if text.starts_with('-') => return Seen::doubt(UNREAD),
            _ => return command(text, words.get(at + 1..).unwrap_or_default()),
        }
    }
    Seen::itself()
}

fn is_harmless(key: &str) -> bool {
    let Some((key, _)) = key.split_once('=') else { return false };
    is_harmless_key(key)
}

fn is_harmless_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    if key.ends_with(".helper") || key.ends_with(".command") || key.ends_with("cmd") {
        return false;
    }
    HARMLESS_KEYS.iter().any(|harmless| match harmless.strip_suffix('.') {
        Some(_) => key.starts_with(harmless),
        None => key == *harmless,
    })
}

fn command(command: &str, words: &[Word]) -> Seen {
    if command == "config" {
        return config(words);
    }
    let verb = words.first().and_then(Word::known).unwrap_or_default();
    let quiet = QUIET.iter().find(|(name, _)| *name == command);
    let is_quiet = quiet.is_some_and(|(_, verbs)| verbs.contains(&verb));
    if RUNNING.contains(&command) && !is_quiet {
        return Seen::doubt("this command of git runs other programs");
    }
    for word in words {
        let Some(text) = word.known() else {
            if word.is_many() && word.may_be_option() && takes_programs(command) {
                return Seen::doubt(
                    "one of its words could be an option that runs another program",
                );
            }
            continue;
        };
        if text == "--" {
            break;
        }
        if launches(command, text) || text.contains("ext::") || text.starts_with("fd::") {
            return Seen::doubt(BY_OPTION);
        }
    }
    Seen::itself()
}

/// Commands with options that run programs.
fn takes_programs(command: &str) -> bool {
    matches!(
        command,
        "clone"
            | "fetch"
            | "pull"
            | "push"
            | "ls-remote"
            | "archive"
            | "rebase"
            | "grep"
            | "diff"
            | "log"
            | "show"
            | "fetch-pack"
            | "send-pack"
            | "init"
    )
}

fn launches(command: &str, text: &str) -> bool {
    if text.starts_with("--") {
        let name = text.split('=').next().unwrap_or_default();
        return name.len() >= 4 && LAUNCHING.iter().any(|option| is_long(name, option));
    }
    let is_cluster = text.starts_with('-');
    match command {
        "clone" => is_cluster && text.contains(['u', 'c']),
        "rebase" => is_cluster && text.contains('x'),
        "grep" => is_cluster && text.contains('O'),
        _ => false,
    }
}

/// Setting a key may make any later command of git run a program.
fn config(words: &[Word]) -> Seen {
    const READING: &[&str] =
        &["--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch"];
    const VALUED: &[&str] = &["-f", "--file", "--blob", "--type", "--default", "--comment"];
    let (mut at, mut reads) = (0, false);
    while let Some(option) =
        words.get(at).and_then(Word::known).filter(|text| text.starts_with('-'))
    {
        reads |= READING.contains(&option);
        at += if VALUED.contains(&option) { 2 } else { 1 };
    }
    let operands = words.get(at..).unwrap_or_default();
    let (verb, key) = match operands {
        [Word::Known(verb), rest @ ..] if verb == "set" => (Some("set"), rest.first()),
        [first, ..] => (first.known(), Some(first)),
        [] => (None, None),
    };
    let is_edit = |word: &Word| matches!(word.known(), Some("-e" | "--edit" | "edit"));
    let is_read =
        reads || matches!(verb, Some("get" | "list")) || operands.len() == 1 && verb.is_some();
    let is_harmless = key.and_then(Word::known).is_some_and(is_harmless_key);
    if (is_read || is_harmless) && !words.iter().any(is_edit) {
        return Seen::itself();
    }
    Seen::doubt("a setting of git may run another program")
}
