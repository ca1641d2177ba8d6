//! Models that are known: their windows, what they can do, and what they cost.
//!
//! A model that is not here works too. Of it nothing is assumed: how full its window is and what it
//! costs are not told, a limit in dollars is refused, and how long an answer may be is left to the
//! provider, but for Anthropic's wire, which demands a limit: there it is
//! [`DEFAULT_MAX_TOKENS`](bowline_llm::anthropic::DEFAULT_MAX_TOKENS).

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use bowline_llm::Price;

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The provider whose model it is, as `openai`.
    pub provider: String,
    /// The model, as the provider knows it.
    pub name: String,
    /// How many tokens a request and its answer may have together.
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    pub max_output_tokens: Option<u64>,
    /// Whether it sees images.
    #[serde(default)]
    pub images: bool,
    /// Whether it reasons.
    #[serde(default)]
    pub reasoning: bool,
    /// What its tokens cost, at its own provider.
    pub price: Option<Price>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalog {
    model: Vec<Entry>,
}

static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| toml::from_str(include_str!("catalog.toml")).unwrap_or_default());

/// Returns the models of a provider.
pub fn of(provider: &str) -> impl Iterator<Item = &'static Entry> {
    CATALOG.model.iter().filter(move |entry| entry.provider == provider)
}

/// Finds a model by its name, or by that name with a date or `-latest` behind it.
pub fn find(provider: &str, model: &str) -> Option<&'static Entry> {
    let model = model.strip_prefix("models/").unwrap_or(model);
    of(provider).find(|entry| {
        model
            .strip_prefix(entry.name.as_str())
            .is_some_and(|rest| rest.is_empty() || is_dated(rest))
    })
}

/// Tells whether this only says which edition of a model is meant.
fn is_dated(rest: &str) -> bool {
    let Some(date) = rest.strip_prefix(['-', '@']) else { return false };
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    let is_date = digits == 8 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    date == "latest" || is_date
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_says_nothing_impossible() {
        assert!(CATALOG.model.len() > 20);
        for (n, entry) in CATALOG.model.iter().enumerate() {
            let Entry { provider, name, context_window, max_output_tokens, price, .. } = entry;
            assert!(context_window.is_some_and(|window| window >= 100_000), "{name}");
            assert!(*max_output_tokens <= *context_window, "{name}");
            let twice = CATALOG.model.iter().skip(n + 1);
            assert!(!twice.clone().any(|other| (&other.provider, &other.name) == (provider, name)));
            if let Some(price) = price {
                assert!(price.input < price.output, "{name}");
                assert!(price.cache_read.is_none_or(|read| read < price.input), "{name}");
                assert!(price.long.is_none_or(|long| long.input > price.input), "{name}");
            }
        }
    }

    #[test]
    fn a_name_stands_for_its_editions_and_for_nothing_else() {
        let found = |provider, model| find(provider, model).map(|entry| entry.name.as_str());
        assert_eq!(found("anthropic", "claude-sonnet-4-5"), Some("claude-sonnet-4-5"));
        assert_eq!(found("anthropic", "claude-sonnet-4-5-20250929"), Some("claude-sonnet-4-5"));
        assert_eq!(found("anthropic", "claude-sonnet-5-5"), Some("claude-sonnet-5-5"));
        assert_eq!(found("anthropic", "claude-haiku-4-5-latest"), Some("claude-haiku-4-5"));
        assert_eq!(found("openai", "gpt-5.5-2026-04-23"), Some("gpt-5.5"));
        assert_eq!(found("openai", "gpt-5.5-pro"), None);
        assert_eq!(found("gemini", "models/gemini-3.8-flash"), Some("gemini-3.8-flash"));
        assert_eq!(found("mine", "gpt-5.5"), None);
        assert_eq!(found("openai", ""), None);
    }
}
