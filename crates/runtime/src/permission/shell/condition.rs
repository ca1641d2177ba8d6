//! `[[ ... ]]`.

use super::reader::{Reader, Reading};
use super::word::Text;
use super::{Word, variable};

/// Operators that reckon both their sides.
const RECKONING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

impl Reader<'_, '_> {
    pub(super) fn test(&mut self) -> Reading<()> {
        self.bash_only()?;
        self.at += "[[".len();
        let mut words: Vec<Word> = Vec::new();
        loop {
            self.skip_newlines()?;
            let is_operator = match self.peek() {
                Some(b'(' | b')') => true,
                Some(b'<' | b'>') => self.peek_at(1) != Some(b'('),
                _ => false,
            };
            if is_operator {
                self.at += 1;
                words.clear();
                continue;
            }
            if self.looking_at("&&") || self.looking_at("||") {
                self.at += 2;
                words.clear();
                continue;
            }
            let from = self.at;
            let word = match words.last().and_then(Word::known) {
                Some("=~") => self.regex_word()?,
                Some("==" | "=" | "!=") => self.pattern_word()?,
                _ => self.word()?,
            };
            let Some(word) = word else {
                return self.unclear("it is no bash that is understood");
            };
            if self.since(from) == "]]" {
                return Ok(());
            }
            self.operand(word, &mut words)?;
        }
    }

    fn operand(&mut self, word: Text, words: &mut Vec<Word>) -> Reading<()> {
        let word = word.into_value();
        let operator = words.last().and_then(Word::known).unwrap_or_default();
        if matches!(operator, "-v" | "-R") && !word.known().is_some_and(variable::is_name) {
            return self.unclear("the subscript of a variable's name would be run");
        }
        if RECKONING.contains(&operator) {
            self.reckoned(&word)?;
        }
        if word.known().is_some_and(|word| RECKONING.contains(&word))
            && let Some(left) = words.last()
        {
            self.reckoned(left)?;
        }
        words.push(word);
        Ok(())
    }

    /// One side of a comparison of numbers.
    fn reckoned(&mut self, side: &Word) -> Reading<()> {
        if variable::is_number(side) {
            return Ok(());
        }
        let source = side.source();
        let inner = source.trim_matches('"');
        let name = inner.strip_prefix('$').unwrap_or(inner);
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        let name = name.strip_prefix('#').unwrap_or(name);
        if !variable::is_name(name) {
            return self.unclear("arithmetic runs commands in the text that it reads");
        }
        self.found.reckon(name, source);
        Ok(())
    }
}
