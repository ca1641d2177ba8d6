//! What would be decided, and why, in all its parts.

use std::fmt;

use serde::Serialize;

use bowline_agent::tool::Access;
use bowline_llm::ToolCall;

use super::engine::Engine;
use super::judgement::Judgement;
use super::shell::{Run, Word};
use bowline_agent::visible::on_one_line;

/// A call that is made up.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The tool.
    pub tool: String,
    /// What it would touch.
    pub access: Access,
}

/// What would be decided about a call, and why.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// The programs that a command would run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// What of it is only known when it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// What is decided.
    #[serde(flatten)]
    pub judgement: Judgement,
}

/// A program that a command would run.
#[derive(Debug, Clone, Serialize)]
pub struct Program {
    /// As it stands in the command.
    pub text: String,
    /// Its words; in angle brackets what is only known when it runs.
    pub words: Vec<String>,
    /// Programs that run it and were seen through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
    /// Variables that are set for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assignments: Vec<String>,
    /// Files that are opened for it to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// Files that are opened for it to write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// Whether it is known to change nothing.
    pub only_looks: bool,
}

/// Says what would be decided about a call, and why.
pub fn explain(engine: &Engine, asked: &Asked) -> Explained {
    let call =
        ToolCall { id: "explained".into(), name: asked.tool.clone(), arguments: "{}".to_owned() };
    let judgement = engine.judge_call(&engine.call(&call, &asked.access));
    let command = asked.access.execute.as_deref().map(|command| engine.read(command));
    let programs = command.iter().flat_map(|command| &command.programs);
    let programs = programs.map(|program| shown(&program.run, program.is_harmless)).collect();
    let doubts = command.iter().flat_map(|command| command.doubts.iter().cloned()).collect();
    Explained { programs, doubts, judgement }
}

fn shown(run: &Run, only_looks: bool) -> Program {
    let words = |words: &[Word]| words.iter().map(word).collect();
    let set = run.assignments.iter().map(|(name, value)| format!("{name}={}", word(value)));
    Program {
        text: run.text.clone(),
        words: words(&run.words),
        through: run.through.clone(),
        assignments: set.collect(),
        reads: words(&run.reads),
        writes: words(&run.writes),
        only_looks,
    }
}

fn word(word: &Word) -> String {
    match word {
        Word::Known(text) => text.clone(),
        Word::Unknown { source, .. } => format!("<{source}>"),
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for program in &self.programs {
            writeln!(f, "runs      {}", on_one_line(&program.text))?;
            writeln!(f, "  words   {}", on_one_line(&program.words.join(" | ")))?;
            for (name, list) in [
                ("through", &program.through),
                ("sets", &program.assignments),
                ("reads", &program.reads),
                ("writes", &program.writes),
            ] {
                if !list.is_empty() {
                    writeln!(f, "  {name:7} {}", on_one_line(&list.join(", ")))?;
                }
            }
        }
        for doubt in &self.doubts {
            writeln!(f, "unknown   {}", on_one_line(doubt))?;
        }
        for segment in &self.judgement.segments {
            let what = on_one_line(&segment.what);
            writeln!(f, "{:9} {what}: {}", segment.decision.as_str(), segment.why)?;
            if let Some(rule) = &segment.allowed_by {
                writeln!(f, "          --allow '{}' allows it", on_one_line(rule))?;
            }
        }
        writeln!(f, "verdict   {}", self.judgement.decision.as_str())
    }
}
