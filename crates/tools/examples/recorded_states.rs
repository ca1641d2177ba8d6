//! Measures what recording the state of a project costs: makes a repository of many files, and prints the
//! least time of ten that it took to begin, to find that nothing has changed, and to record a change.
//!
//! `cargo run --release -p bowline-tools --example recorded_states -- 5000`

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bowline_agent::id::{SessionId, SystemSource};
use bowline_llm::CallId;
use bowline_tools::undo::{Limits, Place, Undo, UndoError};

type Failed = Box<dyn std::error::Error>;

#[expect(clippy::print_stdout, reason = "it is there to show something")]
fn main() -> Result<(), Failed> {
    let count = std::env::args().nth(1).map_or(Ok(5000), |count| count.parse::<u32>())?;
    let folder = tempfile::tempdir()?;
    let [root, session] = ["work", "session"].map(|name| folder.path().join(name));
    for folder in [&root, &session] {
        fs::create_dir(folder)?;
    }
    let root = root.canonicalize()?;
    fill(&root, count)?;
    let place = Place {
        root: root.clone(),
        left_out: Vec::new(),
        git: "/usr/bin/git".into(),
        variables: Vec::new(),
        limits: Limits::default(),
    };
    let begin = least(|| {
        let _ = fs::remove_dir_all(session.join("undo.git"));
        Undo::open(&session, &place).map(drop)
    })?;
    println!("to begin with {count} files: {begin:?}");
    let mut undo = Undo::open(&session, &place)?;
    let (agent, call) = (SessionId::new(&SystemSource).root(), CallId::from("call"));
    let same = least(|| undo.before(agent, &call, &[]))?;
    println!("nothing has changed: {same:?}");
    let mut round = 0;
    let changed = least(|| {
        round += 1;
        let file = root.join("0/0.rs");
        fs::write(&file, "line\n".repeat(round))
            .map_err(|source| UndoError::File { path: file, source })?;
        undo.before(agent, &call, &[])
    })?;
    println!("a file has changed: {changed:?}");
    Ok(())
}

/// Makes a repository in which all is committed.
fn fill(root: &Path, count: u32) -> Result<(), Failed> {
    for index in 0..count {
        let folder = root.join(format!("{}", index % 100));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{index}.rs")), format!("{index}\n").repeat(200))?;
    }
    let identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"];
    for arguments in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "-m", "all"]]
    {
        let status = Command::new("/usr/bin/git")
            .args(identity)
            .args(arguments)
            .current_dir(root)
            .status()?;
        assert!(status.success(), "git {arguments:?}");
    }
    Ok(())
}

fn least(mut work: impl FnMut() -> Result<(), UndoError>) -> Result<Duration, Failed> {
    let mut least = Duration::MAX;
    for _ in 0..10 {
        let started = Instant::now();
        work()?;
        least = least.min(started.elapsed());
    }
    Ok(least)
}
