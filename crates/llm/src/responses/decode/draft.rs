//! An item of which parts may still come.

use std::mem;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::item::{self, Fields, kind, readable};
use crate::StreamEvent;

/// What is known of an item so far.
#[derive(Debug)]
pub(super) struct Draft {
    /// Where it stands in the answer.
    pub(super) place: Option<u64>,
    pub(super) id: String,
    /// Which call of the reply it is, if it is one.
    pub(super) call: Option<usize>,
    /// The item as it was announced.
    fields: Fields,
    /// The item as it came when it was complete.
    whole: Option<Box<RawValue>>,
    pieces: Vec<(Piece, String)>,
    arguments: String,
    is_named: bool,
}

/// What a delta belongs to, with its place among its like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Option<u64>),
    Refusal(Option<u64>),
    Summary(Option<u64>),
    Thought(Option<u64>),
}

impl Draft {
    /// Begins a draft after `calls` calls.
    pub(super) fn new(place: Option<u64>, fields: Fields, calls: usize) -> Self {
        let call = (kind(&fields) == "function_call").then_some(calls);
        let id = item::id(&fields).to_owned();
        Self {
            place,
            id,
            call,
            fields,
            whole: None,
            pieces: Vec::new(),
            arguments: String::new(),
            is_named: false,
        }
    }

    /// Returns the type of the item.
    pub(super) fn kind(&self) -> &str {
        kind(&self.fields)
    }

    /// Tells whether the item came as a whole.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Tells the name of a call.
    pub(super) fn announce(&mut self, emit: &mut dyn FnMut(StreamEvent)) {
        let name = self.fields.get("name").and_then(Value::as_str);
        if let (Some(index), Some(name), false) = (self.call, name, self.is_named) {
            let name = Some(name.to_owned());
            self.is_named = true;
            emit(StreamEvent::ToolCallDelta { index, name, arguments: String::new() });
        }
    }

    /// Adds to a text.
    pub(super) fn add(&mut self, piece: Piece, delta: &str, emit: &mut dyn FnMut(StreamEvent)) {
        if delta.is_empty() {
            return;
        }
        let is_new = self.pieces.last().is_none_or(|(last, _)| *last != piece);
        if is_new {
            self.pieces.push((piece, String::new()));
        }
        let is_reasoning = match piece {
            Piece::Text(_) | Piece::Refusal(_) => false,
            Piece::Summary(_) | Piece::Thought(_) => true,
        };
        // Some servers send the same reasoning as a summary too: a reader gets what came first.
        let is_shown = self
            .pieces
            .first()
            .is_some_and(|(first, _)| mem::discriminant(first) == mem::discriminant(&piece));
        if !is_reasoning {
            emit(StreamEvent::TextDelta(delta.to_owned()));
        } else if is_shown {
            let gap = if is_new && self.pieces.len() > 1 { "\n\n" } else { "" };
            emit(StreamEvent::ReasoningDelta(format!("{gap}{delta}")));
        }
        if let Some((_, text)) = self.pieces.last_mut() {
            text.push_str(delta);
        }
    }

    /// Adds to the arguments of a call.
    pub(super) fn add_arguments(&mut self, delta: &str, emit: &mut dyn FnMut(StreamEvent)) {
        self.announce(emit);
        let Some(index) = self.call.filter(|_| !delta.is_empty()) else { return };
        self.arguments.push_str(delta);
        emit(StreamEvent::ToolCallDelta { index, name: None, arguments: delta.to_owned() });
    }

    /// Takes the arguments as a whole, unless they came in pieces.
    pub(super) fn has_arguments(&mut self, whole: &str, emit: &mut dyn FnMut(StreamEvent)) {
        if self.arguments.is_empty() {
            self.add_arguments(whole, emit);
        }
    }

    /// Takes the whole item, and hands out what did not come in pieces.
    pub(super) fn complete(
        &mut self,
        raw: &RawValue,
        fields: &Fields,
        emit: &mut dyn FnMut(StreamEvent),
    ) {
        self.whole = Some(raw.to_owned());
        if let Some(arguments) = fields.get("arguments").and_then(Value::as_str) {
            self.has_arguments(arguments, emit);
        }
        if !self.pieces.is_empty() {
            return;
        }
        match kind(fields) {
            "message" => {
                let content = fields.get("content").and_then(Value::as_array).into_iter().flatten();
                for (n, part) in (0..).zip(content) {
                    let text = |key| part.get(key).and_then(Value::as_str).unwrap_or_default();
                    self.add(Piece::Text(Some(n)), text("text"), emit);
                    self.add(Piece::Refusal(Some(n)), text("refusal"), emit);
                }
            }
            "reasoning" => self.add(Piece::Thought(None), &readable(fields), emit),
            _ => {}
        }
    }

    /// Returns the item: as it came when it was complete, or else made of its pieces.
    pub(super) fn into_item(self) -> Option<Box<RawValue>> {
        let Self { mut fields, pieces, arguments, whole, .. } = self;
        if whole.is_some() {
            return whole;
        }
        // It was announced as being in progress.
        fields.remove("status");
        let (mut content, mut summary) = (Vec::new(), Vec::new());
        for (piece, text) in pieces {
            match piece {
                Piece::Text(_) => content.push(json!({"type": "output_text", "text": text})),
                Piece::Refusal(_) => content.push(json!({"type": "refusal", "refusal": text})),
                Piece::Thought(_) => content.push(json!({"type": "reasoning_text", "text": text})),
                Piece::Summary(_) => summary.push(json!({"type": "summary_text", "text": text})),
            }
        }
        for (key, parts) in [("content", content), ("summary", summary)] {
            if !parts.is_empty() {
                fields.insert(key.to_owned(), parts.into());
            }
        }
        if !arguments.is_empty() {
            fields.insert("arguments".to_owned(), arguments.into());
        }
        to_raw_value(&fields).ok()
    }
}
