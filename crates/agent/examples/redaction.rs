//! Measures how long it takes to look for secrets: `cargo run --release -p bowline-agent --example
//! redaction -- FILE...`, in milliseconds for each megabyte, with twenty known values.
#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::hint::black_box;
use std::time::Instant;

use bowline_agent::Redaction;

fn main() -> std::io::Result<()> {
    let secrets = (0..20).map(|n| (format!("KEY_{n}"), format!("sk-known-secret-{n}").into()));
    let redaction = Redaction::new(secrets);
    for path in std::env::args().skip(1) {
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).repeat(8);
        let megabytes = text.len() as f64 / 1e6;
        let once = |_| {
            let began = Instant::now();
            black_box(redaction.apply(&text).len());
            began.elapsed().as_secs_f64() * 1e3 / megabytes
        };
        let best = (0..16).map(once).fold(f64::MAX, f64::min);
        println!("{path}: {best:.2} ms/MB of {megabytes:.1} MB");
    }
    Ok(())
}
