//! Thought signatures: what a model wants to see again, byte for byte, on the part where it stood.
//!
//! A message of ours has no place for a signature on its text or its calls, so a signature is an
//! item of its own: an [`Opaque`] directly before the text or the call it belongs to, or the
//! payload of the reasoning it belongs to. A signed piece of text stays within the one text around
//! it, since a reader should not see where a stream was cut; the item says where it lay.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Opaque, RawJson};

/// A signature and the part it belongs to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signed<'a> {
    #[serde(borrow, rename = "thoughtSignature")]
    pub(super) signature: &'a RawValue,
    /// Where the signed part begins and ends within the text that follows, in bytes; `None` for
    /// the signature of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<[usize; 2]>,
}

impl<'a> Signed<'a> {
    /// Reads an item if it is a signature of `provider`.
    pub(super) fn read(item: &'a Opaque, provider: &str) -> Option<Self> {
        // A struct can be read from an array too, which another wire may have made.
        let is_ours = item.provider == provider && item.item.as_str().starts_with('{');
        let signed: Self = if is_ours { item.item.read().ok()? } else { return None };
        signed.signature.get().starts_with('"').then_some(signed)
    }

    /// Makes the item that keeps the signature.
    pub(super) fn to_opaque(self, provider: &str) -> Option<Opaque> {
        let item = RawJson::of(&self).ok()?;
        Some(Opaque { provider: provider.to_owned(), item })
    }
}

/// A text cut into parts again, each with the signature it had.
pub(super) fn pieces<'a>(
    text: &'a str,
    signed: &[Signed<'a>],
) -> Vec<(&'a str, Option<&'a RawValue>)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for Signed { signature, text: place } in signed {
        // A place outside of the text belongs to a text that somebody changed; the signature is
        // kept on a part of its own.
        let [from, to] = place.unwrap_or([at, at]);
        let (before, piece, end) = match (text.get(at..from), text.get(from..to)) {
            (Some(before), Some(piece)) => (before, piece, to),
            _ => ("", "", at),
        };
        if !before.is_empty() {
            pieces.push((before, None));
        }
        pieces.push((piece, Some(*signature)));
        at = end;
    }
    if let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        pieces.push((rest, None));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn cut<'a>(text: &'a str, places: &[[usize; 2]]) -> Vec<(&'a str, bool)> {
        let signature: &RawValue = serde_json::from_str("\"s\"").unwrap();
        let signed: Vec<_> =
            places.iter().map(|place| Signed { signature, text: Some(*place) }).collect();
        pieces(text, &signed).into_iter().map(|(text, sign)| (text, sign.is_some())).collect()
    }

    #[test]
    fn a_text_is_cut_where_its_signatures_stood() {
        assert_eq!(cut("abc", &[]), [("abc", false)]);
        assert_eq!(cut("abc", &[[0, 3]]), [("abc", true)]);
        assert_eq!(cut("abc", &[[1, 2]]), [("a", false), ("b", true), ("c", false)]);
        assert_eq!(cut("abc", &[[3, 3]]), [("abc", false), ("", true)]);
        assert_eq!(cut("", &[[0, 0]]), [("", true)]);
        assert_eq!(cut("ab", &[[0, 1], [1, 2]]), [("a", true), ("b", true)]);
    }

    #[test]
    fn a_place_outside_of_the_text_loses_neither_text_nor_signature() {
        assert_eq!(cut("é", &[[1, 2]]), [("", true), ("é", false)]);
        assert_eq!(cut("a", &[[0, 9]]), [("", true), ("a", false)]);
        assert_eq!(cut("abc", &[[2, 3], [0, 1]]), [("ab", false), ("c", true), ("", true)]);
    }
}
