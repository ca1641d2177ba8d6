//! The body of an answer: bounded, and decoded to text.

use encoding_rs::{Encoding, UTF_8};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName};

use bowline_agent::tool::ToolError;

use super::client::explain;

/// How much of a body is loaded, in bytes.
pub(crate) const MAX: usize = 1 << 20;

/// How far into a page it may say in which encoding it is.
const PRESCAN: usize = 1024;

/// A body as it came.
pub(crate) struct Body {
    /// The media type in lower case, without parameters; may be empty.
    pub(crate) media_type: String,
    /// Whether there is more of it.
    pub(crate) is_cut: bool,
    charset: Option<String>,
    is_compressed: bool,
    length: Option<u64>,
    bytes: Vec<u8>,
}

impl Body {
    /// Loads the body, as far as it may be shown.
    pub(crate) async fn of(mut response: Response) -> Result<Self, ToolError> {
        let headers = response.headers();
        let content_type = header(headers, CONTENT_TYPE);
        let mut parts = content_type.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("charset")
                .then(|| value.trim_matches(['"', ' ']).into())
        });
        let encoding = header(headers, CONTENT_ENCODING);
        let is_compressed = !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity");
        let length = header(headers, CONTENT_LENGTH).parse().ok();
        let mut body =
            Self { media_type, is_cut: false, charset, is_compressed, length, bytes: Vec::new() };
        if is_media(&body.media_type) {
            return Ok(body);
        }
        while !body.is_cut
            && let Some(chunk) = response.chunk().await.map_err(|error| explain(&error))?
        {
            let room = MAX - body.bytes.len();
            body.is_cut = chunk.len() > room;
            body.bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        }
        Ok(body)
    }

    /// Returns the text, if it is one.
    pub(crate) fn text(&self) -> Option<String> {
        let label = self.charset.as_deref().or_else(|| self.declared_charset());
        let encoding = label.and_then(|label| Encoding::for_label(label.as_bytes()));
        let (text, _, _) = encoding.unwrap_or(UTF_8).decode(&self.bytes);
        (!self.is_compressed && !is_garbled(&text)).then(|| text.into_owned())
    }

    /// Tells whether the text is HTML, by its type or, without one, by its beginning.
    pub(crate) fn is_html(&self, text: &str) -> bool {
        let starts = |start: &str| {
            let found = text.trim_start().get(..start.len());
            found.is_some_and(|found| found.eq_ignore_ascii_case(start))
        };
        match self.media_type.as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "" => starts("<!doctype html") || starts("<html"),
            _ => false,
        }
    }

    pub(crate) fn media_type_or_unknown(&self) -> &str {
        match self.media_type.as_str() {
            "" => "of unknown type",
            _ if self.is_compressed => "a compressed file",
            known => known,
        }
    }

    /// Returns the size in words.
    pub(crate) fn size(&self) -> String {
        match self.length {
            Some(length) => format!("{length} bytes"),
            None if self.is_cut => format!("more than {MAX} bytes"),
            None if is_media(&self.media_type) => "unknown size".to_owned(),
            None => format!("{} bytes", self.bytes.len()),
        }
    }

    /// Returns the encoding that a page itself names, near its beginning.
    fn declared_charset(&self) -> Option<&str> {
        let start = self.bytes.get(..PRESCAN).unwrap_or(&self.bytes);
        let start = start.utf8_chunks().next()?.valid();
        let at = start.to_ascii_lowercase().find("charset=")?;
        let label = start.get(at + "charset=".len()..)?.trim_start_matches(['"', '\'']);
        label.split(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c)).next()
    }
}

/// Tells whether a media type is never text, so that there is no need to load it.
pub(crate) fn is_media(media_type: &str) -> bool {
    let is_image = media_type.starts_with("image/") && media_type != "image/svg+xml";
    let is_other = ["audio/", "video/", "font/"].iter().any(|kind| media_type.starts_with(kind));
    is_image
        || is_other
        || matches!(media_type, "application/pdf" | "application/zip" | "application/gzip")
}

/// Tells whether a text is most likely none: many characters were none or control something.
fn is_garbled(text: &str) -> bool {
    let is_odd = |c: &char| {
        *c == char::REPLACEMENT_CHARACTER
            || (c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}'))
    };
    let sample = text.chars().take(8192);
    let odd = sample.clone().filter(is_odd).count();
    // One may be a character that the limit cuts.
    odd.saturating_sub(1) * 10 > sample.count()
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
