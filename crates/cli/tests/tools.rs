//! Tools of the configuration, as a model and as the user meet them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, results};

const GREET: &str = r#"
[tools.greet]
description = "Greets somebody."
script = 'echo "$HELLO, $ARG_name"'
env = { HELLO = "${GREETING}" }
parameters = { type = "object", required = ["name"], properties = { name = { type = "string" } } }
"#;

#[test]
fn a_configured_tool_is_offered_and_run() {
    let provider = Provider::answering(|request| match results(request) {
        0 => Reply::Calls(vec![("a".to_owned(), "greet", json!({ "name": 1 }))]),
        1 => Reply::Calls(vec![("b".to_owned(), "greet", json!({ "name": "$(whoami) \"you\"" }))]),
        _ => Reply::Text("done".to_owned()),
    });
    let home = Home::with(&provider, GREET);
    let mut command = home.bowline();
    let output = command.args(["exec", "go"]).env("GREETING", "good-morning").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let requests = provider.requests();
    let offered = requests[0]["tools"].as_array().unwrap();
    let greet = offered.iter().find(|tool| tool["function"]["name"] == "greet").unwrap();
    assert_eq!(greet["function"]["description"], "Greets somebody.");
    let said = messages(requests.last().unwrap());
    let told: Vec<&Value> =
        said.iter().filter(|message| message["role"] == "tool").map(|m| &m["content"]).collect();
    let wrong = told[0].as_str().unwrap();
    assert!(wrong.contains("the arguments do not fit: /name: 1 is not of type"), "{wrong}");
    // What is no secret by its name is no secret.
    assert_eq!(told[1], "good-morning, $(whoami) \"you\"\n");
}

#[test]
fn a_tool_that_cannot_be_made_is_told_in_one_line() {
    let provider = Provider::answering(|_| Reply::Text("never".to_owned()));
    let home = Home::with(&provider, "[tools.bash]\ncommand = ['true']\n");
    let (code, _, stderr) = home.run(&["exec", "go"]);
    assert_eq!((code, provider.requests().len()), (2, 0));
    assert!(stderr.contains("line 2: tools.bash: there is a tool of this name"), "{stderr}");
}
