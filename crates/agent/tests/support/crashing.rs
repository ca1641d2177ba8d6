//! A process that dies at a chosen commit, and what outlives it.

use std::collections::HashMap;
use std::future::pending;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bowline_agent::Memory;
use bowline_agent::entry::{Entry, EntryKind, Wake};
use bowline_agent::id::{AgentId, EntryId, OpId, SessionId, Source};
use bowline_agent::journal::{Blobs, Inbox, Journal, JournalError, Pos, Seq, SessionLog, Store};
use bowline_agent::op::{Decision, Op, OpKind};
use bowline_agent::tool::Recovery;
use bowline_llm::{CallId, Request};
use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

/// When, at its commit, a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

/// The commit at which a process dies, counted from 0 in its own life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) commit: usize,
    pub(crate) side: Side,
}

/// What outlives the processes: the store, and what a test has seen of all of them.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) memory: Memory,
    /// Which life this is, from 0.
    pub(crate) life: AtomicUsize,
    pub(crate) commits: Mutex<Vec<Vec<Entry>>>,
    pub(crate) requests: Mutex<Vec<(usize, Request)>>,
    pub(crate) runs: Mutex<Vec<Ran>>,
    pub(crate) recovery: Mutex<HashMap<String, Recovery>>,
    /// Tools that run now.
    pub(crate) running: AtomicUsize,
    /// How many entries the log held at each crash.
    pub(crate) crashes: Mutex<Vec<usize>>,
    /// How many fetches of model failures there were in each life.
    pub(crate) failures: Mutex<HashMap<(usize, String), usize>>,
}

/// A tool that began to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) life: usize,
    pub(crate) agent: AgentId,
    pub(crate) call: CallId,
}

impl World {
    pub(crate) fn session() -> SessionId {
        SessionId::new(&Clock::new(0))
    }

    pub(crate) fn life(&self) -> usize {
        self.life.load(Ordering::SeqCst)
    }

    /// Returns the entries of all agents, in order.
    pub(crate) fn log(&self) -> Vec<Entry> {
        self.commits.lock().unwrap().concat()
    }

    pub(crate) fn log_of(&self, agent: AgentId) -> Vec<Entry> {
        self.log().into_iter().filter(|entry| entry.agent == agent).collect()
    }

    /// Notes that a tool runs, until what is returned is dropped.
    pub(crate) fn runs(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        Running(Arc::clone(self))
    }

    pub(crate) fn ran(&self, agent: AgentId, call: &CallId) {
        let ran = Ran { life: self.life(), agent, call: call.clone() };
        self.runs.lock().unwrap().push(ran);
    }

    /// Posts an operation as another process would. The same name again changes nothing.
    pub(crate) fn post(&self, name: &str, to: Option<AgentId>, kind: OpKind) -> OpId {
        let id = OpId::from(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()));
        let op = Op { id, to, at: Timestamp::UNIX_EPOCH, kind };
        let posted = self.memory.inbox(Self::session()).post(op).now_or_never();
        posted.unwrap().unwrap();
        id
    }

    /// Does what a person does, and those who watch over jobs: answers every question in the log
    /// that is not answered yet.
    pub(crate) fn attend(&self) {
        let mut open: Vec<(AgentId, CallId, EntryId, Wake)> = Vec::new();
        for entry in self.log() {
            let agent = entry.agent;
            let over = match entry.kind {
                EntryKind::CallWaiting(waiting) => {
                    open.push((agent, waiting.call, entry.id, waiting.wake));
                    continue;
                }
                EntryKind::Decided(decided) => decided.call,
                EntryKind::Answered(answered) => answered.call,
                EntryKind::Woken(woken) => woken.call,
                EntryKind::CallEnded(ended) => ended.call,
                _ => continue,
            };
            open.retain(|(of, call, ..)| (*of, call) != (agent, &over));
        }
        for (agent, call, waiting, wake) in open {
            let waiting = Some(waiting);
            let to = (agent != Self::session().root()).then_some(agent);
            let name = format!("{agent} {call}");
            match wake {
                Wake::Decision { question, .. } if question.contains("nobody") => {}
                Wake::Decision { question, .. } => {
                    let decision = match question.contains("deny") {
                        true => Decision::Deny { reason: "no".to_owned() },
                        false => Decision::ONCE,
                    };
                    self.post(&name, to, OpKind::Decide { call, decision, waiting });
                }
                Wake::Answer { .. } => {
                    self.post(&name, to, OpKind::Answer { call, text: "blue".to_owned(), waiting });
                }
                Wake::Job(_) => {
                    self.post(&name, to, OpKind::Wake { call, waiting });
                }
                Wake::Parent { .. } | Wake::Agent { .. } | Wake::At(_) => {}
            }
        }
    }
}

/// A tool that runs.
pub(crate) struct Running(Arc<World>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ids and a time that are the same in every run of a test.
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// Makes the clock of a life: no two lives give the same id.
    pub(crate) fn new(life: u64) -> Self {
        Self(AtomicU64::new(life * 1_000_000))
    }
}

impl Source for Clock {
    fn id(&self) -> Uuid {
        Uuid::from_u128((1 << 120) + u128::from(self.0.fetch_add(1, Ordering::SeqCst)))
    }

    fn now(&self) -> Timestamp {
        let ms = i64::try_from(self.0.load(Ordering::SeqCst)).unwrap();
        Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap()
    }
}

/// What goes wrong with a store while the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The disk is full, from the commit on.
    Full,
    /// The commit finds another writer.
    Fenced,
    /// The commit is kept, and the answer is lost.
    Mute,
    /// The disk cannot be synced, from the commit on.
    Sync,
}

/// The store as one process sees it: from its death on, nothing gets in or out any more.
#[derive(Clone)]
pub(crate) struct Crashing {
    world: Arc<World>,
    process: Arc<Process>,
}

struct Process {
    cut: Option<Cut>,
    fault: Mutex<Option<(usize, Fault)>>,
    commits: AtomicUsize,
    dead: watch::Sender<bool>,
}

impl Crashing {
    pub(crate) fn new(world: &Arc<World>, cut: Option<Cut>) -> Self {
        let process = Process {
            cut,
            fault: Mutex::default(),
            commits: AtomicUsize::new(0),
            dead: watch::Sender::new(false),
        };
        Self { world: Arc::clone(world), process: Arc::new(process) }
    }

    /// Makes something go wrong at a commit.
    pub(crate) fn break_at(&self, commit: usize, fault: Fault) {
        *self.process.fault.lock().unwrap() = Some((commit, fault));
    }

    /// Mends what went wrong; returns whether anything did.
    pub(crate) fn mend(&self) -> bool {
        let commits = self.process.commits.load(Ordering::SeqCst);
        let mut fault = self.process.fault.lock().unwrap();
        fault.take_if(|(commit, _)| commits > *commit).is_some()
    }

    /// Returns what is wrong at a commit, and remembers it like a crash if it is the first.
    fn fault(&self, commit: usize) -> Option<Fault> {
        let (at, fault) = (*self.process.fault.lock().unwrap())?;
        let is_wrong = match fault {
            Fault::Full | Fault::Sync => commit >= at,
            Fault::Fenced | Fault::Mute => commit == at,
        };
        if is_wrong && commit == at {
            let kept = self.world.log().len();
            self.world.crashes.lock().unwrap().push(kept);
        }
        is_wrong.then_some(fault)
    }

    /// Returns when the process has died.
    pub(crate) async fn death(&self) {
        let mut dead = self.process.dead.subscribe();
        dead.wait_for(|dead| *dead).await.unwrap();
    }

    async fn live(&self) {
        if *self.process.dead.borrow() {
            pending::<()>().await;
        }
    }

    async fn die(&self) {
        self.world.crashes.lock().unwrap().push(self.world.log().len());
        self.process.dead.send_replace(true);
        pending::<()>().await;
    }
}

fn broken() -> JournalError {
    JournalError::io("append", std::io::Error::other("no space left on device"))
}

struct In<T: ?Sized> {
    store: Crashing,
    inner: Arc<T>,
}

impl<T: ?Sized> In<T> {
    fn of(store: &Crashing, inner: Arc<T>) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), inner })
    }
}

#[async_trait]
impl Store for Crashing {
    fn create(&self, id: SessionId) -> Arc<dyn SessionLog> {
        In::of(self, self.world.memory.create(id))
    }

    async fn open(&self, id: SessionId) -> Result<Arc<dyn SessionLog>, JournalError> {
        Ok(In::of(self, self.world.memory.open(id).await?))
    }

    fn inbox(&self, id: SessionId) -> Arc<dyn Inbox> {
        In::of(self, self.world.memory.inbox(id))
    }

    fn blobs(&self, id: SessionId) -> Arc<dyn Blobs> {
        In::of(self, self.world.memory.blobs(id))
    }
}

#[async_trait]
impl SessionLog for In<dyn SessionLog> {
    fn journal(&self, agent: AgentId) -> Arc<dyn Journal> {
        In::of(&self.store, self.inner.journal(agent))
    }

    async fn read(&self, from: Pos) -> Result<Vec<(Pos, Entry)>, JournalError> {
        self.store.live().await;
        self.inner.read(from).await
    }

    fn tip(&self) -> (Pos, Option<String>) {
        self.inner.tip()
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        In::of(&self.store, self.inner.inbox())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        In::of(&self.store, self.inner.blobs())
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }

    async fn sync(&self) -> Result<(), JournalError> {
        self.store.live().await;
        let commits = self.store.process.commits.load(Ordering::SeqCst);
        let fault = *self.store.process.fault.lock().unwrap();
        if fault.is_some_and(|(at, fault)| fault == Fault::Sync && commits > at) {
            return Err(broken());
        }
        self.inner.sync().await
    }
}

#[async_trait]
impl Journal for In<dyn Journal> {
    async fn append(&self, after: Seq, entries: &[Entry]) -> Result<Pos, JournalError> {
        self.store.live().await;
        let commit = self.store.process.commits.fetch_add(1, Ordering::SeqCst);
        let side = self.store.process.cut.filter(|cut| cut.commit == commit).map(|cut| cut.side);
        if side == Some(Side::Before) {
            self.store.die().await;
        }
        let fault = self.store.fault(commit);
        match fault {
            Some(Fault::Full) => return Err(broken()),
            Some(Fault::Fenced) => return Err(JournalError::Fenced(entries[0].agent)),
            Some(Fault::Mute | Fault::Sync) | None => {}
        }
        let pos = self.inner.append(after, entries).await?;
        self.store.world.commits.lock().unwrap().push(entries.to_vec());
        if fault == Some(Fault::Mute) {
            self.store.world.crashes.lock().unwrap().pop();
            let kept = self.store.world.log().len();
            self.store.world.crashes.lock().unwrap().push(kept);
            self.store.world.attend();
            return Err(broken());
        }
        if side == Some(Side::After) {
            self.store.die().await;
        }
        if entries.iter().any(|entry| matches!(entry.kind, EntryKind::CallWaiting(_))) {
            self.store.world.attend();
        }
        Ok(pos)
    }

    async fn read(&self) -> Result<Vec<(Pos, Entry)>, JournalError> {
        self.store.live().await;
        self.inner.read().await
    }
}

#[async_trait]
impl Inbox for In<dyn Inbox> {
    async fn post(&self, op: Op) -> Result<(), JournalError> {
        self.store.live().await;
        self.inner.post(op).await
    }

    async fn take(&self) -> Result<Vec<Op>, JournalError> {
        self.store.live().await;
        self.inner.take().await
    }

    async fn forget(&self, ops: &[OpId]) -> Result<(), JournalError> {
        self.store.live().await;
        self.inner.forget(ops).await
    }

    async fn changed(&self) {
        self.store.live().await;
        self.inner.changed().await;
    }
}

#[async_trait]
impl Blobs for In<dyn Blobs> {
    async fn put(&self, body: &[u8]) -> Result<String, JournalError> {
        self.store.live().await;
        self.inner.put(body).await
    }

    async fn get(&self, hash: &str) -> Result<Vec<u8>, JournalError> {
        self.store.live().await;
        self.inner.get(hash).await
    }
}
