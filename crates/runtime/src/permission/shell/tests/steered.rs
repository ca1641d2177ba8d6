//! Lines that try to run `evil` by what decides which program a name means, and by programs and options that
//! run others.

use super::smuggled::is_seen;

/// How they try it, and the lines.
const LINES: &[(&str, &[&str])] = &[
    (
        "arithmetic sets what programs are found by",
        &[
            "((PATH=1)); ls",
            "echo $((PATH=1)); ls",
            "echo $((x=0, PATH=1)); ls",
            "[[ PATH=1 -eq 1 ]]; ls",
            ": ${x:PATH=1}; ls",
            "a[PATH=1]=0; ls",
            "for ((PATH=1;0;)); do :; done; ls",
            "((PATH++)); ls",
            "((PATH*=0)); ls",
            "x=PATH=1; ((x)); ls",
            "declare -i x=PATH=1; ls",
        ],
    ),
    (
        "something else sets it",
        &[
            "exec {PATH}>/dev/null; ls",
            "{ :; } {PATH}>/dev/null; ls",
            "declare -n x=PATH; x=.; ls",
            "declare -g PATH=.; ls",
            "unset PATH; ls",
            "unset -v PATH; ls",
            "declare -n PATH=x; ls",
            "PATH=; ls",
            "PATH+=:.; ls",
            ": ${PATH:=.}; ls",
            "for PATH in .; do ls; done",
            "let PATH=1; ls",
            "getopts a PATH; ls",
            "printf -v PATH .; ls",
            "read PATH <<< .; ls",
            "mapfile -t PATH < x; ls",
            "wait -p PATH; ls",
            "coproc PATH { :; }; ls",
            "select PATH in .; do break; done; ls",
            "hash -p ./evil.sh ls; ls",
            "BASH_CMDS[ls]=./x; ls",
        ],
    ),
    (
        "a name means another program",
        &[
            "BASH_CMDS+=([ls]=./x); ls",
            "printf -v 'BASH_CMDS[ls]' ./x; ls",
            "read 'BASH_CMDS[ls]' <<< ./x; ls",
            "BASH_ALIASES[ls]=x; ls",
            "shopt -s expand_aliases; alias ls=x",
            "enable -f ./x.so ls; ls",
            "enable -n test; test",
            "PS4='$(evil)'; set -x; ls",
            "SHELLOPTS=xtrace PS4='$(evil)' bash -c ls",
        ],
    ),
    (
        "a shell is told to run more",
        &[
            "bash --rcfile x -ic ls",
            "bash -s < x",
            "set -- evil x; \"$@\"",
            "set -- evil; $1 x",
            "ls evil; $_ x",
            "set -a; RUSTC=./x; cargo test",
        ],
    ),
    (
        "words that are known only later",
        &["CARGO_BUILD_RUSTC=./x cargo test", "CARGO=./x cargo test", "complete -C evil ls"],
    ),
    (
        "a variable that steers a program",
        &[
            "RIPGREP_CONFIG_PATH=evil rg x",
            "KUBECONFIG=evil kubectl get pods",
            "AWS_CONFIG_FILE=evil aws s3 ls",
            "DOCKER_CONFIG=evil docker ps",
            "GOENV=evil go test ./...",
            "PYTEST_ADDOPTS='-p evil' pytest",
            "export HGRCPATH=evil; hg log",
            "GCC_EXEC_PREFIX=evil/ gcc x.c",
            "SVN_SSH=evil svn up",
            "BUNDLER_CONFIG=evil rake",
        ],
    ),
    (
        "a builtin that runs what it finds",
        &["compgen -C evil", "mapfile -C evil -c 1 a < f", "fc -e evil"],
    ),
    (
        "a builtin that runs what it is given",
        &[
            "bind -x '\"a\":evil'",
            "unset 'a[$(evil)]'",
            "typeset -i a='b[$(evil)]'",
            "[[ 'a[$(evil)]' -eq 0 ]]",
            "x='a[$(evil)]'; echo ${y:x}",
        ],
    ),
    (
        "text that is reckoned with",
        &["x='a[$(evil)]'; declare -i y=x", "${0%bash}evil", "~+/evil", "{evil,x}", "{e,}vil"],
    ),
    (
        "a name in pieces",
        &[
            "git submodule--helper foreach evil",
            "git merge-index evil -a",
            "git remote-ext x evil",
            "git filter-repo --blob-callback evil",
        ],
    ),
    (
        "git runs it",
        &[
            "git grep -nOevil x",
            "git grep --open=evil x",
            "git rebase -ix evil main",
            "git clone -u./evil . x",
            "git ls-remote --exec=./evil .",
            "git -c include.path=/tmp/evil status",
            "git --config-env=core.pager=X log",
            "git archive --exec=evil --remote=.",
            "git clone -c core.sshCommand=evil . x",
            "git difftool -xevil",
            "setarch -R evil",
            "tini -- evil",
            "flatpak-spawn --host evil",
            "podman unshare evil",
            "ifne evil",
            "pee evil",
        ],
    ),
    (
        "a program that runs another",
        &[
            "bpftrace -c evil",
            "mpirun evil",
            "systemd-inhibit evil",
            "gtimeout 5 evil",
            "npm exec -- evil",
            "npm x evil",
            "just --command evil",
            "ag --pager=evil x",
            "apt-get -o DPkg::Pre-Invoke::=evil update",
            "tar -F evil -cf a b",
            "tar --info-script=evil -cf a b",
        ],
    ),
    (
        "an option that runs it",
        &[
            "zip a b -T -TT evil",
            "rsync --rsync-path=evil a h:b",
            "scp -S ./evil a h:b",
            "sed '1e evil' f",
            "rg --hostname-bin=./evil y",
            "env -iS evil",
            "flock /x -c evil",
            "watch evil",
            "sg x -c evil",
            "socat - EXEC:evil",
            "find . -fprintf evil x",
            "split --filter=evil f",
        ],
    ),
];

#[test]
fn nothing_else_is_run_unseen() {
    let lines = LINES.iter().flat_map(|(how, lines)| lines.iter().map(move |line| (how, line)));
    let missed: Vec<_> = lines.filter(|(_, line)| !is_seen(line)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
