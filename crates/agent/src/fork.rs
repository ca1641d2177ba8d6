//! Forks: a log that begins with a copy of another one's conversation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_llm::{CallId, Part};

use crate::agent::{Agent, Fork};
use crate::entry::{CallEnded, CallStatus, Entry, EntryKind, Origin};
use crate::error::AgentError;
use crate::id::{AgentId, EntryId, SessionId};
use crate::journal::{Blobs, JournalError, Pos};

/// The entries with which a forked log begins.
pub(crate) struct Copy {
    pub(crate) origin: Origin,
    pub(crate) kinds: Vec<EntryKind>,
    /// Large bodies that the entries refer to, and where they are; none if they are at hand.
    pub(crate) bodies: HashSet<String>,
    pub(crate) source: Arc<dyn Blobs>,
}

/// Copies the root's conversation of a session.
pub(crate) fn copy_session(agent: &Agent, fork: &Fork, to: SessionId) -> Result<Copy, AgentError> {
    let root = fork.session.root();
    let own: Vec<_> = fork.entries.iter().filter(|(_, entry)| entry.agent == root).collect();
    let (kinds, entry) = copy(fork.session, own.iter().map(|(_, entry)| entry), fork.at)?;
    let pos = fork.entries.last().map(|(pos, _)| *pos).unwrap_or_default();
    let bodies = kinds.iter().flat_map(bodies).collect();
    let origin = Origin {
        session: fork.session,
        agent: root,
        entry,
        pos,
        hash: fork.hash.clone(),
        entries: kinds.len() as u64,
    };
    debug_assert_ne!(fork.session, to);
    Ok(Copy { origin, kinds, bodies, source: agent.store.blobs(fork.session) })
}

/// Copies an agent's conversation for a child of the same session.
pub(crate) fn copy_agent(
    session: SessionId,
    agent: AgentId,
    entries: &[(Pos, Entry)],
    source: Arc<dyn Blobs>,
) -> Result<Copy, AgentError> {
    let (kinds, entry) = copy(session, entries.iter().map(|(_, entry)| entry), None)?;
    let pos = entries.last().map(|(pos, _)| *pos).unwrap_or_default();
    let origin = Origin { session, agent, entry, pos, hash: None, entries: kinds.len() as u64 };
    Ok(Copy { origin, kinds, bodies: HashSet::new(), source })
}

/// Copies the path to an entry, or to the head, and ends what is open there.
fn copy<'a>(
    session: SessionId,
    entries: impl Iterator<Item = &'a Entry>,
    at: Option<EntryId>,
) -> Result<(Vec<EntryKind>, EntryId), AgentError> {
    let mut by_id = HashMap::new();
    let mut head = None;
    for entry in entries {
        by_id.insert(entry.id, entry);
        head = match &entry.kind {
            EntryKind::Head(to) => to.to,
            _ => Some(entry.id),
        };
    }
    let last = at.or(head).ok_or_else(|| AgentError::NotFound("an entry to fork at".to_owned()))?;
    let mut path = Vec::new();
    let mut next = Some(last);
    while let Some(id) = next {
        let entry = by_id.get(&id);
        let entry = entry.ok_or_else(|| AgentError::NotFound(format!("entry {id}")))?;
        // What a later version thought critical, this one cannot copy without losing its meaning.
        if let (true, EntryKind::Unknown { kind, .. }) = (entry.critical, &entry.kind) {
            let why = format!("entry {id} is of the unknown kind {kind:?}");
            return Err(JournalError::ReadOnly { session, why }.into());
        }
        path.push(&entry.kind);
        next = entry.parent;
    }
    path.reverse();
    let mut open: Vec<CallId> = Vec::new();
    let mut kinds = Vec::new();
    for kind in path {
        match kind {
            // What waited there waits for that session, not for this one.
            EntryKind::Created(_) | EntryKind::Posted(_) | EntryKind::Head(_) => continue,
            // What waited for its results there does not go on here.
            EntryKind::RunStarted(_) => open.clear(),
            EntryKind::Assistant(said) if said.broken.is_none() => {
                open.extend(said.message.tool_calls().map(|call| call.id.clone()));
            }
            EntryKind::CallEnded(ended) => open.retain(|call| *call != ended.call),
            _ => {}
        }
        kinds.push(kind.clone());
    }
    for call in open {
        let why = "skipped: this conversation was forked while the call was open";
        kinds.push(EntryKind::CallEnded(CallEnded::unheard(call, CallStatus::Skipped, why)));
    }
    Ok((kinds, last))
}

/// Returns the hashes of the large bodies that an entry refers to.
fn bodies(kind: &EntryKind) -> Vec<String> {
    let stored = |part: &Part| match part {
        Part::Stored(stored) => Some(stored.hash.clone()),
        Part::Text(_) | Part::Image(_) | Part::Document(_) => None,
    };
    match kind {
        EntryKind::User(said) => said.message.content.iter().filter_map(stored).collect(),
        EntryKind::CallEnded(ended) => {
            let full = ended.full.iter().map(|full| full.hash.clone());
            full.chain(ended.content.iter().filter_map(stored)).collect()
        }
        _ => Vec::new(),
    }
}
