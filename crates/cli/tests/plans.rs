//! Plans, as the command makes them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::Value;
use support::{Home, Provider, Reply, messages, results};

const PLAN: &str = r#"{"steps":[
    {"tool":"write","args":{"path":"a.txt","content":"one"}},
    {"tool":"bash","args":{"command":"cat a.txt"}}]}"#;

fn planner() -> Provider {
    Provider::answering(|request| {
        let last = messages(request).last().unwrap();
        let is_asked = last.to_string().contains("Do not call tools now");
        match results(request) {
            0 if is_asked => Reply::Text(format!("Here it is:\n```json\n{PLAN}\n```")),
            n => Reply::Text(format!("It is written, {n} results.")),
        }
    })
}

#[test]
fn a_plan_is_carried_out_with_two_requests() {
    let provider = planner();
    let mode = "[agents.default]\norchestrator = \"plan_execute\"\nplan = { replan = \"off\" }\n";
    let home = Home::with(&provider, mode);
    let (code, out, err) = home.run(&["exec", "write it"]);
    assert_eq!((code, out.as_str()), (0, "It is written, 2 results.\n"), "{err}");
    assert!(err.contains("* plan: write, bash") && !err.contains("no effect"), "{err}");
    assert_eq!(std::fs::read_to_string(home.work().join("a.txt")).unwrap(), "one");
    let requests = provider.requests();
    assert_eq!(requests.len(), 2);
    // What both begin with is the same, and the same tools are there.
    let (first, second) = (messages(&requests[0]), messages(&requests[1]));
    assert_eq!((&first[..2], &requests[0]["tools"]), (&second[..2], &requests[1]["tools"]));
    let kinds = home.entries(&home.sessions()[0]);
    let kinds: Vec<&str> = kinds.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "step_taken").count(), 2);
}

#[test]
fn the_events_of_a_plan_are_those_that_its_log_tells() {
    let provider = planner();
    let home = Home::new(&provider);
    let set = ["exec", "--json", "-c", "agents.default.orchestrator=plan_execute", "write it"];
    let (code, live, err) = home.run(&set);
    assert_eq!(code, 0, "{err}");
    let (_, late, _) = home.run(&["sessions", "show", "--json", &home.sessions()[0]]);
    let of_plan = |lines: &str| -> Vec<Value> {
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_of_plan = |event: &Value| event["type"].as_str().unwrap().starts_with("plan_");
        events.filter(is_of_plan).map(|event| event["data"].clone()).collect()
    };
    assert_eq!(of_plan(&live).len(), 5);
    assert_eq!(of_plan(&live), of_plan(&late));
}

#[test]
fn an_orchestrator_that_there_is_not_is_refused_with_the_nearest_name() {
    let provider = planner();
    let home = Home::new(&provider);
    let set = ["exec", "-c", "agents.default.orchestrator=plan-execute", "go"];
    let (code, out, err) = home.run(&set);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("did you mean \"plan_execute\"?"), "{err}");
}

#[test]
fn the_demonstration_plans_and_plans_anew_when_a_step_fails() {
    let provider = planner();
    let home = Home::new(&provider);
    let mut command = home.bowline();
    let command = command.args(["demo", "plan-execute"]).env("TMPDIR", home.path("home"));
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{out}");
    let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("{text:?} is not in {out}"));
    assert!(at("* a plan of 3 steps") < at("does not occur"), "{out}");
    assert!(at("does not occur") < at("* a plan of 2 steps"), "{out}");
    assert!(at("* a plan of 2 steps") < at("ok: the average is 7"), "{out}");
    assert!(out.contains("done: 3 model calls; checked: it is done"), "{out}");
}
