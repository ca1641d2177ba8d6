//! JSON as wires write and read it.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserializer, IgnoredAny, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Appends a value as JSON.
pub(crate) fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    #[expect(clippy::expect_used, reason = "the types here are plain and a Vec takes all bytes")]
    serde_json::to_writer(out, value).expect("wire types are valid JSON");
}

/// Appends encoded items with commas between them, then `end`. Empty items stand for nothing.
///
/// A body is as large as the conversation, so it is grown once.
pub(crate) fn write_joined(out: &mut Vec<u8>, items: &[Bytes], end: &[u8]) {
    let length: usize = items.iter().map(|item| item.len() + 1).sum();
    out.reserve_exact(length + end.len());
    for item in items.iter().filter(|item| !item.is_empty()) {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.extend_from_slice(end);
}

/// Returns the arguments of a call as they are if they are an object.
///
/// Some wires hold them as an object, and many servers of the others parse the arguments of old
/// calls to fill their templates and answer every later request with an error if one cannot be
/// parsed: one bad call would end the session. So anything else is wrapped into an object in which
/// the model can still read what it wrote.
pub(crate) fn arguments(raw: &str) -> Cow<'_, str> {
    if raw.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    let is_object =
        raw.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(raw).is_ok();
    if is_object {
        Cow::Borrowed(raw)
    } else {
        Cow::Owned(serde_json::json!({ "invalid_arguments": raw }).to_string())
    }
}

/// Reads the arguments of a call: the text of a string, or else the bytes of what stands there. Some
/// servers write the JSON itself where a string should hold it, and some the other way round.
pub(crate) fn written_arguments(raw: &RawValue) -> Cow<'_, str> {
    match raw.get() {
        "null" => Cow::Borrowed(""),
        text if text.starts_with('"') => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
        text => Cow::Borrowed(text),
    }
}

/// A number that may be missing, `null` or written as a float.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;

        impl<'de> Visitor<'de> for Numbers {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Count, E> {
                Ok(Count(Some(n)))
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(n).ok()))
            }

            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Count, E> {
                Ok(Count((n >= 0.0).then_some(n as u64)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Count, E> {
                Ok(Count(text.parse().ok()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Count, E> {
                Ok(Count(None))
            }
        }

        deserializer.deserialize_any(Numbers)
    }
}
