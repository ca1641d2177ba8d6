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
/// It is FNV-1a. A session meets a handful of providers, so even 28 of its bits tell them apart.
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
    let hash = format!("_{:016x}", hash(name));
    let mut fitting: String = name
        .chars()
        .map(|c| if is_taken(c) { c } else { '_' })
        .take(limit.saturating_sub(hash.len()))
        .collect();
    fitting.push_str(&hash);
    Cow::Owned(fitting)
}

/// Returns an id of nine letters and digits: the same, or one made of a hash.
pub(crate) fn nine(id: &str) -> Cow<'_, str> {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let mut hash = hash(id);
    let digits = (0..9).filter_map(|_| {
        let digit = DIGITS.get(usize::try_from(hash % 62).unwrap_or(0));
        hash /= 62;
        digit.copied().map(char::from)
    });
    Cow::Owned(digits.collect())
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
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
    fn nine_letters_and_digits_stay_told_apart() {
        assert!(matches!(nine("aB3xK9mP2"), Cow::Borrowed("aB3xK9mP2")));
        let ids = ["", "toolu_1", "toolu_2", "aB3xK9mP_", "aB3xK9mP22"];
        let mut made: Vec<_> = ids.iter().map(|id| nine(id).into_owned()).collect();
        assert!(made.iter().all(|id| matches!(nine(id), Cow::Borrowed(_))), "{made:?}");
        made.sort();
        made.dedup();
        assert_eq!(made.len(), ids.len());
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
