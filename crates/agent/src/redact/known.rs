//! Values that are known: found exactly, all of them in one pass.

use std::sync::Arc;

use bowline_llm::Secret;

use super::Span;

/// The first bytes by which a value is noticed.
const FIRST: usize = 4;

/// So much of the end of a text is looked at for the beginning of a value.
const LAST: usize = super::veil::HELD;

/// Values with what stands for them.
pub(super) struct Known {
    // In the order of their bytes. Whoever writes a `.env` chooses them, and how many there are.
    values: Vec<Value>,
    // A bit for each hash of four bytes with which a value begins.
    begins: [u64; 64],
}

/// A value with what stands for it.
struct Value {
    secret: Secret,
    placeholder: Arc<str>,
    /// The longest of the others that it begins with.
    within: Option<usize>,
}

/// What is found of known values.
pub(super) struct Found {
    pub(super) spans: Vec<Span>,
    /// Where one begins that the text may cut off.
    pub(super) open: Option<usize>,
}

impl Default for Known {
    fn default() -> Self {
        Self { values: Vec::new(), begins: [0; 64] }
    }
}

impl Known {
    /// Takes values of at least [`FIRST`] bytes.
    pub(super) fn new<'a>(values: impl Iterator<Item = (&'a Secret, Arc<str>)>) -> Self {
        let mut known: Vec<_> = values.map(|(value, name)| (value.clone(), name)).collect();
        known.sort_by(|(one, _), (other, _)| one.expose().cmp(other.expose()));
        known.dedup_by(|later, first| later.0.expose() == first.0.expose());
        let mut values: Vec<Value> = Vec::with_capacity(known.len());
        let mut begins = [0; 64];
        for (secret, placeholder) in known {
            let hash = secret.expose().as_bytes().first_chunk().map_or(0, hash);
            begins[hash / 64] |= 1 << (hash % 64);
            let mut within = values.len().checked_sub(1);
            while let Some(at) = within
                && !secret.expose().starts_with(values[at].secret.expose())
            {
                within = values[at].within;
            }
            values.push(Value { secret, placeholder, within });
        }
        Self { values, begins }
    }

    pub(super) fn find(&self, text: &str) -> Found {
        let mut found = Found { spans: Vec::new(), open: None };
        if self.values.is_empty() {
            return found;
        }
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(first) = bytes.get(at..).and_then(|rest| rest.first_chunk::<FIRST>()) {
            let hash = hash(first);
            let may_begin = self.begins[hash / 64] >> (hash % 64) & 1 == 1;
            let value = if may_begin { self.at(&bytes[at..]) } else { None };
            match value {
                Some(Value { secret, placeholder, .. }) => {
                    let end = at + secret.expose().len();
                    let placeholder = Arc::clone(placeholder);
                    found.spans.push(Span { at: at..end, placeholder });
                    at = end;
                }
                None => at += 1,
            }
        }
        let from = found.spans.last().map_or(0, |span| span.at.end);
        let open = self.values.iter().filter_map(|value| cut_off(&bytes[from..], &value.secret));
        found.open = open.min().map(|at| from + at);
        found
    }

    /// Returns the longest value with which a text begins.
    ///
    /// The last one that is not behind the text in their order begins as far like it as any, and with each
    /// of those that the text begins with.
    fn at(&self, rest: &[u8]) -> Option<&Value> {
        let behind = self.values.partition_point(|value| value.secret.expose().as_bytes() <= rest);
        let mut at = behind.checked_sub(1)?;
        let near = self.values[at].secret.expose().as_bytes();
        let same = near.iter().zip(rest).take_while(|(one, other)| one == other).count();
        while self.values[at].secret.expose().len() > same {
            at = self.values[at].within?;
        }
        Some(&self.values[at])
    }
}

/// Returns where a value begins whose end is not there yet.
fn cut_off(bytes: &[u8], value: &Secret) -> Option<usize> {
    let value = value.expose().as_bytes();
    let from = bytes.len().saturating_sub((value.len() - 1).min(LAST));
    (from..bytes.len()).find(|at| value.starts_with(&bytes[*at..]))
}

fn hash(first: &[u8; FIRST]) -> usize {
    (u32::from_le_bytes(*first).wrapping_mul(0x9E37_79B1) >> 20) as usize
}
