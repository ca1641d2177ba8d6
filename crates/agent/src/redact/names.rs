//! Names beside which a secret stands.

/// What a name says of the value beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// It is a password, which people choose.
    Password,
    /// It is a key, a token or another secret, which machines choose.
    Secret,
    /// It may be a key for a lock, or for a table.
    Key,
}

/// Words in names of what is no secret, whatever else the name says.
const HARMLESS: &[&[u8]] = &[
    b"PUBLIC",
    b"PUBKEY",
    b"FINGERPRINT",
    b"HASH",
    b"DIGEST",
    b"KEYBOARD",
    b"KEYWORD",
    b"MONKEY",
    b"TOKENIZ",
    b"TOKENS",
    b"CACHE",
    b"PRIMARY",
    b"FOREIGN",
    b"KEYS",
    b"KEYFRAME",
    b"HOTKEY",
    b"COMPASS",
    b"BYPASS",
    b"PASSIVE",
    b"PASSPORT",
];

/// Words of names, the telling ones first.
const WORDS: &[(&[u8], Name)] = &[
    (b"PASSWORD", Name::Password),
    (b"PASSWD", Name::Password),
    (b"PASSPHRASE", Name::Password),
    (b"PASS", Name::Password),
    (b"PWD", Name::Password),
    (b"SECRET", Name::Secret),
    (b"TOKEN", Name::Secret),
    (b"CREDENTIAL", Name::Secret),
    (b"PRIVATE", Name::Secret),
    (b"APIKEY", Name::Secret),
    (b"API_KEY", Name::Secret),
    (b"API-KEY", Name::Secret),
    (b"ACCESSKEY", Name::Secret),
    (b"ACCESS_KEY", Name::Secret),
    (b"ACCESS-KEY", Name::Secret),
    (b"ACCOUNTKEY", Name::Secret),
    (b"AUTHORIZATION", Name::Secret),
    (b"_AUTH", Name::Secret),
    (b"-AUTH", Name::Secret),
    (b"KEY", Name::Key),
];

/// Reads a name.
pub(super) fn read(name: &str) -> Option<Name> {
    let bytes = name.as_bytes();
    // Each word holds one of these, and most names hold none.
    let may_be = |letters: &[u8]| {
        let upper = [letters[0] & !0x20, letters[1] & !0x20, letters[2] & !0x20];
        matches!(&upper, b"PAS" | b"PWD" | b"SEC" | b"TOK" | b"CRE" | b"PRI" | b"KEY" | b"AUT")
    };
    if !bytes.windows(3).any(may_be) {
        return None;
    }
    let (_, word) = WORDS.iter().find(|(word, _)| contains(bytes, word))?;
    let is_harmless = HARMLESS.iter().any(|word| contains(bytes, word));
    (!is_harmless).then_some(*word)
}

fn contains(name: &[u8], word: &[u8]) -> bool {
    name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}
