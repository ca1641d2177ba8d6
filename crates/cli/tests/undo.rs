//! `bowline rewind` and `bowline diff`: what agents changed, shown and taken back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

use std::fs;
use std::process::{Child, Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, obedient, said, until};

/// A repository in which `a.txt` is committed and changed since.
fn home(provider: &Provider, config: &str) -> Home {
    let home = Home::with(provider, config);
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ann", "-c", "user.email=a@example.com"]).args(arguments);
        let output = command.env("HOME", home.path("")).current_dir(home.work()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "--quiet"]);
    put(&home, "a.txt", "committed\n");
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message=first"]);
    put(&home, "a.txt", "one\n");
    home
}

fn put(home: &Home, name: &str, text: &str) {
    fs::write(home.work().join(name), text).unwrap();
}

fn get(home: &Home, name: &str) -> Option<String> {
    fs::read_to_string(home.work().join(name)).ok()
}

fn exec(home: &Home, arguments: &[&str]) {
    let (code, _, err) = home.run(&[&["exec"], arguments].concat());
    assert_eq!(code, 0, "{err}");
}

fn done(home: &Home, arguments: &[&str]) -> String {
    let (code, out, err) = home.run(arguments);
    assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    out
}

/// Returns what the model is told when the session goes on: what a user said.
fn told(provider: &Provider, home: &Home) -> Vec<String> {
    exec(home, &["--continue", "and now?"]);
    let request = provider.requests().pop().unwrap();
    let users = messages(&request).iter().filter(|message| message["role"] == "user");
    users.map(said).filter(|text| text.starts_with("sh ") || text.starts_with("put ")).collect()
}

#[test]
fn conversation_and_files_go_back_together() {
    let provider = obedient();
    let home = home(&provider, "");
    exec(&home, &["put b.txt"]);
    exec(&home, &["--continue", "sh echo two > a.txt; rm b.txt; echo c > c.txt"]);
    put(&home, "mine.txt", "mine\n");
    let look = done(&home, &["rewind", "--dry-run"]);
    assert_eq!(look, "M a.txt\nA b.txt\nD c.txt\nthe conversation goes back\n");
    assert_eq!(get(&home, "a.txt").unwrap(), "two\n");
    let out = done(&home, &["rewind", "--yes"]);
    assert!(out.starts_with(&look) && out.contains("--undo"), "{out}");
    let files = |home: &Home| ["a.txt", "b.txt", "c.txt", "mine.txt"].map(|name| get(home, name));
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(files(&home), [text("one\n"), text("put\n"), None, text("mine\n")]);
    assert_eq!(told(&provider, &home), ["put b.txt"]);
    // The prompt of `told` is the last one now; the rewind is taken back all the same.
    done(&home, &["rewind", "--undo", "--yes"]);
    assert_eq!(files(&home), [text("two\n"), None, text("c\n"), text("mine\n")]);
    let both = ["put b.txt", "sh echo two > a.txt; rm b.txt; echo c > c.txt"];
    assert_eq!(told(&provider, &home), both);
    // To the very beginning.
    let list = done(&home, &["rewind", "--list"]);
    assert!(list.lines().next().unwrap().ends_with("  put b.txt"), "{list}");
    assert_eq!(list.lines().count(), 3, "{list}");
    done(&home, &["rewind", "--to", "1", "--yes"]);
    assert_eq!(files(&home), [text("one\n"), None, None, text("mine\n")]);
    assert_eq!(told(&provider, &home), Vec::<String>::new());
    assert_eq!(home.run(&["sessions", "verify"]).0, 0);
}

#[test]
fn only_the_files_or_only_the_conversation() {
    let provider = obedient();
    let home = home(&provider, "");
    exec(&home, &["put b.txt"]);
    exec(&home, &["--continue", "sh echo two > a.txt"]);
    let out = done(&home, &["rewind", "--files-only", "-n", "2", "--yes"]);
    assert!(!out.contains("conversation"), "{out}");
    assert_eq!((get(&home, "a.txt").unwrap().as_str(), get(&home, "b.txt")), ("one\n", None));
    assert_eq!(told(&provider, &home).len(), 2);
    done(&home, &["rewind", "--undo", "--yes"]);
    assert_eq!(get(&home, "a.txt").unwrap(), "two\n");
    let out = done(&home, &["rewind", "--conversation-only", "-n", "2", "--yes"]);
    assert_eq!(get(&home, "a.txt").unwrap(), "two\n");
    assert_eq!(told(&provider, &home), ["put b.txt"]);
    let entry = out.trim().rsplit(' ').next().unwrap();
    done(&home, &["rewind", "--conversation-only", "--to", entry, "--yes"]);
    assert_eq!(told(&provider, &home).len(), 2);
    assert_eq!(home.run(&["rewind", "--to", "9", "--yes"]).0, 2);
    assert_eq!(home.run(&["rewind", "-n", "9", "--yes"]).0, 2);
    let (code, _, err) = home.run(&["rewind"]);
    assert!(code == 2 && err.contains("say --yes"), "{err}");
}

#[test]
fn what_a_person_has_changed_since_is_left_alone() {
    let provider = obedient();
    let home = home(&provider, "");
    exec(&home, &["sh echo two > a.txt; echo b > b.txt"]);
    put(&home, "a.txt", "mine\n");
    let out = done(&home, &["rewind", "--yes"]);
    assert!(out.starts_with("left alone: a.txt (changed since;"), "{out}");
    assert!(out.contains("\nD b.txt\n"), "{out}");
    assert_eq!((get(&home, "a.txt").unwrap().as_str(), get(&home, "b.txt")), ("mine\n", None));
    done(&home, &["rewind", "--undo", "--yes"]);
    done(&home, &["rewind", "--force", "--yes"]);
    assert_eq!((get(&home, "a.txt").unwrap().as_str(), get(&home, "b.txt")), ("one\n", None));
}

#[test]
fn diff_shows_what_the_session_changed_and_nothing_else() {
    let provider = obedient();
    let home = home(&provider, "");
    put(&home, "mine.txt", "mine\n");
    exec(&home, &["sh echo two > a.txt"]);
    put(&home, "mine.txt", "changed\n");
    exec(&home, &["--continue", "put b.txt"]);
    let session = home.sessions().remove(0);
    let patch = done(&home, &["diff"]);
    assert!(patch.contains("@@ -1 +1 @@\n-one\n+two\n"), "{patch}");
    assert!(patch.contains("+++ b/b.txt") && !patch.contains("mine"), "{patch}");
    assert!(!patch.contains('\u{1b}'), "{patch}");
    let stat = done(&home, &["diff", &session, "--stat"]);
    assert!(stat.contains("2 files changed"), "{stat}");
    let json: Value = serde_json::from_str(&done(&home, &["diff", "--json"])).unwrap();
    let file = |path: &str, status: &str, removed: u64| {
        json!({ "path": path, "status": status, "added": 1, "removed": removed,
                "changed_since": false })
    };
    let root = home.work().canonicalize().unwrap();
    let files = [file("a.txt", "M", 1), file("b.txt", "A", 0)];
    let all = json!({ "session": session, "root": root, "files": files, "left_out": [] });
    assert_eq!(json, all);
}

/// Starts a run whose command has begun to change files and does not end.
fn stuck(home: &Home) -> Child {
    let prompt = "sh echo two > a.txt; echo x > new.txt; sleep 600";
    let mut command = home.bowline();
    command.args(["exec", prompt]).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    until("the command is at work", || get(home, "new.txt").is_some_and(|text| !text.is_empty()));
    child
}

#[test]
fn what_kill_9_cut_off_goes_back_too() {
    let provider = obedient();
    let home = home(&provider, "");
    let mut child = stuck(&home);
    let (code, _, err) = home.run(&["rewind", "--yes"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a run is open") && err.lines().count() == 1, "{err}");
    child.kill().unwrap();
    child.wait().unwrap();
    home.wait_until_gone();
    done(&home, &["rewind", "--yes"]);
    assert_eq!((get(&home, "a.txt").unwrap().as_str(), get(&home, "new.txt")), ("one\n", None));
    assert_eq!(told(&provider, &home), Vec::<String>::new());
    assert_eq!(home.run(&["sessions", "verify"]).0, 0);
}

#[test]
fn what_sub_agents_changed_goes_back_with_the_prompt() {
    let provider = Provider::answering(|request| {
        let last = messages(request).last().unwrap();
        let is_new = last["role"] == "user";
        let call = |name, arguments| Reply::Calls(vec![("call".to_owned(), name, arguments)]);
        match request["model"].as_str().unwrap() {
            "one" if is_new => call("bash", json!({ "command": "echo one >> one.txt" })),
            "two" if is_new => call("write", json!({ "path": "two.txt", "content": "2\n" })),
            "one" | "two" => Reply::Text("done".to_owned()),
            _ if is_new => {
                let task = |agent: &str| json!({ "agent": agent, "task": "Do it." });
                call("delegate", json!({ "tasks": [task("one"), task("two")] }))
            }
            _ => Reply::Text("done".to_owned()),
        }
    });
    let agents = "[agents.one]\ndescription = \"One.\"\nmodel = \"test/one\"\n\
                  [agents.two]\ndescription = \"Two.\"\nmodel = \"test/two\"\n";
    let home = home(&provider, agents);
    put(&home, "one.txt", "zero\n");
    exec(&home, &["Have it done."]);
    let changed = |home: &Home| (get(home, "one.txt").unwrap(), get(home, "two.txt"));
    assert_eq!(changed(&home), ("zero\none\n".to_owned(), Some("2\n".to_owned())));
    let out = done(&home, &["rewind", "--yes"]);
    assert!(out.starts_with("M one.txt\nD two.txt\n"), "{out}");
    assert_eq!(changed(&home), ("zero\n".to_owned(), None));
}

#[test]
fn what_is_recorded_goes_with_its_session() {
    let provider = obedient();
    let home = home(&provider, "");
    exec(&home, &["--ephemeral", "put b.txt"]);
    let kept = |home: &Home| {
        let mut found = Command::new("find");
        let output = found.arg(home.path("home")).args(["-name", "undo.git"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(kept(&home), 0);
    exec(&home, &["put b.txt"]);
    assert_eq!(kept(&home), 1);
    let session = home.sessions().remove(0);
    done(&home, &["sessions", "delete", &session]);
    assert_eq!(kept(&home), 0);
}

// A session that goes on in another project would mix the two.
#[test]
fn what_cannot_be_recorded_is_said_in_one_line() {
    let provider = obedient();
    let home = home(&provider, "");
    exec(&home, &["put b.txt"]);
    let session = home.sessions().remove(0);
    fs::create_dir(home.path("other")).unwrap();
    let other = home.path("other");
    let arguments = ["exec", "-C", other.to_str().unwrap(), "--resume", &session, "put c.txt"];
    let (code, _, err) = home.run(&arguments);
    let lines: Vec<_> = err.lines().filter(|line| line.contains("cannot be undone")).collect();
    assert!(code == 0 && lines.len() == 1, "{err}");
    assert!(lines[0].contains("the session began in"), "{err}");
    assert!(other.join("c.txt").exists());
}

#[test]
fn it_can_be_switched_off() {
    let provider = obedient();
    let home = home(&provider, "[undo]\nenabled = false\n");
    exec(&home, &["put b.txt"]);
    assert_eq!(done(&home, &["diff"]), "");
    done(&home, &["rewind", "--yes"]);
    assert_eq!(get(&home, "b.txt").unwrap(), "put\n");
    assert_eq!(told(&provider, &home), Vec::<String>::new());
}

#[test]
fn a_whole_home_is_not_recorded_and_that_is_said() {
    let provider = obedient();
    let home = home(&provider, "");
    let run = |arguments: &[&str]| {
        let mut command = home.bowline();
        let output = command.args(arguments).env("HOME", home.work()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    let said = run(&["exec", "put b.txt"]);
    let lines: Vec<_> = said.lines().filter(|line| line.contains("cannot be undone")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    let said = run(&["doctor"]);
    assert!(said.contains("undo: not here: ") && said.contains("is no project"), "{said}");
    assert_eq!(get(&home, "b.txt").unwrap(), "put\n");
    assert_eq!(run(&["diff"]), "");
}
