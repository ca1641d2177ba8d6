//! `kill -9` while a crew is at work: it comes to the same end, and nothing is done twice.
//!
//! The crew is that of the example `lasting_crew`, and the same one as it is configured.
//! `BOWLINE_CREW_KILLS` says how many kills there are at least.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a failure here is a failure of the test"
)]

mod support;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Dice, Home, Provider, Reply, messages};

/// How many kills a sweep makes at least, if nothing else is said.
const KILLS: usize = 20;

/// How many commands each worker runs.
const STEPS: usize = 6;

const AGENTS: &str = "\
[agents.lead]
description = \"leads\"

[agents.coder]
description = \"Writes a file.\"
model = \"test/ledger\"
tools = [\"bash\"]

[agents.reviewer]
description = \"Looks at a file.\"
model = \"test/review\"
tools = [\"bash\"]
";

/// Returns the example `lasting_crew`, to work in a home.
fn example(home: &Home) -> Command {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/lasting_crew");
    assert!(
        program.exists(),
        "{} is not built: run `cargo build --examples` or test the whole package",
        program.display()
    );
    let mut command = Command::new(program);
    command
        .args([home.path("home/data/sessions"), home.work()])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(home.work());
    command
}

/// Returns `bowline exec`, to begin a job in a home or go on with it.
fn exec(home: &Home) -> Command {
    let mut command = home.bowline();
    command.args(["exec", "--json", "--events", "full"]);
    match home.sessions().first() {
        Some(session) => command.arg(format!("--resume={session}")),
        None => command.args(["--agent", "lead", "Have it written and reviewed."]),
    };
    command
}

/// Says what the models of the example say.
fn crew() -> Provider {
    Provider::answering(|request| {
        let told: Vec<&str> = messages(request)
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        let (name, arguments) = match request["model"].as_str().unwrap() {
            "model" => match told.last() {
                Some(told) => return Reply::Text((*told).to_owned()),
                None => ("delegate", tasks()),
            },
            file => works(file, &told),
        };
        Reply::Calls(vec![("call".to_owned(), name, arguments)])
    })
}

fn tasks() -> Value {
    json!({ "tasks": [
        { "agent": "coder", "task": "write the ledger" },
        { "agent": "reviewer", "task": "review the ledger" },
    ] })
}

fn works(file: &str, told: &[&str]) -> (&'static str, Value) {
    let is_cut_off = |result: &&str| result.contains("interrupted");
    let step = told.iter().filter(|result| !is_cut_off(result)).count();
    if step == STEPS {
        let summary = format!("{file} is there.");
        return ("task_complete", json!({ "status": "completed", "summary": summary }));
    }
    let command = match told.last().is_some_and(is_cut_off) {
        true => format!("grep -qx {step} {file} || echo {step} >> {file}"),
        false => format!("sleep 0.01; echo {step} >> {file}; sleep 0.01"),
    };
    ("bash", json!({ "command": command }))
}

/// How a crew's job came out: what the lead said, and what is in the files.
#[derive(Debug, PartialEq)]
struct Job {
    answer: Value,
    ledger: String,
    review: String,
}

impl Job {
    fn of(home: &Home) -> Self {
        let entries = home.entries(&home.sessions()[0]);
        let lead = &entries[0]["agent"];
        let is_reply = |it: &&Value| it["kind"] == "assistant" && it["agent"] == *lead;
        let answer = entries.iter().rfind(is_reply).unwrap()["data"]["message"].clone();
        let read = |file: &str| std::fs::read_to_string(home.work().join(file)).unwrap();
        Self { answer, ledger: read("ledger"), review: read("review") }
    }
}

/// Has a crew do its job, and kills it after some lines, a moment later; returns whether it ended
/// before that.
fn run_and_kill(mut command: Command, lines: u64, dice: &mut Dice) -> bool {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..lines {
        out.skip_until(b'\n').unwrap();
    }
    for _ in 0..dice.roll(400_000) {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    // It may have been quicker than the kill.
    child.wait().unwrap().success()
}

/// Checks the log of a finished session: every agent was made once, every run and call has one end.
/// Returns how many commands were cut off.
fn check(home: &Home) -> usize {
    let session = home.sessions().remove(0);
    let (code, out, _) = home.run(&["sessions", "verify", &session]);
    assert_eq!(code, 0, "{out}");
    let entries = home.entries(&session);
    let of_kind = |kind: &'static str| entries.iter().filter(move |entry| entry["kind"] == kind);
    let mut names: Vec<_> = of_kind("created").map(|it| it["data"]["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, [Some("coder-write-1"), Some("lead"), Some("reviewer-review-1")]);

    let agent_of = |entry: &Value| entry["agent"].as_str().unwrap().to_owned();
    let mut ends: HashMap<(String, Value), Value> = HashMap::new();
    for ended in of_kind("call_ended") {
        let call = (agent_of(ended), ended["data"]["call"].clone());
        let twice = ends.insert(call, ended["data"]["status"].clone());
        assert_eq!(twice, None, "{ended}");
    }
    for started in of_kind("call_started") {
        assert!(ends.contains_key(&(agent_of(started), started["data"]["call"].clone())));
    }
    assert_eq!(of_kind("run_started").count(), 3);
    let outcomes: Vec<_> = of_kind("run_ended").map(|ended| &ended["data"]["outcome"]).collect();
    assert_eq!(outcomes, ["done"; 3]);
    assert!(ends.values().all(|status| status == "ok" || status == "interrupted"), "{ends:#?}");
    ends.values().filter(|status| *status == "interrupted").count()
}

/// Kills crews again and again, and compares with one that is left alone.
fn sweep(home: impl Fn() -> Home, program: impl Fn(&Home) -> Command, seed: u64) {
    let alone = home();
    let output = program(&alone).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = Job::of(&alone);
    assert!(expected.answer.to_string().contains("ledger is there."), "{}", expected.answer);
    assert_eq!(expected.ledger, "0\n1\n2\n3\n4\n5\n");
    assert_eq!(check(&alone), 0);
    let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;

    let kills = std::env::var("BOWLINE_CREW_KILLS").ok();
    let wanted = kills.map_or(KILLS, |kills| kills.parse().unwrap());
    let mut dice = Dice(seed);
    let (mut kills, mut sessions, mut cut_off) = (0, 0, 0);
    while kills < wanted {
        let home = home();
        loop {
            let lines = dice.roll(lines / 2);
            let has_ended = run_and_kill(program(&home), lines, &mut dice);
            home.wait_until_gone();
            if has_ended {
                break;
            }
            kills += 1;
        }
        assert_eq!(Job::of(&home), expected);
        cut_off += check(&home);
        sessions += 1;
    }
    println!("{kills} kills in {sessions} sessions; {cut_off} commands were cut off");
    assert!(cut_off > 0, "no kill hit a command");
}

#[test]
fn a_crew_that_is_killed_comes_to_the_same_end() {
    sweep(|| Home::configured(""), example, 0xc4e3_0b0e);
}

#[test]
fn a_configured_crew_that_is_killed_comes_to_the_same_end() {
    let provider = crew();
    sweep(|| Home::with(&provider, AGENTS), exec, 0x5eed_c4e3);
}
