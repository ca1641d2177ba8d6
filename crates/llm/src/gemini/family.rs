//! What models of this wire want differently, told by their names.

use serde::Serialize;

use crate::Effort;

/// A line of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Models that do not think, or whose thinking cannot be set: those before 2.5, and those
    /// that make images or speech.
    Unthinking,
    /// Gemini 2.5, which takes a number of tokens to think with.
    Budget {
        /// The fewest tokens it takes; with 0 it does not think.
        least: u32,
        /// The most tokens it takes.
        most: u32,
        /// Whether it thinks without being asked to.
        thinks: bool,
    },
    /// Gemini 3 and later, which takes a level, sees media in the results of calls, and refuses
    /// calls of its own that come back without a signature.
    Level {
        /// Whether it knows the level `MINIMAL`.
        has_minimal: bool,
        /// Whether it knows the level `MEDIUM`.
        has_medium: bool,
    },
    /// A name that says nothing. It is taken for a current model if an effort is asked for, and
    /// gets nothing that an older one would refuse otherwise.
    Unknown,
}

/// How a model is to think.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thinking {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

impl Family {
    pub(super) fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let is_for_media = ["-image", "-tts", "-audio", "-live"].iter().any(|of| name.contains(of));
        if is_for_media || name.starts_with("gemma-") {
            return Self::Unthinking;
        }
        let Some(rest) = name.strip_prefix("gemini-") else { return Self::Unknown };
        let (major, minor) = match version(rest) {
            Some(version) => version,
            // Names such as `gemini-flash-latest` follow the newest.
            None if rest.ends_with("-latest") => return Self::LATEST,
            None => return Self::Unthinking,
        };
        let is_pro = rest.contains("-pro");
        let is_lite = rest.contains("-lite");
        match (major, minor) {
            (..=1, _) | (2, ..=4) => Self::Unthinking,
            (2, _) if is_pro => Self::Budget { least: 128, most: 32_768, thinks: true },
            (2, _) => Self::Budget { least: 0, most: 24_576, thinks: !is_lite },
            (3, 0) if is_pro => Self::Level { has_minimal: false, has_medium: false },
            (3, 0) => Self::Level { has_minimal: true, has_medium: true },
            (3, 1) => Self::Level { has_minimal: is_lite, has_medium: true },
            (3.., _) => Self::LATEST,
        }
    }

    const LATEST: Self = Self::Level { has_minimal: false, has_medium: true };

    /// Tells whether the model is of Gemini 3 or later.
    pub(super) fn is_third(self) -> bool {
        match self {
            Self::Level { .. } => true,
            Self::Unthinking | Self::Budget { .. } | Self::Unknown => false,
        }
    }

    /// Tells whether an answer can be held to a JSON Schema: before Gemini 3 not where tools are
    /// offered, for it would be refused.
    pub(super) fn shapes(self, has_tools: bool) -> bool {
        match self {
            Self::Level { .. } => true,
            Self::Budget { .. } => !has_tools,
            Self::Unthinking | Self::Unknown => false,
        }
    }

    /// Returns how the model is to think in an answer of at most `limit` tokens; `None` leaves it
    /// all to the provider.
    ///
    /// Models that think anyway are asked to show it: otherwise nothing comes while they do.
    pub(super) fn thinking(self, effort: Option<Effort>, limit: Option<u64>) -> Option<Thinking> {
        let shown = Thinking { include_thoughts: true, ..Thinking::default() };
        match (self, effort) {
            (Self::Unthinking, _) | (Self::Unknown | Self::Budget { thinks: false, .. }, None) => {
                None
            }
            (Self::Budget { .. } | Self::Level { .. }, None) => Some(shown),
            (Self::Budget { least, most, thinks: _ }, Some(effort)) => {
                let budget = match effort {
                    Effort::Minimal => least,
                    Effort::Low => 1_024,
                    Effort::Medium => 8_192,
                    Effort::High => 24_576,
                    Effort::Xhigh => most,
                };
                // Thoughts count as a part of the answer, and must leave room for the rest of it.
                let room = limit.and_then(|limit| u32::try_from(limit / 2).ok());
                let budget = budget.min(room.unwrap_or(u32::MAX)).max(least);
                // A model that does not think refuses to show its thoughts.
                let include_thoughts = budget > 0;
                Some(Thinking { include_thoughts, thinking_budget: Some(budget), ..shown })
            }
            (Self::Level { has_minimal, has_medium }, Some(effort)) => {
                let thinking_level = Some(match effort {
                    Effort::Minimal if has_minimal => "MINIMAL",
                    Effort::Minimal | Effort::Low => "LOW",
                    Effort::Medium if has_medium => "MEDIUM",
                    Effort::Medium | Effort::High | Effort::Xhigh => "HIGH",
                });
                Some(Thinking { thinking_level, ..shown })
            }
            (Self::Unknown, effort) => Self::LATEST.thinking(effort, limit),
        }
    }
}

/// Reads the version at the start of what follows `gemini-`.
fn version(rest: &str) -> Option<(u32, u32)> {
    let number = rest.split(['-', ':', '@']).next().unwrap_or_default();
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn thinking(model: &str, effort: Option<Effort>) -> Value {
        serde_json::to_value(Family::of(model).thinking(effort, None)).unwrap()
    }

    #[test]
    fn models_of_2_5_take_a_budget_within_their_bounds() {
        let budget = |model, effort| thinking(model, Some(effort))["thinkingBudget"].clone();
        assert_eq!(budget("gemini-2.5-pro", Effort::Minimal), 128);
        assert_eq!(budget("gemini-2.5-pro", Effort::Medium), 8192);
        assert_eq!(budget("gemini-2.5-pro", Effort::Xhigh), 32768);
        assert_eq!(budget("models/gemini-2.5-flash-lite", Effort::Low), 1024);
        assert_eq!(budget("gemini-2.5-flash", Effort::Xhigh), 24576);
        assert_eq!(
            thinking("gemini-2.5-flash", Some(Effort::High)),
            json!({"includeThoughts": true, "thinkingBudget": 24576})
        );
        let none = json!({"thinkingBudget": 0});
        assert_eq!(thinking("gemini-2.5-flash", Some(Effort::Minimal)), none);
    }

    #[test]
    fn a_budget_leaves_room_for_the_answer() {
        let budget = |model, limit| {
            Family::of(model).thinking(Some(Effort::High), Some(limit)).unwrap().thinking_budget
        };
        assert_eq!(budget("gemini-2.5-pro", 8_192), Some(4_096));
        assert_eq!(budget("gemini-2.5-pro", 65_536), Some(24_576));
        assert_eq!(budget("gemini-2.5-pro", 10), Some(128));
    }

    #[test]
    fn models_since_3_take_a_level_they_know() {
        let level = |model, effort| thinking(model, Some(effort))["thinkingLevel"].clone();
        assert_eq!(level("gemini-3-flash-preview", Effort::Minimal), "MINIMAL");
        assert_eq!(level("gemini-3.1-flash-lite", Effort::Minimal), "MINIMAL");
        assert_eq!(level("gemini-3.1-pro-preview", Effort::Minimal), "LOW");
        assert_eq!(level("google/gemini-3.8-flash:free", Effort::Minimal), "LOW");
        assert_eq!(level("gemini-3-pro-preview", Effort::Medium), "HIGH");
        assert_eq!(level("gemini-3.1-pro-preview", Effort::Medium), "MEDIUM");
        assert_eq!(level("gemini-4-argon", Effort::Xhigh), "HIGH");
        assert_eq!(level("gemini-flash-latest", Effort::Low), "LOW");
        assert_eq!(
            thinking("gemini-3-flash", Some(Effort::High)),
            json!({"includeThoughts": true, "thinkingLevel": "HIGH"})
        );
    }

    #[test]
    fn without_an_effort_thoughts_are_only_shown() {
        for model in ["gemini-2.5-pro", "gemini-3-flash-preview", "gemini-pro-latest"] {
            assert_eq!(thinking(model, None), json!({"includeThoughts": true}), "{model}");
        }
        assert_eq!(thinking("gemini-2.5-flash-lite", None), Value::Null);
    }

    #[test]
    fn models_that_do_not_think_are_not_asked_to() {
        for model in [
            "gemini-2.0-flash",
            "gemini-1.5-pro",
            "gemini-pro",
            "gemma-3-27b-it",
            "gemini-2.5-flash-image",
            "gemini-3-pro-image-preview",
        ] {
            assert_eq!(thinking(model, Some(Effort::High)), Value::Null, "{model}");
        }
        assert_eq!(thinking("mine", None), Value::Null);
        assert_eq!(thinking("mine", Some(Effort::High))["thinkingLevel"], "HIGH");
    }
}
