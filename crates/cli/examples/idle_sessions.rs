//! What an idle session costs in memory: a thousand of them, each of which has answered once.
//!
//! `cargo run --release -p bowline --example idle_sessions [-- HOW_MANY]`
#![expect(clippy::print_stdout, reason = "a measurement is printed")]

mod support;

use std::sync::Arc;

use bowline::agent::Agent;
use bowline::llm::scripted::{Reply, ScriptedModel};

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    let count = std::env::args().nth(1).map_or(Ok(1_000), |count| count.parse::<u64>())?;
    let before = resident()?;
    let mut fresh = Vec::new();
    for _ in 0..count {
        fresh.push(agent().start());
    }
    tokio::task::yield_now().await;
    println!("{count} sessions before their first prompt: {} bytes each", each(before, count)?);
    let before = resident()?;
    let mut idle = Vec::new();
    for _ in 0..count {
        let handle = agent().start();
        handle.prompt("Hello.").text().await?;
        idle.push(handle);
    }
    println!("{count} sessions after their first answer:  {} bytes each", each(before, count)?);
    Ok(())
}

fn agent() -> Agent {
    Agent::new(Arc::new(ScriptedModel::new([Reply::text("Hello. What can I do for you?")])))
}

fn each(before: u64, count: u64) -> support::Result<u64> {
    Ok(resident()?.saturating_sub(before) / count)
}

/// Returns the memory of this process that is in use, in bytes.
fn resident() -> support::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
