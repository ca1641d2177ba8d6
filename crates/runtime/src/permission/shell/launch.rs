//! Programs of which an option runs another program.

use super::Word;
use super::interpreter::{sets_steering, without_version};
use super::option::is_long;
use super::program::Seen;

const RUNS_OTHERS: &str = "it runs other programs in a way that is not read";
const BY_OPTION: &str = "one of its options runs another program";
const UNKNOWN: &str = "one of its words could be an option that runs another program";

/// Programs whose purpose is to run others, or which ask their user what to run.
const LAUNCHERS: &[&str] = &[
    "parallel",
    "gdb",
    "lldb",
    "rr",
    "expect",
    "screen",
    "tmux",
    "at",
    "batch",
    "crontab",
    "socat",
    "ncat",
    "script",
    "entr",
    "start-stop-daemon",
    "run-parts",
    "dbus-run-session",
    "dbus-launch",
    "xvfb-run",
    "setpriv",
    "prlimit",
    "capsh",
    "firejail",
    "bwrap",
    "proot",
    "faketime",
    "valgrind",
    "perf",
    "rlwrap",
    "pkexec",
    "run0",
    "gosu",
    "su-exec",
    "daemonize",
    "hyperfine",
    "newgrp",
    "sg",
    "vi",
    "vim",
    "nvim",
    "view",
    "ex",
    "ed",
    "emacs",
    "nano",
    "vimdiff",
    "rvim",
    "gvim",
    "pico",
    "numactl",
    "cgexec",
    "catchsegv",
    "linux32",
    "linux64",
    "i386",
    "x86_64",
    "setuidgid",
    "chpst",
    "runcon",
    "aa-exec",
    "torsocks",
    "proxychains",
    "proxychains4",
    "tsocks",
    "eatmydata",
    "direnv",
    "nix",
    "nix-shell",
    "guix",
    "mise",
    "asdf",
    "conda",
    "mamba",
    "micromamba",
    "sshpass",
    "logsave",
    "uxterm",
    "xterm",
    "gnome-terminal",
    "sem",
    "dpkg",
    "rpm",
    "cpulimit",
    "trickle",
    "nsjail",
    "minijail0",
    "runsv",
    "supervisord",
    "s6-setuidgid",
    "execlineb",
    "pexec",
    "sudoedit",
    "visudo",
    "vipw",
    "telnet",
    "ftp",
    "sftp",
    "lftp",
    "mutt",
    "mail",
    "mailx",
    "w3m",
    "lynx",
    "tcpdump",
    "nmap",
    "busctl",
    "gcore",
    "ld.so",
    "fzf",
    "dvtm",
    "byobu",
    "zellij",
    "pssh",
    "pdsh",
    "clush",
    "ansible",
    "xdg-open",
    "open",
    "uname26",
    "watchexec",
    "nodemon",
    "cargo-watch",
    "reptyr",
    "dtach",
    "abduco",
    "ssh-agent",
    "gpg-agent",
    "scriptlive",
    "setarch",
    "tini",
    "dumb-init",
    "caffeinate",
    "flatpak",
    "flatpak-spawn",
    "toolbox",
    "distrobox",
    "distrobox-enter",
    "ifne",
    "pee",
    "heaptrack",
    "trace-cmd",
    "bpftrace",
    "mpirun",
    "mpiexec",
    "srun",
    "daemon",
    "machinectl",
    "systemd-inhibit",
    "systemd-cat",
    "systemd-nspawn",
    "lxc-execute",
    "lxc-attach",
    "with-contenv",
    "pkgx",
    "xdotool",
    "timelimit",
    "concurrently",
    "retry",
    "mispipe",
    "softlimit",
    "setlock",
    "envdir",
    "envuidgid",
    "gtimeout",
    "gnice",
    "gnohup",
    "genv",
    "gstdbuf",
    "gchroot",
    "gtime",
    "gxargs",
    "xinit",
    "startx",
    "choom",
    "uclampset",
    "coresched",
    "schedtool",
    "fakechroot",
    "ccache",
    "sccache",
    "distcc",
    "logrotate",
    "anacron",
    "run-mailcap",
    "sensible-editor",
    "sensible-pager",
    "sensible-browser",
    "editor",
    "pager",
    "emacsclient",
    "vim.tiny",
    "vim.basic",
    "nvi",
    "joe",
    "jed",
    "micro",
    "hx",
    "helix",
    "kak",
    "mc",
    "mcedit",
    "ranger",
    "nnn",
    "vifm",
    "lf",
    "tig",
    "lazygit",
    "dbus-send",
    "gdbus",
    "gdbserver",
    "ansible-playbook",
    "pyenv",
    "rbenv",
    "nodenv",
    "nvm",
    "fnm",
    "volta",
    "dotenv",
    "dotenvx",
    "doppler",
    "aws-vault",
    "chamber",
    "foreman",
    "heroku",
    "pueue",
    "tsp",
    "nq",
    "lesspipe",
    "gitk",
    "info",
    "openvpn",
    "vagrant",
];

/// Options that run a program: long ones, with which also their abbreviations are meant, and
/// others by what they begin with.
struct Launching {
    names: &'static [&'static str],
    long: &'static [&'static str],
    starts: &'static [&'static str],
}

/// Programs that take any number of dashes before a long option.
const ANY_DASHES: &[&str] = &["npm", "npx"];

const COMPILERS: &[&str] =
    &["gcc", "g++", "gfortran", "cc", "c++", "clang", "clang++", "cpp", "ld", "rustc"];

const LAUNCHING: &[Launching] = &[
    Launching {
        names: &["tar", "bsdtar", "gtar", "star"],
        long: &[
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "rsh-command",
            "info-script",
            "new-volume-script",
            "rmt-command",
        ],
        starts: &[],
    },
    Launching { names: &["rsync"], long: &["rsh", "rsync-path"], starts: &[] },
    Launching {
        names: &["ssh", "scp", "ssh-keygen", "ssh-add", "ssh-copy-id", "mosh"],
        long: &["ssh", "server"],
        starts: &["-o", "-F", "-S", "-D", "-J", "-w", "-P", "-I", "-e", "-s"],
    },
    Launching { names: &["sort", "gsort"], long: &["compress-program"], starts: &[] },
    Launching { names: &["split", "gsplit"], long: &["filter"], starts: &[] },
    Launching {
        names: &["man"],
        long: &["pager", "html", "preprocessor"],
        starts: &["-P", "-H", "-p"],
    },
    Launching { names: &["less", "more", "most"], long: &["lesskey"], starts: &["+", "-k", "-p"] },
    Launching { names: &["zip"], long: &["unzip-command"], starts: &["-T", "-TT"] },
    Launching { names: &["wget"], long: &["use-askpass", "execute", "config"], starts: &["-e"] },
    Launching { names: &["curl"], long: &["config", "engine"], starts: &["-K", "-q"] },
    Launching { names: &["openssl"], long: &[], starts: &["-engine", "-provider", "-config"] },
    Launching {
        names: &["go"],
        long: &["exec", "toolexec", "vettool", "ldflags", "overlay"],
        starts: &["-exec", "-toolexec", "-vettool", "-ldflags", "-overlay"],
    },
    Launching {
        names: COMPILERS,
        long: &["wrapper", "specs", "codegen"],
        starts: &[
            "-wrapper", "-fplugin", "-specs", "-B", "@", "-Clinker", "-C", "-plugin", "-Xlinker",
        ],
    },
    Launching { names: &["cargo"], long: &["config"], starts: &["-Z"] },
    Launching {
        names: &["npm", "npx", "pnpm", "yarn"],
        long: &[
            "call",
            "script-shell",
            "node-options",
            "shell",
            "userconfig",
            "globalconfig",
            "git",
        ],
        starts: &["-c"],
    },
    Launching { names: &["make", "gmake"], long: &["eval"], starts: &["-E", "-f-", "-f/dev"] },
    Launching { names: &["cmake"], long: &[], starts: &["-E"] },
    Launching { names: &["nc", "netcat"], long: &["exec", "sh-exec"], starts: &["-e", "-c"] },
    Launching { names: &["ip"], long: &[], starts: &["-b", "exec", "netns"] },
    Launching {
        names: &["grep", "zgrep", "rg", "ripgrep"],
        long: &["pre", "hostname-bin"],
        starts: &[],
    },
    Launching { names: &["fd", "fdfind"], long: &["exec", "exec-batch"], starts: &["-x", "-X"] },
    Launching {
        names: &["ctags", "pax", "cpio"],
        long: &["rsh-command", "options"],
        starts: &["-I"],
    },
    Launching { names: &["hg"], long: &["config"], starts: &["alias", "--config"] },
    Launching {
        names: &["pytest", "py.test"],
        long: &["rootdir", "confcutdir", "override-ini"],
        starts: &["-p", "-c", "-o"],
    },
    Launching {
        names: &["tsc", "eslint", "jest", "vitest", "prettier"],
        long: &["config", "plugin", "resolver"],
        starts: &[],
    },
    Launching { names: &["journalctl", "systemctl", "loginctl"], long: &[], starts: &["edit"] },
    Launching { names: &["bat", "delta", "batcat", "ag"], long: &["pager"], starts: &[] },
    Launching { names: &["just"], long: &["command", "shell", "chooser"], starts: &["-c"] },
    Launching { names: &["apt", "apt-get", "aptitude"], long: &["option"], starts: &["-o"] },
    Launching { names: &["podman", "buildah"], long: &[], starts: &["unshare"] },
    Launching { names: &["rustup"], long: &[], starts: &["run"] },
    Launching { names: &["install", "ginstall"], long: &["strip-program"], starts: &[] },
    Launching {
        names: &["aria2c"],
        long: &[
            "on-download-start",
            "on-download-pause",
            "on-download-stop",
            "on-download-complete",
            "on-download-error",
            "on-bt-download-complete",
            "conf-path",
        ],
        starts: &[],
    },
    Launching {
        names: &["gpg", "gpg2"],
        long: &["photo-viewer", "exec-path", "agent-program", "dirmngr-program", "options"],
        starts: &[],
    },
    Launching {
        names: &["tex", "latex", "pdflatex", "xelatex", "lualatex", "luatex", "pdftex", "latexmk"],
        long: &["shell-escape", "enable-write18"],
        starts: &["-shell-escape", "-enable-write18", "-e", "-r"],
    },
    Launching {
        names: &["pandoc"],
        long: &["filter", "lua-filter", "pdf-engine"],
        starts: &["-F"],
    },
    Launching { names: &["helm"], long: &["post-renderer"], starts: &["plugin"] },
    Launching { names: &["svn"], long: &["config-option", "editor-cmd", "diff-cmd"], starts: &[] },
    Launching { names: &["rclone", "restic"], long: &["password-command"], starts: &["-o"] },
    Launching { names: &["borg"], long: &["rsh"], starts: &[] },
    Launching { names: &["gh"], long: &[], starts: &["alias"] },
    Launching {
        names: &["java"],
        long: &[],
        starts: &["-XX:On", "-XX:Flags", "-agent", "-javaagent", "@"],
    },
    Launching { names: &["op", "infisical", "pipx", "snap"], long: &[], starts: &["run"] },
];

/// Reads a program that may run others. `None` if it does not.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Seen> {
    if LAUNCHERS.contains(&name) || name.starts_with("ld-linux") || name.starts_with("ld-musl") {
        return Some(Seen::doubt(RUNS_OTHERS));
    }
    if let Some(seen) = runner(name, words) {
        return Some(seen);
    }
    let name = plain_name(name);
    let launching = LAUNCHING.iter().find(|launching| launching.names.contains(&name))?;
    for word in words.iter().skip(1) {
        let Some(text) = word.known() else {
            if word.may_be_option() && !matches!(name, "grep" | "zgrep" | "rg" | "curl") {
                return Some(Seen::doubt(UNKNOWN));
            }
            continue;
        };
        if text == "--" && !matches!(name, "cargo" | "npm" | "make") {
            break;
        }
        let dashed = text.strip_prefix('-').filter(|_| ANY_DASHES.contains(&name));
        let dashed = dashed.map(|rest| format!("--{}", rest.trim_start_matches('-')));
        let whole = dashed.as_deref().unwrap_or(text);
        let is_long = launching.long.iter().any(|option| is_launching_long(whole, option));
        let is_short = launching.starts.iter().any(|start| text.starts_with(start));
        if is_long || is_short || is_peculiar(name, text, words) {
            return Some(Seen::doubt(BY_OPTION));
        }
    }
    Some(Seen::itself())
}

/// Takes from a compiler's name its version and what it compiles for: `x86_64-linux-gnu-gcc-12`.
fn plain_name(name: &str) -> &str {
    let short = without_version(name);
    let last = short.rsplit_once('-').map_or(short, |(_, last)| last);
    if COMPILERS.contains(&last) { last } else { name }
}

/// Whether a word is a long option or an abbreviation of it; one letter may mean many.
fn is_launching_long(text: &str, option: &str) -> bool {
    let length = text.split('=').next().map_or(0, str::len);
    is_long(text, option) && length >= 4
}

/// What only one program does.
fn is_peculiar(name: &str, text: &str, words: &[Word]) -> bool {
    match name {
        "tar" | "bsdtar" | "gtar" | "star" => {
            let is_first = words.get(1).and_then(Word::known) == Some(text);
            let is_cluster = text.starts_with('-') && !text.starts_with("--");
            (is_cluster || is_first && !text.starts_with('-')) && text.contains(['I', 'F'])
        }
        "rsync" => {
            let is_cluster = text.starts_with('-') && !text.starts_with("--");
            let shell = words.iter().skip_while(|word| word.known() != Some(text)).nth(1);
            is_cluster && text.contains('e') && shell.and_then(Word::known) != Some("ssh")
        }
        "make" | "gmake" => {
            let word = Word::Known(text.to_owned());
            let is_long = text.starts_with("--");
            let reads_input = text == "-"
                || is_long && text.ends_with("=-")
                || text.starts_with('-') && !is_long && text.ends_with("f-")
                || text.contains("/dev/") && !text.contains("=/dev/null");
            text.contains("$(") || text.contains("${") || reads_input || sets_steering(&word)
        }
        _ if COMPILERS.contains(&name) => text.starts_with("-Wl,") && text.contains("-pl"),
        "scp" => text.starts_with('-') && text.contains(['o', 'S', 'F']),
        _ => false,
    }
}

/// Programs that run the rest of their words in an environment that they make.
fn runner(name: &str, words: &[Word]) -> Option<Seen> {
    let verb = words.get(1).and_then(Word::known)?;
    let runs = match name {
        "uv" | "poetry" | "pipenv" | "pdm" | "rye" | "hatch" => verb == "run",
        "bundle" | "npm" | "pnpm" | "yarn" => verb == "exec" || name == "npm" && verb == "x",
        _ => false,
    };
    let rest = words.get(2..).unwrap_or_default();
    // Behind it stands the program, and nothing that is an option.
    let rest = match rest.split_first() {
        Some((Word::Known(first), rest)) if first == "--" => rest,
        _ => rest,
    };
    match rest.first() {
        Some(first) if runs && first.may_be_option() => Some(Seen::doubt(BY_OPTION)),
        Some(_) if runs => Some(Seen::command(rest.to_vec(), Vec::new()).and_itself()),
        _ => None,
    }
}
