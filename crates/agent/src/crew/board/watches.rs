//! Who watches which task: agents that watch each other's would wait for good.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::shared::Shared;

use super::rules::Tasks;

/// The tasks that agents of a session watch without a limit of time.
#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<Vec<Watch>>);

/// That an agent watches a task.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Watch {
    agent: String,
    task: String,
}

/// A watch that goes on until this is dropped.
#[derive(Debug)]
pub(super) struct Watching<'a> {
    watches: &'a Watches,
    watch: Watch,
}

impl Watches {
    /// Begins to watch a task for an agent, with nobody in between.
    ///
    /// # Errors
    /// By which way the task waits for the agent, if it does.
    pub(super) fn begin(
        &self,
        tasks: &Shared<Tasks>,
        agent: &str,
        task: &str,
    ) -> Result<Watching<'_>, String> {
        let watch = Watch { agent: agent.to_owned(), task: task.to_owned() };
        let mut known = self.lock();
        if let Some(way) = tasks.read(|tasks| way_back(tasks, &known, &watch)) {
            return Err(way);
        }
        known.push(watch.clone());
        Ok(Watching { watches: self, watch })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut known = self.watches.lock();
        if let Some(place) = known.iter().position(|watch| *watch == self.watch) {
            known.remove(place);
        }
    }
}

/// Returns in words how a task that an agent would watch waits for another one that the agent has: a
/// task waits for those that come before it, and for those that the agent watches that has it.
fn way_back(tasks: &Tasks, known: &[Watch], new: &Watch) -> Option<String> {
    let mut seen = HashSet::new();
    let mut open = vec![(new.task.clone(), String::new())];
    while let Some((id, way)) = open.pop() {
        let Some(task) = tasks.open(&id).filter(|_| seen.insert(id.clone())) else { continue };
        let is_own = task.assignee.as_ref() == Some(&new.agent);
        if is_own && !way.is_empty() {
            return Some(format!("{way}, which is yours"));
        }
        let further = |step: String| match way.is_empty() {
            true => step,
            false => format!("{way}, {step}"),
        };
        let before = tasks.open_before(task);
        open.extend(before.map(|next| (next.clone(), further(format!("{id} waits for {next}")))));
        if let Some(assignee) = task.assignee.as_ref().filter(|_| !is_own) {
            let theirs = known.iter().filter(|watch| watch.agent == *assignee);
            open.extend(theirs.map(|Watch { task: next, .. }| {
                (next.clone(), further(format!("{assignee} has {id} and watches {next}")))
            }));
        }
    }
    None
}
