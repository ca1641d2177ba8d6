//! How the programs are linked.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program that may lie anywhere has a list of the addresses that depend on it, which is read when it starts: a
    // megabyte of memory, or a hundredth of that in a packed form. The C library must know that form; a program
    // built so does not start with an older one.
    if is_for_this_machine() && glibc_version().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg=-Wl,-z,pack-relative-relocs");
    }
}

#[expect(clippy::disallowed_methods, reason = "so Cargo tells it")]
fn is_for_this_machine() -> bool {
    env::var_os("HOST") == env::var_os("TARGET")
}

/// Returns the version of glibc, if that is the C library.
fn glibc_version() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
