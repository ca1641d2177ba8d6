//! The answer as programs want it: in a file, and in a shape.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;
use serde_json::Value;
use support::{Home, Provider, Reply, messages};

const SCHEMA: &str =
    r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}"#;

/// A provider that gives one answer after the other, the last again and again.
fn says(answers: &'static [&'static str]) -> Provider {
    Provider::answering(move |request| {
        let said = messages(request).iter().filter(|message| message["role"] == "assistant");
        let answer = answers.get(said.count()).or(answers.last()).unwrap();
        Reply::Text((*answer).to_owned())
    })
}

fn with_schema(provider: &Provider) -> Home {
    let home = Home::new(provider);
    std::fs::write(home.work().join("schema.json"), SCHEMA).unwrap();
    home
}

fn last_user_text(request: &Value) -> String {
    let user = messages(request).iter().rfind(|message| message["role"] == "user");
    user.unwrap()["content"].to_string()
}

#[test]
fn the_last_message_goes_to_a_file() {
    let provider = says(&["the answer"]);
    let home = Home::new(&provider);
    let file = home.work().join("answer.txt");
    let (code, out, _) = home.run(&["exec", "-o", "answer.txt", "hello"]);
    assert_eq!((code, out.as_str()), (0, "the answer\n"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "the answer");
    std::fs::remove_file(&file).unwrap();
    let (code, out, _) = home.run(&["exec", "--json", "--output", "answer.txt", "hello"]);
    assert_eq!(code, 0);
    assert!(out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "the answer");
}

#[test]
fn a_file_that_cannot_be_there_is_refused_before_anything_is_spent() {
    let provider = says(&["the answer"]);
    let home = Home::new(&provider);
    for (file, what) in [("nowhere/a.txt", "does not exist"), (".", "is a directory")] {
        let (code, _, err) = home.run(&["exec", "-o", file, "hello"]);
        assert_eq!(code, 2);
        assert!(err.contains(file) && err.contains(what), "{err}");
    }
    assert!(provider.requests().is_empty());
}

#[test]
fn an_answer_that_fits_is_printed_as_json() {
    let provider = says(&["```json\n{\"n\": 1}\n```"]);
    let home = with_schema(&provider);
    let arguments = ["exec", "--output-schema", "schema.json", "-o", "out.json", "count"];
    let (code, out, err) = home.run(&arguments);
    assert_eq!((code, out.as_str()), (0, "{\"n\": 1}\n"), "{err}");
    assert_eq!(std::fs::read_to_string(home.work().join("out.json")).unwrap(), "{\"n\": 1}");
    let requests = provider.requests();
    assert_eq!(requests.len(), 1);
    let asked = last_user_text(&requests[0]);
    assert!(asked.contains("count") && asked.contains("\\\"required\\\":[\\\"n\\\"]"), "{asked}");
}

#[test]
fn an_answer_that_does_not_fit_may_be_corrected_once() {
    let provider = says(&["{\"n\": \"one\"}", "{\"n\": 1}"]);
    let home = with_schema(&provider);
    let (code, out, err) = home.run(&["exec", "--output-schema", "schema.json", "count"]);
    assert_eq!((code, out.as_str()), (0, "{\"n\": 1}\n"), "{err}");
    let requests = provider.requests();
    assert_eq!(requests.len(), 2);
    let told = last_user_text(&requests[1]);
    assert!(told.contains("/n") && told.contains("is not of type"), "{told}");
    assert_eq!(home.sessions().len(), 1);
}

#[test]
fn an_answer_that_never_fits_is_exit_code_8() {
    let provider = says(&["Done!"]);
    let home = with_schema(&provider);
    let arguments = ["exec", "--output-schema", "schema.json", "-o", "out.txt", "count"];
    let (code, out, err) = home.run(&arguments);
    assert_eq!((code, out.as_str()), (8, ""));
    assert_eq!(provider.requests().len(), 2);
    let session = &home.sessions()[0];
    let last = err.lines().last().unwrap();
    assert!(last.contains("does not fit the schema: the answer is no JSON"), "{err}");
    assert!(last.contains(session.as_str()), "{err}");
    // Nothing is lost: what the model said is in the file.
    assert_eq!(std::fs::read_to_string(home.work().join("out.txt")).unwrap(), "Done!");
    // Asking for the last answer again costs nothing.
    let resume = format!("--resume={session}");
    assert_eq!(home.run(&["exec", "--output-schema", "schema.json", &resume]).0, 8);
    assert_eq!(provider.requests().len(), 2);
}

#[test]
fn the_repair_is_part_of_the_run() {
    let provider = says(&["Done!"]);
    let home = with_schema(&provider);
    let (code, out, _) = home.run(&["exec", "--json", "--output-schema", "schema.json", "count"]);
    assert_eq!(code, 8);
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert_eq!((of("run_start").len(), of("turn_end").len()), (1, 2));
    let end = &of("run_end")[0]["data"];
    assert_eq!(
        (&end["outcome"], &end["error"]["kind"]),
        (&"error".into(), &"output_invalid".into())
    );
    let (_, _, err) = home.run(&["exec", "--output-schema", "schema.json", "count"]);
    assert!(err.contains("! the answer does not fit the schema"), "{err}");
}

#[test]
fn a_run_that_is_open_goes_on_with_its_schema() {
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let provider = Provider::answering(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        match answered.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Calls(vec![(
                "call_1".to_owned(),
                "bash",
                serde_json::json!({ "command": "read line < gate" }),
            )]),
            1 => Reply::Text("Done!".to_owned()),
            _ => Reply::Text("{\"n\": 1}".to_owned()),
        }
    });
    let home = with_schema(&provider);
    let gate = home.work().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut command = home.bowline();
    command.args(["exec", "--json", "--output-schema", "schema.json", "count"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    lines.find(|line| line.as_ref().unwrap().contains("\"tool_start\""));
    child.kill().unwrap();
    child.wait().unwrap();
    // The flag is not said again.
    let (code, out, err) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "{\"n\": 1}\n"), "{err}");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[test]
fn what_is_no_schema_is_refused_before_anything_is_spent() {
    let provider = says(&["{}"]);
    let home = Home::new(&provider);
    std::fs::write(home.work().join("schema.json"), r#"{"type": "thing"}"#).unwrap();
    for file in ["schema.json", "nowhere.json"] {
        let (code, _, err) = home.run(&["exec", "--output-schema", file, "count"]);
        assert_eq!(code, 2);
        assert!(err.contains("--output-schema") && err.contains(file), "{err}");
    }
    assert!(provider.requests().is_empty());
}
