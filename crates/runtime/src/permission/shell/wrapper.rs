//! Programs that run the rest of their words as another program.

use super::option::{Options, Parsed, assignments, parse};
use super::program::Seen;
use super::{Count, Word};

/// How such a program is called: `NAME [OPTION...] [OPERAND...] [NAME=VALUE...] PROGRAM...`.
#[derive(Debug)]
struct Wrapper {
    names: &'static [&'static str],
    options: Options,
    /// Words between its options and the program.
    operands: usize,
    sets_variables: bool,
    /// Options with which it does something that is not read here.
    unread: &'static [&'static str],
}

const NONE: Options = Options { flags: "", valued: "", long: &[], long_valued: &[] };
const PLAIN: Wrapper =
    Wrapper { names: &[], options: NONE, operands: 0, sets_variables: false, unread: &[] };

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["sudo"],
        options: Options {
            flags: "AbEHknPSNBKisvl",
            valued: "ugpCrtTUDRh",
            long: &[
                "askpass",
                "background",
                "preserve-env",
                "set-home",
                "reset-timestamp",
                "non-interactive",
                "preserve-groups",
                "stdin",
                "login",
                "shell",
                "validate",
            ],
            long_valued: &["user", "group", "prompt", "chdir", "chroot", "host", "role", "type"],
        },
        sets_variables: true,
        unread: &["D", "R", "chdir", "chroot"],
        ..PLAIN
    },
    Wrapper {
        names: &["doas"],
        options: Options { flags: "Lns", valued: "uC", ..NONE },
        unread: &["C", "s"],
        ..PLAIN
    },
    Wrapper {
        names: &["env"],
        options: Options {
            flags: "i0v",
            valued: "uCSa",
            long: &["ignore-environment", "null", "debug", "default-signal", "ignore-signal"],
            long_valued: &["unset", "chdir", "split-string", "argv0"],
        },
        sets_variables: true,
        unread: &["C", "S", "chdir", "split-string"],
        ..PLAIN
    },
    Wrapper { names: &["nohup", "chronic", "unbuffer", "fakeroot"], ..PLAIN },
    Wrapper {
        names: &["nice"],
        options: Options { flags: "0123456789", valued: "n", long_valued: &["adjustment"], ..NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["ionice"],
        options: Options {
            flags: "t",
            valued: "cn",
            long: &["ignore"],
            long_valued: &["class", "classdata"],
        },
        ..PLAIN
    },
    Wrapper {
        names: &["time"],
        options: Options {
            flags: "pvaqV",
            valued: "of",
            long: &["portability", "verbose", "append", "quiet"],
            long_valued: &["format", "output"],
        },
        unread: &["o", "output"],
        ..PLAIN
    },
    Wrapper {
        names: &["timeout"],
        options: Options {
            flags: "vfp",
            valued: "ks",
            long: &["verbose", "foreground", "preserve-status"],
            long_valued: &["kill-after", "signal"],
        },
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["stdbuf"],
        options: Options { valued: "ioe", long_valued: &["input", "output", "error"], ..NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["setsid"],
        options: Options { flags: "cfw", long: &["ctty", "fork", "wait"], ..NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["taskset"],
        options: Options { flags: "ac", long: &["cpu-list", "all-tasks"], ..NONE },
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["chrt"],
        options: Options { flags: "bfiorRv", ..NONE },
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["chroot"],
        options: Options { long_valued: &["groups", "userspec"], ..NONE },
        operands: 1,
        unread: &[],
        ..PLAIN
    },
    Wrapper {
        names: &["strace", "ltrace"],
        options: Options { flags: "cCdDfFhiknqrtTvVwxyzZ", valued: "abeEIoOpPsSuUX", ..NONE },
        unread: &["o", "E", "p"],
        ..PLAIN
    },
    Wrapper {
        names: &["unshare"],
        options: Options {
            flags: "mpnurUiCTfc",
            long: &["mount", "pid", "net", "user", "ipc", "uts", "fork", "map-root-user"],
            ..NONE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["nsenter"],
        options: Options { flags: "amupniCUTrwF", valued: "tSG", long_valued: &["target"], ..NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["systemd-run"],
        options: Options {
            flags: "qtPGdS",
            valued: "pEu",
            long: &["user", "scope", "quiet", "wait", "pty", "pipe", "collect"],
            long_valued: &["unit", "slice", "property"],
        },
        unread: &["S", "p", "E", "property"],
        ..PLAIN
    },
    Wrapper { names: &["busybox", "toybox", "coreutils"], ..PLAIN },
    Wrapper { names: &["command"], options: Options { flags: "pvV", ..NONE }, ..PLAIN },
    Wrapper { names: &["builtin"], ..PLAIN },
    Wrapper { names: &["exec"], options: Options { flags: "cl", valued: "a", ..NONE }, ..PLAIN },
];

/// Whether a program is one of them.
pub(super) fn is_one(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.names.contains(&name))
}

/// Reads the words of such a program.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Seen> {
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))?;
    Some(unwrap(wrapper, name, words))
}

fn unwrap(wrapper: &Wrapper, name: &str, words: &[Word]) -> Seen {
    const UNREAD: &str = "the options before the program that it runs are not all understood";
    let Some(parsed) = parse(words, wrapper.options) else { return Seen::doubt(UNREAD) };
    let rest = words.get(parsed.operands + wrapper.operands..).unwrap_or_default();
    let operands = words.get(parsed.operands..).unwrap_or_default();
    if operands.iter().take(wrapper.operands).any(Word::is_many) {
        return Seen::doubt(UNREAD);
    }
    // `env -` is `env -i`.
    let rest = match rest.first().and_then(Word::known) {
        Some("-") if name == "env" => &rest[1..],
        _ => rest,
    };
    let variables = if wrapper.sets_variables { assignments(rest) } else { Some(Vec::new()) };
    let Some(variables) = variables else { return Seen::doubt(UNREAD) };
    let rest = &rest[variables.len()..];
    if is_unread(wrapper, &parsed) {
        return Seen::doubt("an option of the program that runs another is not understood");
    }
    if name == "command" && (parsed.has("v") || parsed.has("V")) {
        return Seen::itself();
    }
    if rest.is_empty() {
        return without_program(name, &parsed);
    }
    Seen::command(rest.to_vec(), variables)
}

fn is_unread(wrapper: &Wrapper, parsed: &Parsed) -> bool {
    wrapper.unread.iter().any(|option| parsed.has(option))
}

fn without_program(name: &str, parsed: &Parsed) -> Seen {
    let is_shell = ["i", "s", "login", "shell"].iter().any(|option| parsed.has(option));
    match name {
        "sudo" | "doas" if is_shell => Seen::doubt("it starts a shell that reads its input"),
        "chroot" | "unshare" | "nsenter" => Seen::doubt("it starts a shell that reads its input"),
        _ => Seen::itself(),
    }
}

/// Reads `xargs`: the words that it adds are not known.
pub(super) fn xargs(words: &[Word]) -> Seen {
    // `-e`, `-i` and `-l` take a value only where it is attached; nobody needs them.
    let options = Options {
        flags: "0prtxo",
        valued: "adEILnPs",
        long: &[
            "null",
            "interactive",
            "no-run-if-empty",
            "verbose",
            "exit",
            "open-tty",
            "show-limits",
            "replace",
            "max-lines",
            "eof",
        ],
        long_valued: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars"],
    };
    let Some(parsed) = parse(words, options) else {
        return Seen::doubt("an option of xargs is not understood");
    };
    let place = match (parsed.value("I").or_else(|| parsed.value("replace")), parsed.has("replace"))
    {
        (Some(place), _) => match place.known() {
            Some(place) if !place.is_empty() => Some(place.to_owned()),
            _ => return Seen::doubt("an option of xargs is not understood"),
        },
        (None, true) => Some("{}".to_owned()),
        (None, false) => None,
    };
    let mut command = words.get(parsed.operands..).unwrap_or_default().to_vec();
    if command.is_empty() {
        command.push(Word::Known("echo".to_owned()));
    }
    match place {
        Some(place) => replace(&mut command, &place),
        None => command.push(Word::unknown("(its input)", Count::Any)),
    }
    Seen::command(command, Vec::new())
}

/// Makes the words unknown in which `place` is replaced.
pub(super) fn replace(words: &mut [Word], place: &str) {
    for word in words {
        let Word::Known(text) = word else { continue };
        let Some((before, _)) = text.split_once(place) else { continue };
        *word =
            Word::Unknown { source: text.clone(), starts: before.to_owned(), count: Count::One };
    }
}

/// Reads `flock`, which runs a program or a shell's text.
pub(super) fn flock(words: &[Word]) -> Seen {
    let options = Options {
        flags: "sxneoFu",
        valued: "wE",
        long: &["shared", "exclusive", "nonblock", "nb", "close", "no-fork", "unlock", "verbose"],
        long_valued: &["timeout", "wait", "conflict-exit-code"],
    };
    let Some(parsed) = parse(words, options) else {
        return Seen::doubt("an option of flock is not understood");
    };
    let rest = words.get(parsed.operands + 1..).unwrap_or_default();
    match rest.first() {
        None => Seen::itself(),
        Some(Word::Known(option)) if option == "-c" || option == "--command" => {
            Seen::script(rest.get(1), true)
        }
        Some(word) if word.may_be_option() => Seen::doubt("an option of flock is not understood"),
        Some(_) => Seen::command(rest.to_vec(), Vec::new()),
    }
}

/// Reads `su` and `runuser`: with `-c`, the text of a shell.
pub(super) fn su(words: &[Word]) -> Seen {
    let options = Options {
        flags: "-lmpfP",
        valued: "cgGsw",
        long: &["login", "preserve-environment", "fast", "pty"],
        long_valued: &["command", "group", "supp-group", "shell"],
    };
    // Its options may come after the user's name.
    let (mut given, at) = (Vec::new(), 1);
    let mut rest = words.get(at..).unwrap_or_default();
    while !rest.is_empty() {
        let mut line = vec![Word::Known(String::new())];
        line.extend_from_slice(rest);
        if rest.first().and_then(Word::known) == Some("-") {
            rest = &rest[1..];
            continue;
        }
        let Some(parsed) = parse(&line, options) else {
            return Seen::doubt("an option of su is not understood");
        };
        let taken = parsed.operands.max(2) - 1;
        given.extend(parsed.given);
        rest = rest.get(taken..).unwrap_or_default();
    }
    let is_command = |name: &str| name == "c" || name == "command";
    let is_shell = |name: &str| name == "s" || name == "shell";
    if given.iter().any(|(name, _)| is_shell(name)) {
        return Seen::doubt("which shell it starts is not understood");
    }
    match given.iter().find(|(name, _)| is_command(name)) {
        Some((_, text)) => Seen::script(text.as_ref(), true),
        None => Seen::doubt("it starts a shell that reads its input"),
    }
}

/// Reads `watch`, which hands its words to a shell.
pub(super) fn watch(words: &[Word]) -> Seen {
    let options = Options {
        flags: "bcdegptwrx",
        valued: "nq",
        long: &["beep", "color", "differences", "errexit", "chgexit", "no-title", "exec"],
        long_valued: &["interval"],
    };
    let Some(parsed) = parse(words, options) else {
        return Seen::doubt("an option of watch is not understood");
    };
    let rest = words.get(parsed.operands..).unwrap_or_default();
    if parsed.has("x") || parsed.has("exec") {
        return Seen::command(rest.to_vec(), Vec::new());
    }
    Seen::script(joined(rest).as_ref(), true)
}

/// Joins words that are known with blanks, as a shell is given them.
pub(super) fn joined(words: &[Word]) -> Option<Word> {
    let words: Option<Vec<_>> = words.iter().map(Word::known).collect();
    Some(Word::Known(words?.join(" ")))
}
