//! Content that is no text.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use crate::{Media, Part, Stored, StoredKind, ToolResult};

/// Media as a data URI, written without an intermediate copy.
pub(crate) struct DataUri<'a>(pub(crate) &'a Media);

impl fmt::Display for DataUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let media_type = image_type(self.0).unwrap_or(&self.0.media_type);
        write!(f, "data:{media_type};base64,{}", self.0.data)
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

/// Tells of what cannot be carried: it would be refused with every later request.
pub(crate) fn unshown(media: &Media) -> String {
    let Media { media_type, name, .. } = media;
    let name = name.as_deref().map(|name| format!("{name:?} ")).unwrap_or_default();
    format!("[a file {name}of type {media_type} cannot be shown]")
}

/// Returns the type of an image of one of the kinds that models see; `None` if it is of another.
pub(crate) fn image_type(media: &Media) -> Option<&str> {
    match media.media_type.as_str() {
        "image/jpg" => Some("image/jpeg"),
        known @ ("image/png" | "image/jpeg" | "image/gif" | "image/webp") => Some(known),
        _ => None,
    }
}

/// What a server takes as it is, beside texts and what it can read as such.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) images: bool,
    pub(crate) files: bool,
}

impl Taken {
    /// Returns the text that is sent for a part; `None` if the server takes the part as it is.
    pub(crate) fn in_text(self, part: &Part) -> Option<Cow<'_, str>> {
        match part {
            Part::Text(text) => Some(text.into()),
            Part::Stored(stored) => Some(missing(stored).into()),
            Part::Image(image) if self.images && image_type(image).is_some() => None,
            Part::Image(image) => Some(unshown(image).into()),
            Part::Document(file) if self.files && file.media_type == "application/pdf" => None,
            Part::Document(file) => Some(
                match text(file) {
                    Some(text) => {
                        format!("[{}]\n{text}", file.name.as_deref().unwrap_or("document"))
                    }
                    None => unshown(file),
                }
                .into(),
            ),
        }
    }

    /// Writes a result as one text, for wires that know no failure and take nothing else there: a
    /// failure begins with `Error`, and what cannot be told in the text is moved to `attached`,
    /// each with a line that names it.
    pub(crate) fn result_text<'a>(
        self,
        result: &'a ToolResult,
        attached: &mut Vec<(String, &'a Part)>,
    ) -> String {
        let mut text = String::new();
        for part in result.content.iter() {
            if !text.is_empty() {
                text.push('\n');
            }
            if let Some(more) = self.in_text(part) {
                text.push_str(&more);
                continue;
            }
            let n = attached.len() + 1;
            let what = match part {
                Part::Image(media) | Part::Document(media) => {
                    media.name.as_deref().unwrap_or(&media.media_type)
                }
                Part::Text(_) | Part::Stored(_) => "",
            };
            let _ = write!(text, "[attachment {n}: {what}, see the next user message]");
            let from = format!("[attachment {n}, from {} ({})]", result.name, result.call);
            attached.push((from, part));
        }
        let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
        if result.is_error && !says_so {
            text.insert_str(0, "Error: ");
        }
        text
    }
}
