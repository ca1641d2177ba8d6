//! Expansions: what commands are within them is found; what they give is not known.

use super::reader::{Reader, Reading};
use super::word::Text;
use super::{Count, Word, variable};

impl Reader<'_, '_> {
    /// Reads what a dollar begins. Returns how many words it becomes, or `None` if it is only a
    /// dollar, which it then has read.
    pub(super) fn expansion(&mut self, is_quoted: bool) -> Reading<Option<Count>> {
        let unquoted = if is_quoted { Count::One } else { Count::Any };
        let from = self.at;
        self.at += 1;
        let count = match self.peek() {
            Some(b'(') if self.peek_at(1) == Some(b'(') => {
                self.at += 2;
                self.arithmetic_in_parentheses()?;
                unquoted
            }
            Some(b'(') => {
                self.at += 1;
                self.substitution()?;
                unquoted
            }
            Some(b'{') => {
                self.at += 1;
                self.deeper(|reader| reader.parameter(is_quoted))?;
                let is_list = self.since(from).contains('@');
                if is_list { Count::Any } else { unquoted }
            }
            Some(b'[') => return self.unclear("it is arithmetic of an old kind"),
            Some(b'\\') if self.peek_at(1) == Some(b'\n') => {
                return self.unclear("a line ends within a word");
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                self.name();
                unquoted
            }
            Some(b'@') => {
                self.at += 1;
                Count::Any
            }
            Some(b'*' | b'-' | b'0'..=b'9' | b'!') => {
                self.at += 1;
                unquoted
            }
            Some(b'#' | b'?' | b'$') => {
                self.at += 1;
                Count::One
            }
            _ => return Ok(None),
        };
        Ok(Some(count))
    }

    /// Reads a variable's name, if there is one.
    pub(super) fn name(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let length = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Reads the commands of `$(`, `<(` or `>(` up to the closing parenthesis.
    fn substitution(&mut self) -> Reading<()> {
        let start = self.at;
        let waiting = std::mem::take(&mut self.heredocs);
        let folder = self.found.folder.clone();
        self.list()?;
        self.no_heredoc_left()?;
        self.expect_byte(b')')?;
        if !waiting.is_empty() && self.since(start).contains('\n') {
            return self.unclear("a here-document begins before a substitution of several lines");
        }
        self.heredocs = waiting;
        self.found.folder = folder;
        Ok(())
    }

    pub(super) fn process_substitution(&mut self) -> Reading<()> {
        self.bash_only()?;
        self.at += 2;
        self.substitution()
    }

    /// Reads a substitution in backquotes. Its text is unescaped, and then read as a whole.
    pub(super) fn backquoted(&mut self, is_quoted: bool) -> Reading<()> {
        self.at += 1;
        let mut command = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(length) = rest.find(['`', '\\']) else {
                return self.unclear("a backquote does not end");
            };
            command.push_str(&rest[..length]);
            self.at += length;
            if self.peek() == Some(b'`') {
                self.at += 1;
                break;
            }
            match self.peek_at(1) {
                Some(byte @ (b'`' | b'\\' | b'$')) => command.push(char::from(byte)),
                Some(b'"') if is_quoted => command.push('"'),
                Some(b'\n') => return self.unclear("a line ends within a word"),
                _ => {
                    command.push('\\');
                    self.at += 1;
                    continue;
                }
            }
            self.at += 2;
        }
        let folder = self.found.folder.clone();
        self.within(&command, |reader| reader.whole())?;
        self.found.folder = folder;
        Ok(())
    }

    /// Reads another text with a reader of its own, as a part of this one.
    pub(super) fn within(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut Reader<'_, '_>) -> Reading<()>,
    ) -> Reading<()> {
        let at = self.at;
        let mut inner = Reader::new(text, self.found);
        inner.through.clone_from(&self.through);
        inner.outer.clone_from(&self.outer);
        inner.is_plain = self.is_plain;
        let result = inner.deeper(read);
        result.map_err(|unclear| super::reader::Unclear { what: unclear.what, at })
    }

    fn whole(&mut self) -> Reading<()> {
        self.list()?;
        if self.peek().is_some() {
            return self.unclear("it is no bash that is understood");
        }
        self.no_heredoc_left()
    }

    /// Reads the body of a here-document: quotes mean nothing, expansions do.
    pub(super) fn document(&mut self) -> Reading<()> {
        loop {
            let rest = &self.text[self.at..];
            let Some(length) = rest.find(['\\', '$', '`']) else { return Ok(()) };
            self.at += length;
            match self.peek() {
                Some(b'\\') => {
                    let next = self.text[self.at + 1..].chars().next();
                    self.at += 1 + next.map_or(0, char::len_utf8);
                }
                Some(b'`') => {
                    let from = self.at;
                    self.backquoted(false)?;
                    if self.since(from).contains("\\\"") {
                        return self.unclear("quotes in a here-document are not plain");
                    }
                }
                _ => {
                    let from = self.at;
                    self.expansion(true)?;
                    let source = self.since(from);
                    if source.starts_with("${") && source.contains(['"', '\'']) {
                        return self.unclear("quotes in a here-document are not plain");
                    }
                }
            }
        }
    }

    /// Reads `${...}` from after the brace.
    fn parameter(&mut self, is_quoted: bool) -> Reading<()> {
        if matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b'|')) {
            return self.unclear("what is between these braces is not understood");
        }
        let is_indirect = self.peek() == Some(b'!') && self.peek_at(1) != Some(b'}');
        let is_length = self.peek() == Some(b'#') && self.peek_at(1) != Some(b'}');
        if is_indirect || is_length {
            self.at += 1;
        }
        let named = self.at;
        self.name();
        if self.at == named
            && matches!(self.peek(), Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!'))
        {
            self.at += 1;
        }
        let name = self.since(named).to_owned();
        let subscripted = self.at;
        if self.peek() == Some(b'[') {
            self.bash_only()?;
            self.at += 1;
            self.subscript()?;
        }
        let is_list = matches!(self.since(subscripted), "[@]" | "[*]");
        let from = self.at;
        self.parameter_rest(is_quoted)?;
        let rest = self.text.get(from..self.at - 1).unwrap_or_default();
        self.check_parameter(&name, rest, is_indirect && !is_list)
    }

    fn check_parameter(&mut self, name: &str, rest: &str, is_indirect: bool) -> Reading<()> {
        if is_indirect && !matches!(rest, "@" | "*") {
            return self.unclear("a variable names another one");
        }
        if let Some(how) = rest.strip_prefix('@').filter(|_| !is_indirect)
            && !matches!(how, "Q" | "E" | "A" | "U" | "u" | "L" | "a" | "K" | "k")
        {
            return self.unclear("a text may be run as a prompt is");
        }
        let operation = rest.strip_prefix(':').unwrap_or(rest);
        if operation.starts_with('=') {
            self.found.assign(name, &Word::unknown(rest, Count::One), rest);
        } else if rest.len() > operation.len() && !operation.starts_with(['-', '?', '+']) {
            self.reckon_names(operation)?;
        }
        Ok(())
    }

    /// Reads up to the brace that closes `${`.
    fn parameter_rest(&mut self, is_quoted: bool) -> Reading<()> {
        while let Some(byte) = self.peek() {
            match byte {
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    let next = self.text[self.at + 1..].chars().next();
                    if matches!(next, None | Some('\n')) {
                        return self.unclear("a line ends within a word");
                    }
                    self.at += 1 + next.map_or(0, char::len_utf8);
                }
                b'\'' if is_quoted => return self.unclear("a quote within quotes is not plain"),
                b'\'' => {
                    let rest = &self.text[self.at + 1..];
                    let Some(length) = rest.find('\'') else {
                        return self.unclear("a quote does not end");
                    };
                    self.at += length + 2;
                }
                b'"' => {
                    self.at += 1;
                    self.double_quoted(&mut Text::default())?;
                }
                b'$' if matches!(self.peek_at(1), Some(b'\'' | b'"')) => {
                    return self.unclear("a quote within braces is not plain");
                }
                b'$' => {
                    self.expansion(is_quoted)?;
                }
                b'`' => self.backquoted(is_quoted)?,
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    return self.unclear("a substitution within braces is not plain");
                }
                _ => self.at += 1,
            }
        }
        self.unclear("a brace does not end")
    }

    /// Notes the variables in an arithmetic text whose commands have been found already.
    fn reckon_names(&mut self, text: &str) -> Reading<()> {
        if text.contains(['`', '\'', '"', '\\']) || text.contains("$(") && !text.contains("$((") {
            return self.unclear("arithmetic runs commands in the text that it reads");
        }
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
        for name in text.split(|character: char| !is_part(character)) {
            if variable::is_name(name) {
                self.found.reckon(name, text);
            }
        }
        Ok(())
    }
}
