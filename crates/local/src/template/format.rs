//! The ways in which models write their calls.

use bowline_llm::{ErrorKind, ToolSpec};
use llama_cpp_2::json_schema_to_grammar;
use llama_cpp_2::model::LlamaModel;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::schema;
use crate::engine::Halt;
use crate::grammar;

/// How a family of models writes its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen and many others.
    Tagged,
    /// `{"name": …, "parameters": …}` and nothing else: Llama 3.
    Bare,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`: Mistral.
    List,
}

/// One call as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// The JSON of a call.
#[derive(Deserialize)]
struct Call<'a> {
    name: String,
    #[serde(borrow, alias = "parameters")]
    arguments: &'a RawValue,
}

impl Format {
    /// Recognises the way of a template.
    pub(super) fn of(template: &str) -> Option<Self> {
        if template.contains("[TOOL_CALLS]") && !template.contains("[ARGS]") {
            Some(Self::List)
        } else if template.contains("<tool_call>")
            && !template.contains("<function=")
            && !template.contains("<arg_key>")
        {
            Some(Self::Tagged)
        } else if template.contains("\"parameters\"") && template.contains("ipython") {
            Some(Self::Bare)
        } else {
            None
        }
    }

    /// Returns how a call begins, as far as it is the same for every call.
    pub(super) fn trigger(self) -> &'static str {
        match self {
            Self::Tagged => "<tool_call>",
            Self::Bare => "{\"name\"",
            Self::List => "[TOOL_CALLS]",
        }
    }

    /// Returns what stands before the grammar.
    pub(super) fn opening(self) -> &'static str {
        match self {
            Self::Tagged => "<tool_call>\n",
            Self::Bare => "",
            Self::List => "[TOOL_CALLS]",
        }
    }

    /// Finds the beginning of a call in what was said, reasoning aside, which ends at `start`.
    pub(super) fn find_call(self, said: &str, start: usize) -> Option<usize> {
        let text = said.get(start..)?;
        match self {
            Self::Tagged | Self::List => Some(start + text.find(self.trigger())?),
            // JSON in the middle of a text is a text.
            Self::Bare => {
                let space = text.len() - text.trim_start().len();
                text.trim_start().starts_with(self.trigger()).then_some(start + space)
            }
        }
    }

    /// Writes the grammar of what follows the opening.
    pub(super) fn grammar(self, model: &LlamaModel, tools: &[ToolSpec]) -> Result<String, Halt> {
        let arguments = match self {
            Self::Tagged | Self::List => "arguments",
            Self::Bare => "parameters",
        };
        let call = calls_grammar(model, tools, arguments)?;
        let root = match self {
            Self::Tagged => {
                "root ::= call \"\\n</tool_call>\" (\"\\n<tool_call>\\n\" call \"\\n</tool_call>\")*\n"
            }
            Self::Bare => "root ::= call\n",
            Self::List => "root ::= \" \"? \"[\" call (\", \" call)* \"]\"\n",
        };
        Ok(format!("{root}{call}"))
    }

    /// Reads calls that obey the grammar, as far as they are whole.
    pub(super) fn calls(self, text: &str) -> Vec<Written> {
        let mut calls = Vec::new();
        let mut rest = text;
        loop {
            // What stands between calls is the same for all of them, and may stand in arguments too, so
            // one call is read after the other.
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',' || c == ']');
            for mark in ["</tool_call>", "<tool_call>", "[TOOL_CALLS]", "["] {
                rest = rest.strip_prefix(mark).unwrap_or(rest).trim_start();
            }
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Call<'_>>();
            let Some(Ok(call)) = stream.next() else { return calls };
            calls.push(Written { name: call.name, arguments: call.arguments.get().to_owned() });
            rest = rest.get(stream.byte_offset()..).unwrap_or_default();
        }
    }
}

/// Writes the grammar of one call of any tool, as the rule `call`.
fn calls_grammar(model: &LlamaModel, tools: &[ToolSpec], arguments: &str) -> Result<String, Halt> {
    let calls: Vec<String> = tools
        .iter()
        .enumerate()
        .map(|(n, tool)| {
            let call = |schema: &str| call_schema(&tool.name, arguments, schema);
            let placed = |parent: &str| {
                let place = format!("{parent}/properties/{arguments}");
                schema::placed(tool.schema.as_str(), &place).map(|schema| call(&schema))
            };
            // A schema with what a grammar cannot say is left to the tool, which checks it too.
            placed("#")
                .and_then(|own| json_schema_to_grammar(&own).ok())
                .filter(|text| grammar::sampler(model, text).is_ok())
                .and_then(|_| placed(&format!("#/anyOf/{n}")))
                .unwrap_or_else(|| call(r#"{"type":"object"}"#))
        })
        .collect();
    let any = format!(r#"{{"anyOf":[{}]}}"#, calls.join(","));
    let text = json_schema_to_grammar(&any).map_err(|error| {
        Halt::failed(ErrorKind::InvalidRequest, format!("the tools make no grammar: {error}"))
    })?;
    let rules = text.lines().map(|line| match line.strip_prefix("root ::=") {
        Some(rule) => format!("call ::={rule}\n"),
        None => format!("{line}\n"),
    });
    Ok(rules.collect())
}

/// Writes the schema of a call. The order of the keys is the one in which they must be written: what
/// is called comes first.
fn call_schema(name: &str, arguments: &str, schema: &str) -> String {
    let name = Value::from(name);
    format!(
        r#"{{"type":"object","properties":{{"name":{{"const":{name}}},"{arguments}":{schema}}},"required":["name","{arguments}"],"additionalProperties":false}}"#
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn written(name: &str, arguments: &str) -> Written {
        Written { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn calls_are_read_one_after_the_other() {
        let text = "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": \"<tool_call>\"}}\n</tool_call>\n\
                    <tool_call>\n{\"name\": \"b\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"na";
        let expected = [written("a", r#"{"x": "<tool_call>"}"#), written("b", "{}")];
        assert_eq!(Format::Tagged.calls(text), expected);
        let text = r#"[TOOL_CALLS][{"name": "a", "arguments": {"x": [1]}}, {"name": "b", "arguments": {}}]"#;
        let expected = [written("a", r#"{"x": [1]}"#), written("b", "{}")];
        assert_eq!(Format::List.calls(text), expected);
        let text = r#"{"name": "a", "parameters": {"x": 1}}"#;
        assert_eq!(Format::Bare.calls(text), [written("a", r#"{"x": 1}"#)]);
        assert_eq!(Format::Bare.calls(r#"{"name": "a", "param"#), []);
    }

    #[test]
    fn json_within_a_text_is_a_text() {
        let text = "Sure:\n```json\n{\"name\": \"my-app\"}";
        assert_eq!(Format::Bare.find_call(text, 0), None);
        assert_eq!(Format::Bare.find_call(" {\"name\": \"add\"", 0), Some(1));
        assert_eq!(Format::Tagged.find_call("hm</think>I <tool_call>", 10), Some(12));
    }

    #[test]
    fn templates_tell_how_calls_are_written() {
        assert_eq!(Format::of("… <tool_call>{{ tool_call | tojson }} …"), Some(Format::Tagged));
        assert_eq!(Format::of("… [TOOL_CALLS] …"), Some(Format::List));
        assert_eq!(Format::of("… [TOOL_CALLS] … [ARGS] …"), None);
        assert_eq!(Format::of("… \"parameters\": … ipython …"), Some(Format::Bare));
        assert_eq!(Format::of("… <tool_call>{name}<arg_key> …"), None);
        assert_eq!(Format::of("… tools …"), None);
    }
}
