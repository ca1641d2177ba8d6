//! Texts with a `*` in them.

/// A text in which `*` stands for any characters, also none; `\*` is the character itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    /// What stands between the stars.
    pieces: Vec<String>,
}

impl Glob {
    /// Reads a pattern.
    pub(super) fn new(pattern: &str) -> Self {
        let mut pieces = vec![String::new()];
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let literal = match character {
                '*' => {
                    pieces.push(String::new());
                    continue;
                }
                '\\' => characters.next().unwrap_or('\\'),
                other => other,
            };
            if let Some(piece) = pieces.last_mut() {
                piece.push(literal);
            }
        }
        Self { pieces }
    }

    /// Tells whether a text fits.
    pub(super) fn fits(&self, text: &str) -> bool {
        let (Some((first, rest)), Some(last)) = (self.pieces.split_first(), self.pieces.last())
        else {
            return text.is_empty();
        };
        let Some((_, middle)) = rest.split_last() else { return text == first };
        let Some(mut left) = text.strip_prefix(first.as_str()) else { return false };
        for piece in middle {
            let Some(at) = left.find(piece.as_str()) else { return false };
            left = left.get(at + piece.len()..).unwrap_or_default();
        }
        left.ends_with(last.as_str())
    }

    /// Tells whether a text that begins like this could fit.
    pub(super) fn could_fit(&self, start: &str) -> bool {
        let first = self.pieces.first().map_or("", String::as_str);
        first.starts_with(start) || (self.pieces.len() > 1 && start.starts_with(first))
    }

    /// Returns the text if only that fits.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Tells whether every text fits.
    pub(super) fn is_any(&self) -> bool {
        self.pieces.len() > 1 && self.pieces.iter().all(String::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_backslash_takes_its_meaning() {
        let fits = [("a*c", "abc"), ("*", ""), ("a*", "a"), ("*a*b*", "xaybz"), (r"\*", "*")];
        for (pattern, text) in fits {
            assert!(Glob::new(pattern).fits(text), "{pattern} {text}");
        }
        let not = [("a*c", "ab"), ("ab*ba", "aba"), (r"\*", "x"), ("a", "ab"), ("*a*b", "ba")];
        for (pattern, text) in not {
            assert!(!Glob::new(pattern).fits(text), "{pattern} {text}");
        }
    }
}
