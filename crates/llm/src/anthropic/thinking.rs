//! How hard to think, in the three ways models are told.

use super::encode;
use crate::wire::json;
use crate::{AssistantPart, Effort, Message, Messages};

/// How a model is told how hard to think. Without an effort it is left to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// `thinking: adaptive` with `output_config.effort`: the models since 4.6. Since 4.7 they
    /// refuse a budget.
    Adaptive,
    /// `thinking: enabled` with a budget of tokens: the models from 3.7 to 4.5, and servers of
    /// other models.
    Budget,
    /// Not at all: the models before 3.7.
    Never,
}

/// What is asked of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) effort: Option<Effort>,
    /// How long the whole answer may be, thinking included.
    pub(super) max_tokens: u64,
    /// Whether the server takes a budget for this conversation; see [`takes_budget`].
    pub(super) takes_budget: bool,
    /// Whether the model checks its earlier thinking; see
    /// [`Dialect::binds_thinking`](super::Dialect::binds_thinking).
    pub(super) is_bound: bool,
}

/// What lets a request with thinking that no longer stands where it stood pass: without it the
/// server refuses the request, and would refuse every later one.
const BINDING: &str = r#","block_binding":{"prefix_mismatch_behavior":"drop_block"}"#;

/// The smallest budget the wire takes.
const LEAST_BUDGET: u64 = 1_024;

impl Thinking {
    /// Returns what is known of a model by its name. A Claude without a version is a newer one.
    pub fn of(model: &str) -> Self {
        match version(model) {
            Some(version) if version < (3, 7) => Self::Never,
            Some(version) if version < (4, 6) => Self::Budget,
            Some(_) => Self::Adaptive,
            None if model.to_ascii_lowercase().contains("claude") => Self::Adaptive,
            None => Self::Budget,
        }
    }

    /// Returns the word for an effort, if the model is told by one.
    ///
    /// The greatest is `max`, which all models with adaptive thinking know, while `xhigh` came later.
    pub(super) fn word(self, effort: Option<Effort>) -> Option<&'static str> {
        match (self, effort?) {
            (Self::Budget | Self::Never, _) => None,
            (Self::Adaptive, Effort::Minimal | Effort::Low) => Some("low"),
            (Self::Adaptive, Effort::Medium) => Some("medium"),
            (Self::Adaptive, Effort::High) => Some("high"),
            (Self::Adaptive, Effort::Xhigh) => Some("max"),
        }
    }

    /// Appends the field that asks for thinking.
    ///
    /// The least effort is not to ask for thinking at all. A budget is a part of the whole, since it
    /// must be less.
    pub(super) fn write(self, out: &mut Vec<u8>, ask: Ask) {
        let Ask { effort, max_tokens, takes_budget, is_bound } = ask;
        match (self, effort) {
            (Self::Adaptive, _) => {
                // The newer models show nothing of their thinking unless they are asked to.
                let adaptive = r#","thinking":{"type":"adaptive","display":"summarized""#;
                if is_bound {
                    out.extend_from_slice(adaptive.as_bytes());
                    out.extend_from_slice(BINDING.as_bytes());
                    out.push(b'}');
                } else if effort.is_some_and(|effort| effort != Effort::Minimal) {
                    out.extend_from_slice(adaptive.as_bytes());
                    out.push(b'}');
                }
            }
            (Self::Budget, Some(effort)) => {
                let share = match effort {
                    Effort::Minimal => return,
                    Effort::Low => max_tokens / 8,
                    Effort::Medium => max_tokens / 4,
                    Effort::High => max_tokens / 2,
                    Effort::Xhigh => max_tokens - max_tokens / 8,
                };
                let budget = share.max(LEAST_BUDGET);
                if takes_budget && budget < max_tokens {
                    out.extend_from_slice(
                        b",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":",
                    );
                    json::write(out, &budget);
                    out.push(b'}');
                }
            }
            (Self::Budget, None) | (Self::Never, _) => {}
        }
    }
}

/// Reads the version of a Claude from its name, in any of the forms that gateways write.
pub(super) fn version(model: &str) -> Option<(u8, u8)> {
    let model = model.to_ascii_lowercase();
    let (_, name) = model.split_once("claude")?;
    let mut parts = name.split(['-', '.', '@', ':', '/']);
    // A number of more digits is a date.
    let number = |part: &str| part.parse().ok().filter(|n| *n < 100_u8);
    let major = parts.find_map(number)?;
    Some((major, parts.next().and_then(number).unwrap_or(0)))
}

/// Tells whether thinking with a budget may be asked for.
///
/// In the middle of a turn of calls and results the server demands that the turn begins with its
/// own thinking, and refuses the request if another provider made the calls.
pub(super) fn takes_budget(messages: &Messages, provider: &str) -> bool {
    let mut first = None;
    let mut has_results = false;
    for message in messages {
        match &**message {
            // What is said after results is sent along with them and begins no turn.
            Message::User(_) if has_results => {}
            Message::User(_) => first = None,
            Message::Assistant(assistant) => {
                first.get_or_insert(assistant);
                has_results = false;
            }
            Message::Results(_) => has_results = true,
        }
    }
    let Some(assistant) = first.filter(|_| has_results) else { return true };
    assistant.content.first().is_some_and(|part| match part {
        AssistantPart::Reasoning(reasoning) => encode::thinking(reasoning, provider).is_some(),
        AssistantPart::Text(_) | AssistantPart::ToolCall(_) | AssistantPart::Opaque(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_version() {
        for (model, expected) in [
            ("claude-2.1", Some((2, 1))),
            ("claude-3-5-haiku-latest", Some((3, 5))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("anthropic/claude-opus-4.7", Some((4, 7))),
            ("us.anthropic.claude-opus-4-5-20251101-v1:0", Some((4, 5))),
            ("claude-fable-5", Some((5, 0))),
            ("claude-fable-5-1@20260901", Some((5, 1))),
            ("claude-mythos-preview", None),
            ("qwen3:8b", None),
        ] {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn names_tell_how_models_think() {
        for (model, thinking) in [
            ("claude-3-5-haiku-latest", Thinking::Never),
            ("claude-3-7-sonnet-latest", Thinking::Budget),
            ("claude-haiku-4-5-20251001", Thinking::Budget),
            ("claude-sonnet-4-6", Thinking::Adaptive),
            ("claude-mythos-preview", Thinking::Adaptive),
            ("qwen3:8b", Thinking::Budget),
        ] {
            assert_eq!(Thinking::of(model), thinking, "{model}");
        }
    }

    #[test]
    fn a_budget_is_always_less_than_the_whole() {
        for max_tokens in [1, 1_024, 1_025, 2_000, 32_000, u64::MAX] {
            for effort in [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh] {
                let mut out = Vec::new();
                let effort = Some(effort);
                let ask = Ask { effort, max_tokens, takes_budget: true, is_bound: false };
                Thinking::Budget.write(&mut out, ask);
                let text = String::from_utf8(out).unwrap();
                let digits: String = text.chars().filter(char::is_ascii_digit).collect();
                if digits.is_empty() {
                    assert!(max_tokens <= LEAST_BUDGET);
                } else {
                    let budget: u64 = digits.parse().unwrap();
                    assert!((LEAST_BUDGET..max_tokens).contains(&budget), "{budget}");
                }
            }
        }
    }
}
