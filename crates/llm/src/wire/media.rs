//! Content that is no text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use crate::{Media, Stored, StoredKind};

/// Media as a data URI, written without an intermediate copy.
pub(crate) struct DataUri<'a>(pub(crate) &'a Media);

impl fmt::Display for DataUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.0.media_type, self.0.data)
    }
}

impl Serialize for DataUri<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Stands in for a body that should have been fetched before the request was made.
pub(crate) fn missing(stored: &Stored) -> String {
    let kind = match stored.kind {
        StoredKind::Text => "text",
        StoredKind::Image => "image",
        StoredKind::Document => "document",
    };
    format!("[{kind} of {} bytes is missing: sha256 {}]", stored.bytes, stored.hash)
}

/// Reads media that is text, for wires that carry only some types inline; `None` if it is none.
pub(crate) fn text(media: &Media) -> Option<String> {
    let is_text = media.media_type.starts_with("text/")
        || matches!(media.media_type.as_str(), "application/json" | "application/xml");
    let bytes = STANDARD.decode(&*media.data).ok().filter(|_| is_text)?;
    String::from_utf8(bytes).ok()
}
