//! Values that the agents of a session share: a task board, some state.
//!
//! A shared value is a fold of changes, and the changes stand in the logs of the agents that made
//! them. A change is decided and made at once, in memory and under a short lock, so that of two
//! agents that want the same thing one gets it. It is written with the end of the call that made it,
//! and with the end of every other call that has looked at the value since: whatever a call that
//! has ended was told is in the log. So the changes in the log are always the first ones of those
//! that were made, however calls overlap and wherever a crash cuts them off, and a session that is
//! opened again has the value as it was then.
//!
//! A change whose commit failed stays pending, and is written with the next call that looks. A
//! rewind changes nothing: other agents have seen the value, and work by it.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use bowline_llm::RawJson;

use crate::entry::{Custom, Entry, EntryKind};
use crate::journal::Pos;
use crate::redact::Redaction;
use crate::tool::{CallScope, ToolError};

/// The name under which changes of all shared values are recorded.
pub(crate) const RECORD: &str = "shared";

/// A value made of changes.
pub trait Fold: Default + Send + 'static {
    /// Names the value within its session; it is in the log, so it must not change.
    const NAME: &'static str;

    /// What happens to it. It is in the log too.
    type Change: Serialize + DeserializeOwned;

    /// Takes a change in. One that does not fit changes nothing.
    fn apply(&mut self, change: Self::Change);
}

/// A value that the agents of a session share, as one call sees it.
pub struct Shared<T: Fold> {
    slot: Arc<Slot<T>>,
    scope: Arc<CallScope>,
}

/// A change that was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// The call has ended: nothing more can be recorded with it.
    #[error("the call has ended")]
    Closed,
    /// It cannot be written down and read again.
    #[error("the change cannot be recorded: {0}")]
    Unwritable(String),
}

impl From<serde_json::Error> for SharedError {
    fn from(error: serde_json::Error) -> Self {
        Self::Unwritable(error.to_string())
    }
}

impl From<SharedError> for ToolError {
    fn from(error: SharedError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl<T: Fold> Shared<T> {
    pub(crate) fn new(values: &Values, scope: &Arc<CallScope>) -> Self {
        let slot = values.slot::<T>();
        scope.look_at(Arc::clone(&slot) as Arc<dyn Pending>);
        Self { slot, scope: Arc::clone(scope) }
    }

    /// Looks at the value. `look` runs under the lock: it must be short.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.slot.lock().value)
    }

    /// Decides about a change and makes it, with nobody in between. `decide` runs under the lock and
    /// hands back the change, if there is to be one, and what the caller wants to know.
    ///
    /// # Errors
    /// What `decide` says, and [`SharedError`]; then nothing has changed.
    pub fn change<R, E: From<SharedError>>(
        &self,
        decide: impl FnOnce(&T) -> Result<(Option<T::Change>, R), E>,
    ) -> Result<R, E> {
        if self.scope.is_closed() {
            return Err(SharedError::Closed.into());
        }
        let mut inner = self.slot.lock();
        let (change, answer) = decide(&inner.value)?;
        let Some(change) = change else { return Ok(answer) };
        let written = write(&change, self.scope.redaction())?;
        // As it is read from the log.
        let change = written.read().map_err(SharedError::from)?;
        inner.value.apply(change);
        inner.pending.push(written);
        inner.next += 1;
        drop(inner);
        self.slot.made.send_modify(|made| *made += 1);
        Ok(answer)
    }

    /// Waits until `look` finds something. It runs under the lock, now and after every change.
    pub async fn wait_for<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> R {
        let mut made = self.slot.made.subscribe();
        loop {
            made.mark_unchanged();
            if let Some(found) = self.read(&mut look) {
                return found;
            }
            // The slot holds the sender.
            let _ = made.changed().await;
        }
    }
}

impl<T: Fold> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { slot: Arc::clone(&self.slot), scope: Arc::clone(&self.scope) }
    }
}

impl<T: Fold> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&T::NAME).finish()
    }
}

fn write(change: &impl Serialize, redaction: &Redaction) -> Result<RawJson, SharedError> {
    Ok(redaction.apply_to_json(RawJson::of(change)?))
}

/// What a call records of a shared value: changes that follow each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    value: String,
    /// How many changes there were before the first of these.
    from: u64,
    changes: Vec<RawJson>,
}

impl Record {
    fn of(entry: &Entry) -> Option<Self> {
        match &entry.kind {
            EntryKind::Custom(custom) if custom.name == RECORD => custom.data.read().ok(),
            _ => None,
        }
    }

    fn numbered(self) -> impl Iterator<Item = (u64, RawJson)> {
        (self.from..).zip(self.changes)
    }
}

/// What has happened to shared values, in order, each change once.
#[derive(Debug, Default)]
pub(crate) struct History(HashMap<String, BTreeMap<u64, RawJson>>);

impl History {
    /// Takes the changes out of the entries of a session, whatever path they are on.
    pub(crate) fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut history = Self::default();
        entries.into_iter().filter_map(Record::of).for_each(|record| history.add(record));
        history
    }

    fn add(&mut self, record: Record) {
        let changes = self.0.entry(record.value.clone()).or_default();
        for (number, change) in record.numbered() {
            // A change that several calls have written is the same in all of them.
            changes.entry(number).or_insert(change);
        }
    }

    /// Returns what a session that begins with these values has to record.
    pub(crate) fn records(self) -> Vec<EntryKind> {
        let mut values: Vec<_> = self.0.into_iter().collect();
        values.sort_by(|(one, _), (other, _)| one.cmp(other));
        let record = |(value, changes): (String, BTreeMap<u64, RawJson>)| {
            let record = Record { value, from: 0, changes: changes.into_values().collect() };
            let data = RawJson::of(&record).ok()?;
            Some(EntryKind::Custom(Custom { name: RECORD.to_owned(), call: None, data }))
        };
        values.into_iter().filter_map(record).collect()
    }
}

/// The values that the agents of a session share.
#[derive(Default)]
pub(crate) struct Values(Mutex<Known>);

#[derive(Default)]
struct Known {
    // Of values that nobody has asked for yet.
    history: History,
    slots: HashMap<&'static str, Arc<dyn Pending>>,
}

impl Values {
    /// Makes the values of a session whose log holds these entries.
    pub(crate) fn new(log: &[(Pos, Entry)]) -> Self {
        let history = History::of(log.iter().map(|(_, entry)| entry));
        Self(Mutex::new(Known { history, slots: HashMap::new() }))
    }

    /// Takes note of what is in the log now.
    pub(crate) fn committed(&self, entries: &[Entry]) {
        for record in entries.iter().filter_map(Record::of) {
            let mut known = lock(&self.0);
            match known.slots.get(record.value.as_str()) {
                Some(slot) => slot.committed(record.from + record.changes.len() as u64),
                None => known.history.add(record),
            }
        }
    }

    fn slot<T: Fold>(&self) -> Arc<Slot<T>> {
        let mut known = lock(&self.0);
        let slot = known.slots.get(T::NAME).map(Arc::clone).map(Pending::any);
        // Of two values with one name the second one is on its own, and is not kept.
        if let Some(slot) = slot {
            return slot.downcast().unwrap_or_default();
        }
        let changes = known.history.0.remove(T::NAME).unwrap_or_default();
        let slot = Arc::new(Slot::<T>::replay(changes));
        known.slots.insert(T::NAME, Arc::clone(&slot) as Arc<dyn Pending>);
        slot
    }
}

/// A value, and what of it is not in the log yet.
struct Slot<T> {
    inner: Mutex<Inner<T>>,
    // Counts changes, for those who wait for one.
    made: watch::Sender<u64>,
}

struct Inner<T> {
    value: T,
    // The number of the next change.
    next: u64,
    // The last changes.
    pending: Vec<RawJson>,
}

impl<T: Default> Default for Slot<T> {
    fn default() -> Self {
        let inner = Inner { value: T::default(), next: 0, pending: Vec::new() };
        Self { inner: Mutex::new(inner), made: watch::Sender::default() }
    }
}

impl<T: Fold> Slot<T> {
    fn replay(changes: BTreeMap<u64, RawJson>) -> Self {
        let slot = Self::default();
        let mut inner = slot.lock();
        inner.next = changes.last_key_value().map_or(0, |(last, _)| last + 1);
        // What another version has written and this one cannot read does not fit.
        for change in changes.into_values().filter_map(|change| change.read().ok()) {
            inner.value.apply(change);
        }
        drop(inner);
        slot
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        lock(&self.inner)
    }
}

/// A shared value as its record keepers see it.
pub(crate) trait Pending: Send + Sync {
    /// Names the value.
    fn name(&self) -> &'static str;

    /// Returns what is to be written, if anything is.
    fn record(&self) -> Option<Record>;

    /// Takes note that all changes before this one are in the log.
    fn committed(&self, until: u64);

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Fold> Pending for Slot<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn record(&self) -> Option<Record> {
        let inner = self.lock();
        let from = inner.next - inner.pending.len() as u64;
        let record = Record { value: T::NAME.to_owned(), from, changes: inner.pending.clone() };
        (!record.changes.is_empty()).then_some(record)
    }

    fn committed(&self, until: u64) {
        let mut inner = self.lock();
        let left = usize::try_from(inner.next.saturating_sub(until)).unwrap_or(usize::MAX);
        let written = inner.pending.len().saturating_sub(left);
        inner.pending.drain(..written);
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
