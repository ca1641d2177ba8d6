//! Names that a wire makes itself.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::CallId;

/// Makes the id of a call that came without one: the `n`-th of the reply whose id is `reply`.
///
/// Replies must not share a salt, since the ids of replies repeat on some servers.
pub(crate) fn made(salt: u64, reply: &str, n: usize) -> CallId {
    let mut hasher = DefaultHasher::new();
    (salt, reply, n).hash(&mut hasher);
    format!("call_{:016x}", hasher.finish()).into()
}

/// Returns a number that tells providers apart, for [`WireId::variant`](crate::WireId): what a
/// provider made goes back to it alone, so the bytes of a message depend on whom they are for.
///
/// It is FNV-1a. A session meets a handful of providers, so even 31 of its bits tell them apart.
pub(crate) fn of_provider(provider: &str) -> u32 {
    provider
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Returns an id or a name as a wire takes it: letters, digits, `_` and `-`, at most `limit` of
/// them. Others are replaced, and what the name was is told by a hash at its end, so that two that
/// differ stay two, and a call and its result stay a pair.
pub(crate) fn fitting(name: &str, limit: usize) -> Cow<'_, str> {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= limit && name.chars().all(is_taken) {
        return Cow::Borrowed(name);
    }
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = format!("_{hash:016x}");
    let mut fitting: String = name
        .chars()
        .map(|c| if is_taken(c) { c } else { '_' })
        .take(limit.saturating_sub(hash.len()))
        .collect();
    fitting.push_str(&hash);
    Cow::Owned(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wire_takes_is_left_alone() {
        for name in ["a", "toolu_01-A", &"x".repeat(64)] {
            assert!(matches!(fitting(name, 64), Cow::Borrowed(same) if same == name));
        }
    }

    #[test]
    fn what_a_wire_does_not_take_stays_told_apart() {
        let names = ["", "a b", "a.b", "ä", &"x".repeat(65), &format!("{}y", "x".repeat(64))];
        let mut fits: Vec<_> = names.iter().map(|name| fitting(name, 64).into_owned()).collect();
        for fit in &fits {
            assert!(!fit.is_empty() && fit.len() <= 64, "{fit}");
            assert!(matches!(fitting(fit, 64), Cow::Borrowed(_)), "{fit}");
        }
        assert_eq!(fits[1], fitting("a b", 64));
        fits.sort();
        fits.dedup();
        assert_eq!(fits.len(), names.len());
    }
}
