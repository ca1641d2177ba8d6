//! Texts of strangers, made so that a person sees all of them.
//!
//! Some characters act upon a terminal, turn the direction of writing around, or are not seen at all. Who
//! is to decide about a command must see them: without them another one seems to stand there. So they are
//! written as JSON writes them, `\u202e`, and nothing is left out.

pub mod name;

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns a text as one line in which everything is seen: ends of lines too, and spaces that are none of
/// the usual.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unseen(c) || matches!(c, '\n' | '\t'))
}

/// Returns a text in its lines, in which everything else is seen.
pub fn in_lines(text: &str) -> Cow<'_, str> {
    escaped(text, is_unseen)
}

/// Returns a text with nothing in it that a terminal acts upon. Of JSON it leaves the meaning as it is.
pub fn on_a_terminal(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

fn escaped(text: &str, is_meant: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_meant) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if is_meant(c) => escaped.push_str("\\n"),
            '\t' if is_meant(c) => escaped.push_str("\\t"),
            '\r' if is_meant(c) => escaped.push_str("\\r"),
            _ if is_meant(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // A string takes everything.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            _ => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Tells whether a terminal acts upon a character: all that control something but ends of lines and
/// tabs, and what turns the direction of writing around.
fn acts(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends_line = matches!(c, '\u{2028}' | '\u{2029}');
    turns || ends_line || c.is_control() && !matches!(c, '\n' | '\t')
}

/// Tells whether a character is not seen, or is taken for a space.
fn is_unseen(c: char) -> bool {
    let is_ignored = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    acts(c) || is_ignored || (c.is_whitespace() && !c.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_seen_as_what_it_is() {
        let cases = [
            ("ls -l", "ls -l"),
            ("größer ✓ \\u202e", "größer ✓ \\u202e"),
            ("ls\u{1b}]0; rm -rf ~ \u{7}", "ls\\u001b]0; rm -rf ~ \\u0007"),
            ("rm x\r\u{1b}[2Kls", "rm x\\r\\u001b[2Kls"),
            ("a\u{8}\u{7f}\u{9b}2J\u{0}", "a\\u0008\\u007f\\u009b2J\\u0000"),
            ("\u{202e}fr\u{2066}", "\\u202efr\\u2066"),
            ("l\u{200b}s\u{a0}-l\u{feff}", "l\\u200bs\\u00a0-l\\ufeff"),
            ("\u{e0041}x", "\\udb40\\udc41x"),
            ("echo\nrm\tx", "echo\\nrm\\tx"),
        ];
        for (text, seen) in cases {
            assert_eq!(on_one_line(text), seen, "{text:?}");
        }
        assert_eq!(in_lines("a\n\tb\u{200b}\r\n"), "a\n\tb\\u200b\\r\n");
    }

    #[test]
    fn json_means_what_it_meant() {
        let text = "a\u{7f}\u{9b}\u{202e}\u{e0041}\u{200d}\u{1b}\n";
        let json = serde_json::to_string(text).unwrap();
        let shown = on_a_terminal(&json);
        assert!(!shown.contains(acts), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
