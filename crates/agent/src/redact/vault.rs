//! What placeholders stand for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use bowline_llm::Secret;

use super::names;
use crate::memory::hex;

/// How a placeholder begins. It ends with `]`.
pub(super) const BEGINS: &str = "[secret ";

/// The longest name in a placeholder.
const MAX_NAME: usize = 80;

/// So many values are kept at most: what is beyond can only not be put back.
const MAX_VALUES: usize = 10_000;

/// The placeholders of one session.
///
/// A placeholder is made of a kind and of six hex digits of a hash of the value, salted with the id of the
/// session. So a value has the same one whenever the session is opened again, which keeps what the provider
/// has cached and lets a value be put back once it has been seen again; and the same value in two
/// sessions cannot be told to be the same by looking at their logs. The salt is in the log: who has a log can
/// tell of a guess whether it is right. That is nothing against a random token; a weak password it narrows down.
#[derive(Default)]
pub(super) struct Vault {
    salt: String,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    // By the hash of the value.
    placeholders: HashMap<[u8; 32], Arc<str>>,
    values: HashMap<Arc<str>, Secret>,
    // The placeholders of what is never put back.
    own: HashSet<Arc<str>>,
}

impl Vault {
    pub(super) fn new(salt: String) -> Self {
        Self { salt, kept: Mutex::default() }
    }

    /// Returns what stands for a secret that is never put back.
    pub(super) fn of_own(&self, name: &str) -> Arc<str> {
        let placeholder: Arc<str> = format!("{BEGINS}{name}]").into();
        self.lock().own.insert(Arc::clone(&placeholder));
        placeholder
    }

    /// Returns what stands for a value: what stood for it before, else a new placeholder.
    pub(super) fn keep(&self, kind: &str, value: &str) -> Arc<str> {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(&self.salt)
            .chain_update([0])
            .chain_update(value)
            .finalize()
            .into();
        let mut kept = self.lock();
        if let Some(placeholder) = kept.placeholders.get(&hash) {
            return Arc::clone(placeholder);
        }
        let digits = hex(&hash);
        let mut length = 6;
        let mut placeholder = format!("{BEGINS}{kind}-{}]", &digits[..length]);
        // Another value has it.
        while kept.values.contains_key(placeholder.as_str()) && length < digits.len() {
            length += 6;
            placeholder = format!("{BEGINS}{kind}-{}]", &digits[..length.min(digits.len())]);
        }
        let placeholder: Arc<str> = placeholder.into();
        if kept.values.len() < MAX_VALUES {
            kept.placeholders.insert(hash, Arc::clone(&placeholder));
            kept.values.insert(Arc::clone(&placeholder), Secret::from(value));
        }
        placeholder
    }

    /// Returns a text with values in the place of their placeholders; `None` if it holds none. What is only
    /// written like one is prose.
    ///
    /// # Errors
    /// What to tell the model of the first placeholder that stands for nothing that may be put back.
    pub(super) fn put_back(&self, text: &str) -> Result<Option<String>, String> {
        let kept = self.lock();
        let (mut whole, mut rest, mut is_changed) = (String::new(), text, false);
        while let Some((before, placeholder, behind)) = next(rest) {
            rest = behind;
            whole.push_str(before);
            let Some(value) = kept.values.get(placeholder) else {
                if !kept.own.contains(placeholder) && !is_minted(placeholder) {
                    whole.push_str(placeholder);
                    continue;
                }
                return Err(format!(
                    "nothing was written: {placeholder} cannot be put back. It stands for a key of the \
                     agent itself, or for a value that is no longer known; read the file it came from \
                     again, or leave it out"
                ));
            };
            whole.push_str(value.expose());
            is_changed = true;
        }
        whole.push_str(rest);
        Ok(is_changed.then_some(whole))
    }

    /// Returns the first placeholder in a text that stands for a value.
    pub(super) fn first_in(&self, text: &str) -> Option<String> {
        let kept = self.lock();
        let mut rest = text;
        while let Some((_, placeholder, behind)) = next(rest) {
            if kept.values.contains_key(placeholder) {
                return Some(placeholder.to_owned());
            }
            rest = behind;
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whether a placeholder is one that some session has made, as far as can be seen: it ends in the
/// digits of a hash, or its name is that of a variable with a key. Nobody writes about others so.
fn is_minted(placeholder: &str) -> bool {
    let name = placeholder.trim_start_matches(BEGINS).trim_end_matches(']');
    let is_of_variable =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    ends_in_hash(name, 64) || name.bytes().all(is_of_variable) && names::read(name).is_some()
}

/// Tells whether the name of a placeholder ends in so many digits of a hash, at most.
fn ends_in_hash(name: &str, most: usize) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    name.rsplit_once('-').is_some_and(|(kind, digits)| {
        let is_of_length =
            digits.len() == 64 || digits.len() >= 6 && digits.len().is_multiple_of(6);
        !kind.is_empty() && is_of_length && digits.len() <= most && digits.bytes().all(is_digit)
    })
}

/// Returns the length of the placeholder with which a text begins, if it does with one that stands for what
/// was found. More digits than such a one has in practice might be a secret that somebody has put into brackets.
pub(super) fn length_of_found(text: &str) -> Option<usize> {
    let (before, placeholder, _) = next(text)?;
    let name = placeholder.trim_start_matches(BEGINS).trim_end_matches(']');
    (before.is_empty() && ends_in_hash(name, 12)).then_some(placeholder.len())
}

/// Tells whether a value is a placeholder of what was found, its closing bracket perhaps left out.
pub(super) fn is_found(value: &str) -> bool {
    let name = value.strip_prefix(BEGINS).map(|name| name.strip_suffix(']').unwrap_or(name));
    name.is_some_and(|name| !name.contains(BEGINS) && ends_in_hash(name, 12))
}

/// Splits a text around its first placeholder.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find(BEGINS)?;
        let name = &text[start + BEGINS.len()..];
        let is_of_name =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '/' | ':');
        let length = name.find(|c| !is_of_name(c)).unwrap_or(name.len());
        if (1..=MAX_NAME).contains(&length) && name[length..].starts_with(']') {
            let end = start + BEGINS.len() + length + 1;
            return Some((&text[..start], &text[start..end], &text[end..]));
        }
        from = start + BEGINS.len();
    }
}
