//! What the dialects say, word for word. `cargo test -p bowline-server -- --ignored` writes it anew:
//! read the difference before you keep it.

use std::fmt::Write as _;
use std::path::PathBuf;

use bowline_server::dialect::Dialect;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::scenes::{self, Lived};
use crate::{is_terminal, say, translator};

fn file(dialect: Dialect) -> PathBuf {
    let name = format!("tests/golden/{dialect}.txt");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns what a dialect says of all sessions as they are lived, each under its name.
fn spoken(dialect: Dialect, sessions: &[Lived]) -> String {
    let mut text = String::new();
    for lived in sessions {
        writeln!(text, "# {}", lived.name).unwrap();
        let mut translator = translator(dialect);
        let lines = lived.events.iter().flat_map(|event| say(&mut *translator, event));
        lines.for_each(|line| writeln!(text, "{line}").unwrap());
    }
    text
}

#[test]
fn every_dialect_says_what_it_said() {
    let sessions = scenes::all();
    for dialect in Dialect::ALL {
        let golden = std::fs::read_to_string(file(dialect)).unwrap();
        assert_eq!(spoken(dialect, &sessions), golden, "{dialect}");
    }
}

#[test]
fn every_run_ends_with_exactly_one_line_that_says_so_and_it_is_the_last() {
    for lived in scenes::all() {
        for dialect in Dialect::ALL {
            let mut translator = translator(dialect);
            let lines: Vec<Value> = lived
                .events
                .iter()
                .flat_map(|event| say(&mut *translator, event))
                .map(|line| serde_json::from_str(&line).unwrap())
                .collect();
            let ends = lines.iter().filter(|line| is_terminal(dialect, line)).count();
            let runs = lived
                .events
                .iter()
                .filter(|event| event.agent.depth == 0 && event.body.is_terminal());
            assert_eq!(ends, runs.count(), "{dialect}, {}", lived.name);
            assert!(is_terminal(dialect, lines.last().unwrap()), "{dialect}, {}", lived.name);
        }
    }
}

#[test]
#[ignore = "it writes the golden files"]
fn write_golden_files() {
    let sessions = scenes::all();
    for dialect in Dialect::ALL {
        std::fs::write(file(dialect), spoken(dialect, &sessions)).unwrap();
    }
}
