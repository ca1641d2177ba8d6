//! `--output-format`, as programs that were written for other agents see it.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::process::Stdio;

use bowline::server::dialect::Dialect;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, results, until};

/// A provider that lets a command run, looks at a file that is not there, and says that it is done.
fn provider() -> Provider {
    Provider::answering(|request| match results(request) {
        0 => Reply::Calls(vec![
            ("one".to_owned(), "bash", json!({ "command": "echo hello; exit 3" })),
            ("two".to_owned(), "read", json!({ "path": "absent" })),
        ]),
        _ => Reply::Text("Said and done.".to_owned()),
    })
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

#[test]
fn who_reads_codex_reads_us() {
    let provider = provider();
    let home = Home::new(&provider);
    let (code, out, error) = home.run(&["exec", "--output-format", "codex", "go"]);
    assert_eq!(code, 0, "{error}");
    let told = lines(&out);
    let started = ["thread.started", "turn.started"];
    assert_eq!(types(&told)[..2], started);
    let thread = told[0]["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(home.sessions(), [thread.as_str()]);
    let command = json!({ "type": "item.completed", "item": {
        "id": "item_0", "type": "command_execution", "command": "echo hello; exit 3",
        "aggregated_output": "hello\n[exit code 3]", "exit_code": 3, "status": "failed",
    } });
    assert!(told.contains(&command), "{out}");
    let end = json!({ "type": "turn.completed", "usage": {
        "input_tokens": 200, "cached_input_tokens": 0, "cache_write_input_tokens": 0,
        "output_tokens": 20, "reasoning_output_tokens": 0,
    } });
    assert_eq!(told.last(), Some(&end));
    let answer = &told[told.len() - 2]["item"];
    assert_eq!(
        (&answer["type"], &answer["text"]),
        (&json!("agent_message"), &json!("Said and done."))
    );

    // Their ids are good for going on.
    let (code, out, _) =
        home.run(&["exec", "--output-format", "codex", &format!("--resume={thread}"), "more"]);
    assert_eq!((code, &lines(&out)[0]["thread_id"]), (0, &json!(thread)));
}

#[test]
fn who_reads_claude_reads_us() {
    let provider = provider();
    let home = Home::new(&provider);
    let (code, out, error) = home.run(&["exec", "--output-format", "stream-json", "go"]);
    assert_eq!(code, 0, "{error}");
    let told = lines(&out);
    assert_eq!(
        types(&told),
        ["system", "assistant", "assistant", "user", "user", "assistant", "result"]
    );
    let (init, result) = (&told[0], &told[6]);
    assert_eq!(init["subtype"], "init");
    assert_eq!(init["cwd"], home.work().to_str().unwrap());
    assert!(init["tools"].as_array().unwrap().contains(&json!("bash")));
    assert_eq!(init["session_id"], home.sessions()[0]);
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
    assert_eq!((&result["num_turns"], &result["result"]), (&json!(2), &json!("Said and done.")));
    assert_eq!(result["usage"]["input_tokens"], 200);
    // Nobody knows the price.
    assert_eq!(result["total_cost_usd"], Value::Null);

    // `json` is the result alone, of a run that is over too.
    let (code, out, _) = home.run(&["exec", "--continue", "--output-format", "json"]);
    assert_eq!((code, lines(&out)), (0, vec![result.clone()]));
    let price = "providers.test.models.model.price={input=1.0,output=10.0}";
    let (_, out, _) = home.run(&["exec", "--output-format", "json", "-c", price, "go"]);
    assert_eq!(lines(&out)[0]["total_cost_usd"], json!(0.0004));
}

// F119
#[test]
fn the_log_says_what_was_said_live() {
    let only_live = ["tool_output", "retry"];
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Bowline) {
        let provider = provider();
        let home = Home::new(&provider);
        let (code, live, error) = home.run(&["exec", "--output-format", dialect.name(), "go"]);
        assert_eq!(code, 0, "{error}");
        let id = &home.sessions()[0];
        let (code, shown, _) =
            home.run(&["sessions", "show", "--output-format", dialect.name(), id]);
        assert_eq!(code, 0);
        let is_kept = |line: &Value| {
            let kind = line["type"].as_str().or(line["Type"].as_str()).unwrap_or_default();
            !only_live.contains(&kind)
        };
        let live: Vec<_> = lines(&live).into_iter().filter(is_kept).collect();
        assert_eq!(live, lines(&shown), "{dialect}");
    }
}

#[test]
fn our_own_events_are_a_format_too() {
    let provider = provider();
    let home = Home::new(&provider);
    home.run(&["exec", "go"]);
    let id = &home.sessions()[0];
    let (_, json, _) = home.run(&["sessions", "show", "--json", id]);
    let (_, named, _) = home.run(&["sessions", "show", "--output-format", "bowline", id]);
    assert_eq!(named, json);
    let (_, text, _) = home.run(&["sessions", "show", "--output-format", "text", id]);
    assert!(text.starts_with("user: go\n"), "{text}");
}

#[test]
fn a_failure_is_told_and_the_exit_code_stays() {
    for (name, subtype) in [("codex", Value::Null), ("claude", json!("error_during_execution"))] {
        let provider = Provider::answering(|_| Reply::Status(401, "{}".to_owned()));
        let home = Home::new(&provider);
        let (code, out, error) = home.run(&["exec", "--output-format", name, "go"]);
        assert_eq!(code, 5, "{error}");
        assert!(error.contains("bowline: "), "{error}");
        let told = lines(&out);
        let last = told.last().unwrap();
        assert!(["turn.failed", "result"].contains(&last["type"].as_str().unwrap()));
        assert_eq!(last["subtype"], subtype);
    }
    let provider = Provider::answering(|request| {
        let call = format!("call_{}", results(request));
        Reply::Calls(vec![(call, "bash", json!({ "command": "true" }))])
    });
    let home = Home::new(&provider);
    let arguments = ["exec", "--output-format", "json", "--max-turns", "1", "go on"];
    let (code, out, _) = home.run(&arguments);
    assert_eq!((code, &lines(&out)[0]["subtype"]), (3, &json!("error_max_turns")));
}

#[test]
fn a_wrong_format_is_refused_with_the_names_of_all() {
    let provider = provider();
    let home = Home::new(&provider);
    let (code, out, error) = home.run(&["exec", "--output-format", "xml", "go"]);
    assert_eq!((code, out.as_str()), (2, ""));
    for name in ["text", "json", "stream-json"] {
        assert!(error.contains(name), "{error}");
    }
    for dialect in Dialect::ALL {
        assert!(error.contains(dialect.name()), "{error}");
    }
    let both = ["exec", "--json", "--output-format", "codex", "go"];
    assert_eq!(home.run(&both).0, 2);
    let (code, _, error) =
        home.run(&["exec", "--output-format", "codex", "--events", "full", "go"]);
    assert_eq!(code, 2);
    assert!(error.contains("--events"), "{error}");
    assert_eq!(provider.requests().len(), 0);
}

#[test]
fn the_book_has_every_format() {
    let book = include_str!("../../../docs/dialects.md");
    for dialect in Dialect::ALL {
        assert!(book.contains(&format!("\n| `{dialect}`")), "{dialect}");
    }
    for (section, _) in book.split("\n## ").skip(2).map(|text| text.split_once('\n').unwrap()) {
        assert!(section.parse::<Dialect>().is_ok(), "{section}");
    }
}

#[test]
fn an_open_run_is_told_from_its_beginning() {
    let provider = Provider::answering(|request| match results(request) {
        0 => {
            let command = "touch begun; read line < gate";
            Reply::Calls(vec![("first".to_owned(), "bash", json!({ "command": command }))])
        }
        _ => Reply::Text("checked".to_owned()),
    });
    let home = Home::new(&provider);
    let gate = std::process::Command::new("mkfifo").arg(home.work().join("gate")).status();
    assert!(gate.unwrap().success());
    let mut child = home.bowline().args(["exec", "go"]).stderr(Stdio::null()).spawn().unwrap();
    until("the command is at work", || home.work().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, out, error) = home.run(&["exec", "--continue", "--output-format", "codex"]);
    assert_eq!(code, 0, "{error}");
    let told = lines(&out);
    assert_eq!(
        types(&told),
        [
            "thread.started",
            "turn.started",
            "item.started",
            "item.completed",
            "item.completed",
            "turn.completed"
        ]
    );
    let (_, shown, _) =
        home.run(&["sessions", "show", "--output-format", "codex", &home.sessions()[0]]);
    assert_eq!(told, lines(&shown));
}

#[test]
fn what_the_agent_sends_the_user_is_what_is_told() {
    let provider = Provider::answering(|request| match results(request) {
        0 => Reply::Calls(vec![("one".to_owned(), "message", json!({ "text": "Hello." }))]),
        _ => Reply::Text("An aside.".to_owned()),
    });
    let home = Home::with(&provider, "agents.default.output = \"message_tool\"");
    let (code, out, error) = home.run(&["exec", "--output-format", "pingu", "go"]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(types(&lines(&out)), ["tool_call", "token", "tool_result", "done"]);
    assert_eq!(lines(&out)[1]["data"], "Hello.");
    let (_, out, _) = home.run(&["exec", "--output-format", "json", "again"]);
    assert_eq!(lines(&out)[0]["result"], "Hello.");
}
