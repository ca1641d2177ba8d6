//! How long it takes to judge a call by 500 rules.
//!
//! ```text
//! cargo run --release -p bowline-runtime --example rule_check
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bowline_agent::event::AgentMeta;
use bowline_agent::gate::Review;
use bowline_agent::id::SessionId;
use bowline_agent::tool::Access;
use bowline_llm::ToolCall;
use bowline_runtime::Runtime;
use bowline_runtime::config::{Flags, Said};
use bowline_runtime::environment::Environment;
use bowline_runtime::permission::Rule;

const RUNS: u32 = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = |kinds: [fn(usize) -> String; 2], count: usize| {
        (0..count).map(|at| Rule::parse(&kinds[at % 2](at))).collect::<Result<Vec<_>, _>>()
    };
    let flags = Flags {
        allow: rules(
            [|n| format!("bash(tool{n} run *)"), |n| format!("write(src/part{n}/**)")],
            300,
        )?,
        ask: rules([|n| format!("bash(ship{n} -f *)"), |n| format!("net(host{n}.example)")], 100)?,
        deny: rules([|n| format!("bash(git sub{n} *)"), |n| format!("read(~/private{n})")], 100)?,
        ..Flags::default()
    };
    let home = std::env::temp_dir().join("bowline-rule-check");
    let vars = ["HOME", "BOWLINE_HOME"].map(|name| (name.to_owned(), home.display().to_string()));
    let environment = Environment { vars: vars.into(), cwd: home.clone() };
    let runtime = Runtime::new(environment, &Said { flags, ..Said::default() })?;
    let engine = runtime.engine(&runtime.agent_config("default")?, &[], false)?;
    let calls = [
        ("bash", Access::execute("cargo test -p x && git -C y push origin main | tail -5")),
        ("write", Access::write(home.join("work/src/part7/deep/file.rs"))),
        ("fetch", Access { network: vec!["docs.rs".to_owned()], ..Access::none() }),
    ];
    let agent = Arc::new(AgentMeta {
        id: SessionId::from(uuid::Uuid::nil()).root(),
        name: "default".to_owned(),
        config: "default".to_owned(),
        depth: 0,
        parent: None,
        label: None,
        ancestors: Arc::default(),
    });
    for (tool, access) in calls {
        let call = ToolCall { id: "c".into(), name: tool.to_owned(), arguments: "{}".to_owned() };
        let review =
            Review { call: &call, access: &access, agent: &agent, decision: None, granted: &[] };
        let began = Instant::now();
        for _ in 0..RUNS {
            black_box(engine.judge(black_box(&review)));
        }
        let each = began.elapsed() / RUNS;
        println!("{tool}: {:.1} µs with 500 rules", each.as_nanos() as f64 / 1000.0);
    }
    // It is in a folder for temporary files, which nobody misses.
    let _ = std::fs::remove_dir_all(&home);
    Ok(())
}
