//! Messages of programs, a line each, of which none may be too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// The longest line that is taken.
const LONGEST: usize = 16 * 1024 * 1024;

/// The error that stands for an answer that is too long.
const TOO_LONG: i32 = -32000;

/// The longest id of a message that is noticed.
const LONGEST_ID: usize = 128;

/// Reads lines; one that is too long is cut off, and if it was an answer, an error is read in its
/// place, so that whoever waits for it need not wait until the time is up.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    longest: usize,
    /// How long the line is so far.
    length: usize,
    scan: Scan,
    /// What has been read and not yet passed on, from `passed` on.
    ready: Vec<u8>,
    passed: usize,
}

impl<R> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self::no_longer_than(LONGEST, from)
    }

    fn no_longer_than(longest: usize, from: R) -> Self {
        let (scan, ready) = (Scan::default(), Vec::new());
        Self { from, longest, length: 0, scan, ready, passed: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if *first == b'\n' {
                self.end_line();
                rest = &rest[1..];
                continue;
            }
            // Most of a long line means nothing, and is passed on at once.
            let plain = self.scan.plain(rest);
            let (run, behind) = rest.split_at(plain.max(1));
            match plain {
                0 => self.scan.take(*first),
                _ => self.scan.keep(run),
            }
            self.pass(run);
            rest = behind;
        }
    }

    /// Passes on what belongs to a line, as far as it may be that long.
    fn pass(&mut self, run: &[u8]) {
        let room = self.longest.saturating_sub(self.length);
        self.ready.extend_from_slice(run.get(..room).unwrap_or(run));
        if self.length <= self.longest && run.len() > room {
            // What is left of it is no message, and is passed over.
            self.ready.push(b'\n');
        }
        self.length += run.len();
    }

    fn end_line(&mut self) {
        let scan = std::mem::take(&mut self.scan);
        if self.length <= self.longest {
            self.ready.push(b'\n');
        } else if let Some(id) = scan.answered() {
            let most = self.longest / (1024 * 1024);
            let message = format!("the answer is longer than the {most} MiB that are taken");
            let error = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{TOO_LONG},\
                 \"message\":\"{message}\"}}}}\n"
            );
            self.ready.extend_from_slice(error.as_bytes());
        }
        self.length = 0;
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.passed == this.ready.len() {
            this.ready.clear();
            this.passed = 0;
            let mut space = [0; 8 * 1024];
            let mut read = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.from).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.take(read.filled());
        }
        let rest = this.ready.get(this.passed..).unwrap_or_default();
        let fits = rest.get(..out.remaining()).unwrap_or(rest);
        out.put_slice(fits);
        this.passed += fits.len();
        Poll::Ready(Ok(()))
    }
}

/// Finds the id of a message without keeping the message: it may stand at its very end.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The key or value at the top that is being read, as it is written.
    text: Vec<u8>,
    is_id: bool,
    is_call: bool,
    id: Option<String>,
}

impl Scan {
    /// Returns how many bytes follow that change nothing, and are only kept.
    fn plain(&self, bytes: &[u8]) -> usize {
        let says = |byte: &u8| match self.in_string {
            true => self.is_escaped || matches!(byte, b'"' | b'\\' | b'\n'),
            false => !byte.is_ascii_alphanumeric(),
        };
        bytes.iter().position(says).unwrap_or(bytes.len())
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.keep(&[byte]);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(&[byte]);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.end_value(),
            b':' if self.depth == 1 => {
                self.is_id = self.text == b"\"id\"";
                self.is_call |= self.text == b"\"method\"";
                self.text.clear();
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => self.keep(&[byte]),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.depth == 1 {
            let room = LONGEST_ID.saturating_sub(self.text.len());
            self.text.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
    }

    fn end_value(&mut self) {
        if self.depth != 1 {
            return;
        }
        let text = std::mem::take(&mut self.text);
        if std::mem::take(&mut self.is_id) && !text.is_empty() {
            self.id = String::from_utf8(text).ok();
        }
    }

    /// Returns the id of the request that the message answers, as it is written.
    fn answered(self) -> Option<String> {
        self.id.filter(|id| !self.is_call && id != "null" && id.len() < LONGEST_ID)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(text: &str) -> String {
        let mut read = String::new();
        let mut lines = Lines::no_longer_than(30, text.as_bytes());
        lines.read_to_string(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn lines_that_are_not_too_long_stay_as_they_are() {
        let text = "{\"id\":1}\r\n\n{\"id\":2,\"result\":\"0123456789\"\nrest";
        assert_eq!(read(text).await, text);
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_becomes_an_error_wherever_its_id_stands() {
        for id in ["7", "\"a\\\"b\""] {
            for line in [
                format!("{{\"id\":{id},\"result\":{{\"id\":9,\"x\":[\"}}, \\\"id\\\": 8\"]}}}}"),
                format!("{{\"result\": {{\"a\": [0,1,2,3,4,5,6,7,8,9]}} , \"id\" : {id}}}"),
            ] {
                let read = read(&format!("{line}\nnext\n")).await;
                let lines: Vec<&str> = read.lines().collect();
                assert_eq!((lines[0], lines[2]), (&line[..30], "next"), "{read}");
                let error: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
                assert_eq!(
                    (error["id"].to_string(), &error["error"]["code"]),
                    (id.to_owned(), &TOO_LONG.into())
                );
            }
        }
    }

    #[tokio::test]
    async fn what_answers_nothing_is_only_cut_off() {
        for line in
            ["{\"id\":1,\"method\":\"0123456789012345678901\"}", "0123456789012345678901234567890"]
        {
            assert_eq!(read(&format!("{line}\nx\n")).await, format!("{}\nx\n", &line[..30]));
        }
    }
}
