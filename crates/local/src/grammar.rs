//! Pieces of grammars in GBNF, the notation of llama.cpp.

use bowline_llm::ErrorKind;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;

use crate::engine::Halt;

/// Writes a text that must come exactly.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Nothing else has a meaning of its own, and a NUL cannot be passed on.
            '\0' => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes a rule that takes any one of some texts.
pub(crate) fn one_of<'a>(name: &str, texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(literal).collect();
    format!("{name} ::= {}\n", texts.join(" | "))
}

/// Makes what holds a model to a grammar, whose first rule is `root`.
pub(crate) fn sampler(model: &LlamaModel, text: &str) -> Result<LlamaSampler, Halt> {
    LlamaSampler::grammar(model, text, "root").map_err(|error| {
        Halt::failed(ErrorKind::InvalidRequest, format!("a grammar is wrong: {error}"))
    })
}
