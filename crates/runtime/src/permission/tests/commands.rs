//! Rules about commands, and the commands that they are about.

use pretty_assertions::assert_eq;

use super::*;
use Decision::{Allow, Ask, Deny};

#[test]
fn a_command_is_allowed_only_if_each_of_its_programs_is() {
    let (_machine, engine) =
        asking("allow = [\"bash(cargo test *)\", \"Bash(git:*)\", \"bash(deploy hi)\"]");
    let allowed = [
        "cargo test",
        "cargo test -p x",
        "git push",
        "cargo test && git push",
        "deploy hi; ls",
        "timeout 5 cargo test",
        "/usr/bin/git push",
        "bash -c 'git push'",
        "git commit -m \"$MESSAGE\"",
    ];
    for command in allowed {
        assert_eq!(bash(command).decided(&engine), Allow, "{command}");
    }
    let asked = [
        "cargo build",
        "cargo test && rm -rf x",
        "sudo git push",
        "deploy hi there",
        "$CARGO test",
        "cargo $SUBCOMMAND",
        "./git push",
        "git push | sh",
        "cargo test > /etc/x",
        "git push $(rm x)",
        "LD_PRELOAD=x git push",
        "eval \"$X\"",
        "git push; \"${a[0]}\"",
    ];
    for command in asked {
        assert_eq!(bash(command).decided(&engine), Ask, "{command}");
    }
}

#[test]
fn a_command_is_denied_however_it_is_spelt() {
    let (_machine, engine) = asking(
        "allow = [\"bash\"]\ndeny = [\"bash(git push *)\", \"bash(rm -rf *)\", \"bash(docker *)\"]",
    );
    let denied = [
        "git push",
        "git  push origin",
        "/usr/bin/git push",
        "git -C /tmp push",
        "git --no-pager push",
        "git -c a=b push -f",
        "sudo git push",
        "env A=1 git push",
        "bash -c 'git push'",
        "true && git push",
        "echo $(git push)",
        "xargs git push",
        "rm -rf x",
        "rm -fr x",
        "rm -r -f x",
        "rm x -rf",
        "\\git push",
        "g'i't push",
        "nohup git push &",
        "docker run x",
        "find . -exec rm -rf {} +",
    ];
    for command in denied {
        assert_eq!(bash(command).decided(&engine), Deny, "{command}");
    }
    // What may be it is asked about, whatever else is allowed.
    for command in ["git $X", "$X push", "eval \"$X\""] {
        assert_eq!(bash(command).decided(&engine), Ask, "{command}");
    }
    for command in ["git pull", "git commit -m push", "rm -r x", "echo git push"] {
        assert_eq!(bash(command).decided(&engine), Allow, "{command}");
    }
}

#[test]
fn a_rule_that_denies_is_about_what_it_names_in_a_folder_or_around_a_program() {
    let decided = |rule: &str, command: &str| {
        let (_machine, engine) = asking(&format!("allow = [\"bash\"]\ndeny = [\"bash({rule})\"]"));
        bash(command).decided(&engine)
    };
    let denied = [
        ("./deploy.sh *", "./deploy.sh prod"),
        ("./deploy.sh *", "bash ./deploy.sh prod"),
        ("./deploy.sh *", "bash deploy.sh"),
        ("./deploy.sh prod *", "sudo ./deploy.sh -v prod"),
        ("scripts/deploy *", "scripts/deploy prod"),
        ("scripts/deploy *", "./scripts/deploy prod"),
        ("scripts/deploy *", "cd scripts && ./deploy prod"),
        ("/bin/rm *", "/bin/rm x"),
        ("/bin/rm *", "rm x"),
        ("/bin/rm *", "/usr/bin/rm x"),
        ("./*", "./anything"),
        ("bash -c *", "bash -c ls"),
        ("bash -c *", "sudo bash -c 'cat f'"),
        ("sh -c *", "sh -c ls"),
        ("time *", "time ls"),
        ("time *", "/usr/bin/time ls"),
        ("timeout 5 *", "timeout 5 ls"),
        ("FOO=1 rm *", "FOO=1 rm x"),
        ("FOO=1 rm *", "env FOO=1 rm -f x"),
        ("FOO=* rm *", "FOO=$y rm x"),
    ];
    for (rule, command) in denied {
        assert_eq!(decided(rule, command), Deny, "{rule}: {command}");
    }
    assert_eq!(decided("FOO=1 rm *", "FOO=$y rm x"), Ask);
    let others = [
        ("./deploy.sh *", "./other.sh prod"),
        ("/opt/x/* *", "ls -l"),
        ("bash -c *", "bash x.sh"),
        ("time *", "ls; echo time"),
        ("FOO=1 rm *", "rm x"),
        ("FOO=1 rm *", "FOO=2 rm x"),
    ];
    for (rule, command) in others {
        assert_eq!(decided(rule, command), Allow, "{rule}: {command}");
    }
}

#[test]
fn a_rule_that_allows_covers_no_variables_but_harmless_ones_and_those_it_names() {
    let (_machine, engine) = asking("allow = [\"bash(make *)\", \"bash(FOO=1 BAR=* go test *)\"]");
    let allowed = [
        "make",
        "CI=1 NO_COLOR=1 make test",
        "LC_ALL=C TZ=UTC make",
        "env RUST_LOG=debug make",
        "FOO=1 BAR=x go test",
        "BAR= FOO=1 CI=1 go test -v",
    ];
    for command in allowed {
        assert_eq!(bash(command).decided(&engine), Allow, "{command}");
    }
    let asked = [
        "CFLAGS='-wrapper ./evil' make a.o",
        "ANYTHING=1 make",
        "env LEX=./evil make",
        "DEBUG='$(shell ./evil)' make",
        "CI=$x make",
        "make LEX=./evil",
        "make HOST_CC=./evil",
        "FOO=2 BAR=x go test",
        "FOO=1 go test",
        "go test",
        "FOO=1 BAR=x GOCACHEPROG=./evil go test",
    ];
    for command in asked {
        assert_eq!(bash(command).decided(&engine), Ask, "{command}");
    }
    // What is offered for such a command allows it.
    let offered = bash("ANYTHING='a b' make x").judged(&engine).segments[0].allowed_by.clone();
    assert_eq!(offered.as_deref(), Some("bash(\"ANYTHING=a b\" make x)"));
    let (_machine, engine) = asking("allow = [\"bash('ANYTHING=a b' make x)\"]");
    assert_eq!(bash("ANYTHING='a b' make x").decided(&engine), Allow);
    assert_eq!(bash("ANYTHING=1 make x").suggested(), None);
}

/// Lines that may run `rm` through something else.
const CARRIED: &[&str] = &[
    "jobs -x sh -c 'rm x'",
    "unheard-of sh -c 'rm x'",
    "unheard-of env A=1 B=2 rm x",
    "ssh h rm x",
    "docker run --rm image rm x",
    "docker exec box rm x",
    "kubectl exec box -- rm x",
    "npm --silent exec -- rm x",
    "npm explore p -- rm x",
    "pnpm -r exec rm x",
    "poetry -q run rm x",
    "bundle --verbose exec rm x",
    "cargo run -- rm x",
    "rustc --codegen linker=rm x.rs",
    "g++-12 -wrapper rm,x y.cc",
    "x86_64-linux-gnu-gcc -wrapper rm,x y.c",
    "make --eva='a:;rm x' a",
    "make --ev='a:;rm x' a",
    "make --file=- < x",
    "make -sf - < x",
    "git init -q r && git -C r config alias.z '!rm ../x' list && git -C r z",
    "git config -f user.name alias.z '!rm x'",
    "bash //dev/stdin <<< 'rm x'",
    "cd /dev && bash stdin <<< 'rm x'",
    "bash /./dev/stdin <<< 'rm x'",
    "cd /proc/self/fd && bash 0 <<< 'rm x'",
    // A text in another language names it.
    "perl -I . -e 'system \"rm x\"'",
    "ruby -I . -e 'system \"rm x\"'",
    "php -B 'system(\"rm x\");'",
    "python3 - <<E\nimport os\nos.system('rm x')\nE",
    "echo 'import os; os.system(\"rm x\")' | python3",
    "awk -f - <<'E'\nBEGIN { system(\"rm x\") }\nE",
    "m4 <<< 'syscmd(rm x)'",
    "php <<< '<?php system(\"rm x\");'",
    "sqlite3 <<< '.shell rm x'",
    "python3 -m timeit -s 'import os' 'os.system(\"rm x\")'",
    "python3 -c 'import os; os.system(\"rm x\")'",
    "perl -e 'exec q(/bin/rm), q(x)'",
    "dc -e '!rm x'",
];

#[test]
fn what_may_be_a_denied_command_is_asked_about() {
    let (_machine, engine) = asking(
        "allow = [\"bash\"]\ndeny = [\"bash(kubectl delete *)\", \"bash(rm *)\", \"bash(npm publish *)\", \
         \"bash(docker compose down *)\", \"bash(git push *)\"]",
    );
    let asked = [
        // An option that is not known may take the next word.
        "kubectl --as admin delete pod x",
        "kubectl --as admin --token t delete pod x",
        "npm --registry http://x publish",
        "docker compose -f x.yml down",
        // Programs that are not known may run others.
        "choom -n 0 -- rm x",
        "unheard-of rm x",
        "unheard-of -v /bin/rm x",
        "./x.sh rm x",
        "rustup run stable rm x",
        "bash5.2 -c \"$X\"",
        "yash -c 'rm x'",
        "aria2c --on-download-complete=rm x",
        "install -s --strip-program=rm a b",
        "gpg --photo-viewer 'rm x' -k",
        "pdflatex -shell-escape x",
    ];
    for command in asked.iter().chain(CARRIED) {
        assert_eq!(bash(command).decided(&engine), Ask, "{command}");
    }
    let denied = ["coreutils rm x", "bash5.2 -c 'rm x'", "find . -exec flock + rm x \\;"];
    for command in denied {
        assert_eq!(bash(command).decided(&engine), Deny, "{command}");
    }
    let allowed = [
        "kubectl get pods --as admin",
        "grep -r rm src",
        "which rm",
        "mkdir rm",
        "git rm x",
        "apt-get install rm",
        "git --no-pager log push",
        "python3 -c 'print(1)'",
        "python3 x.py --form",
        "cargo test -- rm",
        "docker rm x",
        "npm rm x",
        "python3 - <<E\nprint(1)\nE",
        "find . -type f -exec grep -l x {} + -exec cat {} +",
        "git config --get user.email",
        "git config -f .gitmodules --list",
        "make -j4 all",
        "gcc-12 -Wl,-rpath,/x -o a a.c",
    ];
    for command in allowed {
        assert_eq!(bash(command).decided(&engine), Allow, "{command}");
    }
}

#[test]
fn many_words_hide_no_program_and_are_no_reason_to_ask() {
    let (_machine, engine) = asking("allow = [\"bash\"]\ndeny = [\"bash(rm *)\"]");
    let many = |word: &str| (0..40).map(|at| format!("{word}{at} ")).collect::<String>();
    let long =
        [format!("jobs -x env {} rm x", many("A=")), format!("unheard-of {} rm x", many("./a"))];
    for command in &long {
        assert_eq!(bash(command).decided(&engine), Ask, "{command}");
    }
    assert_eq!(bash(&format!("unheard-of {}", many("a/b"))).decided(&engine), Allow);
}

#[test]
fn words_that_may_name_more_files_than_are_looked_at_are_a_doubt() {
    let (machine, engine) = asking("allow = [\"bash(cat *)\"]");
    for number in 0..250 {
        machine.put(&format!("work/src/{number}"));
    }
    let times = |part: &str, times: usize| part.repeat(times);
    let looked_at = [
        "cat src/1*2".to_owned(),
        format!("cat src/*[{}]", times("12", 200)),
        format!("cat {}", times("src/* ", 50)),
        format!("cat {{{}}}", times("a,", 1_000)),
        format!("cat {{a,b}}{}", times("/a", 50_000)),
    ];
    for command in looked_at {
        assert_eq!(bash(&command).decided(&engine), Allow, "{}", &command[..20]);
    }
    let asked = [
        format!("cat src/*{}", times("a", 20_000)),
        format!("cat src/{}", times("*a", 10_000)),
        format!("cat src/{}*", times("[", 20_000)),
        format!("cat {}", times("src/* ", 300)),
        format!("cat {{{}}}{}", times("a,", 2_000), times("x", 10_000)),
    ];
    for command in asked {
        assert_eq!(bash(&command).decided(&engine), Ask, "{}", &command[..20]);
    }
}
