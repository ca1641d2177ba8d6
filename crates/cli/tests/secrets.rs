//! The keys of providers: they reach whom they are for, and nobody else.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Home, Provider, Reply, messages, results};

const KEY: &str = "sk-very-secret";

/// A provider that runs a command and then says `done`.
fn runs(command: &'static str) -> Provider {
    Provider::answering(move |request| match results(request) {
        0 => Reply::Calls(vec![("call".to_owned(), "bash", json!({ "command": command }))]),
        _ => Reply::Text("done".to_owned()),
    })
}

/// Adds lines to the provider's section of the configuration, which is the last.
fn configure(home: &Home, lines: &str) {
    let path = home.path("home/config/config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}{lines}\n")).unwrap();
}

/// Writes a file that is its owner's alone.
fn write_key(home: &Home, name: &str) {
    let file = home.path(name);
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Runs a task and returns what the model was told, after looking that the key is nowhere.
fn told(home: &Home, provider: &Provider) -> String {
    let (code, out, err) = home.run(&["exec", "--json", "go"]);
    assert_eq!(code, 0, "{err}");
    let request = provider.requests().pop().unwrap();
    let log = serde_json::to_string(&home.entries(&home.sessions()[0])).unwrap();
    for place in [&request.to_string(), &log, &out, &err] {
        assert!(!place.contains(KEY), "{place}");
    }
    messages(&request).last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_key_that_a_command_prints_is_printed_once_and_reaches_no_model() {
    let provider = runs("cat \"$HOME/key\"");
    let home = Home::new(&provider);
    write_key(&home, "key");
    configure(&home, "api_key_command = \"echo x >> $HOME/count; cat $HOME/key\"");
    assert_eq!(told(&home, &provider), "[secret test]\n");
    assert_eq!(std::fs::read_to_string(home.path("count")).unwrap(), "x\n");
}

#[test]
fn a_key_in_a_file_reaches_no_model() {
    let provider = runs("cat \"$HOME/key\"");
    let home = Home::new(&provider);
    write_key(&home, "key");
    configure(&home, "api_key_file = \"~/key\"");
    assert_eq!(told(&home, &provider), "[secret test]\n");
}

#[test]
fn the_keys_of_other_providers_are_neither_printed_nor_told() {
    let provider = runs("cat \"$HOME/key\"");
    let home = Home::new(&provider);
    write_key(&home, "key");
    // It does not matter here that others can read it: it is not used.
    let file = home.path("key");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let others = "[providers.one]\napi_key_file = \"~/key\"\n\
        [providers.two]\napi_key_command = \"echo x >> $HOME/count\"\n\
        [providers.three]\napi_key_file = \"~/nowhere\"\n";
    configure(&home, others);
    assert_eq!(told(&home, &provider), "[secret one]\n");
    assert!(!home.path("count").exists());
}
