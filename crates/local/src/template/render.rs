//! A conversation, written by a chat template.

use std::io;

use bowline_llm::{ErrorKind, Message, ModelError, Part, Request, ToolCall, ToolSpec, text_of};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, context};
use serde::Serialize as _;
use serde_json::ser::Formatter;

use super::format::Format;
use crate::vocabulary::Piece;

/// What stands around text that is not the template's own, while the template runs.
const BEGIN: char = '\u{f8f0}';
const END: char = '\u{f8f1}';

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
        // It marks what a model is trained on.
        let source = source.replace("{% generation %}", "").replace("{% endgeneration %}", "");
        environment.add_template_owned("chat", source).map_err(wrong)?;
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
        let turns: Vec<Value> = turns(request, format).into_iter().map(Turn::into_value).collect();
        let tools: Vec<Value> = request.tools.specs().iter().map(tool).collect();
        let text = self.environment.get_template("chat")?.render(context! {
            messages => turns,
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
fn tool(spec: &ToolSpec) -> Value {
    let text = |text: &str| serde_json::Value::from(clean(text));
    let (name, description) = (text(&spec.name), text(&spec.description));
    let parameters = clean(spec.schema.as_str());
    let text = format!(
        r#"{{"type":"function","function":{{"name":{name},"description":{description},"parameters":{parameters}}}}}"#
    );
    serde_json::from_str(&text).unwrap_or_default()
}

/// A message as templates expect it.
#[derive(Debug, Default)]
struct Turn {
    role: &'static str,
    content: String,
    calls: Vec<Value>,
    /// Of a result the id of the call and the name of the tool.
    of: Option<(String, String)>,
}

impl Turn {
    fn new(role: &'static str, content: String) -> Self {
        Self { role, content, ..Self::default() }
    }

    fn into_value(self) -> Value {
        let Self { role, content, calls, of } = self;
        let mut pairs = vec![("role", Value::from(role)), ("content", Value::from(content))];
        if !calls.is_empty() {
            pairs.push(("tool_calls", Value::from(calls)));
        }
        if let Some((id, name)) = of {
            pairs.extend([("tool_call_id", Value::from(id)), ("name", Value::from(name))]);
        }
        Value::from_pairs(pairs)
    }
}

/// Writes the conversation as templates expect it: users and assistants take turns.
fn turns(request: &Request, format: Format) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    if !request.system.is_empty() {
        turns.push(Turn::new("system", clean(&request.system)));
    }
    for message in &request.messages {
        match &**message {
            Message::User(user) => {
                if turns.last().is_some_and(|last| last.role == "tool") && format == Format::List {
                    // Here nobody but the assistant speaks after a result.
                    turns.push(Turn::new("assistant", String::new()));
                }
                push(&mut turns, Turn::new("user", said(&content(&user.content))));
            }
            Message::Assistant(reply) => {
                let mut turn = Turn::new("assistant", said(&reply.to_text()));
                turn.calls = reply.tool_calls().map(|call| written(call, format)).collect();
                push(&mut turns, turn);
            }
            Message::Results(results) => {
                let results = results.iter().map(|result| Turn {
                    of: Some((id(result.call.as_str(), format), result.name.clone())),
                    ..Turn::new("tool", said(&content(&result.content)))
                });
                push_results(&mut turns, results, format);
            }
        }
    }
    turns
}

/// Adds a message; what one speaker says in a row is one.
fn push(turns: &mut Vec<Turn>, turn: Turn) {
    match turns.last_mut() {
        Some(last) if last.role == turn.role && last.calls.is_empty() => {
            if !last.content.is_empty() && !turn.content.is_empty() {
                last.content.push_str("\n\n");
            }
            last.content.push_str(&turn.content);
            last.calls = turn.calls;
        }
        Some(_) | None => turns.push(turn),
    }
}

/// Adds the results of a message's calls.
fn push_results(turns: &mut Vec<Turn>, results: impl Iterator<Item = Turn>, format: Format) {
    let calls = match turns.last_mut() {
        Some(last) if format == Format::Bare && last.calls.len() > 1 => last.calls.split_off(1),
        Some(_) | None => return turns.extend(results),
    };
    // Here a message has one call, so each result is followed by the next call.
    let mut calls = calls.into_iter();
    for result in results {
        turns.push(result);
        if let Some(call) = calls.next() {
            turns.push(Turn { calls: vec![call], ..Turn::new("assistant", String::new()) });
        }
    }
}

/// Writes a call. Its arguments keep their order, which is how the model wrote them.
fn written(call: &ToolCall, format: Format) -> Value {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let arguments = match arguments.kind() {
        ValueKind::Map => marked(&arguments),
        _ => Value::from_pairs([] as [(&str, Value); 0]),
    };
    context! {
        id => id(call.id.as_str(), format),
        type => "function",
        function => context! { name => clean(&call.name), arguments => arguments },
    }
}

/// Marks every text in a value.
fn marked(value: &Value) -> Value {
    let items = || value.try_iter().into_iter().flatten();
    match value.kind() {
        ValueKind::String => Value::from(said(value.as_str().unwrap_or_default())),
        ValueKind::Map => Value::from_pairs(items().map(|key| {
            let item = value.get_item(&key).unwrap_or_default();
            (key, marked(&item))
        })),
        ValueKind::Seq => items().map(|item| marked(&item)).collect(),
        _ => value.clone(),
    }
}

fn content(parts: &[Part]) -> String {
    let mut text = text_of(parts);
    let has_more = parts.iter().any(|part| !matches!(part, Part::Text(_)));
    if has_more {
        text.push_str("\n[an image or a document that this model cannot see]");
    }
    text
}

/// Marks what is not the template's own. Space around it is left out, as most templates do.
fn said(text: &str) -> String {
    match clean(text).trim() {
        "" => String::new(),
        text => format!("{BEGIN}{text}{END}"),
    }
}

/// Takes the marks out of a text.
fn clean(text: &str) -> String {
    text.replace([BEGIN, END], "")
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
fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
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

#[cfg(test)]
mod tests;
