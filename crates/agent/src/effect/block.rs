//! Results that are shown shorter, in blocks: from a limit on, and then so many at once that the
//! provider's cache is not lost again soon.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use bowline_llm::{CallId, Message, Part, StoredKind, ToolCall, ToolResult, text_of};

use crate::conversation::{View, size_of_parts};
use crate::entry::{Act, Acted, Entry, EntryKind, Rewrite, Shown};

use super::{Step, share_of};

/// The share of the limit that is to be left.
const TARGET: f64 = 0.6;

/// The share of the limit that is the least worth losing the provider's cache for.
const LEAST: f64 = 0.1;

/// How many tokens a result must get shorter by.
const LEAST_EACH: u64 = 16;

/// How much is to be cut at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// How many tokens are to be left.
    pub(super) goal: u64,
    /// How many tokens it must free, or it is not worth it.
    pub(super) least: u64,
}

impl Block {
    /// Returns how many tokens are to be left, be it due or not.
    pub(super) fn goal(step: &Step, threshold: f64) -> u64 {
        let (limit, tokens) = (step.limit(threshold), step.tokens());
        match limit {
            Some(limit) if !step.is_overflown => share_of(limit, TARGET),
            // A request that was too long says that the limit is lower than it is thought to be.
            limit => share_of(limit.unwrap_or(tokens).min(tokens), TARGET),
        }
    }

    /// Returns how much is to be cut now; `None` below the limit.
    ///
    /// After a request that was too long for the model all of it must be possible: there is one more
    /// request only, and who can cut more should have it.
    pub(super) fn due(step: &Step, threshold: f64) -> Option<Self> {
        let (goal, tokens) = (Self::goal(step, threshold), step.tokens());
        if step.is_overflown {
            return Some(Self { goal, least: tokens.saturating_sub(goal) });
        }
        let limit = step.limit(threshold).filter(|limit| tokens >= *limit)?;
        Some(Self { goal, least: share_of(limit, LEAST).max(1) })
    }

    /// Shows results shorter, the oldest first, until enough is cut; does nothing if that is too
    /// little.
    pub(super) fn cut<'a>(
        self,
        view: &View,
        results: impl IntoIterator<Item = Observed<'a>>,
        shorter: impl Fn(&Observed<'_>) -> Option<Arc<[Part]>>,
    ) -> Vec<Act> {
        let (results, after) = shorten(view, results, self.goal, shorter);
        if view.estimate().saturating_sub(after) < self.least {
            return Vec::new();
        }
        vec![Act::Rewrite(Rewrite { results, ..Rewrite::default() })]
    }
}

/// A result of a view, with the call that it is of.
pub(super) struct Observed<'a> {
    pub(super) result: &'a ToolResult,
    pub(super) call: Option<&'a ToolCall>,
}

impl Observed<'_> {
    pub(super) fn tool(&self) -> &str {
        self.call.map_or(&self.result.name, |call| &call.name)
    }
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

/// Which results are shown otherwise already: a fold of the log.
#[derive(Debug, Clone, Default)]
pub struct Replaced {
    own: HashSet<CallId>,
    // What stands in place of these says how to get them back.
    offloaded: HashSet<CallId>,
}

impl Replaced {
    /// Takes in an entry.
    pub(super) fn fold(&mut self, entry: &Entry) {
        if let EntryKind::Effect(acted) = &entry.kind
            && acted.is_of("offload")
        {
            self.offloaded.extend(shown_by(acted));
        }
    }

    /// Takes in what the effect did whose memory this is.
    pub(super) fn acted(&mut self, acted: &Acted) {
        self.own.extend(shown_by(acted));
    }

    /// Returns the results among the first messages of a view that may be shown shorter, in order:
    /// errors never are, and what was offloaded can be got back only by what stands there.
    pub(super) fn open<'a>(&self, view: &'a View, before: usize) -> Vec<Observed<'a>> {
        let mut open = results(view, before);
        open.retain(|one| !one.result.is_error && !self.offloaded.contains(&one.result.call));
        open
    }

    /// Returns those of the open results that the effect has not shown shorter before.
    pub(super) fn fresh<'a>(&self, view: &'a View, before: usize) -> Vec<Observed<'a>> {
        let mut fresh = self.open(view, before);
        fresh.retain(|one| !self.own.contains(&one.result.call));
        fresh
    }
}

/// Returns the calls whose results an effect shows otherwise.
fn shown_by(acted: &Acted) -> impl Iterator<Item = CallId> {
    let results = match &acted.act {
        Act::Rewrite(rewrite) => rewrite.results.as_slice(),
        Act::Say { .. }
        | Act::Ask { .. }
        | Act::Note(_)
        | Act::Warn { .. }
        | Act::Stop { .. }
        | Act::Fail(_) => &[],
    };
    results.iter().map(|shown| shown.call.clone())
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
        if short + LEAST_EACH > long {
            continue;
        }
        freed += long - short;
        shown.push(Shown { call: observed.result.call.clone(), content });
    }
    (shown, view.estimate_without(freed))
}

/// Makes what stands in place of a result: what it was, and how it began.
pub(super) fn placeholder(observed: &Observed<'_>, preview: usize) -> Arc<[Part]> {
    let begins = preview_of(&observed.result.content, preview);
    [Part::Text(format!("[tool result for {}: {begins}]", observed.tool()))].into()
}

/// Returns how some parts begin, on one line, and what they hold that is no text.
pub(super) fn preview_of(parts: &[Part], preview: usize) -> String {
    let text = text_of(parts);
    let text = text.trim();
    let mut begins = first_chars(text, preview).replace(['\n', '\r'], " ");
    if text.chars().count() > preview {
        begins.push_str("...");
    }
    let separator = |begins: &str| if begins.is_empty() { "" } else { ", " };
    let stored = stored_text(parts);
    if stored > 0 {
        let _ = write!(begins, "{}a text of {stored} bytes", separator(&begins));
    }
    let others = others(parts).count();
    if others > 0 {
        let _ = write!(begins, "{}{others} images or documents", separator(&begins));
    }
    begins
}

/// Cuts the text of some parts to its first characters, if there are more, and leaves the other
/// parts as they are.
pub(super) fn trimmed(parts: &[Part], limit: usize) -> Option<Arc<[Part]>> {
    let (text, stored) = (text_of(parts), stored_text(parts));
    let kept = first_chars(&text, limit);
    let cut = text[kept.len()..].chars().count() as u64 + stored;
    if cut == 0 {
        return None;
    }
    let text = Part::Text(format!("{kept}\n[... {cut} characters cut]"));
    Some(std::iter::once(text).chain(others(parts).cloned()).collect())
}

/// Returns how many characters of text some parts have; of what is kept elsewhere, bytes.
pub(super) fn length(parts: &[Part]) -> u64 {
    let texts = parts.iter().filter_map(Part::as_text);
    texts.map(|text| text.chars().count() as u64).sum::<u64>() + stored_text(parts)
}

/// Returns how many bytes of text are kept elsewhere.
pub(super) fn stored_text(parts: &[Part]) -> u64 {
    let bytes = |part: &Part| match part {
        Part::Stored(stored) if stored.kind == StoredKind::Text => stored.bytes,
        Part::Stored(_) | Part::Text(_) | Part::Image(_) | Part::Document(_) => 0,
    };
    parts.iter().map(bytes).sum()
}

/// Returns the parts that are no text.
pub(super) fn others(parts: &[Part]) -> impl Iterator<Item = &Part> {
    parts.iter().filter(|part| match part {
        Part::Text(_) => false,
        Part::Image(_) | Part::Document(_) => true,
        Part::Stored(stored) => stored.kind != StoredKind::Text,
    })
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
