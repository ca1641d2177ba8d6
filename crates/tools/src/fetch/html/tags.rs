//! The pieces of HTML: text and tags.

/// A piece of a page.
pub(super) enum Piece<'a> {
    /// Text, entities not decoded.
    Text(&'a str),
    Open(Tag),
    /// The name of an element that ends.
    Close(String),
}

/// A tag that opens an element.
pub(super) struct Tag {
    /// In lower case.
    pub(super) name: String,
    pub(super) href: Option<String>,
    pub(super) alt: Option<String>,
}

/// Splits a page into pieces, without what is in elements that hold no text.
pub(super) struct Pieces<'a> {
    rest: &'a str,
    // An element whose content is text, whatever it looks like.
    raw: Option<String>,
}

/// Elements whose content is not text of the page.
const DROPPED: &[&str] =
    &["script", "style", "template", "svg", "math", "iframe", "object", "canvas", "video", "audio"];

/// Elements in which there are no tags.
const RAW: &[&str] = &["title", "textarea"];

impl<'a> Pieces<'a> {
    pub(super) fn of(html: &'a str) -> Self {
        Self { rest: html, raw: None }
    }

    /// Cuts off so many bytes.
    fn cut(&mut self, bytes: usize) -> &'a str {
        let (cut, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        cut
    }

    /// Returns what starts with `<`; nothing for what is no piece of the page.
    fn markup(&mut self) -> Option<Piece<'a>> {
        if self.rest.starts_with("<!--") {
            self.skip_behind("-->");
            return None;
        }
        if self.rest.starts_with("<!") || self.rest.starts_with("<?") {
            self.skip_behind(">");
            return None;
        }
        let is_close = self.rest.starts_with("</");
        let name_at = if is_close { 2 } else { 1 };
        let name = self.rest.get(name_at..).unwrap_or_default();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Some(Piece::Text(self.cut(1)));
        }
        let name_end = name.find(|c: char| c.is_whitespace() || c == '/' || c == '>');
        let name = name[..name_end.unwrap_or(name.len())].to_ascii_lowercase();
        self.cut(name_at + name.len());
        let mut tag = Tag { name, href: None, alt: None };
        let is_empty = self.attributes(&mut tag)?;
        if is_close {
            return Some(Piece::Close(tag.name));
        }
        if DROPPED.contains(&tag.name.as_str()) {
            // In HTML only foreign elements may close themselves.
            if !(is_empty && matches!(tag.name.as_str(), "svg" | "math")) {
                let end = self.find_close(&tag.name);
                self.cut(end);
            }
            return None;
        }
        if RAW.contains(&tag.name.as_str()) {
            self.raw = Some(tag.name.clone());
        }
        Some(Piece::Open(tag))
    }

    /// Reads attributes to the tag's end, and tells whether it closes itself. A tag without an end
    /// is none, and nothing follows it.
    fn attributes(&mut self, tag: &mut Tag) -> Option<bool> {
        let mut is_empty = false;
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.chars().next()? {
                '>' => {
                    self.cut(1);
                    return Some(is_empty);
                }
                '/' => {
                    self.cut(1);
                    is_empty = true;
                    continue;
                }
                _ => is_empty = false,
            }
            // A name may start with `=`, which is how broken tags are read.
            let name_end = self.rest.char_indices().skip(1);
            let name_end =
                name_end.into_iter().find(|(_, c)| c.is_whitespace() || "=/>".contains(*c));
            let name = self.cut(name_end.map_or(self.rest.len(), |(at, _)| at));
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('=') {
                continue;
            }
            self.cut(1);
            let value = self.value()?;
            if name.eq_ignore_ascii_case("href") {
                tag.href = Some(value.to_owned());
            } else if name.eq_ignore_ascii_case("alt") {
                tag.alt = Some(super::entities::decode(value));
            }
        }
    }

    fn value(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let quote = self.rest.chars().next()?;
        if quote == '"' || quote == '\'' {
            self.cut(1);
            let end = self.rest.find(quote).unwrap_or(self.rest.len());
            let value = self.cut(end);
            self.cut(1);
            return Some(value);
        }
        let end = self.rest.find(|c: char| c.is_whitespace() || c == '>');
        Some(self.cut(end.unwrap_or(self.rest.len())))
    }

    fn skip_behind(&mut self, end: &str) {
        let behind = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
        self.cut(behind);
    }

    /// Returns where an element ends: before its closing tag, or at the end of the page.
    fn find_close(&self, name: &str) -> usize {
        let closes = |at: usize| {
            let tag = self.rest.as_bytes().get(at + 2..).unwrap_or_default();
            let behind = tag.get(name.len()).copied().unwrap_or(b'>');
            tag.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
                && (behind.is_ascii_whitespace() || behind == b'/' || behind == b'>')
        };
        let mut ends = self.rest.match_indices("</").map(|(at, _)| at);
        ends.find(|at| closes(*at)).unwrap_or(self.rest.len())
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if let Some(name) = self.raw.take() {
            let end = self.find_close(&name);
            return Some(Piece::Text(self.cut(end)));
        }
        while !self.rest.is_empty() {
            if !self.rest.starts_with('<') {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                return Some(Piece::Text(self.cut(end)));
            }
            let before = self.rest.len();
            if let Some(piece) = self.markup() {
                return Some(piece);
            }
            debug_assert!(self.rest.len() < before, "markup makes progress");
        }
        None
    }
}
