//! A conversation, written in lines.

use std::fmt::Write as _;

use bowline_llm::{AssistantPart, Message, Messages, ToolCall, ToolResult, text_of};
use serde_json::{Map, Value};

use super::forms::Form;

/// How much of a result is shown, in bytes.
const RESULT: usize = 700;

/// A conversation as a list of turns, each beginning with what the user said.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    turns: Vec<Turn>,
}

/// What came of one request.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// What the user said, on one line.
    pub(super) user: String,
    /// The lines that followed.
    pub(super) lines: String,
    /// How many calls were made.
    pub(super) calls: usize,
    /// Whether a call succeeded.
    pub(super) has_result: bool,
    /// The tools whose calls failed.
    pub(super) failed: Vec<String>,
}

impl Dialogue {
    /// Reads a conversation.
    pub(super) fn of(messages: &Messages) -> Self {
        let mut dialogue = Self::default();
        let mut open: Vec<&ToolCall> = Vec::new();
        for message in messages {
            match &**message {
                Message::User(said) => dialogue.hear(&text_of(&said.content)),
                Message::Assistant(said) => {
                    open = said.tool_calls().collect();
                    for part in &said.content {
                        if let AssistantPart::Text(text) = part
                            && open.is_empty()
                        {
                            dialogue.line("Answer", &one_line(text, " "));
                        }
                    }
                }
                Message::Results(results) => {
                    for result in results {
                        let call = open.iter().find(|call| call.id == result.call);
                        dialogue.take(result, call.copied());
                    }
                }
            }
        }
        dialogue
    }

    /// Returns the turn that is to be answered.
    pub(super) fn last(&self) -> Option<&Turn> {
        self.turns.last()
    }

    /// Forgets the oldest turn, unless it is the last one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let can = self.turns.len() > 1;
        if can {
            self.turns.remove(0);
        }
        can
    }

    /// Writes the conversation; the last turn is open.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (n, turn) in self.turns.iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            let _ = write!(out, "User: {}\n{}", turn.user, turn.lines);
        }
        out
    }

    fn hear(&mut self, text: &str) {
        let text = one_line(text, " ");
        match self.turns.last_mut() {
            // What is said in one go is one request.
            Some(turn) if turn.lines.is_empty() => {
                turn.user.push(' ');
                turn.user.push_str(&text);
            }
            Some(_) | None => self.turns.push(Turn { user: text, ..Turn::default() }),
        }
    }

    fn take(&mut self, result: &ToolResult, call: Option<&ToolCall>) {
        let form = Form::of(&result.name);
        let text = text_of(&result.content);
        let arguments = call.map(|call| call.arguments.as_str()).unwrap_or_default();
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        let line = match form {
            Some(form) => form.call(&form.texts_of(&arguments)),
            None => one_line(&format!("{}({})", result.name, Value::Object(arguments)), " "),
        };
        let between = form.map_or(" / ", |form| form.between);
        let shown = match result.name.as_str() {
            "grep" if !result.is_error => with_places(&text),
            _ => text,
        };
        self.line("Call", &line);
        self.line("Result", shortened(&one_line(&shown, between)));
        let Some(turn) = self.turns.last_mut() else { return };
        turn.calls += 1;
        if result.is_error {
            turn.failed.push(result.name.clone());
        } else {
            turn.has_result = true;
        }
    }

    fn line(&mut self, kind: &str, text: &str) {
        if let Some(turn) = self.turns.last_mut() {
            let _ = writeln!(turn.lines, "{kind}: {text}");
        }
    }
}

/// Writes before each line that was found where it stands, which a search says once for a file.
fn with_places(found: &str) -> String {
    let mut out = String::new();
    let mut file = "";
    for line in found.lines() {
        match line.split_once(':') {
            Some((number, text)) if number.parse::<u64>().is_ok() => {
                let _ = writeln!(out, "{file} line {number}: {}", text.trim());
            }
            Some(_) | None => file = line.trim(),
        }
    }
    if out.is_empty() { found.to_owned() } else { out }
}

/// Puts the lines of a text on one.
pub(super) fn one_line(text: &str, between: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.join(between)
}

fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(RESULT)).unwrap_or(text)
}
