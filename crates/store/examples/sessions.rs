//! Lists the sessions of a folder, or checks them.
//!
//! ```text
//! cargo run -p bowline-store --example sessions -- ~/.local/share/bowline/sessions [--verify]
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use bowline_store::files::RunState;
use bowline_store::{Durability, Files};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: sessions FOLDER [--verify]")?;
    let files = Files::new(folder, Durability::Process);
    if arguments.next().is_some_and(|argument| argument == "--verify") {
        return verify(&files);
    }
    for (id, summary) in files.list(None)? {
        // A session that cannot be read is shown with the reason; the others are shown as well.
        let summary = match summary {
            Ok(summary) => summary,
            Err(error) => {
                println!("{id}  {error}");
                continue;
            }
        };
        let run = match summary.run {
            RunState::None => "-".into(),
            RunState::Open => "open".into(),
            RunState::Ended(ending) => format!("{ending:?}"),
        };
        let model = summary.model.unwrap_or_default();
        let preview = summary.preview.unwrap_or_default();
        println!("{id}  {}  {run:8} {:6} {model}  {preview}", summary.updated, summary.entries);
    }
    Ok(())
}

fn verify(files: &Files) -> Result<(), Box<dyn Error>> {
    for (id, report) in files.verify_all()? {
        let report = report?;
        let verdict = match &report.problem {
            Some(problem) => format!("line {}: {}", problem.line, problem.reason),
            None if report.is_sound() => "sound".into(),
            None => "bodies are missing or altered".into(),
        };
        println!("{id}  {} commits, {} entries: {verdict}", report.commits, report.entries);
    }
    Ok(())
}
