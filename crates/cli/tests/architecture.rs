//! The arrows of ARCHITECTURE.md: which crate may depend on which.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::Value;

/// What each room may depend on directly, dev-dependencies excepted. An arrow also allows what lies
/// beyond it. A room that is not here does not exist yet: adding one, or an arrow, is a change of
/// the architecture and belongs into ARCHITECTURE.md too.
const ARROWS: &[(&str, &[&str])] = &[
    ("bowline", &["bowline-server", "bowline-runtime"]),
    ("bowline-fuzz", &["bowline-runtime"]),
    ("bowline-server", &["bowline-runtime"]),
    ("bowline-runtime", &["bowline-tools", "bowline-store", "bowline-local"]),
    ("bowline-tools", &["bowline-agent"]),
    ("bowline-store", &["bowline-agent"]),
    ("bowline-local", &["bowline-llm"]),
    ("bowline-agent", &["bowline-llm"]),
    ("bowline-llm", &[]),
];

/// Crates that only their room may use: `agent` does no IO of its own.
const ABSENT: &[(&str, &[&str])] = &[
    ("bowline-agent", &["reqwest", "rustix", "sqlx", "clap", "toml"]),
    ("bowline-llm", &["rustix", "sqlx", "clap", "toml"]),
    ("bowline-tools", &["sqlx", "clap", "toml"]),
    ("bowline-store", &["reqwest", "clap", "toml"]),
    ("bowline-runtime", &["clap"]),
    ("bowline-server", &["rustix", "clap", "toml"]),
];

/// Returns what each package of the workspace depends on to run or to build.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let real = dependencies.filter(|dependency| dependency["kind"] != "dev");
            (name(package), real.map(name).collect())
        })
        .collect()
}

/// Returns all that may be reached from a room along the arrows.
fn reachable(room: &str) -> BTreeSet<&'static str> {
    let next = ARROWS.iter().find(|(from, _)| *from == room).map_or(&[][..], |(_, to)| to);
    next.iter().flat_map(|to| reachable(to).into_iter().chain([*to])).collect()
}

#[test]
fn every_dependency_follows_an_arrow() {
    let mut wrong = Vec::new();
    for (package, dependencies) in dependencies() {
        let allowed = reachable(&package);
        let own = dependencies.iter().filter(|name| name.starts_with("bowline"));
        wrong.extend(
            own.filter(|name| !allowed.contains(name.as_str()))
                .map(|name| format!("{package} -> {name}")),
        );
    }
    assert_eq!(wrong, Vec::<String>::new(), "arrows that ARCHITECTURE.md does not have");
}

#[test]
fn every_room_is_on_the_map() {
    let dependencies = dependencies();
    let rooms: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    let mapped: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    assert_eq!(rooms, mapped);
}

#[test]
fn inner_rooms_do_not_reach_outside() {
    let dependencies = dependencies();
    let mut wrong = Vec::new();
    for (room, absent) in ABSENT {
        let used = dependencies.get(*room).unwrap();
        wrong.extend(
            absent
                .iter()
                .filter(|name| used.contains(**name))
                .map(|name| format!("{room} uses {name}")),
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Whoever prints past the screen prints what a terminal acts upon.
#[test]
fn all_that_is_printed_goes_through_the_screen() {
    // The way itself; the progress of a download.
    let own = ["screen.rs", "model.rs"];
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut wrong = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !own.contains(&path.file_name().unwrap().to_str().unwrap()) {
                let text = std::fs::read_to_string(&path).unwrap();
                let past =
                    ["io::stdout()", "io::stderr()"].iter().flat_map(|way| text.split(way).skip(1));
                if past.into_iter().any(|rest| !rest.starts_with(".is_terminal()")) {
                    wrong.push(path);
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<std::path::PathBuf>::new());
}
