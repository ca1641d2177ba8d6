//! What `scripts/setup` does where something is missing.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

/// Runs the script where there is nothing but these programs, each a line of shell; returns whether it
/// succeeded and what it said.
fn setup(programs: &[(&str, &str)]) -> (bool, String) {
    let folder = TempDir::new().unwrap();
    for (name, line) in programs {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup");
    let mut command = Command::new("/bin/bash");
    let command = command.arg(script).env_clear().env("PATH", folder.path());
    let output = command.env("LIBCLANG_PATH", "/").output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// Everything that is needed, but cmake.
const SOME: [(&str, &str); 3] = [("cargo", ""), ("cc", ""), ("c++", "")];
const USER: (&str, &str) = ("id", "echo 1000");
const ROOT: (&str, &str) = ("id", "echo 0");
const APT: (&str, &str) = ("apt-get", "echo \"apt-get $1\" >&2");
const ENV: (&str, &str) = ("env", "shift; exec \"$@\"");

fn with(more: &[(&'static str, &'static str)]) -> (bool, String) {
    setup(&[&SOME, more].concat())
}

#[test]
fn where_all_is_there_nothing_is_said() {
    assert_eq!(with(&[("cmake", "")]), (true, String::new()));
}

#[test]
fn what_is_installed_is_said_before() {
    let sudo = ("sudo", "echo \"sudo $1\" >&2; exec \"$@\"");
    let expected = "installing cmake with sudo apt-get\nsudo apt-get\napt-get update\nsudo env\napt-get install\n";
    assert_eq!(with(&[USER, APT, ENV, sudo]), (true, expected.to_owned()));
    let expected = "installing cmake with apt-get\napt-get update\napt-get install\n";
    assert_eq!(with(&[ROOT, APT, ENV]), (true, expected.to_owned()));
}

#[test]
fn what_cannot_be_installed_is_said_in_one_line() {
    let expected = "as root, run: apt-get install cmake\n";
    assert_eq!(with(&[USER, APT]), (false, expected.to_owned()));
    let expected = "install what Debian calls cmake, and try again\n";
    assert_eq!(with(&[USER]), (false, expected.to_owned()));
    let refused = ("sudo", "exit 1");
    let (is_fine, said) = with(&[USER, APT, ENV, refused]);
    assert!(
        !is_fine && said.ends_with("that failed; as root, run: apt-get install cmake\n"),
        "{said}"
    );
}
