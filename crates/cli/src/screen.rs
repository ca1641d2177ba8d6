//! The way out to people: all that is printed goes through here.
//!
//! Models, tools, servers and files say things that get into lines, names and errors, and a terminal would
//! act upon some of it. Whoever prints need not think of that: what a terminal acts upon is written as JSON
//! writes it, `\u001b`, so that JSON means the same, and a text shows what it holds.

use std::io::{self, StderrLock, StdoutLock, Write};

use bowline_runtime::visible;

/// Returns the way to stdout.
pub(crate) fn out() -> Screen<StdoutLock<'static>> {
    Screen(io::stdout().lock())
}

/// Returns the way to stderr.
pub(crate) fn err() -> Screen<StderrLock<'static>> {
    Screen(io::stderr().lock())
}

/// Writes nothing that a terminal acts upon.
#[derive(Debug)]
pub(crate) struct Screen<W>(W);

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            // Many texts end their lines so.
            let mut lines = chunk.valid().split("\r\n");
            let first = lines.next().unwrap_or_default();
            self.0.write_all(visible::on_a_terminal(first).as_bytes())?;
            for line in lines {
                self.0.write_all(b"\r\n")?;
                self.0.write_all(visible::on_a_terminal(line).as_bytes())?;
            }
            if !chunk.invalid().is_empty() {
                self.0.write_all("\u{fffd}".as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_acts_upon_nothing() {
        let shown = |bytes: &[u8]| {
            let mut screen = Screen(Vec::new());
            screen.write_all(bytes).unwrap();
            String::from_utf8(screen.0).unwrap()
        };
        assert_eq!(shown("größer\r\n\tb\n".as_bytes()), "größer\r\n\tb\n");
        assert_eq!(shown(b"a\rb\x1b[2J\xff\x9b"), "a\\rb\\u001b[2J\u{fffd}\u{fffd}");
        assert_eq!(shown("\u{202e}x\u{9b}2J".as_bytes()), "\\u202ex\\u009b2J");
    }
}
