//! Entries that are no messages, by where they stand among the messages.

use std::sync::Arc;

use crate::entry::Entry;

/// Custom entries in the order in which they were recorded, each with the number of messages before
/// it. A clone costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Customs(rpds::VectorSync<(usize, Arc<Entry>)>);

impl Customs {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.0.iter().map(|(place, entry)| (*place, &**entry))
    }

    pub(super) fn push(&mut self, place: usize, entry: &Entry) {
        self.0.push_back_mut((place, Arc::new(entry.clone())));
    }

    /// Returns those that are not before a cut, which is at another place from now on.
    pub(super) fn cut(&self, at: usize, now: usize) -> Self {
        let behind = self.0.iter().filter(|(place, _)| *place >= at);
        Self(behind.map(|(place, entry)| (place - at + now, Arc::clone(entry))).collect())
    }
}
