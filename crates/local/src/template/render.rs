//! A conversation, written by a chat template.

use std::io;

use bowline_llm::{
    AssistantPart, ErrorKind, Message, ModelError, Part, Request, ToolSpec, text_of,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, context};
use serde::Serialize as _;
use serde_json::ser::Formatter;
use serde_json::{Map, Value, json};

use super::format::Format;

/// What stands around text that is not the template's own, while the template runs.
const BEGIN: char = '\u{f8f0}';
const END: char = '\u{f8f1}';

/// A part of a written conversation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// What the template wrote; it may name the tokens that structure a conversation.
    Own(String),
    /// What a user or a tool said.
    Said(String),
}

/// A chat template.
#[derive(Debug)]
pub(super) struct Renderer {
    environment: Environment<'static>,
    knows_tools: bool,
}

impl Renderer {
    /// Reads a template.
    pub(super) fn new(source: &str) -> Result<Self, ModelError> {
        let wrong = |error: Error| {
            let message = format!("the chat template of the model cannot be read: {error}");
            ModelError::new(ErrorKind::InvalidRequest, message)
        };
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let mut environment = Environment::new();
        let syntax = syntax.map_err(wrong)?;
        environment.set_syntax(syntax);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(minijinja::ErrorKind::InvalidOperation, message))
        });
        // The date is in the first message; a prefix that changes would be read again every day.
        environment.add_function("strftime_now", |_: String| String::new());
        environment.add_filter("tojson", tojson);
        environment.add_template_owned("chat", source.to_owned()).map_err(wrong)?;
        let names = environment.get_template("chat").map_err(wrong)?.undeclared_variables(false);
        Ok(Self { knows_tools: names.contains("tools"), environment })
    }

    /// Tells whether the template writes tools.
    pub(super) fn knows_tools(&self) -> bool {
        self.knows_tools
    }

    /// Writes a conversation, up to where the model's answer begins.
    pub(super) fn render(
        &self,
        request: &Request,
        format: Format,
        bos: &str,
        eos: &str,
    ) -> Result<Vec<Piece>, Error> {
        let messages = messages(request, format);
        let tools: Vec<minijinja::Value> = request.tools.specs().iter().map(tool).collect();
        let text = self.environment.get_template("chat")?.render(context! {
            messages => minijinja::Value::from(Serde(messages)),
            // Templates ask whether there are tools, not how many.
            tools => (!tools.is_empty()).then_some(tools),
            bos_token => bos,
            eos_token => eos,
            add_generation_prompt => true,
        })?;
        Ok(pieces(&text))
    }
}

/// Returns a tool as templates expect it, with its keys in the order in which models know them.
fn tool(spec: &ToolSpec) -> minijinja::Value {
    let (name, description) = (Value::from(&*spec.name), Value::from(&*spec.description));
    let parameters = spec.schema.as_str();
    let text = format!(
        r#"{{"type":"function","function":{{"name":{name},"description":{description},"parameters":{parameters}}}}}"#
    );
    serde_json::from_str(&text).unwrap_or_default()
}

/// Writes the messages as templates expect them.
fn messages(request: &Request, format: Format) -> Vec<Value> {
    let mut out = Vec::new();
    if !request.system.is_empty() {
        out.push(json!({ "role": "system", "content": &*request.system }));
    }
    for message in &request.messages {
        match &**message {
            Message::User(said) => push_user(&mut out, &content(&said.content)),
            Message::Assistant(said) => {
                let calls: Vec<Value> = said
                    .tool_calls()
                    .map(|call| {
                        let arguments: Value = serde_json::from_str(&call.arguments)
                            .unwrap_or_else(|_| Value::Object(Map::new()));
                        let id = id(call.id.as_str(), format);
                        json!({ "id": id, "type": "function", "function": {
                            "name": call.name, "arguments": arguments,
                        }})
                    })
                    .collect();
                let mut text = String::new();
                for part in &said.content {
                    if let AssistantPart::Text(more) = part {
                        text.push_str(more);
                    }
                }
                let mut message = json!({ "role": "assistant", "content": text });
                if !calls.is_empty() {
                    message["tool_calls"] = Value::Array(calls);
                }
                out.push(message);
            }
            Message::Results(results) => out.extend(results.iter().map(|result| {
                json!({
                    "role": "tool",
                    "name": result.name,
                    "tool_call_id": id(result.call.as_str(), format),
                    "content": said(&content(&result.content)),
                })
            })),
        }
    }
    out
}

/// Adds what a user says; templates want users and assistants to take turns.
fn push_user(out: &mut Vec<Value>, text: &str) {
    if let Some(last) = out.last_mut()
        && last["role"] == "user"
    {
        let before = last["content"].as_str().unwrap_or_default();
        last["content"] = Value::String(format!("{before}{}", said(&format!("\n\n{text}"))));
        return;
    }
    out.push(json!({ "role": "user", "content": said(text) }));
}

fn content(parts: &[Part]) -> String {
    let mut text = text_of(parts);
    let has_more = parts.iter().any(|part| !matches!(part, Part::Text(_)));
    if has_more {
        text.push_str("\n[an image or a document that this model cannot see]");
    }
    text
}

/// Marks what was said by others.
fn said(text: &str) -> String {
    format!("{BEGIN}{}{END}", text.replace([BEGIN, END], ""))
}

/// Returns an id as the templates of a format accept it: Mistral's wants nine letters and digits.
fn id(id: &str, format: Format) -> String {
    match format {
        Format::Tagged | Format::Bare => id.to_owned(),
        Format::List => {
            let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            format!("{:09x}", hash & 0xf_ffff_ffff)
        }
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((own, after)) = rest.split_once(BEGIN) {
        let (said, after) = after.split_once(END).unwrap_or((after, ""));
        pieces.push(Piece::Own(own.to_owned()));
        pieces.push(Piece::Said(said.to_owned()));
        rest = after;
    }
    pieces.push(Piece::Own(rest.replace(END, "")));
    pieces
        .retain(|piece| !matches!(piece, Piece::Own(text) | Piece::Said(text) if text.is_empty()));
    pieces
}

/// Writes JSON as Python does, which is what the models were trained on.
#[expect(clippy::needless_pass_by_value, reason = "a filter is given its options by value")]
fn tojson(value: &minijinja::Value, options: Kwargs) -> Result<String, Error> {
    let wrong = |error: serde_json::Error| {
        Error::new(minijinja::ErrorKind::BadSerialization, error.to_string())
    };
    let indent: Option<usize> = options.get("indent")?;
    // Others, such as `ensure_ascii`, change nothing here.
    let mut out = Vec::new();
    match indent {
        Some(indent) => {
            let spaces = " ".repeat(indent);
            let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
            value.serialize(&mut serializer).map_err(wrong)?;
        }
        None => {
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, Spaced);
            value.serialize(&mut serializer).map_err(wrong)?;
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// JSON on one line, with a space after commas and colons.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
