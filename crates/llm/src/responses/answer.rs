//! The shapes of answers, as loosely as servers write them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Usage;
use crate::wire::json::Count;

/// The data of one event. What an event of a type not known here means by a field is unknown too,
/// so nothing is read before its type is.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) output_index: Count,
    #[serde(borrow, default)]
    pub(super) item_id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) content_index: Count,
    #[serde(default)]
    pub(super) summary_index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Reads a text; anything else is none.
pub(super) fn text(raw: Option<&RawValue>) -> String {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The `response` of an event, or a whole answer.
#[derive(Deserialize, Default)]
pub(super) struct Whole<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    pub(super) incomplete_details: Option<Reason>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Reason {
    #[serde(default)]
    pub(super) reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

impl Tokens {
    /// Returns the usage, or `None` if it holds no number.
    pub(super) fn usage(&self) -> Option<Usage> {
        if self.input_tokens.0.is_none() && self.output_tokens.0.is_none() {
            return None;
        }
        let input = self.input_tokens_details.as_ref();
        let output = self.output_tokens_details.as_ref();
        Some(Usage {
            input: self.input_tokens.0.unwrap_or(0),
            output: self.output_tokens.0.unwrap_or(0),
            cache_read: input.and_then(|details| details.cached_tokens.0),
            cache_write: input.and_then(|details| details.cache_write_tokens.0),
            reasoning: output.and_then(|details| details.reasoning_tokens.0),
        })
    }
}
