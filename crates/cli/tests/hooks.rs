//! Hooks: commands of the user that run at moments of a session.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

#[path = "hooks/calls.rs"]
mod calls;
#[path = "hooks/claude.rs"]
mod claude;
#[path = "hooks/config.rs"]
mod config;
#[path = "hooks/sessions.rs"]
mod sessions;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use support::{Home, Provider, Reply, messages, obedient, said, text, until};

/// Returns the last result of a tool that the model was told.
fn told(provider: &Provider) -> String {
    let request = provider.requests().pop().unwrap();
    let results = messages(&request).iter().rev().find(|message| message["role"] == "tool");
    let told = text(results.unwrap());
    told.strip_prefix("Error: ").map_or_else(|| told.clone(), str::to_owned)
}

/// Writes a script beside the work, and returns its path.
fn script(home: &Home, name: &str, body: &str) -> String {
    let path = home.path(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Adds a hook to the user's configuration that runs a script.
fn add(home: &Home, event: &str, matcher: &str, body: &str) {
    let path = home.path("home/config/config.toml");
    let config = fs::read_to_string(&path).unwrap();
    let count = config.matches("[[hooks]]").count();
    let command = script(home, &format!("hook-{count}"), body);
    let hook = format!(
        "\n[[hooks]]\nevent = \"{event}\"\nmatcher = {}\ncommand = {}\n",
        json!(matcher),
        json!(command)
    );
    fs::write(&path, config + &hook).unwrap();
}

/// Returns what hooks kept in a file, one JSON a line.
fn kept(home: &Home, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(home.path(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A script that keeps what it reads, one line each time.
fn keeps(home: &Home, name: &str) -> String {
    format!("cat >> {0}; echo >> {0}", home.path(name).display())
}
