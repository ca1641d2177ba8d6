//! The keys of providers: they reach whom they are for, and nobody else.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod support;

use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
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

/// A token that nobody told bowline of. It does not stand here as a whole: whoever looks for tokens in
/// repositories would find it.
fn token() -> String {
    format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA1b2C")
}

#[test]
fn a_token_that_is_found_reaches_nobody_and_is_put_back_into_a_file() {
    let provider = Provider::answering(|request| {
        let said = |index: usize| {
            let results = messages(request).iter().filter(|message| message["role"] == "tool");
            let result = results.clone().nth(index).unwrap();
            result["content"].as_str().unwrap().trim().to_owned()
        };
        let call = |name, arguments| Reply::Calls(vec![(format!("c{name}"), name, arguments)]);
        let split = "printf 'TOKEN=%s' $(cut -c1-20 token); sleep 0.2; cut -c21- token";
        match results(request) {
            0 => call("bash", json!({ "command": split })),
            1 => call("read", json!({ "path": "settings" })),
            2 => {
                let arguments = json!({ "path": "settings", "old_string": said(1),
                    "new_string": format!("{}\nmore", said(1)) });
                call("edit", arguments)
            }
            3 => call("write", json!({ "path": "copy", "content": said(0) })),
            4 => {
                let content = "TOKEN=[secret github-token-0a1b2c]";
                call("write", json!({ "path": "invented", "content": content }))
            }
            5 => call("write", json!({ "path": "own", "content": "KEY=[secret MY_API_KEY]" })),
            _ => Reply::Text("done".to_owned()),
        }
    });
    let home = Home::new(&provider);
    let work = home.work();
    std::fs::write(work.join("token"), format!("{}\n", token())).unwrap();
    std::fs::write(work.join("settings"), format!("url = https://me:{}@x.example/\n", token()))
        .unwrap();
    let mut command = home.bowline();
    command.env("MY_API_KEY", "only-bowline-has-it-1");
    let output = command.args(["exec", "--json", "go"]).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    let requests = provider.requests();
    let told = serde_json::to_string(&requests).unwrap();
    for place in
        [&told, &*out, &*err, &serde_json::to_string(&home.entries(&home.sessions()[0])).unwrap()]
    {
        assert!(!place.contains(&token()) && !place.contains(&token()[..20]), "{place}");
        assert!(!place.contains("only-bowline-has-it"), "{place}");
    }
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    assert_eq!(read("copy"), format!("TOKEN={}", token()));
    assert_eq!(read("settings"), format!("url = https://me:{}@x.example/\nmore\n", token()));
    assert!(!work.join("invented").exists() && !work.join("own").exists());
    let last = messages(requests.last().unwrap());
    let refused = last.iter().filter(|message| {
        message["content"]
            .as_str()
            .is_some_and(|text| text.contains("nothing was written: [secret "))
    });
    assert_eq!(refused.count(), 2);
}

#[test]
fn what_env_files_hold_is_known_from_the_start_and_after_a_restart() {
    let is_second = |request: &Value| {
        messages(request).iter().filter(|message| message["role"] == "user").count() > 1
            && messages(request).last().unwrap()["role"] == "user"
    };
    let provider = Provider::answering(move |request| match results(request) {
        0 => Reply::Calls(vec![("a".to_owned(), "bash", json!({ "command": "echo hunter22" }))]),
        1 if is_second(request) => {
            let told = messages(request).iter().find(|message| message["role"] == "tool").unwrap();
            let arguments = json!({ "path": "copy", "content": told["content"] });
            Reply::Calls(vec![("b".to_owned(), "write", arguments)])
        }
        _ => Reply::Text("done".to_owned()),
    });
    let home = Home::new(&provider);
    std::fs::write(home.work().join(".env.local"), "DB_PASSWORD=hunter22\nPORT=8080\n").unwrap();
    assert_eq!(home.run(&["exec", "go"]).0, 0);
    let told = messages(&provider.requests()[1]).last().unwrap()["content"].clone();
    assert!(told.as_str().unwrap().starts_with("[secret DB_PASSWORD-"), "{told}");
    let (code, _, err) = home.run(&["exec", "--continue", "copy it"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(std::fs::read_to_string(home.work().join("copy")).unwrap(), "hunter22\n");
}

#[test]
fn a_key_in_the_keyring_reaches_whom_it_is_for() {
    let provider = Provider::answering(|_| Reply::Text("done".to_owned()));
    let home = Home::new(&provider);
    configure(&home, "api_key_keyring = \"bowline/me\"");
    let (code, _, err) = home.run(&["exec", "go"]);
    assert!(code != 0 && err.contains("keyring"), "{err}");
    let programs = home.path("programs");
    std::fs::create_dir(&programs).unwrap();
    let program = programs.join("secret-tool");
    std::fs::write(
        &program,
        format!("#!/bin/sh\ntest \"$*\" = \"lookup service bowline account me\" && echo {KEY}\n"),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let output = home.bowline().env("PATH", path).args(["exec", "go"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(provider.heads().last().unwrap().contains(&format!("authorization: bearer {KEY}")));
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

#[test]
fn what_a_project_tells_is_no_way_for_its_secrets_to_the_model() {
    let provider = Provider::answering(|_| Reply::Text("done".to_owned()));
    let home = Home::new(&provider);
    let write = |name: &str, text: &str| std::fs::write(home.work().join(name), text).unwrap();
    write(".env", "DB_PASSWORD=zz9secretpw\nPLAIN=of-the-env\n");
    write("denied.md", "Denied words.");
    write("more.md", "The password is zz9secretpw.");
    write("CLAUDE.md", "unread");
    std::os::unix::fs::symlink(".env", home.work().join("AGENTS.md")).unwrap();
    let (code, _, err) = home.run(&["exec", "hello"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("AGENTS.md is not read: .env is a file that holds secrets"), "{err}");
    std::fs::remove_file(home.work().join("AGENTS.md")).unwrap();
    write("AGENTS.md", "Say please. @.env @denied.md @more.md");
    let (code, _, err) = home.run(&["exec", "--deny", "read(denied.md)", "hello"]);
    assert_eq!(code, 0, "{err}");
    for note in [".env is not read: .env is a file that holds secrets", "denied.md is not read: "] {
        assert!(err.contains(note), "{err}");
    }
    let said = provider.requests().iter().map(Value::to_string).collect::<String>();
    for kept in ["Say please.", "The password is [secret DB_PASSWORD-"] {
        assert!(said.contains(kept), "{said}");
    }
    for left_out in ["zz9secretpw", "of-the-env", "Denied words"] {
        assert!(!said.contains(left_out), "{said}");
    }
    let (_, out, _) = home.run(&["exec", "--dump-prompt", "hello"]);
    assert!(out.contains("Say please.") && !out.contains("zz9secretpw"), "{out}");
    let log = home.sessions().into_iter().map(|it| json!(home.entries(&it)).to_string());
    assert!(!log.collect::<String>().contains("zz9secretpw"));
}

#[test]
fn a_key_file_that_is_no_file_is_not_waited_for() {
    let provider = Provider::answering(|_| Reply::Text("done".to_owned()));
    let home = Home::new(&provider);
    let pipe = home.path("pipe");
    let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status();
    assert!(made.unwrap().success());
    configure(&home, &format!("api_key_file = {}", json!(pipe)));
    let (code, _, err) = home.run(&["exec", "go"]);
    assert_eq!(code, 5, "{err}");
    assert!(err.contains(&format!("cannot read {}: it is no file", pipe.display())), "{err}");
}
