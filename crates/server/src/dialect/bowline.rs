//! bowline's own events, as `docs/events.md` has them.

use bowline_agent::event::Event;

use super::{Lines, Translator};

#[derive(Debug, Default)]
pub(super) struct Bowline {
    seq: u64,
}

impl Translator for Bowline {
    fn event(&mut self, event: &Event, lines: &mut Lines) {
        lines.say(&event.printed(self.seq));
        self.seq += 1;
    }
}
