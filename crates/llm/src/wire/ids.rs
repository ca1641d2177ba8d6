//! Names that a wire makes itself.

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
