//! What a word becomes: quotes are removed, what is expanded is not known.

use super::reader::{Reader, Reading};
use super::{Count, Word, escape};

/// How parentheses and bars within a word are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Argument,
    /// The right side of `==` in `[[ ]]`.
    Pattern,
    /// The right side of `=~` in `[[ ]]`.
    Regex,
}

/// A word while it is read.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// What is known of it, up to `known_to` for certain.
    value: String,
    source: String,
    known_to: Option<usize>,
    splits: bool,
    /// Unquoted globs or braces: several words, but only where words are split.
    is_pattern: bool,
    has_bracket: bool,
    braces: Braces,
}

/// How much of an unquoted `{a,b}` or `{1..3}` has been seen.
#[derive(Debug, Default, PartialEq, Eq)]
enum Braces {
    #[default]
    None,
    Open,
    Listed,
}

impl Text {
    pub(super) fn known(&self) -> Option<&str> {
        (self.known_to.is_none() && !self.is_pattern).then_some(self.value.as_str())
    }

    /// Returns it as an argument.
    pub(super) fn into_word(self) -> Word {
        let count = if self.splits || self.is_pattern { Count::Any } else { Count::One };
        let is_known = self.known().is_some();
        self.finish(is_known, count)
    }

    /// Returns it as the value of a variable, which is neither split nor matched.
    pub(super) fn into_value(self) -> Word {
        let is_known = self.known_to.is_none() && self.braces != Braces::Listed;
        self.finish(is_known, Count::One)
    }

    fn finish(self, is_known: bool, count: Count) -> Word {
        if is_known {
            return Word::Known(self.value);
        }
        let known_to = self.known_to.unwrap_or(self.value.len());
        let starts = match count {
            // Splitting cuts what is known off from what follows.
            Count::Any if self.splits => String::new(),
            Count::Any | Count::One => self.value.get(..known_to).unwrap_or_default().to_owned(),
        };
        Word::Unknown { source: self.source, starts, count }
    }

    fn unknown(&mut self) {
        self.known_to.get_or_insert(self.value.len());
    }

    fn pattern(&mut self) {
        self.unknown();
        self.is_pattern = true;
    }
}

/// Bytes that mean something at some place of an unquoted word.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0x80
        || matches!(
            byte,
            b'-' | b'_' | b'/' | b':' | b'+' | b'@' | b'%' | b'^' | b'!' | b'=' | b'#'
        )
}

impl Reader<'_, '_> {
    /// Reads one word, if one starts here.
    pub(super) fn word(&mut self) -> Reading<Option<Text>> {
        self.styled_word(Style::Argument)
    }

    /// Reads the right side of `==` in `[[ ]]`.
    pub(super) fn pattern_word(&mut self) -> Reading<Option<Text>> {
        self.styled_word(Style::Pattern)
    }

    /// Reads the right side of `=~` in `[[ ]]`.
    pub(super) fn regex_word(&mut self) -> Reading<Option<Text>> {
        self.styled_word(Style::Regex)
    }

    fn styled_word(&mut self, style: Style) -> Reading<Option<Text>> {
        let start = self.at;
        let mut text = Text::default();
        let mut parentheses = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' if style != Style::Argument => parentheses += 1,
                b')' if parentheses > 0 => parentheses -= 1,
                b'|' if parentheses > 0 => {}
                b'|' if style == Style::Regex && self.peek_at(1) != Some(b'|') => {}
                b' ' | b'<' | b'>' | b'&' | b';' if parentheses > 0 && style == Style::Regex => {}
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    text.unknown();
                    self.process_substitution()?;
                    continue;
                }
                b'<' | b'>' => break,
                b'\\' if self.peek_at(1) == Some(b'\n') => {
                    self.continuation()?;
                    break;
                }
                _ => {
                    self.piece(byte, &mut text)?;
                    continue;
                }
            }
            text.pattern();
            self.at += 1;
        }
        if self.at == start {
            return Ok(None);
        }
        self.since(start).clone_into(&mut text.source);
        Ok(Some(text))
    }

    fn piece(&mut self, byte: u8, text: &mut Text) -> Reading<()> {
        match byte {
            b'\\' => self.escaped(text),
            b'\'' => self.single_quoted(text),
            b'"' => {
                self.at += 1;
                self.double_quoted(text)
            }
            b'$' => self.dollar(text),
            b'`' => {
                text.unknown();
                text.splits = true;
                self.backquoted(false)
            }
            _ => {
                self.unquoted(byte, text);
                Ok(())
            }
        }
    }

    fn unquoted(&mut self, byte: u8, text: &mut Text) {
        let from = self.at;
        match byte {
            b'*' | b'?' => text.pattern(),
            b'[' => text.has_bracket = true,
            b']' if text.has_bracket => {
                let bracket = text.value.find('[').unwrap_or_default();
                text.known_to = Some(text.known_to.map_or(bracket, |known| known.min(bracket)));
                text.is_pattern = true;
            }
            b'{' if text.braces == Braces::None => text.braces = Braces::Open,
            b',' if text.braces == Braces::Open => text.braces = Braces::Listed,
            b'.' if text.braces == Braces::Open && self.peek_at(1) == Some(b'.') => {
                text.braces = Braces::Listed;
            }
            b'}' if text.braces == Braces::Listed => {
                let brace = text.value.find('{').unwrap_or_default();
                text.known_to = Some(text.known_to.map_or(brace, |known| known.min(brace)));
                text.is_pattern = true;
            }
            b'~' if text.value.is_empty() || text.value.ends_with(['=', ':']) => text.unknown(),
            _ => {}
        }
        self.at += 1;
        if is_plain(byte) {
            let rest = &self.text.as_bytes()[self.at..];
            self.at += rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
        }
        text.value.push_str(self.since(from));
    }

    fn escaped(&mut self, text: &mut Text) -> Reading<()> {
        self.at += 1;
        let Some(next) = self.text[self.at..].chars().next() else {
            return self.unclear("a backslash ends it");
        };
        text.value.push(next);
        self.at += next.len_utf8();
        Ok(())
    }

    fn single_quoted(&mut self, text: &mut Text) -> Reading<()> {
        let rest = &self.text[self.at + 1..];
        let Some(length) = rest.find('\'') else {
            return self.unclear("a quote does not end");
        };
        text.value.push_str(&rest[..length]);
        self.at += length + 2;
        Ok(())
    }

    fn dollar(&mut self, text: &mut Text) -> Reading<()> {
        match self.peek_at(1) {
            Some(b'\'') => {
                self.bash_only()?;
                self.at += 2;
                let rest = &self.text[self.at..];
                let Some((value, length)) = escape::decode(rest) else {
                    return self.unclear("the escapes of a text are not plain");
                };
                text.value.push_str(&value);
                self.at += length;
                Ok(())
            }
            // The text may be translated.
            Some(b'"') => {
                self.bash_only()?;
                text.unknown();
                self.at += 2;
                self.double_quoted(text)
            }
            _ => {
                let from = self.at;
                if self.expansion(false)?.is_some() {
                    text.unknown();
                    text.splits = true;
                } else {
                    text.value.push_str(self.since(from));
                }
                Ok(())
            }
        }
    }

    /// Reads up to the closing quote.
    pub(super) fn double_quoted(&mut self, text: &mut Text) -> Reading<()> {
        loop {
            let rest = &self.text[self.at..];
            let length = rest.find(['"', '\\', '$', '`']).unwrap_or(rest.len());
            text.value.push_str(&rest[..length]);
            self.at += length;
            match self.peek() {
                None => return self.unclear("a quote does not end"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escaped_in_quotes(text),
                Some(b'`') => {
                    text.unknown();
                    self.backquoted(true)?;
                }
                Some(_) => {
                    let from = self.at;
                    match self.expansion(true)? {
                        Some(count) => {
                            text.unknown();
                            text.splits |= count == Count::Any;
                        }
                        None => text.value.push_str(self.since(from)),
                    }
                }
            }
        }
    }

    fn escaped_in_quotes(&mut self, text: &mut Text) {
        match self.peek_at(1) {
            Some(b'\n') => {}
            Some(byte @ (b'$' | b'`' | b'"' | b'\\')) => text.value.push(char::from(byte)),
            _ => {
                text.value.push('\\');
                self.at += 1;
                return;
            }
        }
        self.at += 2;
    }
}
