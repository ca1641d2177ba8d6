//! Names of files, as models see them: each on one line, and no two alike.
//!
//! Whoever makes a repository chooses its names. One with the end of a line in it would be two lines of a
//! listing, of which the second says whatever its maker likes; another would be shown backwards, or not be
//! told from its neighbour. Such a name is quoted as git and C do: `"a\nb"`, bytes that are no text and
//! what cannot be seen as `\342\200\256`. Tools take a name as it is shown.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::is_unseen;

/// Returns a path as it is shown: as it is if that is plain, else quoted.
pub fn shown(path: &Path) -> Cow<'_, str> {
    match path.to_str().filter(|text| is_plain(text)) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(quoted(path)),
    }
}

/// Returns a path in quotes, which need not be: where a plain name could be taken for something else.
pub fn quoted(path: &Path) -> String {
    quoted_but(path, is_unseen)
}

/// Returns the path that a quoted one stands for; `None` if a text is none that is shown so, by us or by
/// git: other names mean what they are, so that nobody has a second way to write `.env`.
pub fn read(text: &str) -> Option<PathBuf> {
    let bytes = unquoted(text.strip_prefix('"')?.strip_suffix('"')?)?;
    let leads_on = bytes.split(|byte| *byte == b'/').any(|part| matches!(part, b"." | b".."));
    if leads_on || bytes.contains(&0) {
        return None;
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    let is_ours = shown(&path) == text;
    // Git quotes whatever is not ASCII.
    let is_of_git = || text.contains('\\') && quoted_but(&path, |c| !c.is_ascii()) == text;
    (is_ours || is_of_git()).then_some(path)
}

/// Tells whether a path needs no quotes.
fn is_plain(text: &str) -> bool {
    // What a tool says of a listing stands in brackets, and what lies in a folder is indented.
    let is_like_a_note = text.starts_with(['[', '(']) && text.contains(' ');
    !text.contains(|c| is_unseen(c) || matches!(c, '\n' | '\t' | '"' | '\\'))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !is_like_a_note
}

fn quoted_but(path: &Path, is_meant: impl Fn(char) -> bool) -> String {
    let mut quoted = String::from("\"");
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match LETTERS.iter().find(|(meant, _)| *meant == c) {
                Some((_, letter)) => quoted.extend(['\\', *letter]),
                None if c.is_control() || is_meant(c) => {
                    octal(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                None => quoted.push(c),
            }
        }
        octal(&mut quoted, chunk.invalid());
    }
    quoted.push('"');
    quoted
}

/// The characters that are written with a letter.
const LETTERS: [(char, char); 9] = [
    ('\u{7}', 'a'),
    ('\u{8}', 'b'),
    ('\t', 't'),
    ('\n', 'n'),
    ('\u{b}', 'v'),
    ('\u{c}', 'f'),
    ('\r', 'r'),
    ('"', '"'),
    ('\\', '\\'),
];

fn octal(quoted: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // A string takes everything.
        let _ = write!(quoted, "\\{byte:03o}");
    }
}

/// Reads what stands between quotes.
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'\\' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let letter = char::from(*behind.first()?);
        if let Some((meant, _)) = LETTERS.iter().find(|(_, known)| *known == letter) {
            bytes.push(u8::try_from(*meant).ok()?);
            rest = &behind[1..];
        } else {
            let digits = std::str::from_utf8(behind.get(..3)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 8).ok()?);
            rest = &behind[3..];
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn path(bytes: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(bytes))
    }

    #[test]
    fn what_would_not_be_seen_as_it_is_stands_in_quotes() {
        for plain in ["src/main.rs", "größe 2.txt", "-rf", "[slug].tsx", "a'b", "$(x)", "日本/x"]
        {
            assert_eq!(shown(Path::new(plain)), plain);
        }
        for (name, expected) in [
            (b"a\nb".as_slice(), r#""a\nb""#),
            (b"a\x1b]0;t\x07", r#""a\033]0;t\a""#),
            ("\u{202e}txt.exe".as_bytes(), r#""\342\200\256txt.exe""#),
            ("a\u{200b}".as_bytes(), r#""a\342\200\213""#),
            (b"a\xffb", r#""a\377b""#),
            (b"\"a\"", r#""\"a\"""#),
            (b"a\\nb", r#""a\\nb""#),
            (b"  a", r#""  a""#),
            (b"[3 more files]", r#""[3 more files]""#),
        ] {
            assert_eq!(shown(path(name)), expected);
            assert_eq!(read(expected).as_deref(), Some(path(name)));
        }
    }

    #[test]
    fn a_name_has_no_second_way_to_be_written() {
        for text in [
            r#"".env""#,
            r#""\056env""#,
            r#""a\tb/../.env""#,
            r#""\"x/./.env""#,
            r#""a\012b""#,
            "\"a\nb\"",
            r#""a\x""#,
            r#""a\"#,
            r#""a\400""#,
            r#""a\000\n""#,
            r#""""#,
            "\"",
            "a",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        // Git's own way to write what is not ASCII.
        assert_eq!(read(r#""gr\303\266\303\237e""#).as_deref(), Some(Path::new("größe")));
    }

    proptest! {
        #[test]
        fn every_name_is_read_as_it_is_shown(name in prop::collection::vec(1_u8.., 1..12)) {
            let path = path(&name);
            let text = shown(path);
            let quoted = text.starts_with('"');
            let leads_on = name.split(|byte| *byte == b'/').any(|part| matches!(part, b"." | b".."));
            prop_assume!(!leads_on);
            prop_assert!(!text.contains(|c: char| c.is_control()));
            let meant = if quoted { read(&text) } else { Some(PathBuf::from(&*text)) };
            prop_assert_eq!(meant.as_deref(), Some(path));
        }
    }
}
