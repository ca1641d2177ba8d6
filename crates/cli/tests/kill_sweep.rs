//! `kill -9` at random moments: nothing is lost, nothing is repeated, nothing is left.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a failure here is a failure of the test"
)]

mod support;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use support::{Dice, Home, Provider, Reply, results};

/// How many kills the sweep makes at least.
const KILLS: usize = 200;

/// How many replies with calls a run takes.
const TURNS: usize = 10;

/// Answers with one command that has a side effect and one read, until there were enough. What to
/// do next follows from how many results there are, so a resumed run goes on where it was.
fn next(request: &Value) -> Reply {
    let turn = results(request) / 2;
    if turn == TURNS {
        return Reply::Text("all done".to_owned());
    }
    let command = format!("echo {turn} >> counter; sleep 0.01; echo {turn} >> finished");
    Reply::Calls(vec![
        (format!("bash_{turn}"), "bash", json!({ "command": command })),
        (format!("read_{turn}"), "read", json!({ "path": "notes.txt" })),
    ])
}

/// Starts or resumes a run and kills it when it has printed some lines; returns whether it ended
/// before that.
fn run_and_kill(home: &Home, session: Option<&str>, dice: &mut Dice) -> bool {
    let mut command = home.bowline();
    command.args(["exec", "--json"]);
    match session {
        Some(session) => command.arg(format!("--resume={session}")),
        None => command.arg("do it"),
    };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..dice.roll(40) {
        if lines.next().is_none() {
            break;
        }
    }
    for _ in 0..dice.roll(200_000) {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    // It may have been quicker than the kill.
    child.wait().unwrap().success()
}

/// Checks the log of a finished session: every call has one end, and what is said of it is true.
fn check(home: &Home, session: &str) -> HashMap<String, usize> {
    let (code, out, _) = home.run(&["sessions", "verify", session]);
    assert_eq!(code, 0, "{out}");
    let entries = home.entries(session);
    let of_kind = |kind: &str| {
        let kind = kind.to_owned();
        entries.iter().filter(move |entry| entry["kind"] == kind.as_str())
    };
    let mut ends: HashMap<String, String> = HashMap::new();
    for entry in of_kind("call_ended") {
        let (call, status) = (&entry["data"]["call"], &entry["data"]["status"]);
        let twice = ends.insert(call.as_str().unwrap().into(), status.as_str().unwrap().into());
        assert_eq!(twice, None, "call {call} ended twice");
    }
    let mut starts = 0;
    for entry in of_kind("call_started") {
        starts += 1;
        assert!(ends.contains_key(entry["data"]["call"].as_str().unwrap()));
    }
    assert_eq!(ends.len(), TURNS * 2);
    assert_eq!(starts, TURNS * 2, "no call starts twice in the log");
    assert_eq!(of_kind("run_started").count(), 1);
    assert_eq!(of_kind("run_ended").count(), 1);
    assert_eq!(of_kind("run_ended").next().unwrap()["data"]["outcome"], "done");

    let count = |file: &str| {
        let text = std::fs::read_to_string(home.work().join(file)).unwrap_or_default();
        let mut counts: HashMap<String, usize> = HashMap::new();
        text.lines().for_each(|line| *counts.entry(line.to_owned()).or_default() += 1);
        counts
    };
    let (begun, finished) = (count("counter"), count("finished"));
    let mut statuses = HashMap::new();
    for turn in 0..TURNS {
        let status = ends[&format!("bash_{turn}")].as_str();
        let turn = turn.to_string();
        let (begun, finished) =
            (begun.get(&turn).copied().unwrap_or(0), finished.get(&turn).copied().unwrap_or(0));
        assert!(begun <= 1, "command {turn} ran {begun} times");
        match status {
            "ok" => assert_eq!((begun, finished), (1, 1), "command {turn} is said to have run"),
            "interrupted" => {}
            status => panic!("command {turn} ended {status}"),
        }
        *statuses.entry(status.to_owned()).or_default() += 1;
        assert_eq!(ends[&format!("read_{turn}")], "ok", "a read runs again");
    }
    statuses
}

#[test]
fn nothing_is_lost_or_repeated_or_left_by_kill_9() {
    let mut dice = Dice(0x5eed_0b0e);
    let (mut kills, mut sessions) = (0, 0);
    let mut statuses: HashMap<String, usize> = HashMap::new();
    while kills < KILLS {
        let provider = Provider::answering(next);
        let home = Home::new(&provider);
        std::fs::write(home.work().join("notes.txt"), "some notes\n").unwrap();
        let session = loop {
            let session = home.sessions().first().cloned();
            let has_ended = run_and_kill(&home, session.as_deref(), &mut dice);
            home.wait_until_gone();
            if has_ended {
                break home.sessions().remove(0);
            }
            kills += 1;
        };
        sessions += 1;
        for (status, count) in check(&home, &session) {
            *statuses.entry(status).or_default() += count;
        }
    }
    println!("{kills} kills in {sessions} sessions; commands: {statuses:?}");
    assert!(statuses.contains_key("interrupted"), "no kill hit a command: {statuses:?}");
}
