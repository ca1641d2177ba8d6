//! How many agents of a configuration may work at once.
//!
//! There is no deadlock. Whoever holds a slot works, or waits for its model, a tool of its own or a
//! person; it does not wait for a slot, nor for anybody who may wait for one: an agent that waits
//! for its own sub-agents, or for its parent's answer, has given its slot back, and takes one again
//! when it goes on. So a slot that is held comes free without another one being taken. One with
//! sub-agents in the background has given it back too, although it may go on meanwhile: its run waits
//! for them in the end, and nobody can say when that is. So many more than allowed may work then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::id::AgentId;

/// The slots of a registry.
#[derive(Debug, Default)]
pub(super) struct Slots {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    limits: HashMap<String, Arc<Semaphore>>,
    held: HashMap<AgentId, Arc<Held>>,
}

/// The slot of an agent at work.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    slots: &'a Slots,
    agent: AgentId,
    held: Option<Arc<Held>>,
}

/// What an agent holds, and for how many things it waits for which it has given it back.
#[derive(Debug)]
struct Held {
    semaphore: Arc<Semaphore>,
    state: Mutex<(Option<OwnedSemaphorePermit>, usize)>,
}

/// Given back while an agent waits; [`Lent::take_back`] ends that.
#[derive(Debug)]
pub(super) struct Lent(Option<Arc<Held>>);

impl Slots {
    /// Sets how many agents of a configuration may begin to work at once; 0 for any number.
    pub(super) fn limit(&self, config: &str, max: usize) {
        let mut inner = self.lock();
        match max {
            0 => drop(inner.limits.remove(config)),
            max => {
                let slots = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
                inner.limits.insert(config.to_owned(), slots);
            }
        }
    }

    /// Waits for a slot for an agent.
    pub(super) async fn take(&self, config: &str, agent: AgentId) -> Slot<'_> {
        let semaphore = self.lock().limits.get(config).cloned();
        let Some(semaphore) = semaphore else { return Slot { slots: self, agent, held: None } };
        // It is never closed.
        let permit = Arc::clone(&semaphore).acquire_owned().await.ok();
        let held = Arc::new(Held { semaphore, state: Mutex::new((permit, 0)) });
        self.lock().held.insert(agent, Arc::clone(&held));
        Slot { slots: self, agent, held: Some(held) }
    }

    /// Gives an agent's slot back while it waits for others.
    pub(super) fn lend(&self, agent: AgentId) -> Lent {
        let held = self.lock().held.get(&agent).cloned();
        if let Some(held) = &held {
            let mut state = held.lock();
            state.1 += 1;
            state.0 = None;
        }
        Lent(held)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot<'_> {
    /// Gives the slot back while the agent waits for others.
    pub(super) fn lend(&self) -> Lent {
        self.slots.lend(self.agent)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.slots.lock().held.remove(&self.agent);
        }
    }
}

impl Lent {
    /// Waits for a slot again, unless the agent still waits for others.
    pub(super) async fn take_back(mut self) {
        let Some(held) = self.0.take() else { return };
        {
            let mut state = held.lock();
            state.1 -= 1;
            if state.1 > 0 {
                return;
            }
        }
        let permit = Arc::clone(&held.semaphore).acquire_owned().await.ok();
        let mut state = held.lock();
        // It may have begun to wait again, for something else.
        if state.1 == 0 {
            state.0 = permit;
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Whoever does not take it back is being stopped, and works no more.
        if let Some(held) = &self.0 {
            held.lock().1 -= 1;
        }
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, (Option<OwnedSemaphorePermit>, usize)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
