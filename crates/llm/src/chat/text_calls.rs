//! Calls that a model wrote as text, where its server did not know them for calls.
//!
//! Four ways of writing are known: `<tool_call>{…}</tool_call>` of Hermes and Qwen, the
//! `<function=name>` of Qwen's models for code, `[TOOL_CALLS]` of Mistral, and Llama's bare JSON, which
//! must be the whole text. A text is taken for calls only if all that looks like one is one: the
//! name of a tool that was offered and its arguments. What stands around the calls stays text.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::{Part, ToolSpec};

/// The text and the calls in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
}

/// One call, as the model wrote it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: String,
    /// All of what it is written in, but for space.
    written: String,
}

impl Call {
    /// Tells whether the model has read the call in what tools said: then it does not make one but shows
    /// what it has read, as it may have been asked to, and whoever wrote that must not run anything.
    pub(super) fn is_repeated(&self, results: &[Arc<[Part]>]) -> bool {
        let mut said = results.iter().flat_map(|parts| parts.iter()).filter_map(Part::as_text);
        said.any(|text| without_space(text).contains(&self.written))
    }
}

/// Returns a text without what may change when it is repeated.
fn without_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

const HERMES: &str = "<tool_call>";
const HERMES_END: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const MISTRAL: &str = "[TOOL_CALLS]";
/// What a call begins with, wherever it stands.
const MARKERS: [&str; 3] = [HERMES, FUNCTION, MISTRAL];
const LLAMA: &str = "<|python_tag|>";
const FENCE: &str = "```";

/// Finds the calls in a text; `None` if there is none.
pub(super) fn find(text: &str, tools: &[ToolSpec]) -> Option<Found> {
    let found = match marker(text) {
        Some(_) => marked(text, tools)?,
        None => Found { text: String::new(), calls: bare(text)? },
    };
    let is_offered = |call: &Call| tools.iter().any(|tool| tool.name == call.name);
    (!found.calls.is_empty() && found.calls.iter().all(is_offered)).then_some(found)
}

/// Returns how much of the beginning of a text is text whatever follows, where `told` is what an
/// earlier call returned for less of it: only what is behind that is looked at.
pub(super) fn certain(text: &str, told: usize) -> usize {
    if told == 0 && may_be_bare(text) {
        return 0;
    }
    let Some(new) = text.get(told..) else { return told };
    let end = marker(new).map_or_else(|| new.len() - begun(new), |(at, _)| at);
    // Blank lines before a call are part of neither.
    let is_blank = told == 0 && new.get(..end).is_some_and(|text| text.trim().is_empty());
    if is_blank { 0 } else { told + end }
}

/// Finds the first marker.
fn marker(text: &str) -> Option<(usize, &'static str)> {
    MARKERS.into_iter().filter_map(|marker| Some((text.find(marker)?, marker))).min()
}

/// Returns how much of the end of a text may be the beginning of a marker.
fn begun(text: &str) -> usize {
    let is_begun = |length: &usize| {
        let end = text.len().checked_sub(*length).and_then(|at| text.get(at..));
        end.is_some_and(|end| MARKERS.iter().any(|marker| marker.starts_with(end)))
    };
    let longest = MARKERS.iter().map(|marker| marker.len()).max().unwrap_or(0);
    (1..longest).rev().find(is_begun).unwrap_or(0)
}

fn may_be_bare(text: &str) -> bool {
    let text = text.trim_start();
    let opens = |open: &str| match text.strip_prefix(open) {
        Some(rest) => matches!(rest.trim_start().chars().next(), None | Some('{')),
        None => open.starts_with(text),
    };
    [LLAMA, "```json", FENCE, ""].into_iter().any(opens)
}

/// Reads calls behind markers.
fn marked(text: &str, tools: &[ToolSpec]) -> Option<Found> {
    let mut found = Found { text: String::new(), calls: Vec::new() };
    let mut rest = text;
    while let Some((at, marker)) = marker(rest) {
        found.text.push_str(rest.get(..at)?);
        rest = rest.get(at + marker.len()..)?;
        let (call, behind) = match marker {
            MISTRAL => {
                rest = mistral(rest, &mut found.calls)?;
                continue;
            }
            FUNCTION => tagged(rest, tools)?,
            _ => match rest.trim_start().strip_prefix(FUNCTION) {
                Some(function) => tagged(function, tools)?,
                None => call(rest)?,
            },
        };
        found.calls.push(call);
        let behind = behind.trim_start();
        rest = behind.strip_prefix(HERMES_END).unwrap_or(behind);
    }
    found.text.push_str(rest);
    if found.text.trim().is_empty() {
        found.text.clear();
    }
    Some(found)
}

/// Returns what stands in a text before its rest, but for space.
fn before(text: &str, rest: &str) -> String {
    without_space(text.strip_suffix(rest).unwrap_or(text))
}

/// Reads `name><parameter=key>value</parameter>…</function>`, and returns what follows it.
fn tagged<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(Call, &'a str)> {
    let (name, mut rest) = text.split_once('>')?;
    let schema = tools.iter().find(|tool| tool.name == name)?.schema.read::<Value>().ok()?;
    let mut arguments = Map::new();
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix("</function>") {
            let arguments = Value::Object(arguments).to_string();
            let written = format!("{FUNCTION}{}", before(text, behind));
            return Some((Call { name: name.to_owned(), arguments, written }, behind));
        }
        let (key, value) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, behind) = value.split_once("</parameter>")?;
        // The tags stand on lines of their own.
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let is_text = schema["properties"][key]["type"] == "string";
        let read = if is_text { None } else { serde_json::from_str(value).ok() };
        arguments.insert(key.to_owned(), read.unwrap_or_else(|| value.into()));
        rest = behind;
    }
}

/// Reads `[{…}, …]`, as Mistral's older models write, or `name[ARGS]{…}`, as its newer ones do.
fn mistral<'a>(text: &'a str, calls: &mut Vec<Call>) -> Option<&'a str> {
    let text = text.trim_start();
    if text.starts_with('[') {
        let (list, rest) = json(text)?;
        let list: Vec<&RawValue> = serde_json::from_str(list).ok()?;
        for item in list {
            calls.push(call(item.get())?.0);
        }
        return Some(rest);
    }
    let (name, arguments) = text.split_at(text.find(['[', '{'])?);
    // An id may stand between the name and the arguments.
    let arguments = match arguments.split_once("[ARGS]") {
        Some((between, arguments)) if !between.contains('{') => arguments,
        Some(_) | None => arguments,
    };
    let (arguments, rest) = json(arguments.trim_start())?;
    let arguments = object(arguments)?;
    let written = format!("{MISTRAL}{}", before(text, rest));
    calls.push(Call { name: name.trim().to_owned(), arguments, written });
    Some(rest)
}

/// Reads a text that is nothing but calls.
fn bare(text: &str) -> Option<Vec<Call>> {
    let text = text.trim();
    let text = text.strip_prefix(LLAMA).unwrap_or(text);
    let fenced = text.strip_prefix("```json").or_else(|| text.strip_prefix(FENCE));
    let mut rest = match fenced {
        Some(inner) => inner.strip_suffix(FENCE)?.trim(),
        None => text.trim(),
    };
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (call, behind) = call(rest)?;
        calls.push(call);
        rest = behind.trim_start().trim_start_matches(';').trim_start();
    }
    Some(calls)
}

/// Reads a call at the beginning of a text, and returns what follows it.
fn call(text: &str) -> Option<(Call, &str)> {
    #[derive(Deserialize)]
    struct Written<'a> {
        name: String,
        #[serde(borrow, default, alias = "parameters")]
        arguments: Option<&'a RawValue>,
    }

    let (written, rest) = json(text.trim_start())?;
    let Written { name, arguments } = serde_json::from_str(written).ok()?;
    let arguments = match arguments {
        Some(arguments) => object(arguments.get())?,
        None => "{}".to_owned(),
    };
    Some((Call { name, arguments, written: before(text, rest) }, rest))
}

/// Reads an object, which some models write into a string.
fn object(json: &str) -> Option<String> {
    let text = match json.starts_with('"') {
        true => serde_json::from_str::<String>(json).ok()?,
        false => json.to_owned(),
    };
    serde_json::from_str::<Map<String, Value>>(&text).ok()?;
    Some(text)
}

/// Splits a text behind the JSON value that it begins with.
fn json(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = values.next()?.ok()?;
    Some((value.get(), text.get(values.byte_offset()..)?))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::RawJson;

    fn tools() -> Vec<ToolSpec> {
        let properties = r#"{"command":{"type":"string"},"lines":{"type":"integer"}}"#;
        let schema = RawJson::parse(format!(r#"{{"type":"object","properties":{properties}}}"#));
        let schema = schema.unwrap();
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            schema: schema.clone(),
        };
        ["bash", "read"].map(tool).to_vec()
    }

    /// Returns the text, and each call as `name arguments`.
    fn read(text: &str) -> Option<(String, Vec<String>)> {
        let Found { text, calls } = find(text, &tools())?;
        let calls = calls.into_iter().map(|call| format!("{} {}", call.name, call.arguments));
        Some((text, calls.collect()))
    }

    #[test]
    fn every_way_of_writing_is_read() {
        let one =
            |text: &str| Some((text.to_owned(), vec![r#"bash {"command": "ls"}"#.to_owned()]));
        let call = r#"{"name": "bash", "arguments": {"command": "ls"}}"#;
        let llama = r#"{"name": "bash", "parameters": {"command": "ls"}}"#;
        for (written, text) in [
            (format!("<tool_call>\n{call}\n</tool_call>"), ""),
            (format!("\n\n<tool_call>{call}"), ""),
            (
                format!("Let me look.\n<tool_call>{call}</tool_call>\nThen."),
                "Let me look.\n\nThen.",
            ),
            (format!("[TOOL_CALLS][{call}]"), ""),
            (format!("Yes. [TOOL_CALLS] [{call}]"), "Yes. "),
            (r#"[TOOL_CALLS]bash[ARGS]{"command": "ls"}"#.to_owned(), ""),
            (r#"[TOOL_CALLS]bash[CALL_ID]abc123def[ARGS]{"command": "ls"}"#.to_owned(), ""),
            (r#"[TOOL_CALLS]bash{"command": "ls"}"#.to_owned(), ""),
            (llama.to_owned(), ""),
            (format!("<|python_tag|>{llama}"), ""),
            (format!("```json\n{call}\n```"), ""),
        ] {
            assert_eq!(read(&written), one(text), "{written}");
        }
        let inner = r#"{"name": "bash", "arguments": "{\"command\": \"ls\"}"}"#;
        assert_eq!(read(inner), one(""));
        let two = format!("{llama}; {}", r#"{"name": "read", "parameters": {}}"#);
        assert_eq!(read(&two).unwrap().1.len(), 2);
        let two = format!("<tool_call>{call}</tool_call>\n<tool_call>{call}</tool_call>");
        assert_eq!(
            read(&two).unwrap(),
            (String::new(), [one("").unwrap().1, one("").unwrap().1].concat())
        );
    }

    #[test]
    fn tags_name_what_they_hold() {
        let function = "<function=bash>\n<parameter=command>\ncat <<E\n 1\nE\n</parameter>\n\
            <parameter=lines>\n7\n</parameter>\n<parameter=odd>\n{\"a\": [\n</parameter>\n</function>";
        let call = r#"bash {"command":"cat <<E\n 1\nE","lines":7,"odd":"{\"a\": ["}"#;
        for (written, text) in [
            (format!("<tool_call>\n{function}\n</tool_call>"), ""),
            (format!("So:\n{function}\n</tool_call>"), "So:\n"),
            (function.to_owned(), ""),
        ] {
            assert_eq!(read(&written), Some((text.to_owned(), vec![call.to_owned()])), "{written}");
        }
        let empty = "<function=read></function>";
        assert_eq!(read(&format!("{empty}\n{empty}")).unwrap().1, ["read {}", "read {}"]);
    }

    #[test]
    fn what_is_not_wholly_a_call_stays_text() {
        for text in [
            "",
            "no call",
            r#"{"name": "delete", "arguments": {}}"#,
            r#"{"name": "bash", "arguments": [1]}"#,
            r#"{"name": "bash", "arguments": {"command": "#,
            r#"{"answer": 1}"#,
            r#"So: {"name": "bash", "arguments": {}}"#,
            r#"{"name": "bash", "arguments": {}} is how it is called"#,
            "Write <tool_call> around it.",
            "<tool_call>\n<function=delete>\n</function>\n</tool_call>",
            "<function=bash>\n<parameter=command>\nls",
            "<function=bash> is how it begins",
            r#"<tool_call>{"name": "bash"}</tool_call> <tool_call>oh</tool_call>"#,
            "[TOOL_CALLS] is a token",
            "```json\n{}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_cannot_be_a_call_is_certain() {
        for (text, expected) in [
            ("", 0),
            (" \n", 0),
            ("Hello", 5),
            ("Hello <", 6),
            ("Hello <tool", 6),
            ("Hello <tool_call>{", 6),
            ("Hello [TOOL", 6),
            ("Hello <function", 6),
            ("Hello <b>", 9),
            ("\n<tool_", 0),
            ("{\"na", 0),
            ("``", 0),
            ("```js", 0),
            ("```json\n", 0),
            ("```rust", 7),
            ("```\nfn", 6),
            ("<|py", 0),
            ("a[1]", 4),
        ] {
            assert_eq!(certain(text, 0), expected, "{text:?}");
        }
        assert_eq!(certain("Hello {", 5), 7);
        assert_eq!(certain("Hello <tool_call>{", 5), 6);
    }
}
