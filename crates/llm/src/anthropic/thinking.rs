//! How hard to think, in the three ways models are told.

use super::encode;
use crate::wire::json;
use crate::{AssistantPart, Effort, Message, Messages};

/// How a model is told how hard to think. Without an effort nothing is sent.
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
    pub(super) effort: Effort,
    /// How long the whole answer may be, thinking included.
    pub(super) max_tokens: u64,
    /// Whether the server takes a budget for this conversation; see [`takes_budget`].
    pub(super) takes_budget: bool,
}

/// The smallest budget the wire takes.
const LEAST_BUDGET: u64 = 1_024;

impl Thinking {
    /// Returns what is known of a model by its name. A Claude that is not known is a newer one.
    pub fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase().replace('.', "-");
        let has = |parts: &[&str]| parts.iter().any(|part| model.contains(part));
        if !has(&["claude"]) || has(&["claude-3-7"]) {
            Self::Budget
        } else if has(&["claude-2", "claude-3", "claude-instant"]) {
            Self::Never
        } else if has(&["-4-6", "-4-7", "-4-8", "-4-9"]) {
            Self::Adaptive
        } else if has(&["opus-4", "sonnet-4", "haiku-4", "claude-4"]) {
            Self::Budget
        } else {
            Self::Adaptive
        }
    }

    /// Appends the fields that ask for an effort.
    ///
    /// The least effort is not to ask for thinking at all. The greatest is `max`, which all models
    /// with adaptive thinking know, while `xhigh` came later. A budget is a part of the whole, since
    /// it must be less.
    pub(super) fn write(self, out: &mut Vec<u8>, ask: Ask) {
        let Ask { effort, max_tokens, takes_budget } = ask;
        match self {
            Self::Adaptive => {
                let level = match effort {
                    Effort::Minimal | Effort::Low => "low",
                    Effort::Medium => "medium",
                    Effort::High => "high",
                    Effort::Xhigh => "max",
                };
                if effort != Effort::Minimal {
                    // The newer models show nothing of their thinking unless they are asked to.
                    let adaptive =
                        b",\"thinking\":{\"type\":\"adaptive\",\"display\":\"summarized\"}";
                    out.extend_from_slice(adaptive);
                }
                out.extend_from_slice(b",\"output_config\":{\"effort\":");
                json::write(out, level);
                out.push(b'}');
            }
            Self::Budget => {
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
            Self::Never => {}
        }
    }
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
    fn names_tell_how_models_think() {
        for model in ["claude-sonnet-4-6", "anthropic/claude-opus-4.7", "claude-opus-5-5"] {
            assert_eq!(Thinking::of(model), Thinking::Adaptive, "{model}");
        }
        let budget = [
            "claude-3-7-sonnet-latest",
            "claude-sonnet-4-20250514",
            "claude-opus-4-1",
            "claude-haiku-4-5-20251001",
            "anthropic.claude-opus-4-5-v1:0",
            "qwen3:8b",
        ];
        for model in budget {
            assert_eq!(Thinking::of(model), Thinking::Budget, "{model}");
        }
        for model in ["claude-3-5-haiku-latest", "claude-2.1"] {
            assert_eq!(Thinking::of(model), Thinking::Never, "{model}");
        }
    }

    #[test]
    fn a_budget_is_always_less_than_the_whole() {
        for max_tokens in [1, 1_024, 1_025, 2_000, 32_000, u64::MAX] {
            for effort in [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh] {
                let mut out = Vec::new();
                Thinking::Budget.write(&mut out, Ask { effort, max_tokens, takes_budget: true });
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
