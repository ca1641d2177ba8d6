//! Spans as they are before any wire knows them.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// The trace a span belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// A span within its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

impl SpanId {
    /// Returns the id of what these words name: always the same, so that a run that goes on in
    /// another process speaks of the same spans.
    pub(super) fn of(words: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for word in words {
            hash.update(word.as_bytes());
            hash.update([0]);
        }
        let mut id = [0; 8];
        for (to, from) in id.iter_mut().zip(hash.finalize()) {
            *to = from;
        }
        Self(id)
    }
}

/// The span of another program that all of ours are part of, as `TRACEPARENT` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether the other program records its trace.
    pub is_sampled: bool,
}

impl Parent {
    /// Reads a `traceparent` as W3C Trace Context writes it; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().split('-');
        let mut next = || fields.next();
        let (version, trace, span, flags) = (next()?, next()?, next()?, next()?);
        let version: [u8; 1] = hex(version)?;
        // Later versions may have more fields; 255 is no version.
        if version == [255] || (version == [0] && next().is_some()) {
            return None;
        }
        let (trace, span, flags): ([u8; 16], [u8; 8], [u8; 1]) =
            (hex(trace)?, hex(span)?, hex(flags)?);
        (trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            is_sampled: flags.iter().all(|flags| flags & 1 == 1),
        })
    }
}

/// Reads lower case hex of exactly this many bytes.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.as_bytes().iter().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// A span that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace.
    pub trace: TraceId,
    /// Which it is.
    pub id: SpanId,
    /// The span it is a part of.
    pub parent: Option<SpanId>,
    /// Its name.
    pub name: String,
    /// What was done.
    pub operation: Operation,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// What is known of it.
    pub attributes: Attributes,
    /// What happened meanwhile.
    pub events: Vec<Moment>,
    /// What went wrong, in words; the kind of it is the attribute `error.type`.
    pub error: Option<String>,
}

/// What was done, in the words of the conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A run of an agent.
    InvokeAgent,
    /// A model call.
    Chat,
    /// A tool call.
    ExecuteTool,
}

impl Operation {
    /// Returns the value of `gen_ai.operation.name`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvokeAgent => "invoke_agent",
            Self::Chat => "chat",
            Self::ExecuteTool => "execute_tool",
        }
    }
}

/// Something that happened within a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// What.
    pub name: &'static str,
    /// What is known of it.
    pub attributes: Attributes,
}

/// Names with values, each name once, in the order in which they were set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes(Vec<(&'static str, Value)>);

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
}

impl Attributes {
    /// Sets a value.
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Sets a value if there is one.
    pub(super) fn set_some(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Returns a value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns all, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        // A server may count whatever it likes.
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_the_w3c_writes_it() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = Parent::parse(text).unwrap();
        assert_eq!(parent.trace.0[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!(parent.span.0, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(parent.is_sampled);
        assert!(!Parent::parse(&text.replace("-01", "-00")).unwrap().is_sampled);
        assert!(Parent::parse(&text.replace("00-4", "01-4").replace("-01", "-01-x")).is_some());
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Parent::parse(wrong), None, "{wrong}");
        }
    }
}
