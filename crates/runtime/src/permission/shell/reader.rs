//! Lists, pipelines and compound commands.

use super::found::Found;
use super::simple::Heredoc;
use std::sync::Arc;

use super::{Folder, Run, Word};

/// Why reading cannot go on, and where.
#[derive(Debug)]
pub(super) struct Unclear {
    pub(super) what: &'static str,
    pub(super) at: usize,
}

pub(super) type Reading<T> = Result<T, Unclear>;

/// Words that end a list at the place of a command.
const CLOSERS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];
/// Words that mean something else than a program at the place of a command.
const RESERVED: &[&str] = &[
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "function", "time", "coproc", "in", "{", "}", "!", "[[", "]]",
];

/// Reads one text. What it finds goes to [`Found`]; texts within it have readers of their own.
pub(super) struct Reader<'t, 'f> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) found: &'f mut Found,
    pub(super) heredocs: Vec<Heredoc>,
    /// The programs that run this text, the outermost first.
    pub(super) through: Vec<String>,
    /// Those programs with all their words, and `time`.
    pub(super) outer: Vec<Arc<[Word]>>,
    /// Whether another shell than bash may run it, which knows less.
    pub(super) is_plain: bool,
    /// Whether it may change the folder at all.
    moves: bool,
}

impl<'t, 'f> Reader<'t, 'f> {
    pub(super) fn new(text: &'t str, found: &'f mut Found) -> Self {
        let moves = ["cd", "pushd", "popd"];
        let moves = moves.iter().any(|sign| text.contains(sign));
        let (heredocs, through, outer) = (Vec::new(), Vec::new(), Vec::new());
        Self { text, at: 0, found, heredocs, through, outer, is_plain: false, moves }
    }

    /// Reads all of the text.
    pub(super) fn script(mut self) {
        if let Err(unclear) = self.all() {
            let at = unclear.at.min(self.text.len());
            let from = self.text.get(at..).unwrap_or(self.text);
            self.found.doubt(unclear.what, from);
        }
    }

    fn all(&mut self) -> Reading<()> {
        if let Some(at) = self.text.find(['\0', '\u{1}', '\u{7f}']) {
            return Err(Unclear { what: "it contains a control character", at });
        }
        self.list()?;
        if self.peek().is_some() {
            return self.unclear("it is no bash that is understood");
        }
        self.no_heredoc_left()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    pub(super) fn looking_at(&self, expected: &str) -> bool {
        self.text.as_bytes()[self.at.min(self.text.len())..].starts_with(expected.as_bytes())
    }

    pub(super) fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(super) fn unclear<T>(&self, what: &'static str) -> Reading<T> {
        Err(Unclear { what, at: self.at })
    }

    /// Fails where only bash itself knows what follows.
    pub(super) fn bash_only(&self) -> Reading<()> {
        if self.is_plain {
            return self.unclear("other shells than bash read this differently");
        }
        Ok(())
    }

    /// Runs `read` one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Reading<T>) -> Reading<T> {
        if !self.found.descend() {
            return self.unclear("it is nested too deeply to be read");
        }
        let result = read(self);
        self.found.ascend();
        result
    }

    pub(super) fn skip_blanks(&mut self) -> Reading<()> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\\' if self.peek_at(1) == Some(b'\n') => self.continuation()?,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Skips a line's continuation where it cannot join two halves of one token.
    pub(super) fn continuation(&mut self) -> Reading<()> {
        let is_gap = |byte: Option<u8>| matches!(byte, None | Some(b' ' | b'\t' | b'\n'));
        let before = self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at).copied());
        if !is_gap(before) && !is_gap(self.peek_at(2)) {
            return self.unclear("a line ends within a word");
        }
        self.at += 2;
        Ok(())
    }

    pub(super) fn skip_newlines(&mut self) -> Reading<()> {
        loop {
            self.skip_blanks()?;
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    fn newline(&mut self) -> Reading<()> {
        self.at += 1;
        self.heredoc_bodies()
    }

    /// The text up to what ends a word, as it stands: reserved words are never quoted.
    fn keyword(&self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>']);
        &rest[..end.unwrap_or(rest.len())]
    }

    fn accept(&mut self, keyword: &str) -> bool {
        let is_there = self.keyword() == keyword;
        if is_there {
            self.at += keyword.len();
        }
        is_there
    }

    fn expect(&mut self, keyword: &str) -> Reading<()> {
        if self.accept(keyword) { Ok(()) } else { self.unclear("it is no bash that is understood") }
    }

    pub(super) fn expect_byte(&mut self, byte: u8) -> Reading<()> {
        if self.peek() != Some(byte) {
            return self.unclear("it is no bash that is understood");
        }
        self.at += 1;
        Ok(())
    }

    fn at_list_end(&self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => matches!(self.peek_at(1), Some(b';' | b'&')),
            Some(_) => CLOSERS.contains(&self.keyword()),
        }
    }

    /// Reads commands up to the end of the text or of what holds them.
    pub(super) fn list(&mut self) -> Reading<()> {
        self.deeper(|reader| {
            loop {
                reader.skip_newlines()?;
                if reader.at_list_end() {
                    return Ok(());
                }
                reader.and_or()?;
                reader.skip_blanks()?;
                match reader.peek() {
                    Some(b'\n') => {}
                    Some(b';') if !reader.at_list_end() => reader.at += 1,
                    Some(b'&') => reader.at += 1,
                    Some(_) if !reader.at_list_end() => {
                        return reader.unclear("it is no bash that is understood");
                    }
                    _ => {}
                }
            }
        })
    }

    /// Reads `a && b || c`. Whether a `cd` in it happened is not known after it.
    fn and_or(&mut self) -> Reading<()> {
        let before = self.found.folder.clone();
        loop {
            self.pipeline()?;
            self.skip_blanks()?;
            if self.looking_at("&&") {
                self.at += 2;
            } else if self.looking_at("||") {
                self.at += 2;
                self.found.folder.add(&before);
            } else {
                break;
            }
            self.skip_newlines()?;
        }
        if self.peek() == Some(b'&') {
            self.found.folder = before;
        } else {
            self.found.folder.add(&before);
        }
        Ok(())
    }

    fn pipeline(&mut self) -> Reading<()> {
        let outer = self.outer.len();
        let result = self.timed_pipeline();
        self.outer.truncate(outer);
        result
    }

    fn timed_pipeline(&mut self) -> Reading<()> {
        let before = self.found.folder.clone();
        let mut is_negated = false;
        loop {
            if self.keyword() == "time" {
                self.bash_only()?;
                self.at += "time".len();
                self.outer.push([Word::Known("time".to_owned())].into());
                self.skip_blanks()?;
                if self.accept("-p") {
                    self.skip_blanks()?;
                }
                if self.accept("--") {
                    self.skip_blanks()?;
                }
            } else if self.accept("!") {
                is_negated = true;
            } else {
                break;
            }
            self.skip_blanks()?;
            if matches!(self.peek(), None | Some(b'\n' | b';' | b')')) {
                return Ok(());
            }
        }
        self.command()?;
        if is_negated {
            // What follows happens where `cd` has failed.
            self.found.folder.add(&before);
        }
        loop {
            self.skip_blanks()?;
            if self.peek() != Some(b'|') || self.peek_at(1) == Some(b'|') {
                return Ok(());
            }
            self.at += 1;
            if self.peek() == Some(b'&') {
                self.bash_only()?;
                self.at += 1;
            }
            self.skip_newlines()?;
            // Each part of a pipe is a shell of its own.
            self.found.folder = before.clone();
            self.command()?;
            self.found.folder = before.clone();
        }
    }

    fn command(&mut self) -> Reading<()> {
        self.deeper(|reader| {
            let is_compound = match reader.peek() {
                Some(b'(') => true,
                _ => matches!(
                    reader.keyword(),
                    "if" | "for" | "while" | "until" | "case" | "select" | "{" | "[["
                ),
            };
            if is_compound {
                return reader.compound();
            }
            match reader.keyword() {
                "function" => reader.function(),
                "coproc" => reader.coprocess(),
                keyword if RESERVED.contains(&keyword) => {
                    reader.unclear("it is no bash that is understood")
                }
                _ => reader.simple_command(),
            }
        })
    }

    /// Reads a compound command and its redirections.
    pub(super) fn compound(&mut self) -> Reading<()> {
        let before = self.found.folder.clone();
        let is_subshell = self.peek() == Some(b'(');
        match self.keyword() {
            "if" => self.if_clause()?,
            "for" | "select" => self.for_clause()?,
            "while" | "until" => self.loop_clause()?,
            "case" => self.case_clause()?,
            "{" => self.group()?,
            "[[" => self.test()?,
            _ if self.looking_at("((") => {
                self.bash_only()?;
                self.at += 2;
                self.arithmetic_in_parentheses()?;
            }
            _ => self.subshell()?,
        }
        if is_subshell {
            self.found.folder = before;
        } else {
            self.found.folder.add(&before);
        }
        self.redirections_of_compound()
    }

    fn redirections_of_compound(&mut self) -> Reading<()> {
        let start = self.at;
        let mut run = Run::default();
        self.skip_blanks()?;
        while self.redirection(&mut run)? {
            self.skip_blanks()?;
        }
        if !run.reads.is_empty() || !run.writes.is_empty() {
            run.text = self.since(start).trim().to_owned();
            self.finish(run);
        }
        Ok(())
    }

    /// Hands a run over as it stands: the shell itself does what it says.
    pub(super) fn finish(&mut self, mut run: Run) {
        run.through = self.through.clone();
        run.outer = self.outer.clone();
        run.folder = self.found.folder.clone();
        self.found.run(run);
    }

    fn subshell(&mut self) -> Reading<()> {
        self.expect_byte(b'(')?;
        self.list()?;
        self.expect_byte(b')')
    }

    fn group(&mut self) -> Reading<()> {
        self.expect("{")?;
        self.list()?;
        self.expect("}")
    }

    fn if_clause(&mut self) -> Reading<()> {
        self.expect("if")?;
        self.list()?;
        self.expect("then")?;
        self.list()?;
        while self.accept("elif") {
            self.list()?;
            self.expect("then")?;
            self.list()?;
        }
        if self.accept("else") {
            self.list()?;
        }
        self.expect("fi")
    }

    fn loop_clause(&mut self) -> Reading<()> {
        if !self.accept("while") {
            self.expect("until")?;
        }
        // What its body does to the folder holds when it comes round.
        self.found.folder = self.folder_in_loop();
        self.list()?;
        self.body_of_loop()
    }

    fn for_clause(&mut self) -> Reading<()> {
        if !self.accept("for") {
            self.bash_only()?;
            self.expect("select")?;
        }
        self.skip_blanks()?;
        if self.looking_at("((") {
            self.bash_only()?;
            self.at += 2;
            self.arithmetic_in_parentheses()?;
        } else {
            self.for_words()?;
        }
        self.found.folder = self.folder_in_loop();
        self.body_of_loop()
    }

    fn for_words(&mut self) -> Reading<()> {
        let start = self.at;
        let name = self.keyword();
        self.at += name.len();
        self.found.assign(name, &Word::Known(String::new()), name);
        self.skip_newlines()?;
        if !self.accept("in") {
            self.found.assign(name, &Word::unknown("$@", super::Count::Any), name);
            return Ok(());
        }
        self.skip_blanks()?;
        while let Some(word) = self.word()? {
            let word = word.into_word();
            let text = self.since(start);
            self.found.assign(name, &word, text);
            self.skip_blanks()?;
        }
        Ok(())
    }

    /// A loop's body may run where an earlier round of it has gone to.
    fn folder_in_loop(&self) -> Folder {
        if self.moves { self.found.folder.open() } else { self.found.folder.clone() }
    }

    fn body_of_loop(&mut self) -> Reading<()> {
        self.skip_blanks()?;
        if self.peek() == Some(b';') {
            self.at += 1;
        }
        self.skip_newlines()?;
        if self.keyword() == "{" {
            return self.group();
        }
        self.expect("do")?;
        self.list()?;
        self.expect("done")
    }

    fn case_clause(&mut self) -> Reading<()> {
        self.expect("case")?;
        self.skip_blanks()?;
        if self.word()?.is_none() {
            return self.unclear("it is no bash that is understood");
        }
        self.skip_newlines()?;
        self.expect("in")?;
        let before = self.found.folder.clone();
        loop {
            self.skip_newlines()?;
            if self.accept("esac") {
                return Ok(());
            }
            self.case_patterns()?;
            self.list()?;
            self.found.folder.add(&before);
            if self.looking_at(";;&") {
                self.at += 3;
            } else if self.looking_at(";;") || self.looking_at(";&") {
                self.at += 2;
            } else {
                return self.expect("esac");
            }
        }
    }

    fn case_patterns(&mut self) -> Reading<()> {
        if self.peek() == Some(b'(') {
            self.at += 1;
        }
        loop {
            self.skip_blanks()?;
            if self.word()?.is_none() {
                return self.unclear("it is no bash that is understood");
            }
            self.skip_blanks()?;
            if self.peek() != Some(b'|') {
                return self.expect_byte(b')');
            }
            self.at += 1;
        }
    }

    fn function(&mut self) -> Reading<()> {
        self.bash_only()?;
        self.expect("function")?;
        self.skip_blanks()?;
        let name = self.keyword();
        self.at += name.len();
        self.skip_blanks()?;
        if self.peek() == Some(b'(') {
            self.at += 1;
            self.skip_blanks()?;
            self.expect_byte(b')')?;
        }
        self.function_body(name)
    }

    /// Reads what a function does. That counts where it is defined; calling it is a doubt.
    pub(super) fn function_body(&mut self, name: &str) -> Reading<()> {
        if name.is_empty() || name.contains(['$', '`', '\'', '"', '\\']) {
            return self.unclear("the name of a function is not plain");
        }
        if name == "command_not_found_handle" {
            self.found.doubt("it decides what runs in place of programs that are missing", name);
        }
        self.found.functions.insert(name.to_owned());
        self.skip_newlines()?;
        let open = self.found.folder.open();
        let before = std::mem::replace(&mut self.found.folder, open);
        let result = match self.keyword() {
            "if" | "for" | "while" | "until" | "case" | "select" | "{" | "[[" => self.compound(),
            _ if self.peek() == Some(b'(') => self.compound(),
            _ => self.unclear("the body of a function is not understood"),
        };
        self.found.folder = before;
        result
    }

    fn coprocess(&mut self) -> Reading<()> {
        self.bash_only()?;
        self.expect("coproc")?;
        self.skip_blanks()?;
        // `coproc NAME { ... }` or a command; the two cannot be told apart by the first word.
        let start = self.at;
        let name = self.keyword();
        if super::variable::is_name(name) && !RESERVED.contains(&name) {
            self.at += name.len();
            self.skip_blanks()?;
            let is_named = self.peek() == Some(b'(') || RESERVED.contains(&self.keyword());
            if is_named {
                self.found.assign(name, &Word::unknown(name, super::Count::Any), name);
            } else {
                self.at = start;
            }
        }
        self.command()
    }

    /// Whether a word that was not read as reserved would be, if its lines were joined.
    pub(super) fn is_reserved(word: &str) -> bool {
        RESERVED.contains(&word)
    }
}
