//! What agents remember of failures, as a person sees it.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use bowline_agent::Redaction;
use bowline_agent::crew::{Failure, Reflections as _};
use bowline_runtime::reflections::Reflections;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use support::Home;

const OLDER: &str = "coder-1-20261122-090000-00000001";
const NEWER: &str = "coder-2-20261122-090100-00000002";

/// Returns where the notes of the project are: with the user, whatever the project brings.
fn folder(home: &Home) -> PathBuf {
    let list = json_of(home, &["reflections", "list", "--json"]);
    let folder = PathBuf::from(list["folder"].as_str().unwrap());
    assert!(!folder.starts_with(home.work()), "{folder:?}");
    folder
}

/// A home with a project in which two agents failed.
async fn home() -> Home {
    let home = Home::configured("");
    let reflections = Reflections::new(folder(&home), Redaction::default());
    for (id, at, task) in [
        (1, "2026-11-22T09:00:00Z", "Make the parser faster"),
        (2, "2026-11-22T09:01:00Z", "Port it\nto \u{1b}[31mWindows"),
    ] {
        let failure = Failure {
            id: format!("{id:032x}").parse().unwrap(),
            agent: format!("coder-{id}"),
            at: at.parse().unwrap(),
            task: task.to_owned(),
            approach: None,
            summary: "It exhausted its iteration limit.".to_owned(),
            caveats: None,
            files_modified: Vec::new(),
        };
        reflections.note(failure).await;
    }
    home
}

fn json_of(home: &Home, arguments: &[&str]) -> Value {
    let (code, out, err) = home.run(arguments);
    assert_eq!((code, err.as_str()), (0, ""));
    serde_json::from_str(&out).unwrap()
}

#[tokio::test]
async fn reflections_are_listed_newest_first_and_shown() {
    let home = home().await;
    let expected = format!("{NEWER}  Port it to Windows\n{OLDER}  Make the parser faster\n");
    assert_eq!(home.run(&["reflections", "list"]), (0, expected, String::new()));
    let (code, out, _) = home.run(&["reflections", "show", OLDER]);
    assert_eq!(code, 0);
    assert!(out.starts_with("# coder-1 failed\n\nTime: 2026-11-22T09:00:00Z\n"), "{out}");
    assert!(out.ends_with("\n\nIt exhausted its iteration limit.\n"), "{out}");
    let (_, out, _) = home.run(&["reflections", "show", NEWER]);
    assert!(out.contains("Port it\nto Windows\n"), "{out}");
}

#[tokio::test]
async fn programs_get_json() {
    let home = home().await;
    let folder = folder(&home);
    let about = |name: &str, agent: &str, time: &str, task: &str| {
        json!({
            "name": name, "file": folder.join(format!("{name}.md")), "time": time, "agent": agent,
            "task": task, "reason": "It exhausted its iteration limit.",
        })
    };
    let older = about(OLDER, "coder-1", "2026-11-22T09:00:00Z", "Make the parser faster");
    let newer = about(NEWER, "coder-2", "2026-11-22T09:01:00Z", "Port it\nto \u{1b}[31mWindows");
    let list = json_of(&home, &["reflections", "list", "--json"]);
    let expected = json!({ "folder": folder, "reflections": [newer, older], "refused": [] });
    assert_eq!(list, expected);
    let mut shown = json_of(&home, &["reflections", "show", OLDER, "--json"]);
    let text = shown.as_object_mut().unwrap().remove("text").unwrap();
    assert!(text.as_str().unwrap().contains("## Task\n\nMake the parser faster\n"), "{text}");
    assert_eq!(shown, older);
    let deleted = json_of(&home, &["reflections", "delete", OLDER, "--json"]);
    assert_eq!(deleted, json!({ "deleted": OLDER }));
}

#[tokio::test]
async fn a_reflection_is_deleted_once_and_a_wrong_name_is_told() {
    let home = home().await;
    let deleted = home.run(&["reflections", "delete", OLDER]);
    assert_eq!(deleted, (0, format!("deleted {OLDER}\n"), String::new()));
    for command in ["show", "delete"] {
        for name in [OLDER, "../reflections/x", "x"] {
            let said = format!(
                "bowline: there is no reflection {name:?}; see `bowline reflections list`\n"
            );
            assert_eq!(home.run(&["reflections", command, name]), (2, String::new(), said));
        }
    }
    let (_, out, _) = home.run(&["reflections", "list"]);
    assert_eq!(out, format!("{NEWER}  Port it to Windows\n"));
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_and_can_be_deleted() {
    let home = home().await;
    let folder = folder(&home);
    symlink(home.path("home/config/config.toml"), folder.join("link.md")).unwrap();
    let (code, out, err) = home.run(&["reflections", "list"]);
    assert_eq!((code, out.lines().count()), (0, 2));
    assert!(err.ends_with("link.md: is a link; put the file itself there\n"), "{err}");
    assert_eq!(home.run(&["reflections", "show", "link"]).0, 2);
    assert_eq!(home.run(&["reflections", "delete", "link"]).0, 0);
    assert!(home.path("home/config/config.toml").exists());
    assert_eq!(home.run(&["reflections", "list"]).2, "");
}

#[test]
fn where_nothing_failed_there_are_none() {
    let home = Home::configured("");
    let listed = home.run(&["reflections", "list"]);
    assert_eq!(listed, (0, "no reflections\n".to_owned(), String::new()));
    let list = json_of(&home, &["reflections", "list", "--json"]);
    assert_eq!((&list["reflections"], &list["refused"]), (&json!([]), &json!([])));
    let folder = list["folder"].as_str().unwrap();
    let data = home.path("home/data/projects").display().to_string();
    assert!(folder.starts_with(&data) && folder.ends_with("/reflections"), "{folder}");
    assert!(!home.path("home/data").exists(), "to look makes nothing");
}
