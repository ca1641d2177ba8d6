//! What a command line runs, as far as its words tell.

/// A program that a command line runs, with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    words: Vec<String>,
    /// Whether the end of the whole line tells how this one ended: nothing runs after it whatever it
    /// came to, and nothing decides whether it is run at all.
    pub(super) is_told: bool,
}

impl Run {
    /// Tells whether it is what somebody says was run: perhaps with more arguments.
    pub(super) fn is(&self, said: &Self) -> bool {
        !said.words.is_empty() && self.words.starts_with(&said.words)
    }
}

/// What stands between two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// The second one runs if the first one did well.
    And,
    /// Anything else.
    Other,
    /// The second one runs if the first one did not.
    Or,
}

/// Takes a command line apart, at what a shell takes for the end of a command. Words in quotes are one;
/// what a shell would put in the place of others is not known, and what it would read from the line
/// itself (`<<`) is no command.
pub(super) fn runs(line: &str) -> Vec<Run> {
    let mut reader = Reader::default();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => reader.take(rest.next().filter(|c| *c != '\n')),
            '\'' => reader.quoted(rest.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                let mut text = String::new();
                while let Some(c) = rest.next().filter(|c| *c != '"') {
                    text.extend(if c == '\\' { rest.next() } else { Some(c) });
                }
                reader.quoted(text.chars());
            }
            '#' if reader.word.is_none() => while rest.next_if(|c| *c != '\n').is_some() {},
            '<' if rest.peek() == Some(&'<') => break,
            '>' | '<' => {
                reader.redirect();
                while rest.next_if(|c| matches!(c, '>' | '<' | '&' | '|')).is_some() {}
            }
            '&' if rest.next_if_eq(&'&').is_some() => reader.end(Between::And),
            '|' if rest.next_if_eq(&'|').is_some() => reader.end(Between::Or),
            '&' | '|' | ';' | '\n' => reader.end(Between::Other),
            '(' | ')' => reader.end_word(),
            c if c.is_whitespace() => reader.end_word(),
            c => reader.take(Some(c)),
        }
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    word: Option<String>,
    // The next word is a file.
    is_redirected: bool,
    words: Vec<String>,
    // Commands, and what stands before each.
    all: Vec<(Option<Between>, Vec<String>)>,
    before: Option<Between>,
}

impl Reader {
    fn take(&mut self, c: Option<char>) {
        self.word.get_or_insert_default().extend(c);
    }

    fn quoted(&mut self, text: impl Iterator<Item = char>) {
        self.word.get_or_insert_default().extend(text);
    }

    /// What stands before is the number of what is redirected, as in `2>&1`.
    fn redirect(&mut self) {
        let is_number = |word: &String| word.chars().all(|c| c.is_ascii_digit());
        if !self.word.as_ref().is_some_and(is_number) {
            self.end_word();
        }
        self.word = None;
        self.is_redirected = true;
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_redirected) {
            self.words.push(word);
        }
    }

    fn end(&mut self, between: Between) {
        self.end_word();
        self.is_redirected = false;
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.all.push((self.before, words));
            self.before = Some(between);
        }
    }

    fn finish(mut self) -> Vec<Run> {
        self.end(Between::Other);
        let mut is_told = true;
        let mut runs: Vec<Run> = Vec::with_capacity(self.all.len());
        for (before, words) in self.all.into_iter().rev() {
            runs.push(Run {
                words: program(words),
                is_told: is_told && before != Some(Between::Or),
            });
            // Of all before it, the end is told if this one runs only because they did well.
            is_told &= before == Some(Between::And);
        }
        runs.reverse();
        runs
    }
}

/// Leaves out what stands before a program and says nothing of it: variables, and programs that run
/// another one as it is.
fn program(words: Vec<String>) -> Vec<String> {
    let is_variable = |word: &String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let is_wrapper = |word: &String| matches!(&**word, "env" | "time" | "command" | "nohup");
    let mut words = words.into_iter().peekable();
    while words.next_if(|word| is_variable(word) || is_wrapper(word)).is_some() {}
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::runs;

    /// Whether the end of a command line tells of what is said to have been run; `None` if that was
    /// not run at all.
    fn tells(line: &str, said: &str) -> Option<bool> {
        let said = runs(said);
        let runs = runs(line);
        let found: Vec<_> = runs.iter().filter(|run| run.is(&said[0])).collect();
        found.last().map(|run| run.is_told)
    }

    #[test]
    fn a_program_is_known_by_its_first_words() {
        let table = [
            ("pytest tests/x", Some(true)),
            ("pytest  tests/x -q", Some(true)),
            ("cd a && pytest tests/x 2>&1", Some(true)),
            ("cd a; pytest tests/x", Some(true)),
            ("(cd a && pytest tests/x > out.txt)", Some(true)),
            ("CI=1 env A=b pytest 'tests/x'", Some(true)),
            ("pytest tests/x && echo ok", Some(true)),
            ("pytest tests/x | tail -3", Some(false)),
            ("pytest tests/x; true", Some(false)),
            ("pytest tests/x || true", Some(false)),
            ("true || pytest tests/x", Some(false)),
            ("pytest tests/x &", Some(true)),
            ("pytest tests/x & true", Some(false)),
            ("echo pytest tests/x", None),
            ("echo 'a; pytest tests/x'", None),
            ("grep \"pytest tests/x\" README", None),
            ("# pytest tests/x", None),
            ("true # pytest tests/x", None),
            ("cat > run.sh <<E\npytest tests/x\nE", None),
            ("pytest tests/xy", None),
            ("pytest", None),
            ("echo $(pytest tests/x)", None),
            ("! pytest tests/x", None),
        ];
        for (line, expected) in table {
            assert_eq!(tells(line, "pytest tests/x"), expected, "{line}");
        }
    }
}
