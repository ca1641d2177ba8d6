//! Values that are known: found exactly, all of them in one pass.

use std::cmp::Reverse;
use std::sync::Arc;

use bowline_llm::Secret;

use super::Span;

/// The first bytes by which a value is noticed.
const FIRST: usize = 4;

/// Values with what stands for them.
pub(super) struct Known {
    // Longer ones first: one may be the beginning of another.
    values: Vec<(Secret, Arc<str>)>,
    // A bit for each hash of four bytes with which a value begins.
    begins: [u64; 64],
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
        let mut values: Vec<_> = values.map(|(value, name)| (value.clone(), name)).collect();
        values.sort_by_key(|(value, _)| Reverse(value.expose().len()));
        let mut begins = [0; 64];
        for (value, _) in &values {
            let hash = value.expose().as_bytes().first_chunk().map_or(0, hash);
            begins[hash / 64] |= 1 << (hash % 64);
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
                Some((value, placeholder)) => {
                    let end = at + value.expose().len();
                    let placeholder = Arc::clone(placeholder);
                    found.spans.push(Span { at: at..end, placeholder });
                    at = end;
                }
                None => at += 1,
            }
        }
        let from = found.spans.last().map_or(0, |span| span.at.end);
        let open = self.values.iter().filter_map(|(value, _)| cut_off(&bytes[from..], value));
        found.open = open.min().map(|at| from + at);
        found
    }

    fn at(&self, rest: &[u8]) -> Option<&(Secret, Arc<str>)> {
        self.values.iter().find(|(value, _)| rest.starts_with(value.expose().as_bytes()))
    }
}

/// Returns where a value begins whose end is not there yet.
fn cut_off(bytes: &[u8], value: &Secret) -> Option<usize> {
    let value = value.expose().as_bytes();
    let from = bytes.len().saturating_sub(value.len() - 1);
    (from..bytes.len()).find(|at| value.starts_with(&bytes[*at..]))
}

fn hash(first: &[u8; FIRST]) -> usize {
    (u32::from_le_bytes(*first).wrapping_mul(0x9E37_79B1) >> 20) as usize
}
