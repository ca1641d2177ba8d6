//! Which values look like secrets.

use super::names::{self, Name};
use super::vault;

/// The least length of a password.
const PASSWORD: usize = 8;

/// The least length of what a machine has chosen.
const RANDOM: usize = 20;

/// So much of a value is looked at, in bytes: what comes behind changes nothing.
pub(super) const LOOKED_AT: usize = 512;

/// Tells whether a variable with this name and content is a secret that must not be shown: its name is
/// that of a key and its content is not a place, a word or a number, or its content looks random.
pub fn looks_secret(name: &str, value: &str) -> bool {
    if value.len() < PASSWORD || is_stand_in(value) || is_place(value) {
        return false;
    }
    match names::read(name) {
        Some(_) => true,
        None => !is_of_words(value) && !is_number(value) && !is_identifier(value),
    }
}

/// Tells whether a name is that of a secret.
pub fn names_secret(name: &str) -> bool {
    names::read(name).is_some()
}

/// A value that stands beside a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) name: Name,
    pub(super) value: &'a str,
    /// It stands in quotes.
    pub(super) is_quoted: bool,
    /// It stands behind `Bearer` or the like.
    pub(super) has_scheme: bool,
}

impl Beside<'_> {
    /// Tells whether the value is a secret.
    pub(super) fn is_secret(self) -> bool {
        let Self { name, value, is_quoted, has_scheme } = self;
        let value = &value[..value.floor_char_boundary(LOOKED_AT)];
        if is_stand_in(value) || is_place(value) || is_hash_of_kind(value) || is_uuid(value) {
            return false;
        }
        if has_scheme {
            return value.len() >= PASSWORD && !is_of_words(value);
        }
        match name {
            Name::Password => is_password(value, is_quoted),
            Name::Secret => is_random(value) || is_hex_key(value),
            Name::Key => is_random(value) && !value.bytes().all(|byte| byte.is_ascii_hexdigit()),
        }
    }
}

/// Tells whether what stands for a password is one and no expression.
fn is_password(value: &str, is_quoted: bool) -> bool {
    if value.len() < PASSWORD || is_expression(value) {
        return false;
    }
    let classes = classes(value);
    match is_quoted {
        true => !value.contains(' ') && (classes >= 2 || value.len() >= 12),
        // Without quotes it may be a name in a program.
        false => {
            let is_name = value.contains(['.', '_']) && is_identifier(value);
            classes >= 2 && !is_of_words(value) && !is_name
        }
    }
}

/// Tells whether a password in an address is one.
pub(super) fn is_password_of_address(user: &str, password: &str) -> bool {
    password.len() >= 3 && password != user && !is_stand_in(password) && !is_expression(password)
}

/// Tells whether a value is as random as what machines choose.
pub(super) fn is_random(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    value.len() >= RANDOM
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !is_expression(value)
        && !is_identifier(value)
        && entropy(value.as_bytes()) >= 3.5
}

/// Tells whether bytes are not a few ones over and over, as in examples.
pub(super) fn is_varied(bytes: &[u8]) -> bool {
    let mut seen = [false; 256];
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count() >= 6
}

/// Tells whether a value is a key in hexadecimal digits, of a length that keys have.
fn is_hex_key(value: &str) -> bool {
    let is_long = matches!(value.len(), 32 | 48 | 96 | 128);
    is_long && value.bytes().all(|byte| byte.is_ascii_hexdigit()) && is_varied(value.as_bytes())
}

/// Tells whether something is a name of what is to be put there, an example, or a reference.
fn is_stand_in(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "changeme",
        "change-me",
        "change_me",
        "placeholder",
        "your-",
        "your_",
        "yourpassword",
        "redacted",
        "dummy",
        "insert-",
        "insert_",
        "replace-",
        "replace_",
        "undefined",
        "xxxx",
        "****",
        "....",
        "0000000",
        "12345678",
        "<",
        "${",
        "{{",
        "$(",
        "%(",
        "todo",
        "fixme",
    ];
    const WHOLE: &[&str] = &[
        "password",
        "passw0rd",
        "postgres",
        "required",
        "optional",
        "disabled",
        "enabled",
        "localhost",
        "example",
        "mypassword",
        "testpassword",
        "password123",
        "password1",
        "test1234",
        "default",
    ];
    let lower = value.to_ascii_lowercase();
    // Without quotes a value ends at the space in a placeholder.
    let is_placeholder = lower == vault::BEGINS.trim_end() || vault::is_found(value);
    is_placeholder
        || WORDS.iter().any(|word| lower.starts_with(word))
        || WHOLE.contains(&lower.as_str())
        || lower.starts_with('$') && !lower.contains(['.', '/']) && is_name(&lower[1..])
        || lower.ends_with("-here")
        || lower.ends_with("_here")
        || !is_spread(value.as_bytes())
}

/// Tells whether there are at least four different bytes.
fn is_spread(bytes: &[u8]) -> bool {
    let mut seen = [false; 256];
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count() >= 4
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Tells whether something is a path, or an address without a password.
fn is_place(value: &str) -> bool {
    let is_folder = |rest: &str| {
        let name = rest.split('/').next().unwrap_or_default();
        let small = name.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(name);
        (1..16).contains(&name.len()) && small.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    value.strip_prefix('/').is_some_and(is_folder)
        || ["./", "../", "~/", "file:", "data:"].iter().any(|begins| value.starts_with(begins))
        || value.contains("://") && !value.contains('@')
}

/// Tells whether something is a hash that says so, or a key that everybody may know.
fn is_hash_of_kind(value: &str) -> bool {
    const BEGINS: &[&str] = &[
        "sha1", "sha256", "sha384", "sha512", "md5:", "md5-", "SHA256:", "ssh-", "AAAAB3",
        "AAAAC3", "AAAAE2",
    ];
    if BEGINS.iter().any(|begins| value.starts_with(begins)) {
        return true;
    }
    // A commit, or a sum.
    matches!(value.len(), 40 | 64) && value.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(value: &str) -> bool {
    let mut parts = value.split('-');
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    [8, 4, 4, 4, 12]
        .iter()
        .all(|length| parts.next().is_some_and(|p| p.len() == *length && is_hex(p)))
        && parts.next().is_none()
}

/// Tells whether something is what a program would compute.
fn is_expression(value: &str) -> bool {
    value.contains("::")
        || value.contains("()")
        || value.contains("=>")
        || value.contains("->")
        || value.find(['(', '[']).is_some_and(|at| at > 0 && is_identifier(&value[..at]))
        || value.starts_with("process.")
        || value.starts_with("os.")
}

/// Tells whether something is made of words: of letters, with signs between them.
fn is_of_words(value: &str) -> bool {
    value.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '_' | ' ' | ',' | '.' | '/' | ':'))
        && value.chars().filter(|c| c.is_uppercase()).count() * 4 <= value.len()
}

fn is_number(value: &str) -> bool {
    value
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '.' | ':' | '-' | '/' | ' ' | ',' | '+'))
}

/// Tells whether something is made of words and of small numbers, as names, hosts and versions are.
fn is_identifier(value: &str) -> bool {
    let parts = || value.split(['.', '_', '-', '/', ':', '@', ' ', ',']);
    let is_letters = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let has_letters = |part: &str| part.bytes().any(|byte| byte.is_ascii_alphabetic());
    let has_digits = |part: &str| part.bytes().any(|byte| byte.is_ascii_digit());
    let is_mixed = |part: &str| has_letters(part) && has_digits(part);
    let is_known = value.bytes().all(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'_' | b'-' | b'/' | b':' | b'@' | b' ' | b',')
    });
    let mixed = parts().filter(|part| is_mixed(part)).count();
    let ends_in_digits =
        |part: &str| is_letters(part.trim_end_matches(|c: char| c.is_ascii_digit()));
    is_known
        && parts().all(|part| !is_mixed(part) || part.len() <= 4 || part.len() <= 12 && ends_in_digits(part))
        && (mixed == 0 || mixed * 2 <= parts().count())
        // Letters without any order are no word.
        && parts().all(|part| part.len() < 24)
}

/// Counts which of small letters, capitals, digits and signs there are.
fn classes(value: &str) -> usize {
    let has = |is: fn(&u8) -> bool| usize::from(value.as_bytes().iter().any(is));
    has(u8::is_ascii_lowercase)
        + has(u8::is_ascii_uppercase)
        + has(u8::is_ascii_digit)
        + has(u8::is_ascii_punctuation)
}

/// Returns how many bits each byte says, as Shannon counts them.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    #[expect(clippy::cast_precision_loss, reason = "a value is short")]
    let all = bytes.len() as f64;
    let of = |count: &u32| {
        let part = f64::from(*count) / all;
        -part * part.log2()
    };
    counts.iter().filter(|count| **count > 0).map(of).sum()
}
