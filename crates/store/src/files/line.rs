//! The form of a line: one commit, chained to the one before it by its hash.
//!
//! ```text
//! {"hash":"<64 hex digits>","pos":17,"entries":[{…},{…}]}
//! ```

use std::io::Write as _;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use bowline_agent::entry::Entry;
use bowline_agent::journal::Pos;

/// The hash of a line and, through it, of all lines before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    /// The hash of the line after this one, whose bytes from `"pos"` on are `body`.
    fn chain(self, body: &[u8]) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(body).finalize().into())
    }

    fn digits(self) -> [u8; 64] {
        hex(&self.0)
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.digits().iter().try_for_each(|digit| std::fmt::Write::write_char(f, (*digit).into()))
    }
}

/// Writes 32 bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8; 32]) -> [u8; 64] {
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
            *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        }
    }
    digits
}

const OPEN: &[u8] = br#"{"hash":""#;
const MIDDLE: &[u8] = br#"","#;
const POS: &[u8] = br#""pos":"#;

/// Writes the line of a commit, newline included, over what the buffer holds, and returns its hash.
pub(crate) fn encode(
    buffer: &mut Vec<u8>,
    previous: Hash,
    pos: Pos,
    entries: &[Entry],
) -> Result<Hash, serde_json::Error> {
    buffer.clear();
    buffer.extend_from_slice(OPEN);
    buffer.resize(OPEN.len() + 64, b'0');
    buffer.extend_from_slice(MIDDLE);
    let start = buffer.len();
    buffer.extend_from_slice(POS);
    write!(buffer, r#"{pos},"entries":"#).map_err(serde_json::Error::io)?;
    serde_json::to_writer(&mut *buffer, entries)?;
    buffer.push(b'}');
    let (head, body) = buffer.split_at_mut(start);
    // Raw JSON comes as its writer spaced it. A newline in it is no part of any string, and it
    // would end the line.
    body.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    let hash = previous.chain(body);
    for (place, digit) in head.iter_mut().skip(OPEN.len()).zip(hash.digits()) {
        *place = digit;
    }
    buffer.push(b'\n');
    Ok(hash)
}

/// Reads a line, without its newline, and returns what it holds and its hash.
///
/// The error says what is wrong with the line.
pub(crate) fn decode<T: DeserializeOwned>(
    line: &[u8],
    previous: Hash,
    pos: Pos,
) -> Result<(Vec<T>, Hash), String> {
    let hash = check(line, previous)?;
    let Form { pos: found, entries, .. } = parse(line)?;
    if found != pos {
        return Err(format!("its pos is {found} where {pos} comes next"));
    }
    if entries.is_empty() {
        return Err("it holds no entries".into());
    }
    Ok((entries, hash))
}

/// Reads a line of which nothing is known but that it is one: for a look at the end of a file.
pub(crate) fn peek(line: &[u8]) -> Result<(Pos, Vec<Entry>), String> {
    parse(line).map(|Form { pos, entries, .. }| (pos, entries))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form<T> {
    #[serde(rename = "hash")]
    _hash: serde::de::IgnoredAny,
    pos: Pos,
    entries: Vec<T>,
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<Form<T>, String> {
    // Checking all of the text at once is cheaper than string by string.
    let text = str::from_utf8(line).map_err(|error| format!("it is no text: {error}"))?;
    serde_json::from_str(text).map_err(|error| format!("it does not parse: {error}"))
}

fn check(line: &[u8], previous: Hash) -> Result<Hash, String> {
    let split = || {
        let rest = line.strip_prefix(OPEN)?;
        let (digits, rest) = rest.split_at_checked(64)?;
        let body = rest.strip_prefix(MIDDLE)?;
        body.starts_with(POS).then_some((digits, body))
    };
    let Some((digits, body)) = split() else {
        return Err("it does not begin as a commit does".into());
    };
    let hash = previous.chain(body);
    if hash.digits() != digits {
        return Err(
            "its hash does not fit: it was altered, or is not the line that followed".into()
        );
    }
    Ok(hash)
}
