//! A text that comes in pieces, shown without its secrets.

use super::{Redaction, Spans, replaced};

/// So much of a line is looked at to know what its end is.
const LINE: usize = 4_096;

/// So much is held back at most.
pub(super) const HELD: usize = 16_384;

/// Shows a text as it comes, but for its end where that may be the beginning of a secret.
#[derive(Default)]
pub(crate) struct Veil {
    // The last line, and what is held back.
    text: String,
    // How much of it has been shown.
    shown: usize,
}

impl Veil {
    /// Takes more of the text and returns what can be shown now.
    pub(crate) fn pass(&mut self, more: &str, redaction: &Redaction) -> String {
        self.text.push_str(more);
        let Spans { spans, open } = redaction.spans(&self.text);
        let mut until = self.text.floor_char_boundary(open.max(self.shown));
        if self.text.len() - until > HELD {
            until = self.text.len();
        }
        // What is a secret already may become a longer one.
        let cut = spans.iter().find(|span| span.at.start < until && span.at.end > until);
        until = cut.map_or(until, |span| span.at.start.max(self.shown));
        self.show(until, &spans)
    }

    /// Returns what was held back: nothing more comes.
    pub(crate) fn rest(&mut self, redaction: &Redaction) -> String {
        let Spans { spans, .. } = redaction.spans(&self.text);
        self.show(self.text.len(), &spans)
    }

    /// Forgets what came, because what comes next does not go on from it; returns how many bytes nobody
    /// has seen.
    pub(crate) fn lose(&mut self) -> usize {
        let lost = self.text.len() - self.shown;
        *self = Self::default();
        lost
    }

    fn show(&mut self, until: usize, spans: &[super::Span]) -> String {
        let shown = replaced(&self.text, self.shown..until, spans);
        let line = self.text[..until].rfind('\n').map_or(0, |end| end + 1);
        let from = self.text.ceil_char_boundary(line.max(until.saturating_sub(LINE)));
        self.text.drain(..from);
        self.shown = until - from;
        shown
    }
}
