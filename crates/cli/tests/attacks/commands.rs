//! Commands that try to do more than the rules and the sandbox let them, really run.

use std::fs;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::support::Home;
use super::{calls, told};

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": command }))
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs `git` as whoever made the repository.
fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b.example"]).args(arguments);
    assert!(git.current_dir(folder).output().unwrap().status.success(), "{arguments:?}");
}

#[test]
fn what_a_denied_pattern_means_is_not_read_by_any_program() {
    let read = "import os,sys\nfor folder, _, files in os.walk('.'):\n  for name in files:\n    print(open(os.path.join(folder, name)).read())";
    let provider = calls(vec![
        bash(&format!("python3 -c \"{read}\"")),
        bash("cat a/b/.e* a/*/x.p?m; grep -rh . ."),
        bash("tar c . | tr -d '\\0'"),
    ]);
    let home = Home::new(&provider);
    put(&home.work().join("a/b/.env"), "the words of a");
    put(&home.work().join("a/b/x.pem"), "the words of b");
    put(&home.work().join("a/b/said"), "heard");
    let told = told(&home, &provider, &["--deny", "read(.env)", "--deny", "read(*.pem)"]);
    assert!(told[0].contains("heard") && told[2].contains("heard"), "{told:#?}");
    for text in told {
        assert!(!text.contains("the words of"), "{text}");
    }
}

#[test]
fn without_a_sandbox_rules_that_deny_hold_behind_cd_and_for_programs_in_folders() {
    let provider = calls(vec![
        bash("cd .; echo HACK > priv/f"),
        bash("cd priv; cat f"),
        bash("pushd priv; popd; cd -; cat priv/f"),
        bash("./deploy.sh prod"),
        bash("sh deploy.sh prod"),
        bash("find . -maxdepth 0 -exec flock + touch gone \\;"),
        bash("cd sub; cat heard"),
    ]);
    let home = Home::new(&provider);
    put(&home.work().join("priv/f"), "the words of a");
    put(&home.work().join("sub/heard"), "heard");
    put(&home.work().join("deploy.sh"), "touch deployed");
    let deny = ["read(priv)", "write(priv)", "bash(./deploy.sh *)", "bash(touch *)"];
    let flags: Vec<&str> = deny.iter().flat_map(|rule| ["--deny", *rule]).collect();
    let told = told(&home, &provider, &[&["--yolo"], flags.as_slice()].concat());
    assert!(told.iter().all(|text| !text.contains("the words of")), "{told:#?}");
    assert!(told[6].contains("heard"), "{told:#?}");
    assert_eq!(fs::read_to_string(home.work().join("priv/f")).unwrap(), "the words of a");
    let made = ["deployed", "gone"].map(|file| home.work().join(file).exists());
    assert_eq!(made, [false, false]);
}

#[test]
fn to_lift_one_file_opens_nothing_beside_it() {
    let provider = calls(vec![
        bash("echo evil | tee $PWD/.git/config $PWD/.git/hooks/post-checkout"),
        bash("echo fine | tee $PWD/.git/info/exclude"),
        bash("ssh=$HOME/.ssh; cat $ssh/known_hosts; cat $ssh/id_x"),
    ]);
    let home = Home::new(&provider);
    git(&home.work(), &["init", "-q"]);
    put(&home.path(".ssh/id_x"), "the words of a key");
    put(&home.path(".ssh/known_hosts"), "hosts");
    let allow = ["--allow", "write(.git/info/exclude)", "--allow", "read(~/.ssh/known_hosts)"];
    let told = told(&home, &provider, &allow);
    assert!(!fs::read_to_string(home.work().join(".git/config")).unwrap().contains("evil"));
    assert!(!home.work().join(".git/hooks/post-checkout").exists());
    assert_eq!(fs::read_to_string(home.work().join(".git/info/exclude")).unwrap(), "fine\n");
    assert!(told[2].contains("hosts") && !told[2].contains("the words"), "{}", told[2]);
}

#[test]
fn repositories_and_editors_below_the_working_folder_are_protected_too() {
    let files =
        ["sub/.git", "lib/.git/config", "a/b/.vscode/tasks.json", "a/.claude/settings.json"];
    let evil = files.map(|file| format!("$PWD/{file}")).join(" ");
    let provider = calls(vec![
        bash(&format!("echo evil | tee {evil} $PWD/lib/.git/hooks")),
        bash("mv lib x; mv a x; rm -rf sub/.git && echo evil > $PWD/sub/.git"),
    ]);
    let home = Home::new(&provider);
    for file in files {
        put(&home.work().join(file), "kept");
    }
    told(&home, &provider, &[]);
    for file in files {
        assert_eq!(fs::read_to_string(home.work().join(file)).unwrap(), "kept", "{file}");
    }
    assert!(!home.work().join("lib/.git/hooks").exists());
}

#[test]
fn what_a_repository_has_git_run_does_no_more_than_look() {
    for mode in ["ask", "accept-edits", "plan", "deny"] {
        for more in [&[][..], &["--sandbox", "off"]] {
            let provider = calls(vec![bash("git status"), bash("git diff"), bash("git log -p")]);
            let home = Home::new(&provider);
            let work = home.work();
            git(&work, &["init", "-q"]);
            put(&work.join("a"), "1");
            git(&work, &["add", "."]);
            git(&work, &["commit", "-qm", "x"]);
            put(&work.join("a"), "2");
            put(&work.join(".gitattributes"), "* diff=evil");
            for key in ["core.fsmonitor", "diff.external", "diff.evil.textconv"] {
                let run = format!("touch {0}/pwned {0}/../pwned; :", work.display());
                git(&work, &["-c", "core.fsmonitor=false", "config", key, &run]);
            }
            // Where a question would be asked the run stops.
            let (code, _, err) = home.run(&[&["exec", "--mode", mode], more, &["go"]].concat());
            assert!(matches!(code, 0 | 4), "{mode} {more:?}: {err}");
            let is_there = [work.join("pwned"), home.path("pwned")].map(|path| path.exists());
            assert_eq!(is_there, [false, false], "{mode} {more:?}");
        }
    }
}

#[test]
fn a_host_that_a_rule_denies_is_not_reached_by_commands_either() {
    for config in ["network = true", "hosts = [\"*.0.0.1\", \"127.0.0.1\"]"] {
        let provider = calls(vec![bash("curl -sS -m 9 --noproxy '' $URL; echo \"[$?]\"")]);
        let config = format!(
            "[sandbox]\n{config}\n[shell_environment]\nset = {{ URL = \"{}\" }}",
            provider.origin()
        );
        let home = Home::with(&provider, &config);
        let told = told(&home, &provider, &["--deny", "net(127.0.0.1)"]);
        assert!(
            !told[0].contains("[0]") || told[0].contains("bowline: the sandbox does not let"),
            "{told:?}"
        );
        assert_eq!(provider.requests().len(), 2);
    }
}

#[test]
fn what_is_recorded_of_files_is_read_by_nobody() {
    let provider = calls(vec![
        bash("echo new > b.txt"),
        bash("find .. -type f"),
        ("glob", json!({ "pattern": "**/journal*", "path": "../home/data" })),
        ("list", json!({ "path": "../home/data/undo" })),
    ]);
    let home = Home::new(&provider);
    put(&home.work().join("key.txt"), "the words of a key");
    let told = told(&home, &provider, &["--deny", "read(key.txt)"]);
    assert_eq!(fs::read_dir(home.path("home/data/undo")).unwrap().count(), 1, "it is recorded");
    assert!(told[1].contains(".out"), "what commands have said is there: {}", told[1]);
    for text in &told[1..] {
        assert!(!text.contains("journal.") && !text.contains("undo.git"), "{text}");
    }
}

#[test]
fn what_only_looks_finds_no_secrets_in_the_folders_that_it_looks_through() {
    for mode in ["ask", "plan", "accept-edits"] {
        let provider = calls(vec![
            bash("grep -r '' sub"),
            bash("grep -rc words sub; ls -A sub"),
            bash("cat sub/.env.example"),
        ]);
        let home = Home::new(&provider);
        put(&home.work().join("sub/.env"), "the words of a");
        put(&home.work().join("sub/deep/key.pem"), "the words of b");
        put(&home.work().join("sub/.env.example"), "heard");
        let told = told(&home, &provider, &["--mode", mode]);
        assert!(told[0].contains("heard") && told[2].contains("heard"), "{mode}: {told:#?}");
        for text in told {
            assert!(!text.contains("the words of"), "{mode}: {text}");
        }
    }
}
