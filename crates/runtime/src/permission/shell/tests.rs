//! Tests of reading commands.

mod bash;
mod laws;
mod ordinary;
mod smuggled;
mod steered;

use super::Script;

/// The runs of a command, one a line: what was seen through, the words, the files.
fn shown(script: &Script) -> Vec<String> {
    let word = |word: &super::Word| match word {
        super::Word::Known(text) => text.clone(),
        super::Word::Unknown { source, .. } => format!("?{source}"),
    };
    let show = |run: &super::Run| {
        let mut line = String::new();
        for name in &run.through {
            line.push_str(name);
            line.push_str(": ");
        }
        for (name, value) in &run.assignments {
            line.push_str(&format!("{name}={} ", word(value)));
        }
        line.push_str(&run.words.iter().map(word).collect::<Vec<_>>().join(" "));
        for file in &run.reads {
            line.push_str(&format!(" <{}", word(file)));
        }
        for file in &run.writes {
            line.push_str(&format!(" >{}", word(file)));
        }
        line.trim().to_owned()
    };
    script.runs.iter().map(show).collect()
}
