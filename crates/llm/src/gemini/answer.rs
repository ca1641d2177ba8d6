//! The shapes of answers: a chunk of a stream and a whole answer are the same.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::Usage;
use crate::wire::json::Count;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    pub(super) prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(default)]
    pub(super) usage_metadata: Option<Tokens>,
    #[serde(borrow, default)]
    pub(super) model_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) response_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) finish_message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct Content<'a> {
    /// Raw, since a part of an unknown kind is kept as it is.
    #[serde(borrow, default)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow, default)]
    pub(super) block_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) block_reason_message: Option<Cow<'a, str>>,
}

/// What a part holds.
pub(super) enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        is_thought: bool,
        signature: Option<&'a RawValue>,
    },
    Call {
        call: Call<'a>,
        signature: Option<&'a RawValue>,
    },
    /// Code the provider ran, an image it made, or what a later version brings.
    Other,
}

#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    thought: Option<bool>,
    #[serde(borrow, default)]
    thought_signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call: Option<Call<'a>>,
}

impl<'a> Part<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let Fields { text, thought, thought_signature, function_call } =
            serde_json::from_str(raw.get())?;
        let signature =
            thought_signature.filter(|raw| raw.get().starts_with('"') && raw.get() != "\"\"");
        let is_thought = thought.unwrap_or(false);
        if let Some(call) = function_call {
            return Ok(Self::Call { call, signature });
        }
        if let Some(text) = text {
            return Ok(Self::Text { text, is_thought, signature });
        }
        let fields: BTreeMap<Cow<'_, str>, IgnoredAny> = serde_json::from_str(raw.get())?;
        let is_empty = fields.keys().all(|key| matches!(&**key, "thought" | "thoughtSignature"));
        Ok(if is_empty {
            Self::Text { text: Cow::Borrowed(""), is_thought, signature }
        } else {
            Self::Other
        })
    }
}

/// Counts of tokens. Those of a stream are running totals, and a chunk may leave some out.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tokens {
    prompt_token_count: Count,
    candidates_token_count: Count,
    total_token_count: Count,
    cached_content_token_count: Count,
    thoughts_token_count: Count,
    tool_use_prompt_token_count: Count,
}

impl Tokens {
    /// Takes the counts of a later chunk.
    pub(super) fn update(&mut self, later: &Self) {
        let take = |count: &mut Count, later: Count| count.0 = later.0.or(count.0);
        take(&mut self.prompt_token_count, later.prompt_token_count);
        take(&mut self.candidates_token_count, later.candidates_token_count);
        take(&mut self.total_token_count, later.total_token_count);
        take(&mut self.cached_content_token_count, later.cached_content_token_count);
        take(&mut self.thoughts_token_count, later.thoughts_token_count);
        take(&mut self.tool_use_prompt_token_count, later.tool_use_prompt_token_count);
    }

    /// Returns the usage, or `None` if it holds no number.
    pub(super) fn usage(&self) -> Option<Usage> {
        if self.prompt_token_count.0.is_none() && self.candidates_token_count.0.is_none() {
            return None;
        }
        // What the provider's own tools found was read by the model, and is billed so.
        let tools = self.tool_use_prompt_token_count.0.unwrap_or(0);
        let input = self.prompt_token_count.0.unwrap_or(0).saturating_add(tools);
        let said = self.candidates_token_count.0.unwrap_or(0);
        let reasoning = self.thoughts_token_count.0;
        // Thoughts are not among the candidates' tokens, unless the total says they are.
        let has_thoughts = self.total_token_count.0 == Some(input.saturating_add(said));
        let output = if has_thoughts { said } else { said.saturating_add(reasoning.unwrap_or(0)) };
        let cache_read = self.cached_content_token_count.0;
        Some(Usage { input, output, cache_read, cache_write: None, reasoning })
    }
}
