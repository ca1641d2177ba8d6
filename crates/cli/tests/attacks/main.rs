//! What strangers try: hostile pages, output, repositories and commands, against the command itself.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod commands;
mod fetch;
mod floods;
mod names;
mod repository;
mod roles;
mod secrets;
mod shown;
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use support::{Home, Provider, Reply, messages, results};

/// A provider that makes one call after the other, and then says `done`.
fn calls(calls: Vec<(&'static str, Value)>) -> Provider {
    Provider::answering(move |request| {
        let made = results(request);
        match calls.get(made) {
            Some((name, arguments)) => {
                Reply::Calls(vec![(format!("call-{made}"), *name, arguments.clone())])
            }
            None => Reply::Text("done".to_owned()),
        }
    })
}

/// Runs a task, and returns what each call came to, as the model was told.
fn told(home: &Home, provider: &Provider, arguments: &[&str]) -> Vec<String> {
    let arguments = [&["exec"], arguments, &["go"]].concat();
    let (code, _, err) = home.run(&arguments);
    assert_eq!(code, 0, "{err}");
    let request = provider.requests().pop().unwrap();
    let results = messages(&request).iter().filter(|message| message["role"] == "tool");
    results.map(|result| result["content"].as_str().unwrap().to_owned()).collect()
}
