//! What a turn costs a program that embeds the library: prints the microseconds of CPU for each of a
//! hundred turns with a trivial tool, over HTTP.
//!
//! `cargo run --release -p bowline --example turns_over_http -- BASE_URL MODEL`; `scripts/measure`
//! runs it against a scripted server whose MODEL `loop-100` calls a tool a hundred times.
#![expect(clippy::print_stdout, reason = "a measurement is printed")]

mod support;

use std::sync::Arc;

use bowline::agent::Agent;
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, Toolbox, tool_fn};
use bowline::llm::http::Transport;
use bowline::llm::{ModelInfo, chat};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    let mut arguments = std::env::args().skip(1);
    let (Some(base_url), Some(model)) = (arguments.next(), arguments.next()) else {
        println!("usage: turns_over_http BASE_URL MODEL");
        return Ok(());
    };
    let mut config = chat::Config::new(base_url);
    config.info = ModelInfo { provider: "mock".to_owned(), model, ..ModelInfo::default() };
    let client = chat::Client::new(config, &Transport::default())?;
    let nod =
        tool_fn("nod", "Does nothing.", async |_: Nothing, _: ToolContext| Ok("nodded".into()));
    let agent = Agent { tools: Toolbox::default().with(nod)?, ..Agent::new(Arc::new(client)) };

    let before = cpu_ns()?;
    let outcome = agent.prompt("Go.").await?;
    let spent = cpu_ns()? - before;
    if !outcome.is_done() {
        return Err(format!("the run ended with {}", outcome.ending.as_str()).into());
    }
    let turns = f64::from(outcome.model_turns);
    println!("{:.1}", spent as f64 / 1000.0 / turns);
    Ok(())
}

/// Returns how long the threads of this process have run on a processor, in nanoseconds.
fn cpu_ns() -> support::Result<u64> {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        total += stat.split(' ').next().ok_or("no schedstat")?.parse::<u64>()?;
    }
    Ok(total)
}
