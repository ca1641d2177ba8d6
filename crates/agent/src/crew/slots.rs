//! How many agents of a configuration may work at once.
//!
//! There is no deadlock. Whoever holds a slot works, or waits for its model, a tool of its own or a
//! person; it does not wait for a slot, nor for anybody who may wait for one: an agent that waits
//! for its own sub-agents, for its parent's answer, or for a task of the board, has given its slot
//! back, and takes one again when it goes on. So a slot that is held comes free without another one being taken. One with
//! sub-agents in the background has given it back too, although it may go on meanwhile: its run waits
//! for them in the end, and nobody can say when that is. So many more than allowed may work then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::id::AgentId;

/// How many slots there are, by configuration.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<HashMap<String, Arc<Semaphore>>>);

/// The slots that the agents of a session have.
#[derive(Debug, Default)]
pub(crate) struct Desks(Mutex<HashMap<AgentId, Arc<Desk>>>);

/// The slot of an agent at work.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    desks: &'a Desks,
    agent: AgentId,
    is_limited: bool,
}

/// What an agent has, and for how many things it waits for which it has given it back.
#[derive(Debug)]
struct Desk {
    semaphore: Arc<Semaphore>,
    state: Mutex<(Option<OwnedSemaphorePermit>, usize)>,
    // Tells those who wait for the slot that the agent has it, or waits for something else again.
    settled: Notify,
}

/// Given back while an agent waits; [`Lent::take_back`] ends that.
#[derive(Debug)]
pub(crate) struct Lent(Option<Arc<Desk>>);

impl Slots {
    /// Sets how many agents of a configuration may begin to work at once; 0 for any number.
    pub(super) fn limit(&self, config: &str, max: usize) {
        let mut limits = lock(&self.0);
        match max {
            0 => drop(limits.remove(config)),
            max => {
                let slots = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
                limits.insert(config.to_owned(), slots);
            }
        }
    }

    /// Waits for a slot for an agent.
    pub(super) async fn take<'a>(
        &self,
        config: &str,
        desks: &'a Desks,
        agent: AgentId,
    ) -> Slot<'a> {
        let semaphore = lock(&self.0).get(config).cloned();
        let Some(semaphore) = semaphore else { return Slot { desks, agent, is_limited: false } };
        // It is never closed.
        let permit = Arc::clone(&semaphore).acquire_owned().await.ok();
        let state = Mutex::new((permit, 0));
        let desk = Arc::new(Desk { semaphore, state, settled: Notify::new() });
        lock(&desks.0).insert(agent, desk);
        Slot { desks, agent, is_limited: true }
    }
}

impl Desks {
    /// Gives an agent's slot back while it waits for others.
    pub(crate) fn lend(&self, agent: AgentId) -> Lent {
        let desk = lock(&self.0).get(&agent).cloned();
        if let Some(desk) = &desk {
            let mut state = lock(&desk.state);
            state.1 += 1;
            state.0 = None;
            desk.settled.notify_waiters();
        }
        Lent(desk)
    }
}

impl Slot<'_> {
    /// Gives the slot back while the agent waits for others.
    pub(super) fn lend(&self) -> Lent {
        self.desks.lend(self.agent)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if self.is_limited {
            lock(&self.desks.0).remove(&self.agent);
        }
    }
}

impl Lent {
    /// Waits for a slot again, unless the agent still waits for others. Of several calls of one agent
    /// that are done at once one gets it for all of them: an agent has one slot.
    pub(crate) async fn take_back(mut self) {
        let Some(desk) = self.0.take() else { return };
        lock(&desk.state).1 -= 1;
        let settled = desk.settled.notified();
        tokio::pin!(settled);
        // From here on no word of it is missed.
        settled.as_mut().enable();
        if desk.is_settled() {
            return;
        }
        tokio::select! {
            biased;
            () = &mut settled => {}
            permit = Arc::clone(&desk.semaphore).acquire_owned() => desk.have(permit.ok()),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Whoever does not take it back is being stopped, and works no more.
        if let Some(desk) = &self.0 {
            lock(&desk.state).1 -= 1;
        }
    }
}

impl Desk {
    /// Tells whether the agent has its slot, or waits for something for which it has given it back.
    fn is_settled(&self) -> bool {
        let state = lock(&self.state);
        state.0.is_some() || state.1 > 0
    }

    fn have(&self, permit: Option<OwnedSemaphorePermit>) {
        let mut state = lock(&self.state);
        // It may have begun to wait again, for something else, or have got one meanwhile.
        if state.1 == 0 && state.0.is_none() {
            state.0 = permit;
        }
        self.settled.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
