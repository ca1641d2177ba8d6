//! Permission for more than one call: the very same is asked once, and a rule may hold for a session.

use std::sync::Arc;

use bowline_agent::children::Child;
use bowline_agent::entry::{CallWaiting, Ending, EntryKind, Wake};
use bowline_agent::event::EventBody;
use bowline_agent::gate::{Review, Verdict, gate_fn};
use bowline_agent::id::AgentId;
use bowline_agent::op::{CancelReason, Decision, Op, OpKind, Scope};
use bowline_agent::tool::ToolContext;
use bowline_agent::{Agent, SessionHandle};
use bowline_llm::CallId;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use crate::support::{
    Stage, Told, crashed, echo, hear, like, log_of, op, stage, tool, until_waiting, waits,
};

const ASK: &str = r#"{"text":"ask"}"#;

/// Asks about `echo`, and takes `echo` for a rule that lets all of it pass.
fn asks(review: &Review<'_>) -> Verdict {
    if review.call.name != "echo" || review.granted.iter().any(|rule| rule == "echo") {
        return Verdict::Allow { rule: None };
    }
    match review.decision {
        None => Verdict::Wait { question: "may I?".to_owned(), rule: Some("echo".to_owned()) },
        Some(Decision::Allow { .. }) => Verdict::Allow { rule: Some("a person".to_owned()) },
        Some(Decision::Deny { reason }) => Verdict::Deny { reason: reason.clone() },
    }
}

fn asking(replies: impl IntoIterator<Item = Reply>) -> Stage {
    stage(replies).with(echo()).change(|agent| agent.gate = Arc::new(gate_fn(asks)))
}

fn requests(told: &Told) -> usize {
    let is_request = |body: &&EventBody| matches!(body, EventBody::PermissionRequest { .. });
    told.events.iter().map(|event| &event.body).filter(is_request).count()
}

/// A tool that has two sub-agents do the same at the same time.
fn two_children(parent: &Agent) -> impl bowline_agent::tool::DynTool + 'static {
    let child = |name: &str| {
        let (_, mut child) = like(parent, name, [Reply::call("echo", ASK), Reply::text("did it")]);
        child.tools.add(Arc::new(echo())).unwrap();
        child.gate = Arc::new(gate_fn(asks));
        child
    };
    let (one, other) = (child("one"), child("other"));
    tool("both", move |_, cx: ToolContext| {
        let (one, other) = (one.clone(), other.clone());
        async move {
            let work = async |agent: Agent, key: &str| {
                let child = Child { key: Some(key.to_owned()), ..Child::new(agent) };
                let child = cx.children.create(child).await.unwrap();
                let outcome = child.prompt("do it").await.unwrap();
                format!("{:?} {}", outcome.ending, outcome.text())
            };
            let (one, other) = tokio::join!(work(one, "one"), work(other, "other"));
            Ok(format!("{one}, {other}").into())
        }
    })
}

#[tokio::test]
async fn two_calls_that_want_the_same_ask_once() {
    let reply = Reply::call("echo", ASK).and_call("echo", ASK);
    let stage = asking([reply, Reply::text("done")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    handle.decide("call_1".into(), Decision::ONCE).await.unwrap();
    let told = hear(run).await;
    let told_of = |what: &str| {
        let lines = waits(&told);
        lines.into_iter().filter(|line| line.starts_with(what)).collect::<Vec<_>>()
    };
    assert_eq!(told_of("permission_request"), ["permission_request(call_1, \"may I?\")"]);
    let decisions = ["permission_decision(call_1, allow)", "permission_decision(call_2, allow)"];
    assert_eq!(told_of("permission_decision"), decisions);
    assert_eq!(
        (told.result("call_1"), told.result("call_2")),
        ("ask".to_owned(), "ask".to_owned())
    );
}

#[tokio::test]
async fn what_is_denied_is_denied_to_all_that_asked_the_same() {
    let reply = Reply::call("echo", ASK).and_call("echo", ASK);
    let stage = asking([reply, Reply::text("done")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    // Whichever of them is decided about.
    let denies = Decision::Deny { reason: "no".to_owned() };
    handle.decide("call_2".into(), denies).await.unwrap();
    let told = hear(run).await;
    assert_eq!(told.result("call_1"), "denied: no");
    assert_eq!(told.result("call_2"), "denied: no");
    assert_eq!(told.outcome.unwrap().denials.len(), 2);
}

#[tokio::test]
async fn what_is_asked_after_a_decision_is_asked_anew() {
    let script = [Reply::call("echo", ASK), Reply::call("echo", ASK), Reply::text("done")];
    let stage = asking(script);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    handle.decide("call_1".into(), Decision::ONCE).await.unwrap();
    while handle.state().waiting_calls.first().is_none_or(|(call, _)| call.as_str() != "call_2") {
        tokio::task::yield_now().await;
    }
    handle.decide("call_2".into(), Decision::ONCE).await.unwrap();
    assert_eq!(requests(&hear(run).await), 2);
}

/// The calls that wait for a decision, in the order in which they came to wait, each with its agent and
/// whether it was asked about already.
async fn asked(handle: &SessionHandle) -> Vec<(AgentId, CallId, bool)> {
    let log = log_of(handle.session_id()).await;
    let waiting = log.iter().filter_map(|(_, entry)| match &entry.kind {
        EntryKind::CallWaiting(CallWaiting { call, wake: Wake::Decision { twin, .. }, .. }) => {
            Some((entry.agent, call.clone(), twin.is_some()))
        }
        _ => None,
    });
    waiting.collect()
}

async fn until_asked(handle: &SessionHandle, number: usize) -> Vec<(AgentId, CallId, bool)> {
    loop {
        let asked = asked(handle).await;
        if asked.len() >= number {
            return asked;
        }
        tokio::task::yield_now().await;
    }
}

/// Decides about a call of whichever agent of the session, as another process would.
async fn decide(
    stage: &Stage,
    handle: &SessionHandle,
    whose: &(AgentId, CallId, bool),
    decision: Decision,
) {
    let kind = OpKind::Decide { call: whose.1.clone(), decision, waiting: None };
    let op = Op { to: Some(whose.0), ..op(kind) };
    stage.agent.store.inbox(handle.session_id()).post(op).await.unwrap();
}

fn crew() -> Stage {
    let stage = asking([Reply::call("both", "{}"), Reply::text("done")]);
    let both = two_children(&stage.agent);
    stage.with(both)
}

#[tokio::test]
async fn two_agents_that_want_the_same_ask_once() {
    let stage = crew();
    let handle = stage.start();
    let run = handle.prompt("go");
    let asked = until_asked(&handle, 2).await;
    assert_eq!([asked[0].2, asked[1].2], [false, true]);
    assert_ne!(asked[0].0, asked[1].0);
    decide(&stage, &handle, &asked[0], Decision::ONCE).await;
    let told = hear(run).await;
    assert_eq!(told.result("call_1"), "Done did it, Done did it");
    assert_eq!(requests(&told), 1);
}

// Whoever goes away takes nobody's question along, and denies nobody.
#[tokio::test]
async fn when_the_first_one_is_canceled_the_other_one_asks() {
    let stage = crew();
    let handle = stage.start();
    let run = handle.prompt("go");
    let first = until_asked(&handle, 2).await[0].clone();
    let cancel = OpKind::Cancel { reason: CancelReason::User, run: None };
    let cancel = Op { to: Some(first.0), ..op(cancel) };
    stage.agent.store.inbox(handle.session_id()).post(cancel).await.unwrap();
    let asked = until_asked(&handle, 3).await;
    assert!(asked[2].0 != first.0 && !asked[2].2, "{asked:?}");
    decide(&stage, &handle, &asked[2], Decision::ONCE).await;
    let told = hear(run).await;
    let result = told.result("call_1");
    assert!(result.contains("Done did it") && result.contains("Canceled"), "{result}");
    assert_eq!(requests(&told), 2);
}

#[tokio::test]
async fn what_is_allowed_for_the_session_lets_those_go_on_that_wait_and_is_not_asked_again() {
    let reply = Reply::call("echo", ASK).and_call("echo", r#"{"text":"other"}"#);
    let later = Reply::call("echo", r#"{"text":"later"}"#);
    let stage = asking([reply, later.clone(), Reply::text("done"), later, Reply::text("more")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_asked(&handle, 2).await;
    let scope = Scope::Session { rule: "echo".to_owned() };
    handle.decide("call_1".into(), Decision::Allow { scope }).await.unwrap();
    let told = hear(run).await;
    assert_eq!((told.text(), requests(&told)), ("done".to_owned(), 2));
    // It holds in another process too, and for good, since the log says so.
    let id = handle.session_id();
    handle.close().await;
    let handle = stage.agent.resume(id).await.unwrap();
    let told = hear(handle.prompt("again")).await;
    assert_eq!((told.text(), requests(&told)), ("more".to_owned(), 0));
}

// What a rule does not cover goes on waiting, and is not asked a second time.
#[tokio::test]
async fn what_a_session_is_allowed_changes_nothing_about_the_rest() {
    let stage = asking([
        Reply::call("echo", ASK).and_call("echo", r#"{"text":"other"}"#),
        Reply::text("done"),
    ]);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_asked(&handle, 2).await;
    let scope = Scope::Session { rule: "something else".to_owned() };
    handle.decide("call_1".into(), Decision::Allow { scope }).await.unwrap();
    handle.decide("call_2".into(), Decision::Deny { reason: "no".to_owned() }).await.unwrap();
    let told = hear(run).await;
    assert_eq!((told.result("call_2"), requests(&told)), ("denied: no".to_owned(), 2));
}

// The process dies while two calls wait, of which one was asked about. Whoever opens the session is asked
// again what is not decided, once.
#[tokio::test]
async fn questions_survive_a_restart() {
    let reply = Reply::call("echo", ASK).and_call("echo", ASK);
    let stage = asking([reply, Reply::text("done")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_asked(&handle, 2).await;
    handle.cancel();
    run.await.unwrap();
    let id = handle.session_id();
    let mut waiting = 0;
    let agent = crashed(&stage.agent, id, |entry| {
        waiting += usize::from(entry.kind.name() == "call_waiting");
        waiting == 2
    });
    let handle = agent.await.resume(id).await.unwrap();
    let run = handle.continue_run().await.unwrap().unwrap();
    until_waiting(&handle).await;
    handle.decide("call_2".into(), Decision::ONCE).await.unwrap();
    let told = hear(run).await;
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(
        (told.result("call_1"), told.result("call_2")),
        ("ask".to_owned(), "ask".to_owned())
    );
    assert_eq!(asked(&handle).await.len(), 2);
}
