//! What a first request would say, and how much of it there is.

use std::collections::BTreeMap;

use bowline_agent::conversation::estimate_tokens;
use bowline_llm::{ToolBlock, ToolSpec};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Section, join};

/// What a first request would say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// The system text.
    pub system: String,
    /// Its sections, in order, each with its tags.
    pub sections: Vec<SectionSize>,
    /// The tools, in order, each as Chat Completions has it.
    pub tools: Vec<ToolSize>,
    /// What is said in the name of the user, in parts: the facts, and the prompt if there is one.
    pub first_message: Vec<String>,
    /// How large the parts are, and all of them.
    pub sizes: BTreeMap<&'static str, Size>,
}

/// How much there is of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// In bytes.
    pub bytes: usize,
    /// In tokens, roughly.
    pub tokens: u64,
}

/// A section and how much there is of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionSize {
    /// Its tag.
    pub tag: &'static str,
    /// How much there is.
    pub size: Size,
}

/// A tool and how much a model is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolSize {
    /// Its name.
    pub name: String,
    /// How much there is.
    pub size: Size,
}

impl Size {
    fn of(text: &str) -> Self {
        Self { bytes: text.len(), tokens: estimate_tokens(text) }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |all, one| Self {
            bytes: all.bytes + one.bytes,
            tokens: all.tokens + one.tokens,
        })
    }
}

impl Dump {
    /// Measures what a first request would say.
    pub fn new(sections: &[Section], tools: &ToolBlock, first_message: Vec<String>) -> Self {
        let system = join(sections);
        let measured =
            |section: &Section| SectionSize { tag: section.tag, size: Size::of(&section.tagged()) };
        let sections = sections.iter().map(measured).collect();
        let of_tool = |tool: &ToolSpec| ToolSize {
            name: tool.name.clone(),
            size: Size::of(&as_sent(tool).to_string()),
        };
        let tools: Vec<ToolSize> = tools.specs().iter().map(of_tool).collect();
        let parts = [
            ("system", Size::of(&system)),
            ("tools", tools.iter().map(|tool| tool.size).sum()),
            ("first_message", first_message.iter().map(|part| Size::of(part)).sum()),
        ];
        let total = parts.iter().map(|(_, size)| *size).sum();
        let sizes = parts.into_iter().chain([("total", total)]).collect();
        Self { system, sections, tools, first_message, sizes }
    }
}

/// Writes a tool as Chat Completions has it.
fn as_sent(tool: &ToolSpec) -> Value {
    json!({ "type": "function", "function": {
        "name": tool.name, "description": tool.description, "parameters": tool.schema,
    }})
}
