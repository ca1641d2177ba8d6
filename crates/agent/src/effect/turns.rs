//! The turns of a view, and which part of it may be shortened.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bowline_llm::{CallId, Message, Part, ToolCall, ToolResult};

use crate::conversation::{View, Whose, size_of_parts};
use crate::entry::Shown;

/// Returns the ranges of a view's messages that belong together: a reply with its results, or one
/// message that was said to the model.
pub(super) fn turns(view: &View) -> Vec<Range<usize>> {
    let mut turns: Vec<Range<usize>> = Vec::new();
    for (at, place) in view.places().iter().enumerate() {
        match (place.whose, turns.last_mut()) {
            (Whose::Tools, Some(last)) => last.end = at + 1,
            _ => turns.push(at..at + 1),
        }
    }
    turns
}

/// Returns where the last turns begin that are to stay: the last reply with what came behind it, so
/// many replies as long as all of it fits `most`, and further ones as long as it fits `tokens`.
pub(super) fn recent(view: &View, replies: usize, tokens: u64, most: u64) -> usize {
    let mut start = view.messages().len();
    let (mut used, mut kept) = (0, 0);
    for turn in turns(view).into_iter().rev() {
        let places = view.places().iter().skip(turn.start).take(turn.len());
        used += places.map(|place| place.tokens).sum::<u64>();
        let room = if kept < replies { most.max(tokens) } else { tokens };
        if kept > 0 && used > room {
            break;
        }
        start = turn.start;
        let whose = view.places().get(start).map(|place| place.whose);
        kept += usize::from(whose == Some(Whose::Model));
    }
    start
}

/// A result of a view, with the call that it is of.
pub(super) struct Observed<'a> {
    pub(super) result: &'a ToolResult,
    pub(super) call: Option<&'a ToolCall>,
}

/// Returns the results among the first messages of a view, in order.
pub(super) fn results(view: &View, before: usize) -> Vec<Observed<'_>> {
    let mut calls: HashMap<&CallId, &ToolCall> = HashMap::new();
    let mut results = Vec::new();
    for message in view.messages().iter().take(before) {
        match &**message {
            Message::Assistant(said) => {
                calls.extend(said.tool_calls().map(|call| (&call.id, call)));
            }
            Message::Results(all) => results.extend(
                all.iter()
                    .map(|result| Observed { result, call: calls.get(&result.call).copied() }),
            ),
            Message::User(_) => {}
        }
    }
    results
}

/// Shows results shorter, the oldest first, until the next request is no longer than `goal`. Returns
/// those, and the tokens of the next request then.
pub(super) fn shorten<'a>(
    view: &View,
    results: impl IntoIterator<Item = Observed<'a>>,
    goal: u64,
    shorter: impl Fn(&Observed<'_>) -> Option<Arc<[Part]>>,
) -> (Vec<Shown>, u64) {
    let (mut shown, mut freed) = (Vec::new(), 0);
    for observed in results {
        if view.estimate_without(freed) <= goal {
            break;
        }
        let Some(content) = shorter(&observed) else { continue };
        let (long, short) = (size_of_parts(&observed.result.content), size_of_parts(&content));
        // What is hardly shorter is not worth another look.
        if short + LEAST > long {
            continue;
        }
        freed += long - short;
        shown.push(Shown { call: observed.result.call.clone(), content });
    }
    (shown, view.estimate_without(freed))
}

/// How many tokens a result must get shorter by.
const LEAST: u64 = 16;

/// Returns where the last turn begins: the last reply, with what came behind it.
pub(super) fn last_turn(view: &View) -> usize {
    recent(view, 1, 0, 0)
}

/// Makes what stands in place of a result: what it was, and how it began.
pub(super) fn placeholder(observed: &Observed<'_>, preview: usize) -> Arc<[Part]> {
    let text = bowline_llm::text_of(&observed.result.content);
    let begins = first_chars(text.trim(), preview).replace(['\n', '\r'], " ");
    let more = if text.trim().chars().count() > preview { "..." } else { "" };
    let name = observed.call.map_or(observed.result.name.as_str(), |call| call.name.as_str());
    [Part::Text(format!("[tool result for {name}: {begins}{more}]"))].into()
}

/// Returns the first characters of a text.
pub(super) fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// Cuts a text to its beginning and its end.
pub(super) fn middle_out(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let half = limit / 2;
    let tail = text.char_indices().nth(count - half).map_or("", |(start, _)| &text[start..]);
    format!("{} [... {} characters ...] {tail}", first_chars(text, half), count - 2 * half)
}
