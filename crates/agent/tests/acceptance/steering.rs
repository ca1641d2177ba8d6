//! What is said to a running agent, and when it is delivered.

use bowline_agent::entry::Ending;
use bowline_agent::event::{EventBody, Phase};
use bowline_agent::op::{CancelReason, OpKind};
use bowline_agent::{AgentError, ToolExecution};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, ModelError};
use pretty_assertions::assert_eq;

use crate::support::{
    Latch, Told, at_gate, conversation, echo, hear, held, lines, log_of, op, stage,
};

/// What was queued, delivered and ended, and the turns between.
fn deliveries(told: &Told) -> Vec<String> {
    lines(&told.events, |body| {
        matches!(
            body,
            EventBody::Queued { .. }
                | EventBody::Delivered { .. }
                | EventBody::TurnEnd { .. }
                | EventBody::RunEnd(_)
        )
    })
}

// F025
#[tokio::test]
async fn a_message_queued_during_the_answer_goes_on_in_the_same_run() {
    let (stage, gate) = at_gate(Reply::text("first"), [Reply::text("second")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.queue("more").await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!(
        deliveries(&told),
        [
            "queued(queue, 1)",
            "turn_end(end_turn)",
            "delivered(1)",
            "turn_end(end_turn)",
            "run_end(done)",
        ]
    );
    assert_eq!(
        conversation(&handle),
        ["user \"go\"", "assistant \"first\"", "user \"more\"", "assistant \"second\""]
    );
    assert_eq!(told.text(), "second");
}

// F026, F028
#[tokio::test]
async fn messages_queued_during_a_tool_follow_its_result_in_order() {
    let latch = Latch::default();
    let call = Reply::call("held", r#"{"text":"r"}"#).and_call("echo", "{}");
    let stage = stage([call, Reply::text("done")]).with(held("held", &latch)).with(echo()).change(
        |agent| {
            agent.tool_execution = ToolExecution::Sequential;
        },
    );
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.queue("one").await.unwrap();
    handle.queue("two").await.unwrap();
    latch.open();
    let told = hear(run).await;
    // Nothing is skipped.
    assert_eq!(told.ends(), ["tool_end(call_1, ok)", "tool_end(call_2, ok)"]);
    assert_eq!(
        conversation(&handle)[1..],
        [
            "assistant call_1=held call_2=echo",
            "results call_1=\"r\" call_2=\"\"",
            "user \"one\"",
            "user \"two\"",
            "assistant \"done\"",
        ]
    );
    assert_eq!(
        deliveries(&told)[..5],
        [
            "turn_end(tool_use)",
            "queued(queue, 1)",
            "queued(queue, 2)",
            "delivered(1)",
            "delivered(2)"
        ]
    );
}

// F027
#[tokio::test]
async fn an_idle_agent_takes_no_message_through_its_handle() {
    let stage = stage([Reply::text("done")]);
    let handle = stage.start();
    for _ in 0..2 {
        assert!(matches!(handle.queue("a").await, Err(AgentError::NotRunning)));
        assert!(matches!(handle.steer("b").await, Err(AgentError::NotRunning)));
        assert!(matches!(handle.follow_up("c").await, Err(AgentError::NotRunning)));
        if handle.state().latest.is_none() {
            hear(handle.prompt("go")).await;
        }
    }
    assert_eq!(handle.state().drafts[..], []);
    assert_eq!(conversation(&handle), ["user \"go\"", "assistant \"done\""]);
}

#[tokio::test]
async fn what_is_posted_to_an_idle_agent_is_a_draft_and_is_not_said_later() {
    let stage = stage([Reply::text("a"), Reply::text("b")]);
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let op = op(OpKind::Queue("draft".into()));
    handle.post(op.clone()).await.unwrap();
    let state = handle.wait_for(|state| !state.drafts.is_empty()).await.unwrap();
    assert_eq!(state.drafts[..], std::slice::from_ref(&op)[..]);
    let told = hear(handle.prompt("on")).await;
    assert_eq!(deliveries(&told), ["turn_end(end_turn)", "run_end(done)"]);
    assert_eq!(handle.state().drafts[..], [op]);
    assert_eq!(
        conversation(&handle),
        ["user \"go\"", "assistant \"a\"", "user \"on\"", "assistant \"b\""]
    );
}

// F029, F030
#[tokio::test]
async fn what_was_queued_before_a_failure_is_undelivered_and_a_draft() {
    let error = ModelError::new(ErrorKind::Auth, "no key");
    let (stage, gate) = at_gate(Reply::error(error), [Reply::text("fine")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let queued = handle.queue("one").await.unwrap();
    let steered = handle.steer("two").await.unwrap();
    let followed = handle.follow_up("three").await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!(told.outcome.as_ref().unwrap().undelivered, [queued, steered, followed]);
    assert_eq!(
        deliveries(&told)[..3],
        ["queued(queue, 1)", "queued(steer, 2)", "queued(follow_up, 3)"]
    );
    let drafts: Vec<_> = handle.state().drafts.iter().map(|op| op.id).collect();
    assert_eq!(drafts, [queued, steered, followed]);
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
    assert_eq!(conversation(&handle), ["user \"go\"", "user \"again\"", "assistant \"fine\""]);
}

#[tokio::test]
async fn what_was_queued_before_a_cancel_is_undelivered() {
    let (stage, gate) = at_gate(Reply::text("late"), []);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let queued = handle.queue("one").await.unwrap();
    handle.cancel();
    let told = hear(run).await;
    let outcome = told.outcome.unwrap();
    assert_eq!(outcome.ending, Ending::Canceled(CancelReason::User));
    assert_eq!(outcome.undelivered, [queued]);
}

// F092
#[tokio::test]
async fn steering_skips_the_calls_that_have_not_started() {
    let latch = Latch::default();
    let call = Reply::call("held", r#"{"text":"r"}"#).and_call("echo", "{}").and_call("echo", "{}");
    let stage = stage([call, Reply::text("done")])
        .with(held("held", &latch))
        .with(echo())
        .change(|agent| agent.tool_execution = ToolExecution::Sequential);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.queue("queued").await.unwrap();
    handle.steer("stop that").await.unwrap();
    latch.open();
    let told = hear(run).await;
    assert_eq!(
        told.ends(),
        ["tool_end(call_2, skipped)", "tool_end(call_3, skipped)", "tool_end(call_1, ok)"]
    );
    let skipped = "skipped: the user said something first";
    assert_eq!(
        conversation(&handle)[2..],
        [
            format!("results call_1=\"r\" call_2!={skipped:?} call_3!={skipped:?}"),
            "user \"stop that\"".to_owned(),
            "user \"queued\"".to_owned(),
            "assistant \"done\"".to_owned(),
        ]
    );
    assert_eq!(handle.state().pending_calls, []);
    assert_eq!(told.ending(), Ending::Done);
}

// F118
#[tokio::test]
async fn steering_lets_calls_in_flight_finish() {
    let latch = Latch::default();
    let reply = Reply::call("held", r#"{"text":"1"}"#)
        .and_call("held", r#"{"text":"2"}"#)
        .and_call("echo", "{}");
    let stage = stage([reply, Reply::text("done")])
        .with(held("held", &latch))
        .with(echo())
        .change(|agent| agent.tool_execution = ToolExecution::Parallel { max: 2 });
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached_by(2).await;
    handle.steer("stop").await.unwrap();
    latch.open();
    let told = hear(run).await;
    assert_eq!(told.ends()[0], "tool_end(call_3, skipped)");
    let mut ends = told.ends()[1..].to_vec();
    ends.sort();
    assert_eq!(ends, ["tool_end(call_1, ok)", "tool_end(call_2, ok)"]);
}

#[tokio::test]
async fn a_steer_during_the_reply_skips_all_its_calls() {
    let (stage, gate) = at_gate(Reply::call("echo", "{}"), [Reply::text("done")]);
    let stage = stage.with(echo());
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.steer("wait").await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!(told.call_lines(), ["tool_call(call_1, echo)", "tool_end(call_1, skipped)"]);
    assert_eq!(conversation(&handle)[3..], ["user \"wait\"", "assistant \"done\""]);
}

// F093
#[tokio::test]
async fn follow_ups_are_said_one_by_one_when_the_run_would_end() {
    let (stage, gate) =
        at_gate(Reply::call("echo", "{}"), [Reply::text("a"), Reply::text("b"), Reply::text("c")]);
    let stage = stage.with(echo());
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.follow_up("one").await.unwrap();
    handle.follow_up("two").await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!(
        conversation(&handle)[3..],
        ["assistant \"a\"", "user \"one\"", "assistant \"b\"", "user \"two\"", "assistant \"c\""]
    );
    assert_eq!(
        deliveries(&told),
        [
            "queued(follow_up, 1)",
            "queued(follow_up, 2)",
            "turn_end(tool_use)",
            "turn_end(end_turn)",
            "delivered(1)",
            "turn_end(end_turn)",
            "delivered(2)",
            "turn_end(end_turn)",
            "run_end(done)",
        ]
    );
}

// "A steer from another process arrives exactly once."
#[tokio::test]
async fn a_steer_posted_twice_from_elsewhere_arrives_once() {
    let (stage, gate) = at_gate(Reply::text("a"), [Reply::text("b"), Reply::text("c")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let inbox = stage.agent.store.inbox(handle.session_id());
    let op = op(OpKind::Steer("hey".into()));
    inbox.post(op.clone()).await.unwrap();
    let mut events = handle.subscribe(100);
    inbox.post(op.clone()).await.unwrap();
    // The second post may come while the first is in the log already, too.
    while !log_of(handle.session_id()).await.iter().any(|(_, entry)| entry.kind.name() == "posted")
    {
        tokio::task::yield_now().await;
    }
    inbox.post(op.clone()).await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!(
        conversation(&handle),
        ["user \"go\"", "assistant \"a\"", "user \"hey\"", "assistant \"b\""]
    );
    let delivered =
        told.events.iter().filter(|event| event.body == EventBody::Delivered { id: op.id });
    assert_eq!(delivered.count(), 1);
    inbox.post(op).await.unwrap();
    hear(handle.prompt("on")).await;
    assert_eq!(handle.state().drafts[..], []);
    assert_eq!(conversation(&handle)[4..], ["user \"on\"", "assistant \"c\""]);
    assert_eq!(inbox.take().await.unwrap(), []);
    drop(events.recv().await);
}

#[tokio::test]
async fn add_user_turn_adds_without_asking() {
    let stage = stage([Reply::text("done")]);
    let handle = stage.start();
    handle.add_user_turn("know this").await.unwrap();
    assert_eq!((handle.status(), stage.model.requests().len()), (Phase::Idle, 0));
    assert_eq!(conversation(&handle), ["user \"know this\""]);
    hear(handle.prompt("go")).await;
    assert_eq!(stage.asked(), [["user \"know this\"", "user \"go\""]]);
}
