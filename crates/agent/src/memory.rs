//! The store that forgets: sessions in memory.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::entry::Entry;
use crate::id::{AgentId, EntryId, OpId, SessionId};
use crate::journal::{Blobs, Inbox, Journal, JournalError, Pos, Seq, SessionLog, Store};
use crate::op::Op;

/// Sessions that live as long as the store: for embedding, for tests, for runs that leave nothing.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    sessions: Arc<Mutex<HashMap<SessionId, Arc<Session>>>>,
}

#[derive(Debug, Default)]
struct Session {
    state: Mutex<State>,
    // How many operations were posted.
    posts: watch::Sender<u64>,
    // Alive while somebody writes to the session.
    writer: Mutex<Weak<()>>,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    // Where the entries of each agent are.
    agents: HashMap<AgentId, Vec<Pos>>,
    positions: HashMap<EntryId, Pos>,
    inbox: Vec<Op>,
    // Posting is idempotent for as long as the session lives.
    posted: HashSet<OpId>,
    blobs: HashMap<String, Vec<u8>>,
}

impl Memory {
    fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        lock(&self.sessions).get(&id).cloned()
    }
}

#[async_trait]
impl Store for Memory {
    fn create(&self, id: SessionId) -> Arc<dyn SessionLog> {
        let session = Arc::clone(lock(&self.sessions).entry(id).or_default());
        let alive = Arc::new(());
        *lock(&session.writer) = Arc::downgrade(&alive);
        Arc::new(Held { id, session, alive })
    }

    async fn open(&self, id: SessionId) -> Result<Arc<dyn SessionLog>, JournalError> {
        let missing = || JournalError::NotFound(format!("session {id}"));
        let session = self.session(id).ok_or_else(missing)?;
        let state = lock(&session.state);
        if state.entries.is_empty() {
            return Err(missing());
        }
        let barred = state.entries.iter().find_map(Entry::bars_writing);
        drop(state);
        if let Some(why) = barred {
            return Err(JournalError::ReadOnly { session: id, why });
        }
        let alive = Arc::new(());
        let mut writer = lock(&session.writer);
        if writer.strong_count() > 0 {
            return Err(JournalError::Busy { session: id, pid: std::process::id() });
        }
        *writer = Arc::downgrade(&alive);
        drop(writer);
        Ok(Arc::new(Held { id, session, alive }))
    }

    fn inbox(&self, id: SessionId) -> Arc<dyn Inbox> {
        match self.session(id) {
            Some(session) => Arc::new(Letterbox::new(session)),
            None => Arc::new(Nowhere { id }),
        }
    }

    fn blobs(&self, id: SessionId) -> Arc<dyn Blobs> {
        let session = self.session(id).unwrap_or_default();
        Arc::new(Bodies { id, session })
    }
}

/// A session held by its writer.
struct Held {
    id: SessionId,
    session: Arc<Session>,
    alive: Arc<()>,
}

#[async_trait]
impl SessionLog for Held {
    fn journal(&self, agent: AgentId) -> Arc<dyn Journal> {
        let _writer = Arc::clone(&self.alive);
        Arc::new(Log { agent, session: Arc::clone(&self.session), _writer })
    }

    async fn read(&self, from: Pos) -> Result<Vec<(Pos, Entry)>, JournalError> {
        let state = lock(&self.session.state);
        Ok((0..)
            .map(Pos)
            .zip(state.entries.iter().cloned())
            .skip_while(|(pos, _)| *pos < from)
            .collect())
    }

    fn tip(&self) -> (Pos, Option<String>) {
        (Pos(lock(&self.session.state).entries.len() as u64), None)
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(Letterbox::new(Arc::clone(&self.session)))
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(Bodies { id: self.id, session: Arc::clone(&self.session) })
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }

    async fn sync(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

struct Log {
    agent: AgentId,
    session: Arc<Session>,
    _writer: Arc<()>,
}

#[async_trait]
impl Journal for Log {
    async fn append(&self, after: Seq, entries: &[Entry]) -> Result<Pos, JournalError> {
        let mut state = lock(&self.session.state);
        let known: Vec<_> =
            entries.iter().map(|entry| state.positions.get(&entry.id).copied()).collect();
        match known.first() {
            Some(&Some(pos)) if known.iter().all(Option::is_some) => return Ok(pos),
            // Some of them were written by somebody who went on differently.
            _ if known.iter().any(Option::is_some) => return Err(JournalError::Fenced(self.agent)),
            _ => {}
        }
        let State { entries: all, agents, positions, .. } = &mut *state;
        let own = agents.entry(self.agent).or_default();
        if own.len() as u64 != after.0 {
            return Err(JournalError::Fenced(self.agent));
        }
        let first = Pos(all.len() as u64);
        for (pos, entry) in (first.0..).map(Pos).zip(entries) {
            positions.insert(entry.id, pos);
            own.push(pos);
            all.push(entry.clone());
        }
        Ok(first)
    }

    async fn read(&self) -> Result<Vec<(Pos, Entry)>, JournalError> {
        let state = lock(&self.session.state);
        let own = state.agents.get(&self.agent).into_iter().flatten();
        let entry = |pos: &Pos| Some((*pos, state.entries.get(pos.0 as usize)?.clone()));
        Ok(own.filter_map(entry).collect())
    }
}

/// The inbox of a session there is.
struct Letterbox {
    session: Arc<Session>,
    // How many operations had been posted when it was last looked into.
    seen: AtomicU64,
}

impl Letterbox {
    fn new(session: Arc<Session>) -> Self {
        Self { session, seen: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Inbox for Letterbox {
    async fn post(&self, op: Op) -> Result<(), JournalError> {
        let mut state = lock(&self.session.state);
        if state.posted.insert(op.id) {
            state.inbox.push(op);
            self.session.posts.send_modify(|posts| *posts += 1);
        }
        Ok(())
    }

    async fn take(&self) -> Result<Vec<Op>, JournalError> {
        let state = lock(&self.session.state);
        self.seen.store(*self.session.posts.borrow(), Ordering::Relaxed);
        Ok(state.inbox.clone())
    }

    async fn forget(&self, ops: &[OpId]) -> Result<(), JournalError> {
        lock(&self.session.state).inbox.retain(|op| !ops.contains(&op.id));
        Ok(())
    }

    async fn changed(&self) {
        let mut posts = self.session.posts.subscribe();
        // The session, and with it the sender, lives as long as this inbox.
        let _ = posts.wait_for(|posts| *posts != self.seen.load(Ordering::Relaxed)).await;
    }
}

/// The inbox of a session there is not.
struct Nowhere {
    id: SessionId,
}

#[async_trait]
impl Inbox for Nowhere {
    async fn post(&self, _op: Op) -> Result<(), JournalError> {
        Err(JournalError::NotFound(format!("session {}", self.id)))
    }

    async fn take(&self) -> Result<Vec<Op>, JournalError> {
        Ok(Vec::new())
    }

    async fn forget(&self, _ops: &[OpId]) -> Result<(), JournalError> {
        Ok(())
    }

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }
}

struct Bodies {
    id: SessionId,
    session: Arc<Session>,
}

#[async_trait]
impl Blobs for Bodies {
    async fn put(&self, body: &[u8]) -> Result<String, JournalError> {
        let hash = hex(&Sha256::digest(body));
        lock(&self.session.state).blobs.insert(hash.clone(), body.to_vec());
        Ok(hash)
    }

    async fn get(&self, hash: &str) -> Result<Vec<u8>, JournalError> {
        let state = lock(&self.session.state);
        let missing = || JournalError::NotFound(format!("blob {hash} of session {}", self.id));
        state.blobs.get(hash).cloned().ok_or_else(missing)
    }
}

/// Writes bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
