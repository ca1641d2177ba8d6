//! A text file as an editor sees it: without the marks that tools must keep and models get wrong.

/// The text of a file, with lines that end in `\n`, and how to make the file's bytes of it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    has_bom: bool,
    has_crlf: bool,
    pub(crate) content: String,
}

const BOM: &str = "\u{feff}";

impl Text {
    /// Reads bytes; `None` if they are no UTF-8.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (has_bom, text) = match text.strip_prefix(BOM) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        // A file with both kinds of line ends is left as it is, so that nothing else changes in it.
        let has_crlf =
            text.contains('\n') && text.matches('\n').count() == text.matches("\r\n").count();
        let content = if has_crlf { text.replace("\r\n", "\n") } else { text.to_owned() };
        Some(Self { has_bom, has_crlf, content })
    }

    /// Returns the same file with other content.
    pub(crate) fn with(&self, content: String) -> Self {
        Self { content, ..*self }
    }

    /// Writes the bytes of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.content.len() + 3);
        if self.has_bom {
            bytes.extend(BOM.as_bytes());
        }
        if self.has_crlf {
            bytes.extend(self.content.replace('\n', "\r\n").as_bytes());
        } else {
            bytes.extend(self.content.as_bytes());
        }
        bytes
    }
}

/// Returns where each line begins and ends, without its `\n`. There is no line after the last `\n`.
pub(crate) fn line_spans(text: &str) -> Vec<(usize, usize)> {
    let mut at = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let start = at;
            at += line.len();
            (start, start + line.strip_suffix('\n').unwrap_or(line).len())
        })
        .collect()
}

/// Returns the number of the line, from 1, in which a byte lies.
pub(crate) fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_is_written_again(text in "\u{feff}?(a|é|\r|\n|\r\n){0,20}") {
            let parsed = Text::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(parsed.to_bytes(), text.as_bytes());
        }
    }

    #[test]
    fn marks_are_kept_but_not_shown() {
        let text = Text::parse("\u{feff}a\r\nb\r\n".as_bytes()).unwrap();
        assert_eq!(text.content, "a\nb\n");
        assert_eq!(text.with("c\n".to_owned()).to_bytes(), "\u{feff}c\r\n".as_bytes());
        assert_eq!(Text::parse(b"a\r\nb\n").unwrap().content, "a\r\nb\n");
        assert_eq!(Text::parse(b"\xff"), None);
    }

    #[test]
    fn lines_have_no_end() {
        assert_eq!(line_spans("ab\n\nc"), [(0, 2), (3, 3), (4, 5)]);
        assert_eq!(line_spans("ab\n"), [(0, 2)]);
        assert_eq!(line_spans(""), []);
    }
}
