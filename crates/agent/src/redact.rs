//! Secrets that must reach neither a model nor a log.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bowline_llm::{Part, Secret, UserMessage};

use crate::op::Input;

/// Values that are replaced wherever a tool says them, before anybody hears it.
#[derive(Clone, Default)]
pub struct Redaction {
    // Longer values first: one may be the beginning of another.
    secrets: Arc<[(String, Secret)]>,
}

impl Redaction {
    /// Makes a redaction of secrets with the names that stand for them. Values shorter than eight
    /// characters are left out: replacing them would garble what has nothing to do with them.
    pub fn new(secrets: impl IntoIterator<Item = (String, Secret)>) -> Self {
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|(_, secret)| secret.expose().len() >= 8).collect();
        secrets.sort_by_key(|(_, secret)| std::cmp::Reverse(secret.expose().len()));
        Self { secrets: secrets.into() }
    }

    /// Returns the text with each secret replaced by its name.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for (name, secret) in self.secrets.iter() {
            if clean.contains(secret.expose()) {
                let replaced = clean.replace(secret.expose(), &format!("[secret {name}]"));
                clean = Cow::Owned(replaced);
            }
        }
        clean
    }

    /// Returns the parts with each secret in a text replaced by its name.
    pub(crate) fn apply_to(&self, parts: Vec<Part>) -> Vec<Part> {
        if self.secrets.is_empty() {
            return parts;
        }
        let clean = |part| match part {
            Part::Text(text) => match self.apply(&text) {
                Cow::Borrowed(_) => Part::Text(text),
                Cow::Owned(clean) => Part::Text(clean),
            },
            part @ (Part::Image(_) | Part::Document(_) | Part::Stored(_)) => part,
        };
        parts.into_iter().map(clean).collect()
    }

    /// Returns what is to be said with each secret in it replaced by its name.
    pub(crate) fn apply_to_input(&self, input: &Input) -> Input {
        let content = self.apply_to(input.0.content.clone());
        Input(Arc::new(UserMessage { content }))
    }

    /// Returns JSON with each secret in it replaced by its name.
    pub(crate) fn apply_to_json(&self, json: bowline_llm::RawJson) -> bowline_llm::RawJson {
        match self.apply(json.as_str()) {
            Cow::Borrowed(_) => json,
            // A name in place of a value leaves JSON what it is.
            Cow::Owned(clean) => bowline_llm::RawJson::parse(clean).unwrap_or(json),
        }
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.secrets.iter().map(|(name, _)| name)).finish()
    }
}
