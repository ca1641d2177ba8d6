//! What servers of this wire do differently: one row for each that is known.
//!
//! What all take alike is not here. `parallel_tool_calls` is never sent, since calling in parallel
//! is what all do who can; the schemas of tools are sent without `strict`, which some refuse; a
//! server that tells no usage has an answer without usage.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::http::Endpoint;
use crate::wire::shape::Named;
use crate::{Effort, RawJson};

/// What servers of this wire do differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// The role of the system text.
    pub system_role: SystemRole,
    /// How the limit of an answer's length is called.
    pub max_tokens: MaxTokens,
    /// Whether the server takes `stream_options`. Who does not sends the usage by itself.
    pub takes_stream_options: bool,
    /// Whether the server takes `prompt_cache_key`; some refuse fields they do not know.
    pub takes_cache_key: bool,
    /// Whether the server marks what Anthropic's models shall keep, if the request asks for it.
    pub marks_claude: bool,
    /// Which words for an effort the server knows.
    pub efforts: Efforts,
    /// Whether readable reasoning goes back; the items of `reasoning_details` go back to their
    /// provider in any case.
    pub replay: Replay,
    /// Which ids of calls the server takes.
    pub call_ids: CallIds,
    /// How far an answer can be held to a JSON Schema.
    pub shapes: Shapes,
    /// Whether the server takes images. A history that holds some is refused for good by one that
    /// does not, so they are told of in words.
    pub takes_images: bool,
    /// Whether the server takes PDF files; the same holds for them.
    pub takes_files: bool,
    /// Whether the server refuses a user who speaks right after the results of calls, and answers
    /// that say nothing. A sentence of the model's is put between.
    pub answers_results: bool,
    /// Whether calls that a model wrote as text are read: where a server may not know how its model
    /// calls.
    pub reads_calls_in_text: bool,
}

/// The role under which the system text is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemRole {
    /// What every server knows.
    #[default]
    System,
    /// What OpenAI calls it since its reasoning models.
    Developer,
}

impl SystemRole {
    /// Returns the role as requests name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
        }
    }
}

/// The field that limits the length of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MaxTokens {
    /// `max_tokens`, which compatible servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models demand.
    MaxCompletionTokens,
}

/// The words of `reasoning_effort` that a server knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Efforts {
    /// All of ours; what is too much for a model the server takes down itself.
    #[default]
    All,
    /// All but `minimal`.
    FromLow,
    /// `low`, `medium` and `high`.
    LowToHigh,
    /// `none` and `high`.
    NoneOrHigh,
}

/// When readable reasoning goes back as `reasoning_content`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replay {
    /// Never: few servers want it, and some refuse it.
    #[default]
    Never,
    /// Where there is any.
    Given,
    /// With every call, empty if there is none.
    Demanded,
}

/// The ids of calls that a server takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallIds {
    /// All.
    #[default]
    Any,
    /// At most 40 characters.
    AtMost40,
    /// Nine letters and digits.
    NineAlphanumerics,
}

/// How far a server can hold an answer to a JSON Schema.
///
/// Many that can do so with a grammar that lets no call of a tool pass either, or refuse to be asked
/// for both; so they are asked only where no tools are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shapes {
    /// Not at all, as far as is known, or not with all its models.
    #[default]
    Never,
    /// To be some object, if no tools are offered.
    ObjectAlone,
    /// To a schema, if no tools are offered.
    Alone,
    /// To a schema that can be kept to strictly, with tools too.
    Strict,
    /// To any schema, with tools too.
    Any,
}

/// What all understand; nothing is known of how its models call.
const COMMON: Dialect = Dialect {
    system_role: SystemRole::System,
    max_tokens: MaxTokens::MaxTokens,
    takes_stream_options: true,
    takes_cache_key: false,
    marks_claude: false,
    efforts: Efforts::All,
    replay: Replay::Never,
    call_ids: CallIds::Any,
    shapes: Shapes::Never,
    takes_images: true,
    takes_files: true,
    answers_results: false,
    reads_calls_in_text: true,
};

/// A service whose operator knows how its models call.
const HOSTED: Dialect = Dialect { takes_files: false, reads_calls_in_text: false, ..COMMON };

const OPENAI: Dialect = Dialect {
    takes_files: true,
    max_tokens: MaxTokens::MaxCompletionTokens,
    takes_cache_key: true,
    call_ids: CallIds::AtMost40,
    shapes: Shapes::Any,
    ..HOSTED
};

/// A server that is known.
struct Row {
    /// How its provider is called; only what runs on machines of one's own is known by it.
    name: &'static str,
    /// Where it is. What begins with a dot is the end of many.
    hosts: &'static [&'static str],
    dialect: Dialect,
}

const ROWS: &[Row] = &[
    Row { name: "openai", hosts: &["api.openai.com", ".openai.azure.com"], dialect: OPENAI },
    Row {
        name: "openrouter",
        hosts: &["openrouter.ai"],
        dialect: Dialect {
            takes_files: true,
            marks_claude: true,
            call_ids: CallIds::AtMost40,
            ..HOSTED
        },
    },
    Row {
        name: "xai",
        hosts: &["api.x.ai"],
        // Without the reasoning its cache finds nothing again.
        dialect: Dialect {
            efforts: Efforts::FromLow,
            replay: Replay::Given,
            shapes: Shapes::Strict,
            ..HOSTED
        },
    },
    Row {
        name: "groq",
        hosts: &["api.groq.com"],
        // It refuses `reasoning_content`, and to stream what has a shape.
        dialect: Dialect { efforts: Efforts::LowToHigh, ..HOSTED },
    },
    Row {
        name: "deepseek",
        hosts: &["api.deepseek.com"],
        // It refuses a call without the reasoning that led to it, and every image.
        dialect: Dialect {
            replay: Replay::Demanded,
            takes_images: false,
            shapes: Shapes::ObjectAlone,
            ..HOSTED
        },
    },
    Row {
        name: "mistral",
        hosts: &["api.mistral.ai"],
        // It refuses every field it does not know.
        dialect: Dialect {
            takes_stream_options: false,
            takes_cache_key: true,
            efforts: Efforts::NoneOrHigh,
            call_ids: CallIds::NineAlphanumerics,
            shapes: Shapes::Alone,
            answers_results: true,
            ..HOSTED
        },
    },
    Row {
        name: "together",
        hosts: &["api.together.xyz", "api.together.ai"],
        dialect: Dialect { efforts: Efforts::LowToHigh, ..HOSTED },
    },
    Row {
        name: "fireworks",
        hosts: &["api.fireworks.ai"],
        dialect: Dialect { efforts: Efforts::LowToHigh, shapes: Shapes::Alone, ..HOSTED },
    },
    Row {
        name: "ollama",
        hosts: &[],
        dialect: Dialect { shapes: Shapes::Alone, takes_files: false, ..COMMON },
    },
    // Their templates read `reasoning_content` of earlier messages.
    Row { name: "llamacpp", hosts: &[], dialect: Dialect { replay: Replay::Given, ..OPEN } },
    Row { name: "lmstudio", hosts: &[], dialect: Dialect { replay: Replay::Given, ..OPEN } },
    Row { name: "vllm", hosts: &[], dialect: Dialect { replay: Replay::Given, ..OPEN } },
];

/// A server of open models, whose templates know three efforts.
const OPEN: Dialect =
    Dialect { efforts: Efforts::LowToHigh, shapes: Shapes::Alone, takes_files: false, ..COMMON };

impl Dialect {
    /// Returns what is known of the server at `base_url`; what all understand if nothing is.
    pub fn of(base_url: &str) -> Self {
        Self::find("", base_url)
    }

    /// Returns what is known of the server of a provider: by its address, or by its name if it is one
    /// of those that run on machines of one's own.
    pub fn find(provider: &str, base_url: &str) -> Self {
        let host = Endpoint::new(base_url, "", Duration::ZERO)
            .map(|endpoint| endpoint.host().to_owned())
            .unwrap_or_default();
        let by_host = ROWS.iter().find(|row| row.is_at(&host));
        let by_name = || ROWS.iter().find(|row| row.hosts.is_empty() && row.name == provider);
        by_host.or_else(by_name).map_or(COMMON, |row| row.dialect.clone())
    }

    /// Returns the dialect with what a model wants wherever it runs: Mistral's are as strict
    /// elsewhere as at home.
    pub(super) fn for_model(self, model: &str) -> Self {
        match model.starts_with("mistralai/") {
            true => Self { call_ids: CallIds::NineAlphanumerics, answers_results: true, ..self },
            false => self,
        }
    }
}

impl Row {
    fn is_at(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| match own.strip_prefix('.') {
            Some(_) => host.ends_with(own),
            None => host == *own,
        })
    }
}

impl Efforts {
    /// Returns the word for an effort, or for the nearest that the server knows.
    pub(super) fn word(self, effort: Effort) -> &'static str {
        match (self, effort) {
            (Self::FromLow | Self::LowToHigh, Effort::Minimal) => "low",
            (Self::LowToHigh, Effort::Xhigh) => "high",
            (Self::NoneOrHigh, Effort::Minimal | Effort::Low) => "none",
            (Self::NoneOrHigh, Effort::Medium | Effort::High | Effort::Xhigh) => "high",
            (Self::All | Self::FromLow | Self::LowToHigh, effort) => effort.as_str(),
        }
    }
}

impl Shapes {
    /// Returns what of it a model can: those that are older than it can less.
    pub(crate) fn of_model(self, model: &str) -> Self {
        let is_older = match self {
            Self::Any => {
                let starts = ["gpt-3", "gpt-4-", "chatgpt-", "o1-mini", "o1-preview"];
                ["gpt-4", "gpt-4o-2024-05-13"].contains(&model)
                    || starts.iter().any(|start| model.starts_with(start))
            }
            Self::Strict => {
                let starts = ["grok-2", "grok-3", "grok-beta", "grok-code"];
                starts.iter().any(|start| model.starts_with(start))
            }
            Self::Never | Self::ObjectAlone | Self::Alone => false,
        };
        if is_older { Self::Never } else { self }
    }

    /// Returns what a request may be asked for: nothing that would keep its model from its tools.
    pub(crate) fn with_tools(self, has_tools: bool) -> Self {
        match self {
            Self::ObjectAlone | Self::Alone if has_tools => Self::Never,
            Self::Never | Self::ObjectAlone | Self::Alone | Self::Strict | Self::Any => self,
        }
    }

    /// Returns the schema to ask for, if any.
    pub(crate) fn named(self, schema: &RawJson) -> Option<Named<'_>> {
        let named = Named::of(schema)?;
        match self {
            Self::Never | Self::ObjectAlone => None,
            Self::Strict => named.strict.then_some(named),
            Self::Alone | Self::Any => Some(named),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_place_and_one_of_ones_own_by_its_name() {
        for (provider, base_url, expected) in [
            ("", "https://api.openai.com/v1", OPENAI),
            ("", "https://mine.openai.azure.com/openai/v1", OPENAI),
            ("vllm", "https://api.openai.com/v1", OPENAI),
            ("openai", "http://127.0.0.1:1/v1", COMMON),
            (
                "ollama",
                "http://127.0.0.1:1/v1",
                Dialect { shapes: Shapes::Alone, takes_files: false, ..COMMON },
            ),
            ("vllm", "http://gpu.lan:8000/v1", Dialect { replay: Replay::Given, ..OPEN }),
            ("mine", "https://openrouter.ai.evil.example/v1", COMMON),
        ] {
            assert_eq!(Dialect::find(provider, base_url), expected, "{provider} {base_url}");
        }
    }

    #[test]
    fn an_effort_is_told_in_words_that_the_server_knows() {
        let all = [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh];
        let words = |efforts: Efforts| all.map(|effort| efforts.word(effort));
        assert_eq!(words(Efforts::All), ["minimal", "low", "medium", "high", "xhigh"]);
        assert_eq!(words(Efforts::FromLow), ["low", "low", "medium", "high", "xhigh"]);
        assert_eq!(words(Efforts::LowToHigh), ["low", "low", "medium", "high", "high"]);
        assert_eq!(words(Efforts::NoneOrHigh), ["none", "none", "high", "high", "high"]);
    }
}
