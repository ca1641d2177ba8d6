//! The providers that need no configuration but a key.

use crate::config::Wire;
use crate::embedded;
use crate::environment::Environment;
use crate::local;

use super::key::{is_loopback, same_host};

/// A provider that is known by name.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) base_url: &'static str,
    /// The variable that holds its key.
    pub(super) key: Option<&'static str>,
    /// What is spoken at its address.
    pub(super) wire: Wire,
    /// What is spoken where only its name is the same.
    elsewhere: Wire,
    /// The variable that moves it.
    moved_by: Option<&'static str>,
}

const fn known(name: &'static str, base_url: &'static str, key: &'static str) -> Known {
    let (wire, elsewhere) = (Wire::Chat, Wire::Chat);
    Known { name, base_url, key: Some(key), wire, elsewhere, moved_by: None }
}

const fn here(name: &'static str, base_url: &'static str) -> Known {
    Known { key: None, ..known(name, base_url, "") }
}

pub(super) const KNOWN: &[Known] = &[
    Known {
        wire: Wire::Anthropic,
        elsewhere: Wire::Anthropic,
        moved_by: Some("ANTHROPIC_BASE_URL"),
        ..known("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY")
    },
    // OpenAI refuses tools together with reasoning on Chat Completions since GPT-5.4, and loses the
    // reasoning between calls before that. Whoever else takes the name speaks Chat Completions.
    Known {
        wire: Wire::Responses,
        moved_by: Some("OPENAI_BASE_URL"),
        ..known("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
    },
    Known {
        wire: Wire::Gemini,
        elsewhere: Wire::Gemini,
        moved_by: Some("GOOGLE_GEMINI_BASE_URL"),
        ..known("gemini", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY")
    },
    known("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    // Its Chat Completions are deprecated, and have no place for encrypted reasoning.
    Known { wire: Wire::Responses, ..known("xai", "https://api.x.ai/v1", "XAI_API_KEY") },
    known("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    known("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    known("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    known("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    known("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    here("ollama", "http://127.0.0.1:11434/v1"),
    here("llamacpp", "http://127.0.0.1:8080/v1"),
    here("lmstudio", "http://127.0.0.1:1234/v1"),
    here("vllm", "http://127.0.0.1:8000/v1"),
    Known { wire: Wire::Local, elsewhere: Wire::Local, ..here(embedded::PROVIDER, "") },
];

/// What runs if only a key is there, best first. That of Anthropic goes first since most who work
/// with coding agents have it.
pub(super) const BY_KEY: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"),
    ("OPENAI_API_KEY", "openai/gpt-6.2-sol"),
    ("GEMINI_API_KEY", "gemini/gemini-3.8-flash"),
    ("OPENROUTER_API_KEY", "openrouter/openrouter/auto"),
    ("XAI_API_KEY", "xai/grok-4.7"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-v4-pro"),
    ("MISTRAL_API_KEY", "mistral/mistral-large-latest"),
    ("GROQ_API_KEY", "groq/openai/gpt-oss-120b"),
];

/// Returns the provider of this name.
pub(super) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Returns the wire of a provider of which nobody says what it speaks: the place decides, then the
/// name.
pub(super) fn wire(name: &str, base_url: &str) -> Wire {
    // What others offer to clients of OpenAI lies below such a path.
    if base_url.contains("/openai") {
        return Wire::Chat;
    }
    let by_name = || find(name).map(|known| known.elsewhere);
    at(base_url).map(|known| known.wire).or_else(by_name).unwrap_or_default()
}

/// Returns the provider whose address this is.
pub(super) fn at(base_url: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| is_at(known, base_url))
}

/// Tells whether an address is that of a known provider. On this machine a port says nothing.
fn is_at(known: &Known, base_url: &str) -> bool {
    !base_url.is_empty() && !is_loopback(base_url) && same_host(known.base_url, base_url)
}

impl Known {
    /// Returns the address that the environment gives it.
    pub(super) fn moved_to(&self, environment: &Environment) -> Option<String> {
        if self.name == "ollama" {
            return local::ollama_host(environment).map(|host| format!("http://{host}/v1"));
        }
        environment.get(self.moved_by?).map(str::to_owned)
    }
}
