//! The shapes of answers, as loosely as servers write them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Usage;
use crate::wire::json::Count;

/// An event of a stream; its `type` says which of the fields it has. What an event of a type not
/// known here means by a field is unknown too, so nothing is read before its type is.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// A whole answer, or the beginning of one.
#[derive(Deserialize)]
pub(super) struct Answer<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// A block, or the beginning of one.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// What is added to a block, or to the answer as a whole.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
}

/// What was counted. Within a stream it comes at the beginning and grows until the end.
#[derive(Debug, Deserialize, Clone, Copy, Default)]
pub(super) struct Tokens {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize, Clone, Copy, Default)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
}

impl Tokens {
    /// Takes over what is newer. Counts only grow: a server that leaves one out of the later event,
    /// or sends zero there, has not forgotten it.
    pub(super) fn update(&mut self, newer: &Self) {
        let grow = |old: &mut Count, new: Count| old.0 = old.0.max(new.0);
        grow(&mut self.input_tokens, newer.input_tokens);
        grow(&mut self.output_tokens, newer.output_tokens);
        grow(&mut self.cache_read_input_tokens, newer.cache_read_input_tokens);
        grow(&mut self.cache_creation_input_tokens, newer.cache_creation_input_tokens);
        if let Some(details) = newer.output_tokens_details {
            let known = self.output_tokens_details.get_or_insert_default();
            grow(&mut known.thinking_tokens, details.thinking_tokens);
        }
    }

    /// Returns the usage, or `None` if it holds no number. This wire counts what a cache was
    /// involved in beside the input, not within it.
    pub(super) fn usage(&self) -> Option<Usage> {
        if self.input_tokens.0.is_none() && self.output_tokens.0.is_none() {
            return None;
        }
        let cache_read = self.cache_read_input_tokens.0;
        let cache_write = self.cache_creation_input_tokens.0;
        let input = [self.input_tokens.0, cache_read, cache_write].into_iter().flatten();
        Some(Usage {
            input: input.fold(0, u64::saturating_add),
            output: self.output_tokens.0.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: self.output_tokens_details.and_then(|details| details.thinking_tokens.0),
        })
    }
}
