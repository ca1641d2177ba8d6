//! Server-sent events: bytes in, events out.
//!
//! The decoder does no IO. How the bytes are cut into pieces makes no difference to the events, and
//! an event that never ends cannot take more memory than the limit.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// The longest event a decoder takes unless told otherwise, in bytes.
pub const DEFAULT_LIMIT: usize = 16 << 20;

/// Turns the bytes of a `text/event-stream` into events.
///
/// Give it bytes with [`push`](Self::push), then take events with [`next_event`](Self::next_event)
/// until there are no more. An event that was not closed by an empty line is no event: what stands
/// at the end of a stream that was cut is dropped.
///
/// ```
/// use bowline_llm::sse;
///
/// let mut decoder = sse::Decoder::default();
/// decoder.push(b"event: note\ndata: one\nda");
/// decoder.push(b"ta: two\n\n");
/// let event = decoder.next_event()?.expect("it is complete");
/// assert_eq!((event.name, event.data), ("note", "one\ntwo"));
/// assert_eq!(decoder.next_event()?, None);
/// # Ok::<(), sse::TooLong>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the current line starts in `buffer`.
    line: usize,
    /// How far `buffer` was searched for the end of the line.
    searched: usize,
    limit: usize,
    name: String,
    data: String,
    has_data: bool,
    /// Whether `name` and `data` were handed out and belong to the past.
    is_taken: bool,
    /// Whether the last line ended in CR, so that an LF right after it belongs to it.
    skip_lf: bool,
    is_first_line: bool,
}

/// One event, borrowed from the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field; empty if there was none.
    pub name: &'a str,
    /// The `data` fields, joined by line feeds.
    pub data: &'a str,
}

/// A line or an event is longer than the decoder may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event longer than {limit} bytes")]
pub struct TooLong {
    /// The limit, in bytes.
    pub limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

/// Tells whether a body is no stream of events but a document: JSON, the page of a proxy, or
/// anything else that does not begin with a field or a comment.
pub(crate) fn is_document(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
    let begins = |field: &[u8]| body.starts_with(field) || field.starts_with(body);
    let fields: [&[u8]; 5] = [b":", b"data", b"event", b"id", b"retry"];
    !fields.into_iter().any(begins)
}

impl Decoder {
    /// Makes a decoder that takes lines and events of at most `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            line: 0,
            searched: 0,
            limit,
            name: String::new(),
            data: String::new(),
            has_data: false,
            is_taken: false,
            skip_lf: false,
            is_first_line: true,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.line > 0 {
            self.buffer.drain(..self.line);
            self.searched -= self.line;
            self.line = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next event, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// If a line or an event is longer than the limit; the decoder is of no use after that.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, TooLong> {
        if self.is_taken {
            self.name.clear();
            self.data.clear();
            self.has_data = false;
            self.is_taken = false;
        }
        while let Some((start, end)) = self.next_line()? {
            let line = self.buffer.get(start..end).unwrap_or_default();
            if line.is_empty() {
                if self.has_data {
                    self.is_taken = true;
                    return Ok(Some(Event { name: &self.name, data: &self.data }));
                }
                self.name.clear();
                continue;
            }
            let (field, value) = split_field(line);
            match field {
                b"data" => {
                    if self.data.len() + value.len() >= self.limit {
                        return Err(TooLong { limit: self.limit });
                    }
                    if self.has_data {
                        self.data.push('\n');
                    }
                    self.has_data = true;
                    self.data.push_str(&to_text(value));
                }
                b"event" => {
                    self.name.clear();
                    self.name.push_str(&to_text(value));
                }
                // Comments have an empty name; `id` and `retry` are for reconnecting, which makes
                // no sense for the answer to a POST.
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the place of the next complete line in the buffer and steps over it.
    fn next_line(&mut self) -> Result<Option<(usize, usize)>, TooLong> {
        if self.skip_lf {
            match self.buffer.get(self.line) {
                Some(b'\n') => self.line += 1,
                Some(_) => {}
                None => return Ok(None),
            }
            self.skip_lf = false;
            self.searched = self.searched.max(self.line);
        }
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(offset) = memchr2(b'\n', b'\r', rest) else {
            self.searched = self.buffer.len();
            if self.searched - self.line > self.limit {
                return Err(TooLong { limit: self.limit });
            }
            return Ok(None);
        };
        let end = self.searched + offset;
        let mut start = self.line;
        if end - start > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        if self.is_first_line {
            self.is_first_line = false;
            let line = self.buffer.get(start..end).unwrap_or_default();
            if line.starts_with(b"\xEF\xBB\xBF") {
                start += 3;
            }
        }
        self.skip_lf = self.buffer.get(end) == Some(&b'\r');
        self.line = end + 1;
        self.searched = self.line;
        Ok(Some((start, end)))
    }
}

fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = memchr(b':', line) else { return (line, b"") };
    let (field, rest) = line.split_at(colon);
    let value = rest.get(1..).unwrap_or_default();
    (field, value.strip_prefix(b" ").unwrap_or(value))
}

fn to_text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<(String, String)>, TooLong> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(event) = decoder.next_event()? {
                events.push((event.name.to_owned(), event.data.to_owned()));
            }
        }
        Ok(events)
    }

    fn data(text: &str) -> Vec<String> {
        decode([text.as_bytes()]).unwrap().into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn all_three_line_ends_mean_the_same() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("data: a{end}data: b{end}{end}data: c{end}{end}");
            assert_eq!(data(&text), ["a\nb", "c"], "{end:?}");
        }
    }

    #[test]
    fn comments_unknown_fields_and_a_byte_order_mark_are_skipped() {
        assert_eq!(data("\u{feff}data: a\n: ping\nid: 7\nretry\n\n:\n\n"), ["a"]);
    }

    #[test]
    fn only_one_space_after_the_colon_is_dropped() {
        assert_eq!(data("data:  a\n\ndata:b\n\ndata\n\n"), [" a", "b", ""]);
    }

    #[test]
    fn the_name_belongs_to_one_event() {
        let events = decode([&b"event: x\n\nevent: y\ndata: 1\n\ndata: 2\n\n"[..]]).unwrap();
        assert_eq!(events, [("y".to_owned(), "1".to_owned()), (String::new(), "2".to_owned())]);
    }

    #[test]
    fn an_event_that_was_not_closed_is_dropped() {
        assert_eq!(data("data: a\n\ndata: b\n"), ["a"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(decode([&b"data: a\xFFb\n\n"[..]]).unwrap()[0].1, "a\u{fffd}b");
    }

    #[test]
    fn a_line_without_end_is_refused_at_the_limit() {
        let mut decoder = Decoder::with_limit(100);
        decoder.push(&[b'x'; 100]);
        assert_eq!(decoder.next_event(), Ok(None));
        decoder.push(b"x");
        assert_eq!(decoder.next_event(), Err(TooLong { limit: 100 }));
    }

    #[test]
    fn an_event_of_many_lines_is_refused_at_the_limit() {
        let mut decoder = Decoder::with_limit(100);
        let refused = (0..100).any(|_| {
            decoder.push(b"data: 0123456789\n");
            decoder.next_event().is_err()
        });
        assert!(refused);
    }

    proptest! {
        #[test]
        fn chunking_makes_no_difference(
            lines in prop::collection::vec("(data: ?|event:|:|id: 1)?[a-zä€\u{1F600} :]{0,6}(\n|\r|\r\n|\n\n|\r\r)", 0..24),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let text = lines.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(decode(pieces), decode([bytes]));
        }
    }
}
