//! Secrets that must reach neither a model nor a log.
//!
//! What a tool says is searched for the values that are known to be secret, and for what looks like one:
//! see [`scan`]. Each is replaced by a placeholder. Those of what was found in the user's work can be put
//! back when the model writes them to a file; those of the keys that the agent itself works with cannot.

mod known;
mod names;
mod scan;
mod shapes;
mod value;
mod vault;
mod veil;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use bowline_llm::{Part, RawJson, Secret, UserMessage};

use crate::id::SessionId;
use crate::op::Input;
use known::Known;
pub use value::{looks_secret, names_secret};
use vault::Vault;
pub(crate) use veil::Veil;

/// Replaces secrets wherever a tool says them, before anybody hears it.
#[derive(Clone, Default)]
pub struct Redaction {
    own: Arc<[(String, Secret)]>,
    of_work: Arc<[(String, Secret)]>,
    known: Arc<Known>,
    // What placeholders of this session stand for.
    vault: Arc<Vault>,
}

/// Where a secret stands, and what stands for it.
struct Span {
    at: Range<usize>,
    placeholder: Arc<str>,
}

/// The secrets in a text.
struct Spans {
    spans: Vec<Span>,
    /// From here to the end stands what may become a secret when more of the text comes.
    open: usize,
}

impl Redaction {
    /// Makes a redaction of the agent's own secrets, such as the keys of its model, with the names that
    /// stand for them. Nothing ever puts these back. Values shorter than eight characters are left out:
    /// replacing them would garble what has nothing to do with them.
    pub fn new(secrets: impl IntoIterator<Item = (String, Secret)>) -> Self {
        Self::of(long(secrets).collect(), Arc::default(), Arc::default())
    }

    /// Adds secrets of what the agent works on, such as the values in a project's `.env`. They can be
    /// put back into files.
    #[must_use]
    pub fn with_secrets_of_work(self, secrets: impl IntoIterator<Item = (String, Secret)>) -> Self {
        let own = self.own;
        let is_own = |value: &str| own.iter().any(|(_, known)| known.expose() == value);
        let more = long(secrets).filter(|(_, secret)| !is_own(secret.expose()));
        let of_work = self.of_work.iter().cloned().chain(more).collect();
        Self::of(own, of_work, self.vault)
    }

    /// Returns the redaction of a session, in which one value has one placeholder, also when the session
    /// is opened again.
    pub(crate) fn of_session(&self, id: SessionId) -> Self {
        let vault = Arc::new(Vault::new(id.to_string()));
        Self::of(Arc::clone(&self.own), Arc::clone(&self.of_work), vault)
    }

    fn of(
        own: Arc<[(String, Secret)]>,
        of_work: Arc<[(String, Secret)]>,
        vault: Arc<Vault>,
    ) -> Self {
        let of_own = own.iter().map(|(name, secret)| (secret, vault.of_own(name)));
        let rest = of_work.iter().map(|(name, secret)| (secret, vault.keep(name, secret.expose())));
        let known = Arc::new(Known::new(of_own.chain(rest)));
        Self { own, of_work, known, vault }
    }

    /// Returns the text with each secret replaced by what stands for it.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Spans { spans, .. } = self.spans(text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(replaced(text, 0..text.len(), &spans))
    }

    /// Finds the secrets in a text, in order. None overlaps another.
    fn spans(&self, text: &str) -> Spans {
        let known = self.known.find(text);
        let scan = scan::scan(text);
        let open = known.open.into_iter().chain(scan.open).min().unwrap_or(text.len());
        let mut spans = known.spans;
        let overlaps = |spans: &[Span], at: &Range<usize>| {
            let next = spans.partition_point(|span| span.at.end <= at.start);
            spans.get(next).is_some_and(|span| span.at.start < at.end)
        };
        let count = spans.len();
        for found in scan.found {
            if !overlaps(&spans[..count], &found.at) {
                let placeholder = self.vault.keep(found.kind, &text[found.at.clone()]);
                spans.push(Span { at: found.at, placeholder });
            }
        }
        spans.sort_by_key(|span| span.at.start);
        Spans { spans, open }
    }

    /// Returns the parts with each secret in a text replaced.
    pub(crate) fn apply_to(&self, parts: Vec<Part>) -> Vec<Part> {
        let clean = |part| match part {
            Part::Text(text) => match self.apply(&text) {
                Cow::Borrowed(_) => Part::Text(text),
                Cow::Owned(clean) => Part::Text(clean),
            },
            part @ (Part::Image(_) | Part::Document(_) | Part::Stored(_)) => part,
        };
        parts.into_iter().map(clean).collect()
    }

    /// Returns what is to be said with each secret in it replaced.
    pub(crate) fn apply_to_input(&self, input: &Input) -> Input {
        let content = self.apply_to(input.0.content.clone());
        Input(Arc::new(UserMessage { content }))
    }

    /// Returns JSON with each secret in it replaced.
    pub(crate) fn apply_to_json(&self, json: RawJson) -> RawJson {
        // What names a value stands beside it, not in it.
        let json = match self.apply(json.as_str()) {
            Cow::Borrowed(_) => json,
            Cow::Owned(clean) => RawJson::parse(clean).unwrap_or(json),
        };
        // An escape may hide a value.
        if !json.as_str().contains('\\') {
            return json;
        }
        let Ok(mut value) = json.read::<Value>() else { return json };
        match change_texts(&mut value, &mut |text| Ok(owned(self.apply(text)))) {
            Ok(true) => RawJson::of(&value).unwrap_or(json),
            Ok(false) | Err(_) => json,
        }
    }

    /// Returns the arguments of a call that writes files, with the secrets put back for which they hold
    /// a placeholder; `None` if they hold none.
    ///
    /// # Errors
    /// For the model: which placeholder nothing can be put back for, and why.
    pub(crate) fn put_back(&self, arguments: &str) -> Result<Option<String>, String> {
        if !may_hold_placeholder(arguments) {
            return Ok(None);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(arguments) else { return Ok(None) };
        let is_changed = change_texts(&mut value, &mut |text| self.vault.put_back(text))?;
        Ok(is_changed.then(|| value.to_string()))
    }

    /// Returns the first placeholder of this session that stands in the arguments of a call.
    pub(crate) fn placeholder_in(&self, arguments: &str) -> Option<String> {
        if !may_hold_placeholder(arguments) {
            return None;
        }
        let mut value = serde_json::from_str::<Value>(arguments).ok()?;
        let mut found = None;
        let mut look = |text: &str| {
            found = found.take().or_else(|| self.vault.first_in(text));
            Ok(None)
        };
        change_texts(&mut value, &mut look).ok()?;
        found
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.own.iter().chain(&*self.of_work).map(|(name, _)| name)).finish()
    }
}

fn long(
    secrets: impl IntoIterator<Item = (String, Secret)>,
) -> impl Iterator<Item = (String, Secret)> {
    secrets.into_iter().filter(|(_, secret)| secret.expose().len() >= 8)
}

/// Returns a part of a text with what stands for the secrets in it.
fn replaced(text: &str, part: Range<usize>, spans: &[Span]) -> String {
    let mut clean = String::with_capacity(part.len());
    let mut at = part.start;
    for span in spans.iter().filter(|span| span.at.end > part.start && span.at.start < part.end) {
        if span.at.start >= at {
            clean.push_str(&text[at..span.at.start]);
            clean.push_str(&span.placeholder);
        }
        at = span.at.end.min(part.end);
    }
    clean.push_str(&text[at..part.end]);
    clean
}

/// Tells whether it is worth reading the arguments to look for a placeholder: it may be written with
/// escapes.
fn may_hold_placeholder(arguments: &str) -> bool {
    arguments.contains(vault::BEGINS) || arguments.contains("\\u")
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

/// Changes the texts in a value, keys included, and tells whether it changed any.
fn change_texts(
    value: &mut Value,
    change: &mut dyn FnMut(&str) -> Result<Option<String>, String>,
) -> Result<bool, String> {
    let mut is_changed = false;
    match value {
        Value::String(text) => {
            if let Some(changed) = change(text)? {
                *text = changed;
                is_changed = true;
            }
        }
        Value::Array(values) => {
            for value in values {
                is_changed |= change_texts(value, change)?;
            }
        }
        Value::Object(object) => {
            for value in object.values_mut() {
                is_changed |= change_texts(value, change)?;
            }
            let keys: Vec<String> = object.keys().cloned().collect();
            for key in keys {
                let Some(changed) = change(&key)? else { continue };
                if let Some(value) = object.remove(&key) {
                    object.insert(changed, value);
                    is_changed = true;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(is_changed)
}

#[cfg(test)]
mod tests;
