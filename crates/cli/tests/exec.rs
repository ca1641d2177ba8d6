//! `bowline exec`, as a user and as a program sees it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a failure here is a failure of the test"
)]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, PATIENCE, Provider, Reply, messages, results, until};

fn says(text: &'static str) -> Provider {
    Provider::answering(move |_| Reply::Text(text.to_owned()))
}

fn bash(id: &str, command: &str) -> (String, &'static str, Value) {
    (id.to_owned(), "bash", json!({ "command": command }))
}

/// A provider that makes these calls, one reply each, and then says `done`.
fn calls(commands: &'static [&'static str]) -> Provider {
    Provider::answering(move |request| match commands.get(results(request)) {
        Some(command) => Reply::Calls(vec![bash(&format!("call_{}", results(request)), command)]),
        None => Reply::Text("done".to_owned()),
    })
}

/// A fifo in the working directory: a command that reads it waits until the test writes to it.
fn fifo(home: &Home, name: &str) {
    let made = std::process::Command::new("mkfifo").arg(home.work().join(name)).status().unwrap();
    assert!(made.success());
}

fn open_fifo(home: &Home, name: &str) {
    std::fs::OpenOptions::new()
        .write(true)
        .open(home.work().join(name))
        .unwrap()
        .write_all(b"go\n")
        .unwrap();
}

fn kinds(events: &str) -> Vec<String> {
    events
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// Starts `exec --json` and returns it with a channel of its events.
fn start(home: &Home, arguments: &[&str]) -> (Child, mpsc::Receiver<Value>) {
    let mut command = home.bowline();
    command.args(["exec", "--json"]).args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if to.send(serde_json::from_str(&line).unwrap()).is_err() {
                break;
            }
        }
    });
    (child, from)
}

fn wait_for(events: &mpsc::Receiver<Value>, kind: &str) -> Value {
    loop {
        let event = events.recv_timeout(PATIENCE).unwrap();
        if event["type"] == kind {
            return event;
        }
    }
}

#[test]
fn the_answer_is_on_stdout_and_everything_else_on_stderr() {
    let provider = calls(&["echo hello > made.txt", "cat made.txt"]);
    let home = Home::new(&provider);
    let (code, out, err) = home.run(&["exec", "make a file"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert!(err.contains("> bash cat made.txt"), "{err}");
    assert_eq!(std::fs::read_to_string(home.work().join("made.txt")).unwrap(), "hello\n");
    let last = provider.requests().pop().unwrap();
    assert_eq!(messages(&last).last().unwrap()["content"], "hello\n");
}

#[test]
fn json_prints_only_events_numbered_without_gaps() {
    let provider = calls(&["echo 1"]);
    let home = Home::new(&provider);
    let (code, out, _) = home.run(&["exec", "--json", "go"]);
    assert_eq!(code, 0);
    for (seq, line) in out.lines().enumerate() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&event["v"], &event["seq"]), (&json!(1), &json!(seq)));
    }
    let committed: Vec<_> = kinds(&out)
        .into_iter()
        .filter(|kind| !kind.ends_with("_delta") && kind != "status" && kind != "tool_output")
        .collect();
    assert_eq!(
        committed,
        [
            "run_start",
            "message_added",
            "turn_start",
            "tool_call",
            "message_added",
            "turn_end",
            "tool_start",
            "tool_end",
            "message_added",
            "turn_start",
            "text",
            "message_added",
            "turn_end",
            "run_end",
        ]
    );
    let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(end["data"]["outcome"], "done");
    assert_eq!(end["data"]["usage"], json!({ "input": 200, "output": 20 }));
}

#[test]
fn what_show_prints_of_a_session_is_what_was_seen_live() {
    let provider = calls(&["echo 1", "exit 3"]);
    let home = Home::new(&provider);
    let (_, live, _) = home.run(&["exec", "--json", "go"]);
    let (code, shown, _) = home.run(&["sessions", "show", "--json", &home.sessions()[0]]);
    assert_eq!(code, 0);
    // Live events are never replayed, and the beginning of a turn has no entry of its own.
    let committed = |events: &str| -> Vec<Value> {
        events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|event| event["pos"].is_u64() && event["type"] != "turn_start")
            .map(|mut event| {
                event.as_object_mut().unwrap().remove("seq");
                event
            })
            .collect()
    };
    assert_eq!(committed(&live), committed(&shown));
}

#[test]
fn a_task_can_come_from_stdin() {
    for arguments in [&["exec"][..], &["exec", "-"]] {
        let provider = says("ok");
        let home = Home::new(&provider);
        let mut child = home
            .bowline()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"from stdin").unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
        let request = provider.requests().remove(0);
        assert!(messages(&request).last().unwrap()["content"].to_string().contains("from stdin"));
    }
}

#[test]
fn a_relative_directory_can_be_named() {
    let provider = calls(&["pwd"]);
    let home = Home::new(&provider);
    std::fs::create_dir(home.work().join("inner")).unwrap();
    let (code, ..) = home.run(&["exec", "-C", "inner", "where"]);
    assert_eq!(code, 0);
    let result = provider.requests().pop().unwrap();
    let result = messages(&result).last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(result.trim_end().ends_with("/inner"), "{result}");
}

#[test]
fn an_ephemeral_run_leaves_nothing() {
    let provider = calls(&["echo 1"]);
    let home = Home::new(&provider);
    let (code, out, _) = home.run(&["exec", "--ephemeral", "go"]);
    assert_eq!((code, out.as_str()), (0, "done\n"));
    assert!(!home.path("home/data/sessions").exists());
    let left: Vec<_> = std::fs::read_dir(home.path("home/cache/scratch"))
        .map(|folder| folder.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let status = |status, body: &'static str| {
        Provider::answering(move |_| Reply::Status(status, body.to_owned()))
    };
    let overflow = r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#;
    let refused = r#"{"error":{"message":"no","type":"invalid_request_error"}}"#;
    for (provider, code) in [
        (status(401, refused), 5),
        (status(403, refused), 5),
        (status(404, refused), 1),
        (status(400, refused), 1),
        (status(400, overflow), 7),
        (status(429, refused), 6),
        (status(500, refused), 6),
        (status(529, refused), 6),
        (Provider::answering(|_| Reply::Cut("half an ans".to_owned())), 6),
        (says("  "), 1),
    ] {
        let home = Home::new(&provider);
        let (got, out, err) = home.run(&["exec", "go"]);
        assert_eq!(got, code, "{out}\n{err}");
        assert!(err.contains("bowline: "), "says why: {err}");
        // The user's message is kept, whatever the provider did.
        let entries = home.entries(&home.sessions()[0]);
        assert!(entries.iter().any(|entry| entry["kind"] == "user"));
        assert_eq!(entries.last().unwrap()["kind"], "run_ended");
    }
}

#[test]
fn a_limit_ends_with_a_summary_and_exit_code_3() {
    let provider = Provider::answering(|request| {
        let last = messages(request).last().unwrap();
        if last["role"] == "user" && last["content"].to_string().contains("limit") {
            return Reply::Text("this is what was done".to_owned());
        }
        Reply::Calls(vec![bash(&format!("call_{}", results(request)), "echo 1")])
    });
    let home = Home::new(&provider);
    let (code, out, err) = home.run(&["exec", "--max-turns", "2", "go"]);
    assert_eq!((code, out.as_str()), (3, "this is what was done\n"), "{err}");
    assert_eq!(provider.requests().len(), 3);
    let (code, ..) = home.run(&["exec", "--max-turns", "2", "-c", "limits.wrap_up=false", "go"]);
    assert_eq!((code, provider.requests().len()), (3, 5));
    let (code, ..) = home.run(&["exec", "--max-total-tokens", "150", "go"]);
    assert_eq!(code, 3);
}

#[test]
fn a_time_limit_stops_a_command() {
    let provider = calls(&["sleep 60"]);
    let home = Home::new(&provider);
    let (code, ..) = home.run(&["exec", "--timeout", "300ms", "go"]);
    assert_eq!(code, 3);
    assert_eq!(home.processes(), Vec::<String>::new());
}

#[test]
fn a_cost_limit_needs_a_known_price() {
    let provider = calls(&["echo 1", "echo 2", "echo 3"]);
    let home = Home::new(&provider);
    let (code, _, err) = home.run(&["exec", "--max-cost", "0.5", "go"]);
    assert_eq!(code, 2);
    assert!(err.contains("price"), "{err}");
    let price = "providers.test.models.model.price={input=1000.0,output=0.0}";
    // Each call costs ten cents.
    let (code, _, err) = home.run(&["exec", "--max-cost", "0.15", "-c", price, "go"]);
    assert_eq!(code, 3, "{err}");
}

#[test]
fn a_permission_that_nobody_can_give_ends_with_exit_code_4() {
    let provider = calls(&["echo 1 > made.txt"]);
    let home = Home::with(&provider, "permissions.mode = \"ask\"");
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 4, "{err}");
    assert!(!home.work().join("made.txt").exists());
    // The next prompt of the session works.
    let (code, _, err) =
        home.run(&["exec", "--continue", "-c", "permissions.mode=\"bypass\"", "go"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn the_mode_deny_lets_the_model_go_on_without() {
    let provider = calls(&["echo 1 > made.txt"]);
    let home = Home::with(&provider, "permissions.mode = \"deny\"");
    let (code, out, _) = home.run(&["exec", "go"]);
    assert_eq!((code, out.as_str()), (0, "done\n"));
    assert!(!home.work().join("made.txt").exists());
    let last = provider.requests().pop().unwrap();
    assert!(messages(&last).last().unwrap()["content"].as_str().unwrap().contains("denied"));
}

#[test]
fn an_interrupt_ends_the_run_and_its_command() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let provider = calls(&["sleep 600"]);
        let home = Home::new(&provider);
        let (mut child, events) = start(&home, &["go"]);
        wait_for(&events, "tool_start");
        let pid = child.id().to_string();
        assert!(
            std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success()
        );
        assert_eq!(wait_for(&events, "tool_end")["data"]["status"], "canceled");
        assert_eq!(wait_for(&events, "run_end")["data"]["outcome"], "canceled");
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(home.processes(), Vec::<String>::new());
        let provider = says("here again");
        let url = format!("providers.test.base_url={:?}", provider.base_url());
        let (code, out, err) = home.run(&["exec", "--continue", "-c", &url, "and now?"]);
        assert_eq!((code, out.as_str()), (0, "here again\n"), "{err}");
    }
}

#[test]
fn a_killed_run_goes_on_and_its_command_is_reported_interrupted() {
    let provider = Provider::answering(|request| match results(request) {
        0 => Reply::Calls(vec![bash("first", "echo x >> count; read line < gate")]),
        _ => Reply::Text("checked".to_owned()),
    });
    let home = Home::new(&provider);
    fifo(&home, "gate");
    let (mut child, events) = start(&home, &["go"]);
    wait_for(&events, "tool_start");
    // The shell makes the file before `echo` writes to it.
    let count = home.work().join("count");
    until("it counts", || std::fs::read_to_string(&count).is_ok_and(|it| !it.is_empty()));
    child.kill().unwrap();
    child.wait().unwrap();
    let id = home.sessions().remove(0);
    let (code, out, err) = home.run(&["exec", &format!("--resume={}", &id[..20])]);
    assert_eq!((code, out.as_str()), (0, "checked\n"), "{err}");
    let request = provider.requests().pop().unwrap();
    let result = messages(&request).last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(result.contains("interrupted"), "{result}");
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
    // It is over now: going on once more prints the answer and asks no model.
    let before = provider.requests().len();
    let (code, out, _) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "checked\n"));
    assert_eq!(provider.requests().len(), before);
}

#[test]
fn a_look_at_a_job_that_a_crash_cut_off_is_taken_again() {
    let job = |arguments: Value| ("look".to_owned(), "job", arguments);
    let provider = Provider::answering(move |request| match results(request) {
        0 => Reply::Calls(vec![(
            "first".to_owned(),
            "bash",
            json!({ "command": "echo said; touch spoken; read line < gate", "background": true }),
        )]),
        1 => Reply::Calls(vec![job(json!({ "action": "output", "wait": 60 }))]),
        _ => Reply::Text("seen".to_owned()),
    });
    let home = Home::new(&provider);
    fifo(&home, "gate");
    let (mut child, events) = start(&home, &["go"]);
    while wait_for(&events, "tool_start")["data"]["name"] != "job" {}
    until("the job has spoken", || home.work().join("spoken").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, out, err) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "seen\n"), "{err}");
    let request = provider.requests().pop().unwrap();
    let result = messages(&request).last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(result.contains("said\n[j1: "), "{result}");
}

#[test]
fn a_steer_from_another_process_arrives_exactly_once() {
    let provider = Provider::answering(|request| match results(request) {
        0 => Reply::Calls(vec![bash("first", "read line < gate"), bash("second", "echo never")]),
        _ => Reply::Text("as you wish".to_owned()),
    });
    let home = Home::new(&provider);
    fifo(&home, "gate");
    let (mut child, events) = start(&home, &["go"]);
    wait_for(&events, "tool_start");
    let (code, ..) = home.run(&["sessions", "post", "--steer", &home.sessions()[0], "rather this"]);
    assert_eq!(code, 0);
    wait_for(&events, "queued");
    assert_eq!(wait_for(&events, "tool_end")["data"]["status"], "skipped");
    open_fifo(&home, "gate");
    wait_for(&events, "delivered");
    assert_eq!(wait_for(&events, "run_end")["data"]["outcome"], "done");
    assert!(child.wait().unwrap().success());
    let request = provider.requests().pop().unwrap();
    let said = messages(&request).iter().filter(|said| said.to_string().contains("rather this"));
    assert_eq!(said.count(), 1);
    let (_, out, _) = home.run(&["exec", "--continue", "more"]);
    assert_eq!(out, "as you wish\n");
    let request = provider.requests().pop().unwrap();
    let said = messages(&request).iter().filter(|said| said.to_string().contains("rather this"));
    assert_eq!(said.count(), 1);
}

#[test]
fn what_is_posted_to_a_session_at_rest_stays_a_draft() {
    let provider = says("ok");
    let home = Home::new(&provider);
    home.run(&["exec", "go"]);
    let id = home.sessions().remove(0);
    assert_eq!(home.run(&["sessions", "post", &id, "a thought"]).0, 0);
    let (code, ..) = home.run(&["exec", "--continue", "next"]);
    assert_eq!(code, 0);
    let request = provider.requests().pop().unwrap();
    assert!(!messages(&request).iter().any(|said| said.to_string().contains("a thought")));
    let (_, shown, _) = home.run(&["sessions", "show", &id]);
    assert!(shown.contains("posted: a thought"), "{shown}");
}

#[test]
fn a_second_writer_is_told_who_holds_the_session() {
    let provider = calls(&["read line < gate"]);
    let home = Home::new(&provider);
    fifo(&home, "gate");
    let (mut child, events) = start(&home, &["go"]);
    wait_for(&events, "tool_start");
    let (code, _, err) = home.run(&["exec", "--continue", "me too"]);
    assert_eq!(code, 1);
    assert!(err.contains(&format!("busy, held by pid {}", child.id())), "{err}");
    open_fifo(&home, "gate");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_fork_goes_its_own_way() {
    let provider = calls(&["echo 1"]);
    let home = Home::new(&provider);
    home.run(&["exec", "first task"]);
    let id = home.sessions().remove(0);
    let before = home.entries(&id);
    let (code, out, err) = home.run(&["exec", &format!("--fork={id}"), "second task"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert_eq!(home.entries(&id), before);
    let request = provider.requests().pop().unwrap().to_string();
    assert!(request.contains("first task") && request.contains("second task"), "{request}");
    let sessions = home.sessions();
    let fork = sessions.iter().find(|session| **session != id).unwrap();
    let created = &home.entries(fork)[0]["data"]["from"];
    assert_eq!(created["session"], json!(id));
    assert!(created["hash"].is_string());
    // What the first task cost is not paid twice.
    let end = home.entries(fork).pop().unwrap();
    assert_eq!(end["data"]["spent"]["usage"], json!({ "input": 100, "output": 10 }));
    assert_eq!(home.run(&["sessions", "verify"]).0, 0);
}

#[test]
fn a_session_goes_on_with_the_effort_of_its_model() {
    // The reply is longer than what of a log's end is looked at first.
    let provider = Provider::answering(|_| Reply::Text("long ".repeat(100_000)));
    let home = Home::new(&provider);
    let go = |arguments: &[&str]| {
        let (code, _, err) = home.run(&[&["exec"], arguments, &["go"]].concat());
        assert_eq!(code, 0, "{err}");
        let request = provider.requests().pop().unwrap();
        (request["model"].clone(), request["reasoning_effort"].clone())
    };
    assert_eq!(go(&["-m", "test/big:high"]), (json!("big"), json!("high")));
    let id = home.sessions().remove(0);
    assert_eq!(go(&["--continue"]), (json!("big"), json!("high")));
    assert_eq!(go(&[&format!("--resume={id}")]), (json!("big"), json!("high")));
    assert_eq!(go(&[&format!("--fork={id}")]), (json!("big"), json!("high")));
    // What a flag says holds, and from then on.
    let resume = format!("--resume={id}");
    assert_eq!(go(&[&resume, "-m", "test/small"]), (json!("small"), Value::Null));
    assert_eq!(go(&[&resume]), (json!("small"), Value::Null));
}

#[test]
fn a_torn_line_is_repaired_and_an_altered_one_is_reported() {
    let provider = says("ok");
    let home = Home::new(&provider);
    home.run(&["exec", "go"]);
    let id = home.sessions().remove(0);
    let day = std::fs::read_dir(home.path("home/data/sessions")).unwrap().next().unwrap();
    let log = day.unwrap().path().join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(&log).unwrap();
    // Without its last newline the end of the run never happened.
    std::fs::write(&log, text.trim_end()).unwrap();
    let (code, out, err) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "ok\n"), "{err}");
    assert_eq!(provider.requests().len(), 1, "the answer was in the log");
    std::fs::write(&log, text.replacen("\"go\"", "\"stop\"", 1)).unwrap();
    let (code, out, _) = home.run(&["sessions", "verify"]);
    assert_eq!(code, 1);
    assert!(out.contains("CORRUPT line 1"), "{out}");
    let (code, _, err) = home.run(&["exec", &format!("--resume={id}"), "more"]);
    assert_eq!(code, 1);
    assert!(err.contains("corrupt") && err.contains(&id), "{err}");
}

#[test]
fn wrong_usage_is_one_clear_line_and_exit_code_2() {
    let provider = says("ok");
    let home = Home::new(&provider);
    for (arguments, says) in [
        (&["exec", "-m", "nope/x", "go"][..], "unknown provider \"nope\""),
        (&["exec", "-m", "nope", "go"], "provider/model"),
        (&["exec", "-c", "limts.x=1", "go"], "did you mean \"limits\""),
        (&["exec", "-c", "limits.run_time=\"soon\"", "go"], "no length of time"),
        (&["exec", ""], "the task is empty"),
        (&["exec", "--resume=ffff", "go"], "ffff"),
        (&["exec", "--continue", "go"], "no session"),
        (&["exec", "-C", "nowhere", "go"], "nowhere"),
        (&["exec", "--timeout", "soon", "go"], "no length of time"),
        (&["sessions", "show", "ffff"], "ffff"),
        (&["nonsense"], "nonsense"),
    ] {
        let (code, out, err) = home.run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    std::fs::write(home.path("home/config/config.toml"), "model = \"a/b\"\n\nmodle = 1\n").unwrap();
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 2);
    assert!(err.contains("config.toml: line 3") && err.contains("\"model\""), "{err}");
    assert_eq!(provider.requests().len(), 0);
}

#[test]
fn the_provider_key_reaches_the_provider_and_no_command() {
    // The key is in the environment of bowline itself, which a command of the same user can read.
    let hunts = "env; for p in /proc/*; do cat $p/environ; done 2>/dev/null | tr '\\0' '\\n'; cat \"$HOME/key\"";
    let provider = Provider::answering(move |request| match results(request) {
        0 => Reply::Calls(vec![bash("call", hunts)]),
        1 => Reply::Calls(vec![("read".to_owned(), "read", json!({ "path": "../key" }))]),
        _ => Reply::Text("done".to_owned()),
    });
    let home = Home::new(&provider);
    std::fs::write(home.path("key"), "the key is sk-very-secret, keep it\n").unwrap();
    let config = std::fs::read_to_string(home.path("home/config/config.toml")).unwrap();
    let config = format!("{config}api_key_env = \"TEST_KEY\"\n");
    std::fs::write(home.path("home/config/config.toml"), config).unwrap();
    let mut command = home.bowline();
    let output = command.args(["exec", "--json", "go"]).env("TEST_KEY", "sk-very-secret").output();
    let output = output.unwrap();
    assert!(output.status.success());
    let request = provider.requests().pop().unwrap().to_string();
    assert!(request.contains("PATH="), "the command ran: {request}");
    assert!(request.matches("the key is [secret TEST_KEY], keep it").count() == 2, "{request}");
    assert!(!request.contains("sk-very-secret"));
    let log = serde_json::to_string(&home.entries(&home.sessions()[0])).unwrap();
    assert!(!log.contains("sk-very-secret"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("sk-very-secret"));
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let provider = calls(&["echo 1", "echo 2"]);
    let home = Home::new(&provider);
    let mut command = home.bowline();
    command.args(["exec", "--json", "go"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(home.entries(&home.sessions()[0]).pop().unwrap()["data"]["outcome"], "done");
}

#[test]
fn sessions_are_listed_and_deleted() {
    let provider = says("ok");
    let home = Home::new(&provider);
    home.run(&["exec", "the first task"]);
    home.run(&["exec", "the second task"]);
    let (code, out, _) = home.run(&["sessions", "list"]);
    assert_eq!(code, 0);
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].contains("the second task") && lines[1].contains("the first task"), "{out}");
    let ids = home.sessions();
    let (code, ..) = home.run(&["sessions", "delete", &ids[0]]);
    assert_eq!(code, 0);
    assert_eq!(home.sessions(), ids[1..]);
    let (code, _, err) = home.run(&["sessions", "delete", &ids[0]]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn the_demonstration_does_its_task_for_real() {
    let provider = says("never asked");
    let home = Home::new(&provider);
    let mut command = home.bowline();
    let output = command.arg("demo").env("TMPDIR", home.path("home")).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{out}");
    assert!(out.contains("The model of this demonstration is a script"), "{out}");
    assert!(out.contains("FAILED: 5 is not 7") && out.contains("ok: the average is 7"), "{out}");
    assert!(out.contains("every hash fits"), "{out}");
    assert_eq!(home.run(&["demo", "delegate"]).0, 2);
}

#[test]
fn a_demonstration_of_which_a_model_does_nothing_has_failed() {
    let demonstrate = |provider: &Provider| {
        let home = Home::new(provider);
        let mut command = home.bowline();
        let command = command.args(["demo", "-m", "test/model"]);
        let output = command.env("TMPDIR", home.path("home")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = demonstrate(&says("It passes."));
    assert!(out.contains("0 of 1 tasks done"), "{out}");
    assert_eq!(code, Some(1));
    let (code, out) = demonstrate(&calls(&["sed -i s/count=1/count=0/ average.sh"]));
    assert!(out.contains("1 of 1 tasks done"), "{out}");
    assert_eq!(code, Some(0));
    let refused = Provider::answering(|_| Reply::Status(401, "{}".to_owned()));
    assert_eq!(demonstrate(&refused).0, Some(5));
}

#[test]
#[cfg(not(feature = "local"))]
fn a_build_without_models_of_its_own_says_how_to_get_them() {
    let provider = says("never asked");
    let home = Home::new(&provider);
    for (arguments, expected) in
        [(&["model", "pull"][..], 1), (&["exec", "-m", "local/small", "Hello"], 2)]
    {
        let (code, _, err) = home.run(arguments);
        assert_eq!(code, expected, "{err}");
        assert!(err.contains("--features local"), "{err}");
    }
}
