//! The shapes of answers, as loosely as servers write them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

use crate::Usage;
use crate::wire::json::Count;

/// A chunk of a stream, or a whole answer: they differ only in `delta` and `message`.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// What it is; some servers send an error that says so here alone.
    #[serde(borrow, default)]
    pub(super) object: Option<Text<'a>>,
    /// Where Groq tells of usage and errors if it is not asked to do it the common way.
    #[serde(borrow, default)]
    pub(super) x_groq: Option<Aside<'a>>,
}

impl<'a> Chunk<'a> {
    /// Returns the usage, wherever it stands.
    pub(super) fn usage(&self) -> Option<Usage> {
        let aside = self.x_groq.iter().filter_map(|aside| aside.usage.as_ref());
        let choices = self.choices.iter().flatten().filter_map(|choice| choice.usage.as_ref());
        self.usage.iter().chain(aside).chain(choices).find_map(Tokens::usage)
    }

    /// Returns the error that is reported, wherever it stands in the chunk, which is `data`.
    pub(super) fn error(&self, data: &'a str) -> Option<&'a str> {
        let aside = self.x_groq.iter().filter_map(|aside| aside.error);
        let choices = self.choices.iter().flatten().filter_map(|choice| choice.error);
        let error = self.error.into_iter().chain(aside).chain(choices).map(RawValue::get).next();
        let is_error = self.object.as_ref().and_then(Text::filled) == Some("error");
        error.or(is_error.then_some(data))
    }
}

/// What stands beside the common fields.
#[derive(Deserialize)]
pub(super) struct Aside<'a> {
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// Moonshot's place for it.
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize, Default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    /// A string holding JSON, or from some servers the JSON itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for what was read from its cache.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
    /// Moonshot's and Together's name for the same.
    #[serde(default)]
    cached_tokens: Count,
}

#[derive(Deserialize, Default)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

#[derive(Deserialize, Default)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

impl Tokens {
    /// Returns the usage, or `None` if it holds no number.
    pub(super) fn usage(&self) -> Option<Usage> {
        if self.prompt_tokens.0.is_none() && self.completion_tokens.0.is_none() {
            return None;
        }
        let input = self.prompt_tokens.0.unwrap_or(0);
        let mut output = self.completion_tokens.0.unwrap_or(0);
        let prompt = self.prompt_tokens_details.as_ref();
        let reasoning = self.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens.0);
        // xAI leaves reasoning out of `completion_tokens` but not out of the total.
        if let (Some(total), Some(reasoning)) = (self.total_tokens.0, reasoning)
            && Some(total) == input.checked_add(output).and_then(|sum| sum.checked_add(reasoning))
        {
            output += reasoning;
        }
        Some(Usage {
            input,
            output,
            cache_read: prompt
                .and_then(|details| details.cached_tokens.0)
                .or(self.prompt_cache_hit_tokens.0)
                .or(self.cached_tokens.0),
            cache_write: prompt.and_then(|details| details.cache_write_tokens.0),
            reasoning,
        })
    }
}

/// A text that may also come as a number or as a list of parts.
#[derive(Debug, Default)]
pub(super) struct Text<'a> {
    pub(super) text: Cow<'a, str>,
    /// What the parts hold of reasoning: Mistral sends it inside the content.
    pub(super) thinking: String,
}

impl<'a> Text<'a> {
    /// Returns the text if there is any.
    pub(super) fn filled(&self) -> Option<&str> {
        Some(&*self.text).filter(|text| !text.is_empty())
    }

    fn of(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), thinking: String::new() }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text::of(text))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text::of(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Text<'de>, E> {
                Ok(Text::of(text))
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Text<'de>, E> {
                Ok(Text::of(n.to_string()))
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Text<'de>, E> {
                Ok(Text::of(n.to_string()))
            }

            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Text<'de>, E> {
                Ok(Text::of(n.to_string()))
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_unit<E: de::Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Text<'de>, A::Error> {
                let mut all = Text::default();
                while let Some(part) = parts.next_element::<ContentPart<'de>>()? {
                    if let Some(text) = part.text {
                        all.text.to_mut().push_str(&text.text);
                    }
                    if let Some(thinking) = part.thinking {
                        all.thinking.push_str(&thinking.text);
                    }
                }
                Ok(all)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }
        }

        deserializer.deserialize_any(Texts)
    }
}

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
}
