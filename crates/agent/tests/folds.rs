//! What the folds make of unusual logs: rewinds, replies that do not count, later versions.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

use std::sync::Arc;

use bowline_agent::entry::{CallStatus, Entry, EntryKind};
use bowline_agent::id::{EntryId, SystemSource};
use bowline_agent::journal::{Pos, Store as _};
use bowline_agent::op::Op;
use bowline_agent::tool::{Toolbox, tool_fn};
use bowline_agent::{Agent, ForkPoint, Memory, SessionHandle};
use bowline_llm::scripted::Reply;
use bowline_llm::{
    ErrorKind, Message, Messages, ModelError, Retry, ScriptedModel, StopReason, Usage, retry,
};
use pretty_assertions::assert_eq;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn agent(model: &ScriptedModel, store: &Memory) -> Agent {
    let work = tool_fn("work", "Works.", |_: Nothing, _| async { Ok("worked".into()) });
    let tools = Toolbox::default().with(work).unwrap();
    Agent { tools, store: Arc::new(store.clone()), ..Agent::new(Arc::new(model.clone())) }
}

async fn entries(store: &Memory, handle: &SessionHandle) -> Vec<(Pos, Entry)> {
    handle.close().await;
    store.open(handle.session_id()).await.unwrap().read(Pos(0)).await.unwrap()
}

fn find(entries: &[(Pos, Entry)], wanted: impl Fn(&EntryKind) -> bool) -> EntryId {
    entries.iter().find(|(_, entry)| wanted(&entry.kind)).unwrap().1.id
}

/// Says of every message who speaks, and how many calls it makes or answers.
fn shape(messages: &Messages) -> Vec<String> {
    messages
        .iter()
        .map(|message| match &**message {
            Message::User(_) => "user".to_owned(),
            Message::Assistant(said) => format!("assistant {}", said.tool_calls().count()),
            Message::Results(results) => format!("results {}", results.len()),
        })
        .collect()
}

#[tokio::test]
async fn a_rewind_into_a_call_leaves_it_closed_over_further_rewinds_and_forks() {
    let model = ScriptedModel::new([
        Reply::call("work", "{}"),
        Reply::text("a"),
        Reply::text("b"),
        Reply::text("c"),
        Reply::text("forked"),
    ]);
    let store = Memory::default();
    let handle = agent(&model, &store).start();
    handle.prompt("a").await.unwrap();
    let log = entries(&store, &handle).await;
    let called = find(&log, |kind| matches!(kind, EntryKind::Assistant(_)));
    let handle = agent(&model, &store).resume(handle.session_id()).await.unwrap();
    handle.rewind(Some(called)).await.unwrap();
    handle.prompt("b").await.unwrap();
    let end_of_b = handle.state().head;
    handle.prompt("c").await.unwrap();
    handle.rewind(end_of_b).await.unwrap();
    let valid = ["user", "assistant 1", "results 1", "user", "assistant 0"];
    assert_eq!(shape(&handle.messages()), valid);

    let session = handle.session_id();
    let entries = entries(&store, &handle).await;
    let fork = ForkPoint { session, entries, hash: None, at: None };
    let fork = agent(&model, &store).fork(fork).await.unwrap();
    fork.prompt("d").await.unwrap();
    let asked = model.requests().pop().unwrap();
    assert_eq!(shape(&asked.messages), [&valid[..], &["user"]].concat());
}

#[tokio::test]
async fn the_calls_of_a_reply_that_does_not_count_are_not_run() {
    for (stop, ending) in [
        (StopReason::Error, "error"),
        (StopReason::Refused, "error"),
        (StopReason::Other("paused".to_owned()), "error"),
        (StopReason::Canceled, "canceled"),
    ] {
        let cut = Reply::text("half").and_call("work", "{}").with_stop(stop.clone());
        let model = ScriptedModel::new([cut, Reply::text("next")]);
        let store = Memory::default();
        let handle = agent(&model, &store).start();
        let outcome = handle.prompt("go").await.unwrap();
        assert_eq!(outcome.ending.as_str(), ending, "{stop:?}");
        assert!(handle.prompt("again").await.unwrap().is_done());
        let entries = entries(&store, &handle).await;
        let statuses = entries.iter().filter_map(|(_, entry)| match &entry.kind {
            EntryKind::CallEnded(ended) => Some(ended.status),
            _ => None,
        });
        assert_eq!(statuses.collect::<Vec<_>>(), [CallStatus::Skipped]);
    }
}

#[tokio::test]
async fn after_a_rewind_to_nothing_the_model_is_told_again_where_it_is() {
    let model = ScriptedModel::new([Reply::text("a"), Reply::text("b"), Reply::text("c")]);
    let store = Memory::default();
    let agent = Agent { context: "in /here".to_owned(), ..agent(&model, &store) };
    let handle = agent.start();
    handle.prompt("one").await.unwrap();
    handle.prompt("two").await.unwrap();
    handle.rewind(None).await.unwrap();
    handle.prompt("three").await.unwrap();
    let told = model.requests().into_iter().map(|request| {
        let text = format!("{:?}", request.messages);
        text.matches("in /here").count()
    });
    assert_eq!(told.collect::<Vec<_>>(), [1, 1, 1]);
}

#[tokio::test]
async fn tokens_of_failed_attempts_count_when_the_run_is_stopped() {
    let spent = Usage { input: 7, output: 3, ..Usage::default() };
    let failed = ModelError { usage: spent, ..ModelError::new(ErrorKind::Overloaded, "busy") };
    let gate = bowline_llm::scripted::Gate::default();
    let model =
        ScriptedModel::new([Reply::error(failed), Reply::text("never seen").held_by(&gate)]);
    let policy =
        retry::Policy { base_delay: std::time::Duration::ZERO, ..retry::Policy::default() };
    let agent = Agent::new(Arc::new(Retry::new(model, policy)));
    let handle = agent.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.cancel();
    let outcome = run.await.unwrap();
    assert_eq!(outcome.ending.as_str(), "canceled");
    assert_eq!(outcome.spent.usage, spent);
}

#[tokio::test]
async fn an_open_run_keeps_the_effort_it_began_with() {
    use bowline_llm::Effort;
    let gate = bowline_llm::scripted::Gate::default();
    let model = ScriptedModel::new([Reply::text("x").held_by(&gate), Reply::text("y")]);
    let store = Memory::default();
    let first = Agent { effort: Some(Effort::High), ..agent(&model, &store) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reached = gate.clone();
    let session = std::thread::spawn(move || {
        let session = runtime.block_on(async {
            let handle = first.start();
            let _run = handle.prompt("go");
            reached.reached().await;
            handle.session_id()
        });
        // As near as a test gets to the death of the process.
        runtime.shutdown_background();
        session
    });
    let session = session.join().unwrap();
    let handle = agent(&model, &store).resume(session).await.unwrap();
    let run = handle.continue_run().await.unwrap().unwrap();
    assert!(run.await.unwrap().is_done());
    let efforts: Vec<_> = model.requests().iter().map(|request| request.effort).collect();
    assert_eq!(efforts, [Some(Effort::High), Some(Effort::High)]);
}

#[test]
fn a_known_kind_that_cannot_be_read_is_kept_and_critical() {
    let id = "0".repeat(32);
    let entry = |kind: &str, v: u32, data: &str| {
        let text = format!(
            r#"{{"v":{v},"id":"{id}","at":"2026-01-01T00:00:00Z","agent":"{id}","kind":"{kind}","data":{data}}}"#
        );
        (serde_json::from_str::<Entry>(&text).unwrap(), text)
    };
    let (known, _) = entry("canceled", 1, r#"{"reason":"user"}"#);
    assert!(matches!(known.kind, EntryKind::Canceled(_)) && !known.critical);
    let (later, _) = entry("canceled", 1, r#"{"reason":"boredom"}"#);
    assert!(matches!(later.kind, EntryKind::Unknown { .. }) && later.critical);
    let (newer, text) = entry("canceled", 2, r#"{ "reason" : "user" }"#);
    assert!(matches!(newer.kind, EntryKind::Unknown { .. }) && !newer.critical);
    assert_eq!(serde_json::to_string(&newer).unwrap(), text);
}

// A fork says what its origin says, also what only a later version understands.
#[tokio::test]
async fn what_a_later_version_wrote_is_forked_as_it_is() {
    let model = ScriptedModel::new([Reply::text("a"), Reply::text("b")]);
    let store = Memory::default();
    let handle = agent(&model, &store).start();
    handle.prompt("a").await.unwrap();
    let mut origin = entries(&store, &handle).await;
    let later = |kind: &str| {
        let data = bowline_llm::RawJson::parse(r#"{ "of" : "later" }"#).unwrap();
        EntryKind::Unknown { kind: kind.to_owned(), data }
    };
    let mut add = |v: u32, kind: EntryKind| {
        let (pos, last) = origin.last().unwrap().clone();
        let id = EntryId::new(&SystemSource);
        origin.push((Pos(pos.0 + 1), Entry { v, id, parent: Some(last.id), kind, ..last }));
    };
    add(1, later("dreamt"));
    add(7, later("user"));
    let fork = ForkPoint { session: handle.session_id(), entries: origin, hash: None, at: None };
    let fork = agent(&model, &store).fork(fork).await.unwrap();
    fork.prompt("b").await.unwrap();
    let forked = entries(&store, &fork).await;
    let unknown = forked.iter().filter_map(|(_, entry)| match &entry.kind {
        EntryKind::Unknown { kind, data } => Some((entry.v, kind.as_str(), data.as_str())),
        _ => None,
    });
    let data = r#"{ "of" : "later" }"#;
    assert_eq!(unknown.collect::<Vec<_>>(), [(1, "dreamt", data), (7, "user", data)]);
}

// Logs and inboxes were written before a wake could name the wait it is for.
#[test]
fn what_names_no_wait_is_read_and_written_as_ever() {
    let id = "0".repeat(32);
    for (kind, data) in [
        ("decided", format!(r#"{{"call":"call_1","decision":{{"allow":{{}}}},"op":"{id}"}}"#)),
        ("answered", format!(r#"{{"call":"call_1","text":"blue","op":"{id}"}}"#)),
        ("woken", r#"{"call":"call_1"}"#.to_owned()),
    ] {
        let text = format!(
            r#"{{"v":1,"id":"{id}","at":"2026-01-01T00:00:00Z","agent":"{id}","kind":"{kind}","data":{data}}}"#
        );
        let entry: Entry = serde_json::from_str(&text).unwrap();
        assert!(!matches!(entry.kind, EntryKind::Unknown { .. }), "{text}");
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
    }
    for kind in [
        r#"{"decide":{"call":"call_1","decision":{"deny":{"reason":"no"}}}}"#,
        r#"{"answer":{"call":"call_1","text":"blue"}}"#,
        r#"{"wake":{"call":"call_1"}}"#,
    ] {
        let text = format!(r#"{{"id":"{id}","at":"2026-01-01T00:00:00Z","kind":{kind}}}"#);
        let op: Op = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&op).unwrap(), text);
    }
}

#[tokio::test]
async fn a_call_that_was_cut_at_the_output_limit_is_not_run() {
    // The last one has no arguments yet, which otherwise would be an empty object.
    let cut = Reply::call("work", "{}").and_call("work", "").with_stop(StopReason::MaxTokens);
    let model = ScriptedModel::new([cut, Reply::text("again")]);
    let store = Memory::default();
    let handle = agent(&model, &store).start();
    assert!(handle.prompt("go").await.unwrap().is_done());
    let entries = entries(&store, &handle).await;
    let ended = entries.iter().filter_map(|(_, entry)| match &entry.kind {
        EntryKind::CallEnded(ended) => Some((ended.call.as_str(), ended.status)),
        _ => None,
    });
    let ended: std::collections::BTreeMap<_, _> = ended.collect();
    let statuses: Vec<_> = ended.into_values().collect();
    assert_eq!(statuses, [CallStatus::Ok, CallStatus::Error]);
}

#[tokio::test]
async fn what_a_later_version_thought_critical_is_not_forked() {
    let model = ScriptedModel::new([Reply::text("a")]);
    let store = Memory::default();
    let handle = agent(&model, &store).start();
    handle.prompt("a").await.unwrap();
    let mut entries = entries(&store, &handle).await;
    let last = &mut entries.last_mut().unwrap().1;
    let data = bowline_llm::RawJson::parse("{}").unwrap();
    last.kind = EntryKind::Unknown { kind: "compacted".to_owned(), data };
    last.critical = true;
    let fork = ForkPoint { session: handle.session_id(), entries, hash: None, at: None };
    let error = agent(&model, &store).fork(fork).await.unwrap_err();
    assert!(error.to_string().contains("compacted"), "{error}");
}
