//! The way out to people: all that is printed goes through here.
//!
//! Models, tools, servers and files say things that get into lines, names and errors, and a terminal would
//! act upon some of it. Whoever prints need not think of that: what a terminal acts upon is written as JSON
//! writes it, `\u001b`, so that JSON means the same, and a text shows what it holds.

use std::io::{self, StderrLock, StdoutLock, Write};

use bowline_agent::visible;

/// Returns the way to stdout.
pub(crate) fn out() -> Screen<StdoutLock<'static>> {
    Screen::to(io::stdout().lock())
}

/// Returns the way to stderr.
pub(crate) fn err() -> Screen<StderrLock<'static>> {
    Screen::to(io::stderr().lock())
}

/// Returns stdout for what must come out as it is, such as a diff that is to be applied: who writes has
/// seen to it that no terminal acts upon it.
pub(crate) fn as_it_is() -> StdoutLock<'static> {
    io::stdout().lock()
}

/// Writes nothing that a terminal acts upon.
#[derive(Debug)]
pub(crate) struct Screen<W: Write> {
    to: W,
    // What came last and is the beginning of a character, or perhaps of the end of a line.
    held: Vec<u8>,
}

impl<W: Write> Screen<W> {
    fn to(to: W) -> Self {
        Self { to, held: Vec::new() }
    }

    fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.utf8_chunks() {
            // Many texts end their lines so.
            for (index, line) in chunk.valid().split("\r\n").enumerate() {
                let end: &[u8] = if index > 0 { b"\r\n" } else { b"" };
                self.to.write_all(end)?;
                self.to.write_all(visible::on_a_terminal(line).as_bytes())?;
            }
            if !chunk.invalid().is_empty() {
                self.to.write_all("\u{fffd}".as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns how much of the end of some bytes waits for more.
fn open_end(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let begins = |length: &usize| {
        let end = std::str::from_utf8(&bytes[bytes.len() - length..]);
        end.is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
    };
    (1..=bytes.len().min(3)).find(begins).unwrap_or(0)
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        self.held = all.split_off(all.len() - open_end(&all));
        self.show(&all)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        let held = std::mem::take(&mut self.held);
        // Nobody is left to tell.
        let _ = self.show(&held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_acts_upon_nothing() {
        let shown = |bytes: &[u8]| {
            let mut written = Vec::new();
            Screen::to(&mut written).write_all(bytes).unwrap();
            let mut in_pieces = Vec::new();
            let mut screen = Screen::to(&mut in_pieces);
            bytes.iter().for_each(|byte| screen.write_all(&[*byte]).unwrap());
            drop(screen);
            assert_eq!(String::from_utf8_lossy(&in_pieces), String::from_utf8_lossy(&written));
            String::from_utf8(written).unwrap()
        };
        assert_eq!(shown("größer\r\n\tb\n".as_bytes()), "größer\r\n\tb\n");
        assert_eq!(shown(b"a\rb\x1b[2J\xff\x9b"), "a\\rb\\u001b[2J\u{fffd}\u{fffd}");
        assert_eq!(shown("\u{202e}x\u{9b}2J".as_bytes()), "\\u202ex\\u009b2J");
    }
}
