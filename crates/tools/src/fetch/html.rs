//! Readable text of HTML: no rendering and no guesses about what matters on a page.
//!
//! Scripts, styles and pictures are dropped, blocks become lines, links and headings are written as
//! in Markdown, entities are decoded. Whatever HTML it is, all its text comes through, in one pass.

mod entities;
mod tags;

use reqwest::Url;

use tags::{Piece, Pieces, Tag};

/// Returns the text of a page; links are resolved against its address.
pub(super) fn to_text(html: &str, base: &Url) -> String {
    let mut text = Text::new(base);
    for piece in Pieces::of(html) {
        match piece {
            Piece::Text(raw) => text.write(&entities::decode(raw)),
            Piece::Open(tag) => text.open(&tag),
            Piece::Close(name) => text.close(&name),
        }
    }
    text.end_link();
    text.out.truncate(text.out.trim_end().len());
    text.out
}

/// A text that is being written.
struct Text<'a> {
    base: &'a Url,
    out: String,
    // What is written before the next word: so many line ends, or a space.
    breaks: usize,
    space: bool,
    // How many `pre` are open.
    verbatim: usize,
    // The open lists, with the next number of those that have numbers.
    lists: Vec<Option<usize>>,
    // The open link: its target, and where its text starts.
    link: Option<(String, usize)>,
    is_row_started: bool,
}

/// Lists deeper than this are no longer indented.
const MAX_INDENT: usize = 8;

impl<'a> Text<'a> {
    fn new(base: &'a Url) -> Self {
        Self {
            base,
            out: String::new(),
            breaks: 0,
            space: false,
            verbatim: 0,
            lists: Vec::new(),
            link: None,
            is_row_started: false,
        }
    }

    fn write(&mut self, text: &str) {
        if self.verbatim > 0 {
            if !text.is_empty() {
                self.flush();
            }
            self.out.push_str(&text.replace('\r', ""));
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.space = true;
        }
        for word in text.split_whitespace() {
            self.flush();
            self.out.push_str(word);
            self.space = true;
        }
        if !text.is_empty() {
            self.space = text.ends_with(char::is_whitespace);
        }
    }

    /// Writes what stands between the last word and the next.
    fn flush(&mut self) {
        if self.out.is_empty() {
            // Nothing is separated from nothing.
        } else if self.breaks > 0 {
            self.out.truncate(self.out.trim_end_matches([' ', '\t']).len());
            let present = self.out.bytes().rev().take_while(|byte| *byte == b'\n').count();
            self.out.push_str(&"\n".repeat(self.breaks.saturating_sub(present)));
        } else if self.space && !self.out.ends_with(['\n', ' ']) {
            self.out.push(' ');
        }
        (self.breaks, self.space) = (0, false);
    }

    /// Writes a mark, such as that of a heading.
    fn mark(&mut self, mark: &str) {
        self.flush();
        self.out.push_str(mark);
    }

    fn lines(&mut self, breaks: usize) {
        self.breaks = self.breaks.max(breaks);
        self.space &= breaks == 0;
    }

    fn open(&mut self, tag: &Tag) {
        self.lines(breaks_around(&tag.name, self.lists.len()));
        match tag.name.as_str() {
            "br" => self.lines((self.breaks + 1).min(2)),
            "hr" => {
                self.mark("---");
                self.lines(2);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = tag.name.bytes().last().map_or(1, |digit| usize::from(digit - b'0'));
                self.mark(&format!("{} ", "#".repeat(level)));
            }
            "pre" => self.verbatim += 1,
            "ul" | "menu" => self.lists.push(None),
            "ol" => self.lists.push(Some(1)),
            "li" => self.item(),
            "tr" => self.is_row_started = false,
            "td" | "th" => self.cell(),
            "a" => {
                self.end_link();
                let target = tag.href.as_deref().and_then(|href| self.target(href));
                if let Some(target) = target {
                    self.flush_for_link();
                    self.link = Some((target, self.out.len()));
                }
            }
            "img" => {
                if let Some(alt) = tag.alt.as_deref().filter(|alt| !alt.trim().is_empty()) {
                    self.write(&format!("[image: {}]", alt.trim()));
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "a" => self.end_link(),
            "pre" => self.verbatim = self.verbatim.saturating_sub(1),
            "ul" | "menu" | "ol" => drop(self.lists.pop()),
            _ => {}
        }
        self.lines(breaks_around(name, self.lists.len()));
    }

    fn item(&mut self) {
        let depth = self.lists.len().clamp(1, MAX_INDENT);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            Some(None) | None => "- ".to_owned(),
        };
        self.mark(&format!("{}{mark}", "  ".repeat(depth - 1)));
    }

    fn cell(&mut self) {
        if std::mem::replace(&mut self.is_row_started, true) {
            self.space = true;
            self.mark("| ");
        }
    }

    /// Writes what stands before a link, so that it is known where its text starts.
    fn flush_for_link(&mut self) {
        if self.breaks > 0 || self.space {
            self.flush();
        }
    }

    fn end_link(&mut self) {
        let Some((target, start)) = self.link.take() else { return };
        let is_empty = self.out.get(start..).is_none_or(|text| text.trim().is_empty());
        if !is_empty {
            self.out.insert(start, '[');
            self.out.push_str(&format!("]({target})"));
        }
    }

    /// Returns where a link leads, unless it stays on the page.
    fn target(&self, href: &str) -> Option<String> {
        let href = entities::decode(href);
        if href.trim().is_empty() || href.trim_start().starts_with('#') {
            return None;
        }
        let url = self.base.join(href.trim()).ok()?;
        matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.into())
    }
}

/// Returns how many line ends a block has before and after it; 0 for what is no block.
fn breaks_around(name: &str, list_depth: usize) -> usize {
    match name {
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "table" | "blockquote" | "pre" | "dl"
        | "hr" | "title" | "figure" => 2,
        "ul" | "ol" | "menu" if list_depth == 0 => 2,
        "div" | "section" | "article" | "header" | "footer" | "main" | "nav" | "aside" | "li"
        | "dt" | "dd" | "tr" | "caption" | "figcaption" | "form" | "fieldset" | "legend"
        | "address" | "details" | "summary" | "option" | "body" | "center" | "label" | "ul"
        | "ol" | "menu" => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn text(html: &str) -> String {
        to_text(html, &Url::parse("https://a.example/b/c").unwrap())
    }

    #[test]
    fn a_page_becomes_readable() {
        let html = r##"<!DOCTYPE html><html><head><meta charset=utf-8><title>The &lt;Page&gt;</title>
            <style>p { color: red }</style><script>if (a < b) { document.write("<p>no</p>") }</script>
            </head><body><!-- <p>hidden</p> --><h1>Head</h1><p>One
              two<b>three</b> <a href="/x?a=1&amp;b=2">a <i>link</i></a>, <a href="#top">top</a>
              and <a href='d'><img src=x></a>.</p>
            <ul><li>first<li>second<ol><li>inner</li><li>more</li></ol></li></ul>
            <pre>fn main() {
    x &amp;&amp; y
}</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
            x<br>y<br><br>z <img alt="a dog"> 1 < 2 &copy; &#8212; &#x41; &unknown; R&D
            <svg><text>no</text></svg></body></html>"##;
        let expected = "The <Page>\n\n# Head\n\nOne twothree [a link](https://a.example/x?a=1&b=2), \
            top and .\n\n- first\n- second\n  1. inner\n  2. more\n\nfn main() {\n    x && y\n}\n\n\
            a | b\n1 | 2\n\nx\ny\n\nz [image: a dog] 1 < 2 © — A &unknown; R&D";
        assert_eq!(text(html), expected);
    }

    #[test]
    fn broken_html_keeps_its_text() {
        assert_eq!(text("a <b c"), "a");
        assert_eq!(text("a <!-- b"), "a");
        assert_eq!(text("<a href='x>y"), "");
        assert_eq!(text("<a href=x>one<a href=y>two"), {
            "[one](https://a.example/b/x)[two](https://a.example/b/y)"
        });
        assert_eq!(text("</ul></a></pre>x</p>y"), "x\n\ny");
        assert_eq!(text("<script>a</scripted></SCRIPT >b"), "b");
        assert_eq!(text("<a href='javascript:x()'>run</a>"), "run");
        assert_eq!(text("<textarea><b></textarea>x"), "<b>x");
    }

    proptest! {
        #[test]
        fn anything_can_be_converted(html in "(<|>|/|!|-|=|'|\"| |&|;|#|a|pre|li|ul|script|é|\n){0,60}") {
            text(&html);
        }

        #[test]
        fn words_without_markup_stay(words in prop::collection::vec("[a-zé.]{1,8}", 1..20)) {
            prop_assert_eq!(text(&words.join(" \n ")), words.join(" "));
        }
    }
}
