//! The output mode `message_tool`, in which the user hears what the model sends on purpose.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, results};

const MODE: &str = "[agents.default]\noutput = \"message_tool\"\n";

/// One reply of the script.
#[derive(Clone, Copy)]
enum Step {
    /// Tells the user something.
    Tell(&'static str),
    /// Runs a command.
    Run(&'static str),
}

fn call(step: Step, number: usize) -> Reply {
    let (name, arguments) = match step {
        Step::Tell(text) => ("message", json!({ "text": text })),
        Step::Run(command) => ("bash", json!({ "command": command })),
    };
    Reply::Calls(vec![(format!("call_{number}"), name, arguments)])
}

/// A provider that does these steps, one reply each, and then says a text.
fn steps(steps: &'static [Step], text: &'static str) -> Provider {
    Provider::answering(move |request| match steps.get(results(request)) {
        Some(step) => call(*step, results(request)),
        None => Reply::Text(text.to_owned()),
    })
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn system(request: &Value) -> &str {
    let system = &messages(request)[0];
    assert_eq!(system["role"], "system");
    system["content"].as_str().unwrap()
}

#[test]
fn what_the_model_sends_is_the_answer_and_its_text_is_not() {
    let provider =
        steps(&[Step::Tell("I begin."), Step::Run("echo 1"), Step::Tell("It is 1.\n")], "so long");
    let home = Home::with(&provider, MODE);
    let (code, out, err) = home.run(&["exec", "-o", "answer.txt", "go"]);
    assert_eq!((code, out.as_str()), (0, "I begin.\nIt is 1.\n"), "{err}");
    assert!(err.contains("so long"), "{err}");
    assert!(!err.contains("no effect"), "{err}");
    let file = std::fs::read_to_string(home.work().join("answer.txt")).unwrap();
    assert_eq!(file, "I begin.\nIt is 1.");
    // Asked again, the session says the same without a model.
    let asked = provider.requests().len();
    let (code, out, err) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "I begin.\nIt is 1.\n"), "{err}");
    assert_eq!(provider.requests().len(), asked);
}

#[test]
fn a_run_that_sent_something_needs_no_text() {
    let provider = steps(&[Step::Tell("That is all.")], "");
    let home = Home::with(&provider, MODE);
    let (code, out, err) = home.run(&["exec", "go"]);
    assert_eq!((code, out.as_str()), (0, "That is all.\n"), "{err}");
    // Programs get events, of which the message is one.
    let (code, out, _) = home.run(&["exec", "--json", "go"]);
    assert_eq!(code, 0);
    let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<_> = events.filter(|event| event["type"] == "custom").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["data"], json!({ "name": "message", "data": { "text": "That is all." } }));
}

#[test]
fn the_text_is_the_answer_if_nothing_was_sent() {
    let provider = steps(&[Step::Run("echo 1")], "I forgot the tool");
    let home = Home::with(&provider, MODE);
    let (code, out, err) = home.run(&["exec", "go"]);
    assert_eq!((code, out.as_str()), (0, "I forgot the tool\n"), "{err}");
    let provider = steps(&[], "");
    let home = Home::with(&provider, MODE);
    let (code, out, err) = home.run(&["exec", "go"]);
    assert_eq!((code, out.trim()), (1, ""), "{err}");
    assert!(err.contains("without an answer"), "{err}");
}

#[test]
fn the_tool_and_its_instructions_are_there_in_this_mode_only() {
    let provider = steps(&[], "ok");
    let home = Home::new(&provider);
    for arguments in [
        &["exec", "go"][..],
        &["exec", "-c", "agents.default.output=message_tool", "go"],
        &[
            "exec",
            "-c",
            "agents.default.output=message_tool",
            "-c",
            "agents.default.instructions=Be a pirate.",
            "go",
        ],
        &["exec", "-c", "agents.default.instructions=Be a pirate.", "go"],
    ] {
        let (code, _, err) = home.run(arguments);
        assert_eq!(code, 0, "{err}");
    }
    let requests = provider.requests();
    let has_tool: Vec<_> =
        requests.iter().map(|request| tools(request).contains(&"message")).collect();
    assert_eq!(has_tool, [false, true, true, false]);
    let systems: Vec<_> = requests.iter().map(system).collect();
    assert!(!systems[0].contains("`message`"), "{}", systems[0]);
    assert!(systems[1].contains("only with the tool `message`"), "{}", systems[1]);
    assert!(!systems[1].contains("sees your answer"), "{}", systems[1]);
    let own = "\n<instructions>\nBe a pirate.\n</instructions>\n";
    let (before, after) = systems[0].split_at(systems[0].find("\n<behavioral").unwrap());
    assert_eq!(systems[3], format!("{before}{own}{}", after.trim_start()));
    let (before, after) = systems[1].split_at(systems[1].find("\n<behavioral").unwrap());
    assert_eq!(systems[2], format!("{before}{own}{}", after.trim_start()));
}

#[test]
fn what_was_sent_before_a_crash_is_part_of_the_answer() {
    let provider =
        steps(&[Step::Tell("I begin."), Step::Run("read line < gate"), Step::Tell("Here.")], "");
    let home = Home::with(&provider, MODE);
    let gate = home.work().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut command = home.bowline();
    command.args(["exec", "--json", "go"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    lines.find(|line| {
        let line = line.as_ref().unwrap();
        line.contains("\"tool_start\"") && line.contains("\"bash\"")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, out, err) = home.run(&["exec", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "I begin.\nHere.\n"), "{err}");
}

#[test]
fn at_a_limit_the_summary_is_told_too() {
    let provider = Provider::answering(|request| {
        let last = messages(request).last().unwrap();
        if last["role"] == "user" && last["content"].to_string().contains("limit") {
            return Reply::Text("half of it".to_owned());
        }
        call(Step::Tell("I begin."), results(request))
    });
    let home = Home::with(&provider, MODE);
    let (code, out, err) = home.run(&["exec", "--max-turns", "1", "go"]);
    assert_eq!((code, out.as_str()), (3, "I begin.\nhalf of it\n"), "{err}");
}

#[test]
fn with_a_schema_the_last_message_must_fit() {
    let provider = steps(&[Step::Tell("I count."), Step::Tell("{\"n\": 1}")], "");
    let home = Home::with(&provider, MODE);
    let schema = r#"{"type": "object", "required": ["n"]}"#;
    std::fs::write(home.work().join("schema.json"), schema).unwrap();
    let (code, out, err) = home.run(&["exec", "--output-schema", "schema.json", "go"]);
    assert_eq!((code, out.as_str()), (0, "{\"n\": 1}\n"), "{err}");
}

#[test]
fn a_wrong_key_or_value_is_named_with_the_nearest() {
    let provider = steps(&[], "ok");
    let home = Home::new(&provider);
    for (setting, says) in [
        ("agents.default.outptu=text", "did you mean \"output\"?"),
        ("agents.default.output=messages", "\"messages\" is none of text, message_tool"),
    ] {
        let (code, _, err) = home.run(&["exec", "-c", setting, "go"]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(says), "{err}");
    }
    assert_eq!(provider.requests().len(), 0);
}
