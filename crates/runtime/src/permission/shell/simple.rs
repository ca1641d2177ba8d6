//! Words, assignments, redirections and here-documents of one command.

use super::reader::{Reader, Reading};
use super::word::Text;
use super::{Count, Run, Word, program, variable};

/// A here-document whose body has not been reached yet.
#[derive(Debug)]
pub(super) struct Heredoc {
    delimiter: String,
    strips_tabs: bool,
    is_literal: bool,
}

/// Words of one command that are read.
const MOST_WORDS: usize = 4_000;
/// Builtins whose arguments are assignments.
const DECLARING: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

impl Reader<'_, '_> {
    pub(super) fn simple_command(&mut self) -> Reading<()> {
        if self.found.is_full() {
            return self.unclear("it runs too many programs to be listed");
        }
        let start = self.at;
        let mut run = Run::default();
        let mut end = start;
        loop {
            self.skip_blanks()?;
            if self.redirection(&mut run)? {
                end = self.at;
                continue;
            }
            if run.words.is_empty() && self.assignment(&mut run)? {
                end = self.at;
                continue;
            }
            let from = self.at;
            let Some(text) = self.word()? else { break };
            let source = self.since(from);
            if run.words.is_empty() && run.assignments.is_empty() && self.is_function()? {
                return self.function_body(source);
            }
            if self.peek() == Some(b'(') {
                self.declared_array(&run, source)?;
            }
            self.check_first(&run, &text, source)?;
            run.words.push(text.into_word());
            end = self.at;
            if run.words.len() > MOST_WORDS {
                return self.unclear("it has too many words to be read");
            }
        }
        if end == start {
            return self.unclear("it is no bash that is understood");
        }
        self.text.get(start..end).unwrap_or_default().clone_into(&mut run.text);
        self.assigned(&run);
        run.folder = self.found.folder.clone();
        run.through = self.through.clone();
        run.outer = self.outer.clone();
        if !run.words.is_empty() {
            program::settle(self.found, run, self.is_plain);
        } else if !run.reads.is_empty() || !run.writes.is_empty() {
            self.found.run(run);
        }
        Ok(())
    }

    fn assigned(&mut self, run: &Run) {
        for (name, value) in &run.assignments {
            self.found.assign(name, value, &run.text);
        }
    }

    /// A program's name that only looks plain.
    fn check_first(&self, run: &Run, text: &Text, source: &str) -> Reading<()> {
        if !run.words.is_empty() {
            return Ok(());
        }
        let is_joined = source.contains("\\\n");
        if is_joined && text.known().is_some_and(Self::is_reserved) {
            return self.unclear("a line ends within a word");
        }
        Ok(())
    }

    /// Whether `()` follows a first word.
    fn is_function(&mut self) -> Reading<bool> {
        let word_end = self.at;
        self.skip_blanks()?;
        if self.peek() != Some(b'(') {
            self.at = word_end;
            return Ok(false);
        }
        self.at += 1;
        self.skip_blanks()?;
        self.expect_byte(b')')?;
        Ok(true)
    }

    /// Reads the elements in `declare name=(...)`.
    fn declared_array(&mut self, run: &Run, source: &str) -> Reading<()> {
        let declares = run.words.first().and_then(Word::known);
        let name = source.strip_suffix('=').map(|name| name.strip_suffix('+').unwrap_or(name));
        match (declares, name) {
            (Some(program), Some(name))
                if DECLARING.contains(&program) && variable::is_name(name) =>
            {
                self.array(name)?;
                Ok(())
            }
            _ => self.unclear("a parenthesis stands within a command"),
        }
    }

    /// Reads `name=value`, `name+=value`, `name[subscript]=value` or `name=(...)`.
    fn assignment(&mut self, run: &mut Run) -> Reading<bool> {
        let rest = &self.text[self.at..];
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let length = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let name = &rest[..length];
        if !variable::is_name(name) {
            return Ok(false);
        }
        let after = &rest[length..];
        let start = self.at;
        if after.starts_with('[') {
            self.bash_only()?;
            self.found.list(name);
            self.at += length + 1;
            self.subscript()?;
            if self.looking_at("+=") {
                self.at += 1;
            }
            if self.peek() != Some(b'=') {
                self.at = start;
                return self.unclear("it may assign to a part of a variable");
            }
            self.at += 1;
        } else if after.starts_with('=') {
            self.at += length + 1;
        } else if after.starts_with("+=") {
            self.at += length + 2;
        } else {
            return Ok(false);
        }
        let value = if self.peek() == Some(b'(') {
            self.array(name)?
        } else {
            self.word()?.map_or_else(|| Word::Known(String::new()), Text::into_value)
        };
        let value = match value {
            // It is added to what is there already.
            Word::Known(text) if self.since(start).contains("+=") && !text.is_empty() => {
                Word::unknown(self.since(start), Count::One)
            }
            value => value,
        };
        run.assignments.push((name.to_owned(), value));
        Ok(true)
    }

    /// Reads `(...)` after `name=`.
    fn array(&mut self, name: &str) -> Reading<Word> {
        self.bash_only()?;
        let start = self.at;
        self.found.list(name);
        self.expect_byte(b'(')?;
        loop {
            self.skip_newlines()?;
            if self.peek() == Some(b')') {
                break;
            }
            if self.peek() == Some(b'[') {
                self.at += 1;
                self.subscript()?;
                self.expect_byte(b'=')?;
                if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b')')) {
                    continue;
                }
            }
            let Some(word) = self.word()? else {
                return self.unclear("it is no bash that is understood");
            };
            let word = word.into_word();
            self.found.assign(name, &word, name);
        }
        self.at += 1;
        Ok(Word::unknown(self.since(start), Count::Any))
    }

    /// Reads one redirection, if there is one.
    pub(super) fn redirection(&mut self, run: &mut Run) -> Reading<bool> {
        let start = self.at;
        if !self.descriptor()? {
            return Ok(false);
        }
        let rest = &self.text[self.at..];
        let operators = ["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">"];
        let Some(operator) = operators.iter().find(|operator| rest.starts_with(**operator)) else {
            self.at = start;
            return Ok(false);
        };
        if matches!(*operator, "<" | ">") && self.peek_at(1) == Some(b'(') {
            if self.at > start {
                return self.unclear("it is no bash that is understood");
            }
            return Ok(false);
        }
        if operator.starts_with("&>") || *operator == "<<<" {
            self.bash_only()?;
        }
        self.at += operator.len();
        if self.peek() == Some(b'&') || self.looking_at("\\\n") {
            return self.unclear("it is no bash that is understood");
        }
        self.skip_blanks()?;
        if matches!(*operator, "<<" | "<<-") {
            self.heredoc(*operator == "<<-")?;
            return Ok(true);
        }
        let from = self.at;
        let Some(target) = self.word()? else {
            return self.unclear("it is no bash that is understood");
        };
        let source = self.since(from);
        let target = target.into_word();
        self.open(operator, target, source, run)?;
        Ok(true)
    }

    /// Skips what stands before a redirection: `2`, `{name}`. Says whether there may be one.
    fn descriptor(&mut self) -> Reading<bool> {
        match self.peek() {
            Some(b'<' | b'>') => Ok(true),
            Some(b'&') => Ok(self.peek_at(1) == Some(b'>')),
            Some(byte) if byte.is_ascii_digit() => {
                let rest = &self.text.as_bytes()[self.at..];
                let length = rest.iter().position(|byte| !byte.is_ascii_digit());
                let Some(length) = length else { return Ok(false) };
                let is_redirection = matches!(rest.get(length), Some(b'<' | b'>'));
                if is_redirection {
                    self.at += length;
                }
                Ok(is_redirection)
            }
            Some(b'{') => self.named_descriptor(),
            _ => Ok(false),
        }
    }

    fn named_descriptor(&mut self) -> Reading<bool> {
        let rest = &self.text[self.at + 1..];
        let Some(length) = rest.find('}').filter(|length| *length < 64) else { return Ok(false) };
        let name = &rest[..length];
        let is_redirection =
            variable::is_name(name) && matches!(rest.as_bytes().get(length + 1), Some(b'<' | b'>'));
        if is_redirection {
            self.bash_only()?;
            self.found.assign(name, &Word::Known(String::new()), name);
            self.at += length + 2;
        }
        Ok(is_redirection)
    }

    fn open(&mut self, operator: &str, to: Word, source: &str, run: &mut Run) -> Reading<()> {
        if operator == "<<<" {
            return Ok(());
        }
        let is_copy = operator.ends_with('&');
        if is_copy {
            let descriptor = to.known().map(|known| known.strip_suffix('-').unwrap_or(known));
            match descriptor {
                Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => return Ok(()),
                Some(_) if operator == ">&" => {}
                _ => return self.unclear("what it redirects to is only known when it runs"),
            }
        }
        let path = to.starts();
        let is_network = |folder: &str| path.starts_with(folder);
        if is_network("/dev/tcp/") || is_network("/dev/udp/") {
            self.found.doubt("it connects to the network", source);
        } else if to.known().is_none() && (is_dev(path) || to.is_many() && path.is_empty()) {
            self.found.doubt("what it redirects to is only known when it runs", source);
        }
        if operator.contains('<') {
            run.reads.push(to.clone());
        }
        if operator.contains('>') {
            run.writes.push(to);
        }
        Ok(())
    }

    fn heredoc(&mut self, strips_tabs: bool) -> Reading<()> {
        let from = self.at;
        let Some(word) = self.word()? else {
            return self.unclear("it is no bash that is understood");
        };
        let source = self.since(from);
        let Some(delimiter) = word.known() else {
            return self.unclear("where a here-document ends is not plain");
        };
        if source.contains(['$', '`', '\n', '~', '*', '?', '[', '{']) {
            return self.unclear("where a here-document ends is not plain");
        }
        let is_literal = source.contains(['\'', '"', '\\']);
        let delimiter = delimiter.to_owned();
        self.heredocs.push(Heredoc { delimiter, strips_tabs, is_literal });
        Ok(())
    }

    /// Reads the bodies of the here-documents that were announced on the line before.
    pub(super) fn heredoc_bodies(&mut self) -> Reading<()> {
        for heredoc in std::mem::take(&mut self.heredocs) {
            self.heredoc_body(&heredoc)?;
        }
        Ok(())
    }

    fn heredoc_body(&mut self, heredoc: &Heredoc) -> Reading<()> {
        let mut body = String::new();
        loop {
            if self.at >= self.text.len() {
                return self.unclear("a here-document does not end");
            }
            let mut line = self.line();
            let mut joined = String::new();
            while !heredoc.is_literal && ends_in_continuation(line) {
                if heredoc.strips_tabs {
                    return self.unclear("a line of a here-document is continued");
                }
                joined.push_str(&line[..line.len() - 1]);
                line = self.line();
            }
            joined.push_str(line);
            let text = if heredoc.strips_tabs { joined.trim_start_matches('\t') } else { &joined };
            if text == heredoc.delimiter {
                break;
            }
            if !heredoc.is_literal {
                body.push_str(text);
                body.push('\n');
            }
        }
        if !heredoc.is_literal && body.contains(['$', '`']) {
            self.within(&body, |reader| reader.document())?;
        }
        Ok(())
    }

    fn line(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        self.at = (self.at + length + 1).min(self.text.len());
        &rest[..length]
    }

    pub(super) fn no_heredoc_left(&self) -> Reading<()> {
        if self.heredocs.is_empty() {
            return Ok(());
        }
        self.unclear("a here-document does not end")
    }
}

/// Whether a path could still become one that bash takes for a connection.
fn is_dev(path: &str) -> bool {
    !path.is_empty() && ("/dev/tcp/".starts_with(path) || "/dev/udp/".starts_with(path))
}

fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}
