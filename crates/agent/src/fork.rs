//! Forks: a log that begins with a copy of another one's conversation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline_llm::CallId;

use crate::agent::{Agent, ForkPoint};
use crate::conversation;
use crate::entry::{CallEnded, CallStatus, Entry, EntryKind, Origin, VERSION};
use crate::error::AgentError;
use crate::id::{AgentId, EntryId, SessionId, Source};
use crate::journal::{Blobs, JournalError, Pos, SessionLog};
use crate::session::Session;
use crate::shared::History;

/// The entries with which a forked log begins.
pub(crate) struct Copied {
    pub(crate) origin: Origin,
    pub(crate) entries: Vec<Loose>,
    /// Large bodies that the entries refer to, and where they are; none if they are at hand.
    pub(crate) bodies: HashSet<String>,
    pub(crate) source: Arc<dyn Blobs>,
}

/// An entry that has no place in a log yet.
#[derive(Clone)]
pub(crate) struct Loose {
    pub(crate) id: EntryId,
    pub(crate) v: u32,
    pub(crate) critical: bool,
    pub(crate) kind: EntryKind,
}

impl Loose {
    /// Makes a new entry.
    pub(crate) fn new(kind: EntryKind, ids: &dyn Source) -> Self {
        Self { id: EntryId::new(ids), v: VERSION, critical: kind.is_critical(), kind }
    }

    /// Makes a copy of an entry, under an id of its own.
    fn of(entry: &Entry, ids: &dyn Source) -> Self {
        // What this version understands it writes in its own form, the rest as it came.
        let is_known = !matches!(entry.kind, EntryKind::Unknown { .. });
        let v = if is_known { VERSION } else { entry.v };
        Self { v, critical: entry.critical, ..Self::new(entry.kind.clone(), ids) }
    }

    /// Returns what of it names another entry.
    fn named(&mut self) -> Option<&mut EntryId> {
        match &mut self.kind {
            EntryKind::Decided(decided) => decided.waiting.as_mut(),
            EntryKind::Answered(answered) => answered.waiting.as_mut(),
            EntryKind::Woken(woken) => woken.waiting.as_mut(),
            _ => None,
        }
    }
}

/// Copies the root's conversation of a session.
pub(crate) fn copy_session(
    agent: &Agent,
    fork: &ForkPoint,
    to: SessionId,
) -> Result<Copied, AgentError> {
    let root = fork.session.root();
    let own: Vec<_> = fork.entries.iter().filter(|(_, entry)| entry.agent == root).collect();
    let (path, entry) = path(fork.session, own.iter().map(|(_, entry)| entry), fork.at)?;
    let mut entries = copies(&path, &*agent.source);
    // Sub-agents, whose logs are not copied, have had their part in what was shared by then.
    let is_at = |own: &&&(Pos, Entry)| Some(own.1.id) == fork.at;
    let until = own.iter().find(is_at).map_or(Pos(u64::MAX), |(pos, _)| *pos);
    let by_then = fork.entries.iter().take_while(|(pos, _)| *pos <= until).map(|(_, entry)| entry);
    let shared = History::of(by_then).records().into_iter();
    entries.extend(shared.map(|kind| Loose::new(kind, &*agent.source)));
    let pos = fork.entries.last().map(|(pos, _)| *pos).unwrap_or_default();
    let bodies = entries.iter().flat_map(|entry| entry.kind.bodies()).map(str::to_owned).collect();
    let origin = Origin {
        session: fork.session,
        agent: root,
        entry,
        pos,
        hash: fork.hash.clone(),
        entries: entries.len() as u64,
    };
    debug_assert_ne!(fork.session, to);
    Ok(Copied { origin, entries, bodies, source: agent.store.blobs(fork.session) })
}

/// Copies an agent's conversation for a child of the same session, in whose log it is.
pub(crate) async fn copy_agent(
    session: &Session,
    log: &dyn SessionLog,
    agent: AgentId,
) -> Result<Copied, AgentError> {
    let own = log.journal(agent).read().await?;
    let (path, entry) = path(session.id, own.iter().map(|(_, entry)| entry), None)?;
    let entries = copies(&path, &*session.source);
    let pos = own.last().map(|(pos, _)| *pos).unwrap_or_default();
    let (session, hash, count) = (session.id, None, entries.len() as u64);
    let origin = Origin { session, agent, entry, pos, hash, entries: count };
    Ok(Copied { origin, entries, bodies: HashSet::new(), source: log.blobs() })
}

/// Returns the path to an entry, or to the head, and where it ends.
fn path<'a>(
    session: SessionId,
    entries: impl Iterator<Item = &'a Entry>,
    at: Option<EntryId>,
) -> Result<(Vec<&'a Entry>, EntryId), AgentError> {
    let path = conversation::path(entries, at);
    let path = path.map_err(|id| AgentError::NotFound(format!("entry {id}")))?;
    for entry in &path {
        // What a later version thought critical, this one cannot copy without losing its meaning.
        if let Some(why) = entry.bars_writing() {
            return Err(JournalError::ReadOnly { session, why }.into());
        }
    }
    let last = path.last().map(|entry| entry.id);
    let last = last.ok_or_else(|| AgentError::NotFound("an entry to fork at".to_owned()))?;
    Ok((path, last))
}

/// Copies the entries of a path, and ends the calls that are open where it ends.
fn copies(path: &[&Entry], ids: &dyn Source) -> Vec<Loose> {
    let mut open: Vec<CallId> = Vec::new();
    let mut copies = Vec::new();
    let mut renamed = HashMap::new();
    for entry in path {
        match &entry.kind {
            // What waited there waits for that session, not for this one.
            EntryKind::Created(_) | EntryKind::Posted(_) | EntryKind::Head(_) => continue,
            // What waited for its results there does not go on here.
            EntryKind::RunStarted(_) => open.clear(),
            EntryKind::Assistant(said) if said.broken.is_none() => {
                open.extend(said.message.tool_calls().map(|call| call.id.clone()));
            }
            EntryKind::StepTaken(taken) => open.push(taken.call.id.clone()),
            EntryKind::CallEnded(ended) => open.retain(|call| *call != ended.call),
            _ => {}
        }
        let mut copy = Loose::of(entry, ids);
        renamed.insert(entry.id, copy.id);
        if let Some(named) = copy.named() {
            *named = renamed.get(named).copied().unwrap_or(*named);
        }
        copies.push(copy);
    }
    for call in open {
        let why = "skipped: this conversation was forked while the call was open";
        let ended = CallEnded::unheard(call, CallStatus::Skipped, why);
        copies.push(Loose::new(EntryKind::CallEnded(ended), ids));
    }
    copies
}
