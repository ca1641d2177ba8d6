//! Variables whose value changes what a command does.

use super::Word;

/// Names that decide which programs are found and what they do.
const STEERING: &[&str] = &[
    "PATH",
    "ENV",
    "IFS",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "CDPATH",
    "GLOBIGNORE",
    "HOME",
    "FPATH",
    "ZDOTDIR",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "MANPAGER",
    "MANOPT",
    "MANPATH",
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
    "CC",
    "CXX",
    "CPP",
    "LD",
    "AR",
    "AS",
    "MAKE",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "CARGO",
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "GOFLAGS",
    "GOENV",
    "GOTOOLDIR",
    "GOPROXY",
    "GOROOT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "CLASSPATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "TAR_OPTIONS",
    "RSYNC_RSH",
    "SVN_SSH",
    "GNUPGHOME",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
    "TS_NODE_PROJECT",
    "FZF_DEFAULT_COMMAND",
    "PKG_CONFIG",
    "JAVA_HOME",
    "MAVEN_ARGS",
    "HELM_PLUGINS",
    "CVS_RSH",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TERMCAP",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "CURL_HOME",
    "WGETRC",
    "SYSTEM_WGETRC",
    "EXINIT",
    "VIMINIT",
    "VIMRUNTIME",
    "INPUTRC",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "TMUX",
    "GDBHISTFILE",
    "R_PROFILE",
    "PSQLRC",
    "PSQL_EDITOR",
    "PSQL_PAGER",
    "MYSQL_HOME",
    "AWKPATH",
    "AWKLIBPATH",
    "SED",
    "FCEDIT",
    "HISTFILE",
    "BASH",
    "DOCKER_HOST",
    "HOSTALIASES",
    "COMP_WORDS",
    "SYSTEMD_PAGER",
    "SYSTEMD_EDITOR",
    "DELTA_PAGER",
    "BAT_PAGER",
    "AWS_PAGER",
    "GH_PAGER",
    "GH_EDITOR",
    "GH_BROWSER",
    "GH_PATH",
    "LEX",
    "YACC",
    "RM",
    "FC",
    "F77",
    "GOAUTH",
    "GOCACHEPROG",
    "GOWORK",
    "GCCGO",
];

/// Beginnings of such names.
const STEERING_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "BASH_",
    "GIT_",
    "PYTHON",
    "PERL",
    "RUBY",
    "GEM_",
    "BUNDLE_",
    "LESS",
    "LUA_",
    "PHP_",
    "PHPRC",
    "NPM_CONFIG_",
    "npm_config_",
    "PIP_",
    "UV_",
    "CARGO_",
    "RUSTC_",
    "RUSTUP_",
    "CMAKE_",
    "GLIBC_",
    "MALLOC_",
    "DOTNET_",
    "COMPlus_",
    "CONFIG_SHELL",
    "CC_",
    "CXX_",
    "ERL_",
    "SSL_CERT",
];

/// Ends of names that say where a program finds what it runs, or with what it is called.
const STEERING_ENDINGS: &[&str] = &[
    "CONFIG",
    "CONFIG_FILE",
    "CONFIG_PATH",
    "CONFIG_DIR",
    "_OPTIONS",
    "_OPTS",
    "ADDOPTS",
    "_PLUGINS",
    "_PRELOAD",
    "_WRAPPER",
    "_LAUNCHER",
    "RCPATH",
    "FLAGS",
    "_CC",
    "_CXX",
];

/// Those of such a beginning that do no harm.
const HARMLESS: &[&str] = &[
    "CARGO_TARGET_DIR",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TERM_PROGRESS_WHEN",
    "CARGO_TERM_VERBOSE",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "GIT_TERMINAL_PROMPT",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
    "GIT_OPTIONAL_LOCKS",
];

/// Other names that say nothing about which programs run.
const PLAIN: &[&str] = &[
    "CI",
    "COLORTERM",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "DEBUG",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "HOST",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "LINES",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PORT",
    "RAILS_ENV",
    "RACK_ENV",
    "MIX_ENV",
    "APP_ENV",
    "FLASK_ENV",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "RUST_MIN_STACK",
    "RUST_TEST_THREADS",
    "SOURCE_DATE_EPOCH",
    "TERM",
    "TZ",
    "VERBOSE",
    "GOOS",
    "GOARCH",
    "GOMAXPROCS",
    "CGO_ENABLED",
    "INSTA_UPDATE",
    "UPDATE_EXPECT",
    "PROPTEST_CASES",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
];

/// Programs that a pager or an editor may be set to without a doubt.
const QUIET: &[&str] = &["", "cat", "true", ":", "less"];

/// Whether setting a variable changes which programs are run, or what they do.
pub(super) fn steers(name: &str, value: &Word) -> bool {
    if HARMLESS.contains(&name) {
        return false;
    }
    let names_program = name.ends_with("PAGER") || name.ends_with("EDITOR");
    if names_program && value.known().is_some_and(|value| QUIET.contains(&value)) {
        return false;
    }
    STEERING.contains(&name)
        || names_program
        || STEERING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || STEERING_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Whether a rule that allows a program allows it with this variable too, without naming it.
pub(super) fn is_harmless(name: &str, value: &Word) -> bool {
    // `make` runs what stands in the values of variables.
    let is_plain = value.known().is_some_and(|value| !value.contains(['$', '`']));
    is_plain && (HARMLESS.contains(&name) || PLAIN.contains(&name))
}

/// Whether the shell itself sets a variable to a text that commands decide.
pub(super) fn is_set_by_shell(name: &str) -> bool {
    let shell =
        ["_", "PWD", "OLDPWD", "REPLY", "MAPFILE", "OPTARG", "DIRSTACK", "COPROC", "@", "*"];
    shell.contains(&name)
        || name.starts_with("BASH_")
        || name.starts_with(|first: char| first.is_ascii_digit() && first != '0')
}

/// Whether the shell itself makes a variable a list.
pub(super) fn is_list(name: &str) -> bool {
    let lists = ["DIRSTACK", "FUNCNAME", "GROUPS", "MAPFILE", "PIPESTATUS", "COPROC"];
    lists.contains(&name) || name.starts_with("BASH_")
}

/// Whether a text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a value is a number for certain.
pub(super) fn is_number(value: &Word) -> bool {
    match value {
        Word::Known(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        Word::Unknown { source, .. } => {
            let inner = source.trim_matches('"');
            let sum = inner.strip_prefix("$((").and_then(|inner| inner.strip_suffix("))"));
            sum.is_some_and(|sum| !sum.contains("))") && !sum.contains("$(") && !sum.contains('`'))
                || matches!(inner, "$#" | "$?" | "$$" | "$!")
        }
    }
}

/// Splits `name=value`; the name need not be one.
pub(super) fn split(word: &str) -> Option<(&str, &str)> {
    word.split_once('=').map(|(name, value)| (name.strip_suffix('+').unwrap_or(name), value))
}
