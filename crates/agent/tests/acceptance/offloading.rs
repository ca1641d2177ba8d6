//! `offload`: large old results that the model can have back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bowline_agent::effect::{Compact, Offload, ToolScope};
use bowline_agent::entry::Entry;
use bowline_agent::id::{AgentId, SessionId, SystemSource};
use bowline_agent::journal::{Blobs, Inbox, Journal, JournalError, Pos, Seq, SessionLog, Store};
use bowline_agent::tool::{Access, ToolContext, ToolError, tool_fn};
use bowline_agent::{ForkPoint, Memory, SessionHandle};
use bowline_llm::scripted::Reply;
use bowline_llm::{CallId, Message, Request, text_of};
use pretty_assertions::assert_eq;

use crate::narrow::{compactions, read, within};
use crate::support::{Stage, Text, hear, log_of};

fn reads(id: &str, bytes: usize) -> Reply {
    Reply::text("look").and_call_with_id(id, "read", format!(r#"{{"text":"{id}.{bytes}"}}"#))
}

fn recalls(id: &str, of: &str) -> Reply {
    Reply::text("back").and_call_with_id(id, "recall", format!(r#"{{"id":"{of}"}}"#))
}

/// Reads files `r0`, `r1` and so on, then goes on with `rest`.
fn stage(window: u64, files: usize, bytes: usize, rest: Vec<Reply>) -> Stage {
    let speak = move |turn: usize, _: &Request| match turn.checked_sub(files) {
        None => reads(&format!("r{turn}"), bytes),
        Some(at) => rest.get(at).cloned().unwrap_or_else(|| Reply::text("done")),
    };
    within(window, Offload::default(), |_| panic!("asked"), speak).with(read())
}

fn content(id: &str, bytes: usize) -> String {
    format!("{id}.{bytes}\n{}", "x".repeat(bytes))
}

/// Returns what the model sees of a call's result in its latest request.
fn shown(stage: &Stage, id: &str) -> String {
    shown_in(&stage.model.requests().pop().unwrap(), id)
}

fn shown_in(request: &Request, id: &str) -> String {
    let results = request.messages.iter().filter_map(|message| match &**message {
        Message::Results(results) => Some(results.clone()),
        _ => None,
    });
    let result = results.flatten().find(|result| result.call.as_str() == id);
    text_of(&result.unwrap_or_else(|| panic!("no result of {id}")).content)
}

async fn fork_of(handle: &SessionHandle) -> ForkPoint {
    let entries = log_of(handle.session_id()).await;
    ForkPoint { session: handle.session_id(), entries, at: None, hash: None }
}

#[tokio::test]
async fn large_old_results_are_put_away_and_recalled() {
    let rest = vec![recalls("a", "r0"), recalls("b", "r99")];
    let stage = stage(12_000, 8, 3_000, rest);
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(compactions(&told), ["effect(offload rewrite)", "cache_break(offload)"]);
    let before_recall = &stage.model.requests()[8];
    for id in ["r0", "r1"] {
        let hint = format!("Call recall with id \"{id}\"");
        let shown = shown_in(before_recall, id);
        assert!(shown.contains(&hint) && shown.contains("3008 characters"), "{shown}");
        let preview = content(id, 3_000).replace('\n', " ")[..200].to_owned();
        assert!(shown.contains(&format!("It begins: {preview}...")), "{shown}");
    }
    // So many of the latest results stay as they are as is said.
    for id in ["r2", "r3", "r4", "r5", "r6", "r7"] {
        assert_eq!(shown_in(before_recall, id), content(id, 3_000));
    }
    assert_eq!(told.result("a"), content("r0", 3_000));
    let log = told.ends();
    assert!(log.last().unwrap().contains("error"), "{log:#?}");
}

// B8
#[tokio::test]
async fn small_results_errors_and_the_latest_stay() {
    let fail = async |_: Text, _| Err(ToolError::failed("e".repeat(4_000)));
    let fail = tool_fn("fail", "Fails.", fail).with_access(Access::none());
    let speak = |turn: usize, _: &Request| match turn {
        0 => Reply::text("try").and_call_with_id("f", "fail", "{}"),
        1..12 => reads(&format!("r{turn}"), 1_900),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Offload::default(), |_| panic!("asked"), speak);
    let stage = stage.with(read()).with(fail);
    let told = stage.play().await;
    assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
    assert_eq!(shown(&stage, "f"), "e".repeat(4_000));
}

// B7
/// What was put away can be had in a later run, in another process, in a fork, and after going back.
#[tokio::test]
async fn recall_works_as_long_as_the_session_is_there() {
    let mut rest = vec![Reply::text("done")];
    for (id, text) in [("a", "again"), ("b", "resumed"), ("c", "forked"), ("d", "rewound")] {
        rest.extend([recalls(id, "r0"), Reply::text(text)]);
    }
    let stage = stage(12_000, 8, 3_000, rest);
    let handle = stage.start();
    let whole = content("r0", 3_000);
    let told = hear(handle.prompt("go")).await;
    assert_eq!(compactions(&told).len(), 2);
    assert!(shown(&stage, "r0").contains("Call recall"));
    let after_first = handle.state().head;
    let told = hear(handle.prompt("more")).await;
    assert_eq!((told.text().as_str(), told.result("a")), ("again", whole.clone()));
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(id).await.unwrap();
    let told = hear(handle.prompt("more")).await;
    assert_eq!((told.text().as_str(), told.result("b")), ("resumed", whole.clone()));
    let fork = stage.agent.fork(fork_of(&handle).await).await.unwrap();
    let told = hear(fork.prompt("more")).await;
    assert_eq!((told.text().as_str(), told.result("c")), ("forked", whole.clone()));
    handle.rewind(after_first).await.unwrap();
    let told = hear(handle.prompt("more")).await;
    assert_eq!((told.text().as_str(), told.result("d")), ("rewound", whole));
}

/// Also what lies beside the log because it is large, and what was cut before it was shown.
#[tokio::test]
async fn what_lies_beside_the_log_is_recalled_too() {
    for (output_bytes, bytes) in [(0, 300_000), (10_000, 20_000)] {
        let speak = move |turn: usize, _: &Request| match turn {
            0 => reads("big", bytes),
            1..8 => reads(&format!("r{turn}"), 100),
            8 => recalls("back", "big"),
            _ => Reply::text("done"),
        };
        let offload = Offload { threshold: 0.02, ..Offload::default() };
        let stage = within(100_000, offload, |_| panic!("asked"), speak).with(read());
        let stage = stage.change(|agent| agent.limits.output_bytes = output_bytes);
        let told = stage.play().await;
        assert_eq!(told.text(), "done");
        let first = shown_in(&stage.model.requests()[1], "big");
        let hint = shown(&stage, "big");
        assert!(hint.contains("Call recall with id \"big\""), "{hint}");
        assert_eq!(shown(&stage, "back"), first);
    }
}

/// A session whose agents' logs cannot be read while somebody says so.
#[derive(Debug, Default)]
struct Shut {
    memory: Memory,
    is_shut: Arc<AtomicBool>,
}

/// What is inside, behind the same door.
struct Behind<T: ?Sized>(Arc<T>, Arc<AtomicBool>);

#[async_trait]
impl Store for Shut {
    fn create(&self, id: SessionId) -> Arc<dyn SessionLog> {
        Arc::new(Behind(self.memory.create(id), Arc::clone(&self.is_shut)))
    }

    async fn open(&self, id: SessionId) -> Result<Arc<dyn SessionLog>, JournalError> {
        Ok(Arc::new(Behind(self.memory.open(id).await?, Arc::clone(&self.is_shut))))
    }

    fn inbox(&self, id: SessionId) -> Arc<dyn Inbox> {
        self.memory.inbox(id)
    }

    fn blobs(&self, id: SessionId) -> Arc<dyn Blobs> {
        self.memory.blobs(id)
    }
}

#[async_trait]
impl SessionLog for Behind<dyn SessionLog> {
    fn journal(&self, agent: AgentId) -> Arc<dyn Journal> {
        Arc::new(Behind(self.0.journal(agent), Arc::clone(&self.1)))
    }

    async fn read(&self, from: Pos) -> Result<Vec<(Pos, Entry)>, JournalError> {
        self.0.read(from).await
    }

    fn tip(&self) -> (Pos, Option<String>) {
        self.0.tip()
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        self.0.inbox()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.0.blobs()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.0.folder()
    }

    async fn sync(&self) -> Result<(), JournalError> {
        self.0.sync().await
    }
}

#[async_trait]
impl Journal for Behind<dyn Journal> {
    async fn append(&self, after: Seq, entries: &[Entry]) -> Result<Pos, JournalError> {
        self.0.append(after, entries).await
    }

    async fn read(&self) -> Result<Vec<(Pos, Entry)>, JournalError> {
        if self.1.load(Ordering::SeqCst) {
            return Err(JournalError::NotFound("the whole log".to_owned()));
        }
        self.0.read().await
    }
}

/// However long the log is, and after a resume too. What was never put away is in the log only.
#[tokio::test]
async fn what_was_put_away_is_recalled_without_reading_the_log() {
    let rest = [
        Reply::text("done"),
        recalls("a", "r0"),
        Reply::text("once"),
        recalls("b", "r0"),
        recalls("c", "r7"),
        Reply::text("twice"),
    ];
    let store = Shut::default();
    let is_shut = Arc::clone(&store.is_shut);
    let stage = stage(12_000, 8, 3_000, rest.into());
    let stage = stage.change(|agent| agent.store = Arc::new(store));
    let handle = stage.start();
    handle.prompt("go").await.unwrap();
    assert!(shown(&stage, "r0").contains("Call recall"));
    is_shut.store(true, Ordering::SeqCst);
    handle.prompt("more").await.unwrap();
    assert_eq!(shown(&stage, "a"), content("r0", 3_000));
    is_shut.store(false, Ordering::SeqCst);
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(id).await.unwrap();
    is_shut.store(true, Ordering::SeqCst);
    handle.prompt("more").await.unwrap();
    assert_eq!(shown(&stage, "b"), content("r0", 3_000));
    assert!(shown(&stage, "c").contains("cannot read the log"), "{}", shown(&stage, "c"));
}

/// What says how to get a result back is not shortened away by another effect.
#[tokio::test]
async fn compact_leaves_what_says_how_to_recall() {
    let speak = |turn: usize, _: &Request| match turn {
        0..30 => reads(&format!("r{turn}"), 3_000),
        _ => Reply::text("done"),
    };
    let stage = within(12_000, Offload::default(), |_| Reply::text("notes"), speak).with(read());
    let stage = stage.change(|agent| {
        let compact = Compact { threshold: 0.45, ..Compact::default() };
        agent.effects.push(Arc::new(compact));
    });
    let told = stage.play().await;
    let said = compactions(&told);
    assert!(said.iter().any(|line| line == "cache_break(offload)"), "{said:#?}");
    assert!(said.iter().any(|line| line == "cache_break(compact)"), "{said:#?}");
    let log = log_of(told.events[0].session).await;
    let mut away = std::collections::HashSet::new();
    for rewrite in crate::masking::rewrites(&log) {
        for shown in rewrite.results {
            assert!(!away.contains(&shown.call), "{} was put away", shown.call);
            if text_of(&shown.content).contains("Call recall") {
                away.insert(shown.call);
            }
        }
    }
    assert!(!away.is_empty());
}

#[tokio::test]
async fn without_a_way_back_nothing_is_put_away() {
    let stage = stage(12_000, 8, 3_000, Vec::new()).change(|agent| {
        let scope = ToolScope { exclude: vec!["recall".into()], ..ToolScope::default() };
        agent.effects.push(Arc::new(scope));
    });
    let told = stage.play().await;
    assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
}

#[tokio::test]
async fn without_a_log_there_is_nothing_to_recall() {
    let cx = ToolContext::standalone(Arc::new(SystemSource), None);
    assert_eq!(cx.result_of(&CallId::from("a")).await.unwrap(), None);
}

#[test]
fn what_makes_no_sense_is_named() {
    let default = Offload::default();
    assert!(default.clone().checked().is_ok());
    assert_eq!((default.threshold, default.min_result_len, default.recent_window), (0.5, 2_000, 6));
    // B8: so it is too where nothing is said of it.
    let unsaid: Offload = serde_json::from_str(r#"{"threshold": 0.4}"#).unwrap();
    assert_eq!((unsaid.threshold, unsaid.min_result_len, unsaid.recent_window), (0.4, 2_000, 6));
    let error = Offload { threshold: 0.0, ..Offload::default() }.checked().unwrap_err();
    assert_eq!(error, "threshold must be more than 0 and at most 1");
    let error = Offload { recent_window: 0, ..Offload::default() }.checked().unwrap_err();
    assert_eq!(error, "recent_window must be at least 1");
}
