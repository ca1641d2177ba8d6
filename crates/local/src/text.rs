//! Text that comes in pieces of bytes.

/// Collects bytes and hands out the text in them as soon as its characters are whole.
#[derive(Debug, Default)]
pub(crate) struct Text {
    whole: String,
    rest: Vec<u8>,
}

impl Text {
    /// Takes bytes; returns the text that is whole by them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> &str {
        self.rest.extend_from_slice(bytes);
        let start = self.whole.len();
        loop {
            match std::str::from_utf8(&self.rest) {
                Ok(text) => {
                    self.whole.push_str(text);
                    self.rest.clear();
                    break;
                }
                Err(error) => {
                    let (valid, rest) = self.rest.split_at(error.valid_up_to());
                    self.whole.push_str(&String::from_utf8_lossy(valid));
                    // What is no beginning of a character never becomes one.
                    let Some(wrong) = error.error_len() else {
                        self.rest = rest.to_vec();
                        break;
                    };
                    self.whole.push(char::REPLACEMENT_CHARACTER);
                    self.rest = rest.get(wrong..).unwrap_or_default().to_vec();
                }
            }
        }
        self.whole.get(start..).unwrap_or_default()
    }

    /// Returns all text so far.
    pub(crate) fn whole(&self) -> &str {
        &self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_whole() {
        let mut text = Text::default();
        assert_eq!(text.push(b"a\xc3"), "a");
        assert_eq!(text.push(b"\xa4\xff"), "ä\u{fffd}");
        assert_eq!(text.push(b"b"), "b");
        assert_eq!(text.whole(), "aä\u{fffd}b");
    }
}
