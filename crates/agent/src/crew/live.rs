//! Who works now, by name: to whom a message can be sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::AgentMeta;
use crate::id::{AgentId, SessionId};

/// The sub-agents at work, of all sessions that share a registry.
#[derive(Debug, Default)]
pub(super) struct Live {
    agents: Mutex<HashMap<(SessionId, String), Arc<AgentMeta>>>,
}

/// A sub-agent at work.
#[derive(Debug)]
pub(super) struct Present<'a> {
    live: &'a Live,
    session: SessionId,
    name: String,
}

impl Live {
    /// Notes that an agent works, until what is returned is dropped.
    pub(super) fn enter(&self, session: SessionId, meta: &Arc<AgentMeta>) -> Present<'_> {
        self.lock().insert((session, meta.name.clone()), Arc::clone(meta));
        Present { live: self, session, name: meta.name.clone() }
    }

    /// Returns the agent of a name that `agent` may write to: its child or its sibling.
    pub(super) fn relative(
        &self,
        session: SessionId,
        agent: &AgentMeta,
        name: &str,
    ) -> Option<AgentId> {
        let found = self.lock().get(&(session, name.to_owned())).cloned()?;
        is_relative(agent, &found).then_some(found.id)
    }

    /// Returns the names of all agents that `agent` may write to, in order.
    pub(super) fn relatives(&self, session: SessionId, agent: &AgentMeta) -> Vec<String> {
        let agents = self.lock();
        let found =
            agents.iter().filter(|((of, _), one)| *of == session && is_relative(agent, one));
        let mut names: Vec<String> = found.map(|((_, name), _)| name.clone()).collect();
        names.sort();
        names
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(SessionId, String), Arc<AgentMeta>>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_relative(agent: &AgentMeta, other: &AgentMeta) -> bool {
    let is_child = other.parent == Some(agent.id);
    let is_sibling = other.parent.is_some() && other.parent == agent.parent;
    other.id != agent.id && (is_child || is_sibling)
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.live.lock().remove(&(self.session, std::mem::take(&mut self.name)));
    }
}
