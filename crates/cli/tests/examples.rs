//! Every example of this crate runs to its end; those of the seeds assert what they show.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::PathBuf;
use std::process::Command;

/// Runs an example with nothing but a scratch home and returns what it printed.
fn run(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join("examples");
    let example: PathBuf = built.join(name);
    assert!(
        example.exists(),
        "{} is not built: run `cargo build --examples` or test the whole package",
        example.display()
    );
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(&example)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .current_dir(home.path())
        .output()
        .unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} failed\n{out}\n{error}");
    out.into_owned()
}

macro_rules! examples {
    ($($name:ident => $expected:literal,)*) => {
        $(
            #[test]
            fn $name() {
                let printed = run(stringify!($name));
                assert!(printed.contains($expected), "{printed}");
            }
        )*
    };
}

examples! {
    agent_in_20_lines => "42",
    custom_orchestrator => "Tested.",
    custom_tool => "8 in all files so far",
    sub_agent => "tokens, the colleague's included: 190",
    root_or_sub => "sub:  A sheet bend joins two ropes.",
    steering => "tool: skipped",
    readme => "42",
    lasting_crew => "ledger is there.",
    turns_over_http => "usage",
    idle_sessions => "bytes each",
    effects => "I give up.",
    transforms => "Answer in one word.",
    gates => "Two mails are out.",
    middleware => "ended after",
    seed_000 => "all of it holds",
    seed_001 => "all of it holds",
    seed_002 => "all of it holds",
    seed_003 => "all of it holds",
    seed_004 => "all of it holds",
}
