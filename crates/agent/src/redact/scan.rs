//! Finding what looks like a secret: one pass over a text, from the left to the right.
//!
//! Most of a text is words and what stands between them. A word is looked at more closely where it may be
//! the beginning of a token; a `:` or `=` where the word before it is the name of a secret.

use std::ops::Range;

use super::names;
use super::shapes::{self, Token};
use super::value::{self, Beside};
use super::vault;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// The secrets, in order.
    pub(super) found: Vec<Found>,
    /// Where something begins that may become a secret if the text goes on.
    pub(super) open: Option<usize>,
}

/// A secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) at: Range<usize>,
    pub(super) kind: &'static str,
}

/// Looks for secrets in a text.
pub(super) fn scan(text: &str) -> Scan {
    let scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        word: 0..0,
        bare: 0,
        closing: 0,
        scan: Scan::default(),
    };
    scanner.run()
}

/// What a byte is to the scanner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// It is part of a word.
    Word,
    /// Something must be looked at.
    Sign,
    /// Neither.
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
        let it = byte as u8;
        if it.is_ascii_alphanumeric() || it == b'_' || it == b'-' {
            classes[byte] = Class::Word;
        } else if matches!(it, b':' | b'=' | b'>' | b'\\' | b'%' | b'[' | 0x1b) {
            classes[byte] = Class::Sign;
        }
        byte += 1;
    }
    classes
};

const BEGINS: [bool; 256] = {
    let mut begins = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
        let it = byte as u8;
        // Also those of JWT and of `--token` and `-----BEGIN`.
        begins[byte] = shapes::may_begin(it) || it == b'e' || it == b'-';
        byte += 1;
    }
    begins
};

/// A word that is shorter is no token.
const SHORTEST: usize = 12;

/// So near to the end a word may go on.
const NEAR_END: usize = 32;

/// The longest placeholder, in bytes.
const LONGEST_PLACEHOLDER: usize = 100;

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    // The last word.
    word: Range<usize>,
    // Where the last value without quotes ends, and where what closes something begins before that. Others
    // may begin in it, and end there too.
    bare: usize,
    closing: usize,
    scan: Scan,
}

impl<'a> Scanner<'a> {
    fn run(mut self) -> Scan {
        while let Some(byte) = self.bytes.get(self.at) {
            match CLASSES[usize::from(*byte)] {
                Class::Word => self.word(),
                Class::Sign => self.sign(*byte),
                Class::Other => self.at += 1,
            }
        }
        self.scan
    }

    fn rest(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..).unwrap_or_default()
    }

    fn found(&mut self, at: Range<usize>, kind: &'static str) {
        self.at = at.end;
        self.scan.found.push(Found { at, kind });
    }

    /// Notes that what begins here goes on to the end.
    fn opens(&mut self, at: usize) {
        let open = self.scan.open.map_or(at, |open| open.min(at));
        self.scan.open = Some(open);
    }

    fn word(&mut self) {
        let start = self.at;
        let rest = self.rest(start);
        let is_word = |byte: &u8| CLASSES[usize::from(*byte)] == Class::Word;
        let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        self.at = start + length;
        self.word = start..self.at;
        let is_dotted = length <= 4 && rest.get(length) == Some(&b'.');
        let may_be = length >= SHORTEST || is_dotted || rest.len() < NEAR_END || rest[0] == b'-';
        if may_be && BEGINS[usize::from(rest[0])] {
            self.token(start, length);
        }
    }

    /// Looks at a word that may be the beginning of a token.
    fn token(&mut self, start: usize, length: usize) {
        let rest = self.rest(start);
        if rest[0] == b'-' {
            return self.dashes(start, length);
        }
        let token = match jwt(rest) {
            Token::None => shapes::at(rest),
            token @ (Token::Whole { .. } | Token::Begun) => token,
        };
        match token {
            Token::Whole { kind, length } => {
                if length == rest.len() {
                    self.opens(start);
                }
                self.found(start..start + length, kind);
                if kind == "aws-key-id" {
                    self.aws_secret();
                }
            }
            Token::Begun => self.opens(start),
            Token::None => {}
        }
    }

    /// The secret often stands right behind the id of its key.
    fn aws_secret(&mut self) {
        let between =
            |byte: &u8| matches!(byte, b',' | b';' | b':' | b' ' | b'\t' | b'"' | b'\'' | b'|');
        let rest = self.rest(self.at);
        let gap = rest.iter().take_while(|byte| between(byte)).count();
        let is_of_secret = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+');
        // One more than it has tells that it is none.
        let length = rest[gap..].iter().take(41).take_while(|byte| is_of_secret(byte)).count();
        let start = self.at + gap;
        if gap > 4 || length > 40 {
            return;
        }
        if start + length == self.bytes.len() {
            self.opens(start);
        }
        if gap > 0 && length == 40 && value::is_varied(&self.rest(start)[..length]) {
            self.found(start..start + length, "aws-secret");
        }
    }

    /// Looks at `--token` and at `-----BEGIN PRIVATE KEY-----`.
    fn dashes(&mut self, start: usize, length: usize) {
        let rest = self.rest(start);
        if rest.starts_with(PEM) || PEM.starts_with(rest) {
            return match pem(rest) {
                Pem::Whole(length) => self.found(start..start + length, "private-key"),
                Pem::Open(length) => {
                    self.opens(start);
                    if length > 0 {
                        self.found(start..start + length, "private-key");
                    }
                }
                Pem::None => {}
            };
        }
        let word = &self.text[start..start + length];
        let is_flag = rest.get(length) == Some(&b' ') && word.starts_with("--") && word.len() > 4;
        if let Some(name) = names::read(word).filter(|_| is_flag) {
            self.value(start + length, name);
        }
    }

    fn sign(&mut self, sign: u8) {
        let rest = self.rest(self.at);
        let next = rest.get(1).copied();
        match sign {
            // What a terminal does not show.
            0x1b if next == Some(b'[') => {
                let parameters = rest[2..].iter().take_while(|byte| (0x20..0x40).contains(*byte));
                self.at += 2 + parameters.count();
                // The last letter of it begins no word.
                self.at = (self.at + 1).min(self.bytes.len());
            }
            // What stands for a character begins no word.
            b'\\' if matches!(next, Some(b'n' | b'r' | b't')) => self.at += 2,
            b'\\' if next == Some(b'u') && is_hex(rest.get(2..6)) => self.at += 6,
            b'%' if is_hex(rest.get(1..3)) => self.at += 3,
            b'[' if rest.starts_with(vault::BEGINS.as_bytes()) => {
                let end = (self.at + LONGEST_PLACEHOLDER).min(self.text.len());
                let near = &self.text[self.at..self.text.floor_char_boundary(end)];
                self.at += vault::length_of_found(near).unwrap_or(1);
            }
            b':' if rest.starts_with(b"://") => self.address(),
            b'=' | b':' if next == Some(sign) => self.at += 2,
            b':' | b'=' => self.assignment(),
            b'>' if self.is_tag() => self.assignment(),
            _ => self.at += 1,
        }
    }

    /// Tells whether the last word is a tag that ends here.
    fn is_tag(&self) -> bool {
        let before = self.word.start.checked_sub(1).and_then(|before| self.bytes.get(before));
        self.word.end == self.at && before == Some(&b'<')
    }

    /// Looks at what is set behind `:` or `=`.
    fn assignment(&mut self) {
        let gap = &self.bytes[self.word.end..self.at];
        let is_gap = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b'`' | b']');
        let sign = self.at;
        self.at += 1;
        if gap.len() > 32 || !gap.iter().all(is_gap) {
            return;
        }
        if let Some(name) = names::read(&self.text[self.word.clone()]) {
            self.value(sign + 1, name);
        }
    }

    /// Looks at the value beside the name of a secret.
    fn value(&mut self, from: usize, name: names::Name) {
        let mut at = from;
        let skip = |at: &mut usize, most: usize, is: fn(&u8) -> bool| {
            *at += self.rest(*at).iter().take(most).take_while(|byte| is(byte)).count();
        };
        skip(&mut at, 1, |byte| matches!(byte, b'=' | b'>'));
        skip(&mut at, 32, |byte| matches!(byte, b' ' | b'\t'));
        skip(&mut at, 3, |byte| *byte == b'\\');
        let quote = self.bytes.get(at).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        at += usize::from(quote.is_some());
        let has_scheme = scheme(self.rest(at));
        at += has_scheme.unwrap_or(0);
        let (end, closing) = match quote {
            Some(quote) => {
                let ends = |byte: &u8| *byte == quote || matches!(byte, b'\n' | b'\r' | b'\\');
                let rest = self.rest(at);
                let end = at + rest.iter().position(ends).unwrap_or(rest.len());
                (end, self.closing(at, end))
            }
            None => self.bare_end(at),
        };
        if end == self.bytes.len() {
            self.opens(at);
        }
        let value = &self.text[at..closing];
        let beside =
            Beside { name, value, is_quoted: quote.is_some(), has_scheme: has_scheme.is_some() };
        // A token has the same kind wherever it stands.
        let kind = match shapes::at(value.as_bytes()) {
            Token::Whole { kind, length } if length == value.len() => Some(kind),
            Token::Whole { .. } | Token::Begun | Token::None => None,
        };
        let is_token = jwt(value.as_bytes()) != Token::None || value.starts_with("-----BEGIN");
        if let Some(kind) =
            kind.or_else(|| (!is_token && beside.is_secret()).then(|| kind_of(name)))
        {
            self.found(at..at + value.len(), kind);
        }
    }

    /// Finds where a value without quotes ends, and where what closes something begins before that.
    fn bare_end(&mut self, at: usize) -> (usize, usize) {
        if self.bare < at {
            let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;&<>|\\".contains(byte);
            self.bare =
                self.rest(at).iter().position(ends).map_or(self.bytes.len(), |end| at + end);
            self.closing = self.closing(at, self.bare);
        }
        (self.bare, self.closing.max(at))
    }

    /// Finds where what closes something begins at the end of a value.
    fn closing(&self, at: usize, end: usize) -> usize {
        at + self.text[at..end].trim_end_matches([')', ']', '}', ' ']).len()
    }

    /// Looks for a password in `scheme://user:password@host`.
    fn address(&mut self) {
        let start = self.at + 3;
        self.at = start;
        let rest = self.rest(start);
        let ends = |byte: &u8| {
            byte.is_ascii_whitespace()
                || matches!(
                    byte,
                    b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`' | b',' | b')'
                )
        };
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        if length == rest.len() {
            self.opens(start);
        }
        let authority = &self.text[start..start + length];
        if authority == "hooks.slack.com" || authority.ends_with("discord.com") {
            return self.hook(start + length);
        }
        let Some((user, _)) = authority.rsplit_once('@') else { return };
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, password),
            None if value::is_random(user) => ("", user),
            None => return,
        };
        let from =
            start + if user.is_empty() && !authority.starts_with(':') { 0 } else { user.len() + 1 };
        if value::is_password_of_address(user, password) {
            let kind = match shapes::at(password.as_bytes()) {
                Token::Whole { kind, length } if length == password.len() => kind,
                Token::Whole { .. } | Token::Begun | Token::None => "password",
            };
            self.found(from..from + password.len(), kind);
        }
    }

    /// Looks at an address to which whoever knows it may post.
    fn hook(&mut self, from: usize) {
        let rest = self.rest(from);
        let begins = ["/services/", "/api/webhooks/"];
        let Some(begins) = begins.iter().find(|begins| rest.starts_with(begins.as_bytes())) else {
            return;
        };
        let is_of_path = |byte: &u8| CLASSES[usize::from(*byte)] == Class::Word || *byte == b'/';
        let start = from + begins.len();
        let length = self.rest(start).iter().take_while(|byte| is_of_path(byte)).count();
        if start + length == self.bytes.len() {
            self.opens(start);
        }
        if length >= 24 {
            self.found(start..start + length, "webhook");
        }
    }
}

fn kind_of(name: names::Name) -> &'static str {
    match name {
        names::Name::Password => "password",
        names::Name::Secret | names::Name::Key => "credential",
    }
}

fn is_hex(bytes: Option<&[u8]>) -> bool {
    bytes.is_some_and(|bytes| bytes.iter().all(u8::is_ascii_hexdigit))
}

/// Returns how long the scheme of an `Authorization` header is, if a value begins with one.
fn scheme(value: &[u8]) -> Option<usize> {
    let schemes: [&[u8]; 4] = [b"Bearer ", b"Basic ", b"Token ", b"ApiKey "];
    let is_begin = |scheme: &&[u8]| {
        value.get(..scheme.len()).is_some_and(|begins| begins.eq_ignore_ascii_case(scheme))
    };
    schemes.into_iter().find(is_begin).map(<[u8]>::len)
}

/// Looks for a JSON web token: three parts, of which the first says how the last was made.
fn jwt(text: &[u8]) -> Token {
    const BEGINS: &[u8] = b"eyJ";
    if !text.starts_with(BEGINS) {
        let is_begun = !text.is_empty() && BEGINS.starts_with(text);
        return if is_begun { Token::Begun } else { Token::None };
    }
    let is_of_part = |byte: &&u8| CLASSES[usize::from(**byte)] == Class::Word;
    let mut at = 0;
    for part in 0..3 {
        let length = text[at..].iter().take_while(is_of_part).count();
        let end = at + length;
        if part == 0 && end < text.len() && !says_algorithm(&text[..end]) {
            return Token::None;
        }
        match (part, text.get(end)) {
            (2, _) if length >= 16 => return Token::Whole { kind: "jwt", length: end },
            (_, None) => return Token::Begun,
            (0 | 1, Some(b'.')) if length > 0 => at = end + 1,
            (_, Some(_)) => return Token::None,
        }
    }
    Token::None
}

/// Tells whether the first part of a JSON web token, in base64, names an algorithm.
fn says_algorithm(part: &[u8]) -> bool {
    let (mut bits, mut count, mut json) = (0_u32, 0, Vec::new());
    for byte in part {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            json.push((bits >> count & 0xff) as u8);
        }
    }
    json.starts_with(b"{") && json.windows(5).any(|part| part == b"\"alg\"")
}

const PEM: &[u8] = b"-----BEGIN ";

/// A private key in a text.
enum Pem {
    /// All of it, of so many bytes.
    Whole(usize),
    /// So much of it as there is.
    Open(usize),
    None,
}

fn pem(text: &[u8]) -> Pem {
    let Some(label) = text.strip_prefix(PEM) else { return Pem::Open(0) };
    let is_of_label =
        |byte: &&u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || **byte == b' ';
    let length = label.iter().take_while(is_of_label).count();
    if length == label.len() && length < 64 {
        return Pem::Open(0);
    }
    let is_private = label[..length].windows(11).any(|part| part == b"PRIVATE KEY");
    if !is_private || !label[length..].starts_with(b"-") {
        return Pem::None;
    }
    let body =
        PEM.len() + length + label[length..].iter().take_while(|byte| **byte == b'-').count();
    // Also with the escapes of a JSON text, and with the signs of a list or a comment before each line.
    let is_of_body = |byte: &&u8| {
        byte.is_ascii_alphanumeric()
            || byte.is_ascii_whitespace()
            || b"+/=:,.-\\|>#*\"'".contains(byte)
    };
    let held = text[body..].iter().take_while(is_of_body).count();
    let end = b"-----END ";
    match text[body..body + held].windows(end.len()).position(|part| part == end) {
        Some(at) => {
            let last = body + at + end.len();
            let length = text[last..].iter().take_while(is_of_label).count();
            let dashes =
                text[last + length..].iter().take(5).take_while(|byte| **byte == b'-').count();
            let whole = last + length + dashes;
            if dashes < 5 && whole == text.len() { Pem::Open(whole) } else { Pem::Whole(whole) }
        }
        None if body + held == text.len() => Pem::Open(text.len()),
        None => Pem::Whole(body + held),
    }
}
