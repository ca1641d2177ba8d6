//! The ways in which models write their calls.

use bowline_llm::{ErrorKind, ToolSpec};
use llama_cpp_2::json_schema_to_grammar;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::engine::Halt;

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
#[derive(Deserialize)]
struct Written<'a> {
    name: String,
    #[serde(borrow, alias = "parameters")]
    arguments: &'a RawValue,
}

impl Format {
    /// Recognises the way of a template.
    pub(super) fn of(template: &str) -> Option<Self> {
        if template.contains("[TOOL_CALLS]") && !template.contains("[ARGS]") {
            Some(Self::List)
        } else if template.contains("<tool_call>") && !template.contains("<function=") {
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

    /// Finds the beginning of a call in what was said from `from` on.
    pub(super) fn find_call(self, said: &str, from: usize) -> Option<usize> {
        let rest = said.get(from..)?;
        match self {
            Self::Tagged | Self::List => Some(from + rest.find(self.trigger())?),
            // JSON in the middle of a text is a text.
            Self::Bare => {
                let start = rest.len() - rest.trim_start().len();
                rest.trim_start().starts_with(self.trigger()).then_some(from + start)
            }
        }
    }

    /// Writes the grammar of what follows the opening.
    pub(super) fn grammar(self, tools: &[ToolSpec]) -> Result<String, Halt> {
        let arguments = match self {
            Self::Tagged | Self::List => "arguments",
            Self::Bare => "parameters",
        };
        let call = calls_grammar(tools, arguments)?;
        let root = match self {
            Self::Tagged => {
                "root ::= call \"\\n</tool_call>\" (\"\\n<tool_call>\\n\" call \"\\n</tool_call>\")*\n"
            }
            Self::Bare => "root ::= call\n",
            Self::List => "root ::= \"[\" call (\", \" call)* \"]\"\n",
        };
        Ok(format!("{root}{call}"))
    }

    /// Reads calls that obey the grammar; `None` if they are not whole.
    pub(super) fn calls(self, text: &str) -> Option<Vec<(String, String)>> {
        let read = |text: &str| -> Option<(String, String)> {
            let written: Written<'_> = serde_json::from_str(text.trim()).ok()?;
            Some((written.name, written.arguments.get().to_owned()))
        };
        match self {
            Self::Tagged => {
                let mut calls = Vec::new();
                for part in text.split("<tool_call>").skip(1) {
                    // A last call that was cut off is none, and the ones before it stand alone.
                    calls.push(read(part.trim_end().strip_suffix("</tool_call>")?)?);
                }
                Some(calls)
            }
            Self::Bare => Some(vec![read(text)?]),
            Self::List => {
                let list = text.strip_prefix("[TOOL_CALLS]")?;
                let written: Vec<Written<'_>> = serde_json::from_str(list.trim()).ok()?;
                let calls = written.into_iter();
                Some(calls.map(|call| (call.name, call.arguments.get().to_owned())).collect())
            }
        }
    }
}

/// Writes the grammar of one call of any tool, as the rule `call`.
fn calls_grammar(tools: &[ToolSpec], arguments: &str) -> Result<String, Halt> {
    let calls: Vec<String> = tools
        .iter()
        .map(|tool| {
            let own = call_schema(&tool.name, arguments, tool.schema.as_str());
            // A schema with what a grammar cannot say is left to the tool, which checks it too.
            match json_schema_to_grammar(&own) {
                Ok(_) => own,
                Err(_) => call_schema(&tool.name, arguments, r#"{"type":"object"}"#),
            }
        })
        .collect();
    let any = format!(r#"{{"anyOf":[{}]}}"#, calls.join(","));
    let grammar = json_schema_to_grammar(&any).map_err(|error| {
        Halt::failed(ErrorKind::InvalidRequest, format!("the tools make no grammar: {error}"))
    })?;
    let rules = grammar.lines().map(|line| match line.strip_prefix("root ::=") {
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
