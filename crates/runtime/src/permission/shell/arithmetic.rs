//! Arithmetic. It runs commands twice over: those in its own text, and those in the subscripts
//! that the values of its variables name.

use super::reader::{Reader, Reading};

const RUNS_COMMANDS: &str = "arithmetic runs commands in the text that it reads";

impl Reader<'_, '_> {
    /// Reads up to the `))` that ends it.
    pub(super) fn arithmetic_in_parentheses(&mut self) -> Reading<()> {
        self.deeper(|reader| {
            reader.arithmetic(b')')?;
            reader.expect_byte(b')')
        })
    }

    /// Reads the subscript of an array up to its `]`.
    pub(super) fn subscript(&mut self) -> Reading<()> {
        self.deeper(|reader| reader.arithmetic(b']'))
    }

    fn arithmetic(&mut self, end: u8) -> Reading<()> {
        let mut open = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'$' => {
                    self.arithmetic_expansion()?;
                    continue;
                }
                b'`' => {
                    self.backquoted(true)?;
                    return self.unclear(RUNS_COMMANDS);
                }
                b'(' => open.push(b')'),
                b'[' => open.push(b']'),
                b')' | b']' => match open.pop() {
                    Some(expected) if expected == byte => {}
                    None if byte == end => {
                        self.at += 1;
                        return Ok(());
                    }
                    _ => return self.unclear("what is arithmetic here is not plain"),
                },
                _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let name = self.name().to_owned();
                    self.found.reckon(&name, &name);
                    continue;
                }
                // Digits go with the letters that follow, as in 0x1f and 16#ff.
                b'0'..=b'9' => {
                    self.name();
                    if self.peek() == Some(b'#') {
                        self.at += 1;
                        self.name();
                    }
                    continue;
                }
                b' ' | b'\t' | b'\n' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'='
                | b'!' | b'&' | b'|' | b'^' | b'~' | b'?' | b':' | b',' => {}
                b';' if end == b')' && open.is_empty() => {}
                b'@' | b'.' if end == b']' => {}
                _ => return self.unclear("what is arithmetic here is not plain"),
            }
            self.at += 1;
        }
        self.unclear("arithmetic does not end")
    }

    fn arithmetic_expansion(&mut self) -> Reading<()> {
        let from = self.at;
        if self.expansion(true)?.is_none() {
            return self.unclear("what is arithmetic here is not plain");
        }
        let source = self.since(from).to_owned();
        if source.starts_with("$((") || matches!(source.as_str(), "$#" | "$?" | "$$") {
            return Ok(());
        }
        let name = source.trim_start_matches(['$', '{', '#', '!']).trim_end_matches('}');
        let length = name.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let (name, rest) = name.split_at(length.count());
        if source.starts_with("${#") {
            return Ok(());
        }
        if name.is_empty() || !(rest.is_empty() || rest.starts_with('[')) {
            self.found.doubt(RUNS_COMMANDS, &source);
            return Ok(());
        }
        self.found.reckon(name, &source);
        Ok(())
    }
}
