//! The laws that every [`Store`] must hold to, as code.
//!
//! [`check`] runs all of them against a store and panics with the name of the law that is broken.
//! A store passes when
//!
//! ```
//! use std::sync::Arc;
//! use bowline_store::{Memory, conformance};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! conformance::check(|| {
//!     let memory = Memory::default();
//!     Box::new(move || Arc::new(memory.clone()))
//! })
//! .await;
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! returns. It expects a Tokio runtime with time and IO enabled. What is lost with the power cannot
//! be tested from within a program; the death of a process is played by dropping all handles
//! without syncing and opening the place anew.

mod blob_laws;
mod inbox_laws;
mod log_laws;
mod writer_laws;

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::entry::{Custom, Entry, EntryKind, VERSION};
use bowline_agent::id::{AgentId, EntryId, OpId, SessionId, Source as _, SystemSource};
use bowline_agent::journal::{Pos, SessionLog, Store};
use bowline_agent::op::{Input, Op, OpKind};
use bowline_llm::RawJson;

/// Opens a store over one place: each call does what a new process would do there.
pub type Opener = Box<dyn Fn() -> Arc<dyn Store> + Send + Sync>;

/// Checks all laws, each in a place of its own that `fresh` makes.
///
/// # Panics
/// If a law is broken; the message tells which one.
pub async fn check(fresh: impl Fn() -> Opener) {
    log_laws::check(&fresh).await;
    writer_laws::check(&fresh).await;
    inbox_laws::check(&fresh).await;
    blob_laws::check(&fresh).await;
}

/// Returns a new session's id.
pub fn session() -> SessionId {
    SessionId::new(&SystemSource)
}

/// Returns an entry that is in nobody's way: a custom one.
pub fn entry(agent: AgentId, text: &str) -> Entry {
    let data = RawJson::of(&text).unwrap_or_else(|error| broken("text is JSON", &error));
    Entry {
        v: VERSION,
        id: EntryId::new(&SystemSource),
        parent: None,
        at: SystemSource.now(),
        agent,
        critical: false,
        active_ms: None,
        kind: EntryKind::Custom(Custom { name: "conformance".into(), call: None, data }),
    }
}

/// Returns a new prompt.
pub fn prompt(text: &str) -> Op {
    Op {
        id: OpId::new(&SystemSource),
        to: None,
        at: SystemSource.now(),
        kind: OpKind::Prompt(Input::from(text)),
    }
}

/// Makes a session with one commit and lets go of it.
async fn small_session(store: &dyn Store) -> SessionId {
    let id = session();
    append(&*store.create(id), id.root(), 0, &[entry(id.root(), "first")]).await;
    id
}

async fn append(log: &dyn SessionLog, agent: AgentId, after: u64, entries: &[Entry]) -> Pos {
    let appended = log.journal(agent).append(bowline_agent::journal::Seq(after), entries).await;
    appended.unwrap_or_else(|error| broken("an append to the end of a log succeeds", &error))
}

async fn open(store: &dyn Store, id: SessionId) -> Arc<dyn SessionLog> {
    let opened = store.open(id).await;
    opened.unwrap_or_else(|error| broken("a session that nobody holds can be opened", &error))
}

async fn entries_of(log: &dyn SessionLog) -> Vec<(Pos, Entry)> {
    let read = log.read(Pos(0)).await;
    read.unwrap_or_else(|error| broken("a log can be read", &error))
}

/// Pairs entries with the positions from `first` on.
fn at(first: u64, entries: &[Entry]) -> Vec<(Pos, Entry)> {
    (first..).map(Pos).zip(entries.iter().cloned()).collect()
}

/// Waits for what must come, but not for ever.
async fn soon<T>(law: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(value) => value,
        Err(error) => broken(law, &error),
    }
}

#[expect(clippy::panic, reason = "to panic is how a broken law is told")]
#[track_caller]
fn broken(law: &str, how: &dyn std::fmt::Debug) -> ! {
    panic!("the store breaks the law that {law}: {how:?}")
}

/// Checks one statement of a law.
macro_rules! law {
    ($law:expr, $holds:expr) => {
        if !$holds {
            crate::conformance::broken($law, &stringify!($holds));
        }
    };
}
/// Checks that two values are the same.
macro_rules! law_eq {
    ($law:expr, $left:expr, $right:expr) => {
        let (left, right) = (&$left, &$right);
        if left != right {
            crate::conformance::broken($law, &(left, right));
        }
    };
}
use {law, law_eq};
