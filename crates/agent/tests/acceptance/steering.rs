//! What is said to a running agent, and how a run is canceled.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::entry::Ending;
use bowline_agent::event::{EventBody, Phase};
use bowline_agent::id::{OpId, Source, SystemSource};
use bowline_agent::journal::Pos;
use bowline_agent::op::{CancelReason, Op, OpKind};
use bowline_agent::tool::{ToolContext, ToolError};
use bowline_agent::{AgentError, Busy, SessionHandle, ToolExecution};
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, ModelError};
use futures::StreamExt;
use pretty_assertions::assert_eq;

use crate::invariants;
use crate::support::{
    Latch, Stage, conversation, echo, hear, held, is_delta, lines, log_of, stage, tool, usage,
};

/// What was queued, delivered and ended, and the turns between.
fn deliveries(told: &crate::support::Told) -> Vec<String> {
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

fn op(kind: OpKind) -> Op {
    Op { id: OpId::new(&SystemSource), to: None, at: SystemSource.now(), kind }
}

/// A stage whose first reply stands at the gate.
fn at_gate(first: Reply, rest: impl IntoIterator<Item = Reply>) -> (Stage, Gate) {
    let gate = Gate::default();
    let replies = std::iter::once(first.held_by(&gate)).chain(rest);
    (stage(replies.collect::<Vec<_>>()), gate)
}

// F018
#[tokio::test]
async fn a_second_prompt_is_refused_and_the_first_run_untouched() {
    let (stage, gate) = at_gate(Reply::text("first"), []);
    let handle = stage.start();
    let first = handle.prompt("go");
    gate.reached().await;
    assert!(matches!(handle.add_user_turn("psst").await, Err(AgentError::AlreadyRunning)));
    let second = hear(handle.prompt("again")).await;
    assert_eq!(second.lines(), ["rejected(the agent is already running)"]);
    assert!(matches!(second.outcome, Err(AgentError::AlreadyRunning)));
    // Dropping what was refused cancels nothing.
    drop(handle.prompt("again").cancel_on_drop());
    let mut third = handle.prompt("again").cancel_on_drop();
    assert!(matches!(third.id().await, Err(AgentError::AlreadyRunning)));
    drop(third);
    gate.open();
    assert_eq!(hear(first).await.text(), "first");
    assert_eq!(conversation(&handle), ["user \"go\"", "assistant \"first\""]);
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
async fn a_cancel_from_elsewhere_ends_the_run() {
    let (stage, gate) = at_gate(Reply::text("late"), []);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let inbox = stage.agent.store.inbox(handle.session_id());
    inbox.post(op(OpKind::Cancel { reason: CancelReason::Timeout, run: None })).await.unwrap();
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::Timeout));
    // On an idle agent there is nothing to cancel, and nothing is kept for later.
    inbox.post(op(OpKind::Cancel { reason: CancelReason::User, run: None })).await.unwrap();
    stage.model.push(Reply::text("fine"));
    assert_eq!(hear(handle.prompt("go")).await.text(), "fine");
}

// F109: "Cancel with three calls pending and one done."
#[tokio::test(start_paused = true)]
async fn cancel_keeps_what_is_done_and_the_next_prompt_works() {
    let latch = Latch::default();
    let reply =
        Reply::call("echo", r#"{"text":"1"}"#).and_call("held", "{}").and_call("echo", "{}");
    let stage = stage([reply, Reply::text("fine")])
        .with(held("held", &latch))
        .with(echo())
        .change(|agent| agent.tool_execution = ToolExecution::Sequential);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    let told = hear(run).await;
    let mut ends = told.ends();
    ends.sort();
    assert_eq!(
        ends,
        ["tool_end(call_1, ok)", "tool_end(call_2, canceled)", "tool_end(call_3, canceled)"]
    );
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::User));
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
    assert_eq!(
        conversation(&handle)[2..],
        [
            "results call_1=\"1\" call_2!=\"canceled after 2.0 s; it may have done a part of its \
             work\" call_3!=\"canceled before it ended\"",
            "user \"again\"",
            "assistant \"fine\"",
        ]
    );
}

#[tokio::test]
async fn a_tool_that_heeds_cancel_says_how_far_it_came() {
    let reached = Latch::default();
    let latch = reached.clone();
    let heeds = tool("heeds", move |_, cx: ToolContext| {
        let latch = latch.clone();
        async move {
            latch.open();
            latch.pass().await;
            cx.cancel.cancelled().await;
            Err(ToolError::failed("stopped after the first of two files"))
        }
    });
    let stage = stage([Reply::call("heeds", "{}")]).with(heeds);
    let handle = stage.start();
    let run = handle.prompt("go");
    reached.reached().await;
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)"]);
    assert_eq!(told.result("call_1"), "stopped after the first of two files");
}

#[tokio::test]
async fn canceling_twice_is_canceling_once() {
    let (stage, gate) = at_gate(Reply::text("late"), []);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.cancel();
    handle.cancel_for(CancelReason::Timeout);
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::User));
    let log = log_of(handle.session_id()).await;
    assert_eq!(log.iter().filter(|(_, entry)| entry.kind.name() == "canceled").count(), 1);
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

async fn busy(busy: Busy) -> (Stage, SessionHandle, [crate::support::Told; 2]) {
    let latch = Latch::default();
    let reply = Reply::call("held", r#"{"text":"r"}"#).and_call("echo", "{}");
    let stage = stage([reply, Reply::text("a"), Reply::text("b")])
        .with(held("held", &latch))
        .with(echo())
        .change(|agent| {
            agent.tool_execution = ToolExecution::Sequential;
            agent.busy = busy;
        });
    let handle = stage.start();
    let first = handle.prompt("go");
    latch.reached().await;
    let mut second = handle.prompt("more");
    let asked = async {
        // For a policy that joins the run: the second is seated before the tool goes on.
        if busy != Busy::CancelPrevious {
            second.id().await.unwrap();
        }
        latch.open();
        hear(second).await
    };
    let (first, second) = tokio::join!(hear(first), asked);
    (stage, handle, [first, second])
}

#[tokio::test]
async fn a_busy_agent_may_queue_prompts() {
    let (_stage, handle, [first, second]) = busy(Busy::Queue).await;
    assert_eq!(
        conversation(&handle)[2..],
        ["results call_1=\"r\" call_2=\"\"", "user \"more\"", "assistant \"a\""]
    );
    let (first, second) = (first.outcome.unwrap(), second.outcome.unwrap());
    assert_eq!(first, second);
    assert_eq!(first.text(), "a");
}

#[tokio::test]
async fn a_busy_agent_may_be_steered_by_prompts() {
    let (_stage, handle, [first, second]) = busy(Busy::Steer).await;
    assert_eq!(first.ends(), ["tool_end(call_2, skipped)", "tool_end(call_1, ok)"]);
    assert_eq!(conversation(&handle)[3..], ["user \"more\"", "assistant \"a\""]);
    assert_eq!(first.outcome.unwrap(), second.outcome.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_busy_agent_may_give_up_for_a_new_prompt() {
    let latch = Latch::default();
    let stage = stage([Reply::call("held", "{}"), Reply::text("a")]).with(held("held", &latch));
    let handle = stage.start();
    let first = handle.prompt("go");
    latch.reached().await;
    let second = handle.prompt_with("more", Busy::CancelPrevious);
    let (first, second) = tokio::join!(hear(first), hear(second));
    assert_eq!(first.ending(), Ending::Canceled(CancelReason::User));
    assert_eq!(second.ending(), Ending::Done);
    assert_eq!(second.text(), "a");
    assert_ne!(first.outcome.unwrap().run, second.outcome.unwrap().run);
    assert_eq!(conversation(&handle)[3..], ["user \"more\"", "assistant \"a\""]);
}

// A prompt that waits for the run before it is not lost with its handle.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_cancels_the_run_before_it_outlives_its_handle() {
    let latch = Latch::default();
    let script = [Reply::call("held", "{}"), Reply::text("fine")];
    let stage = stage(script).with(held("held", &latch));
    let handle = stage.start();
    let mut events = handle.subscribe(100);
    drop(handle.prompt("go"));
    latch.reached().await;
    drop(handle.prompt_with("more", Busy::CancelPrevious));
    drop(handle);
    let mut ends = Vec::new();
    while let Some(event) = events.recv().await {
        if let EventBody::RunEnd(end) = &event.body {
            ends.push(end.outcome.clone());
        }
    }
    assert_eq!(ends, [Ending::Canceled(CancelReason::User), Ending::Done]);
}

#[tokio::test]
async fn dropping_a_run_detaches_from_it() {
    let (stage, gate) = at_gate(Reply::text("done"), []);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    drop(run);
    gate.open();
    let state = handle.wait_for(|state| state.latest.is_some()).await.unwrap();
    assert_eq!(state.latest.as_ref().unwrap().text(), "done");
}

#[tokio::test]
async fn dropping_a_run_with_cancel_on_drop_cancels_it() {
    let (stage, gate) = at_gate(Reply::text("done"), []);
    let handle = stage.start();
    let run = handle.prompt("go").cancel_on_drop();
    gate.reached().await;
    drop(run);
    let state = handle.wait_for(|state| state.latest.is_some()).await.unwrap();
    let ending = &state.latest.as_ref().unwrap().ending;
    assert_eq!(*ending, Ending::Canceled(CancelReason::User));
    // So does dropping the future of its outcome.
    let gate = Gate::default();
    stage.model.push(Reply::text("late").held_by(&gate));
    let run = handle.prompt("go").cancel_on_drop();
    let mut run = std::future::IntoFuture::into_future(run);
    tokio::select! {
        _ = &mut run => panic!("it cannot end"),
        () = gate.reached() => {}
    }
    drop(run);
    let state =
        handle.wait_for(|state| state.phase == Phase::Idle && state.run.is_none()).await.unwrap();
    let ending = &state.latest.as_ref().unwrap().ending;
    assert_eq!(*ending, Ending::Canceled(CancelReason::User));
}

#[tokio::test]
async fn dropping_a_run_that_is_over_cancels_nothing() {
    let stage = stage([Reply::text("a")]);
    let handle = stage.start();
    let mut first = handle.prompt("go").cancel_on_drop();
    while first.next().await.is_some() {}
    let gate = Gate::default();
    stage.model.push(Reply::text("b").held_by(&gate));
    let second = handle.prompt("more");
    gate.reached().await;
    drop(first);
    gate.open();
    assert_eq!(hear(second).await.text(), "b");
}

// F112
#[tokio::test]
async fn a_slow_reader_gets_a_gap_and_delays_nobody() {
    let call = || Reply::call("echo", "{}");
    let stage = stage([call(), call(), call(), Reply::text("done"), Reply::text("x")]).with(echo());
    let handle = stage.start();
    let mut slow = handle.subscribe(4);
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.text(), "done");
    let mut seen = Vec::new();
    while let Ok(event) = slow.try_recv() {
        seen.push(event);
    }
    // The reader learns of the gap although nothing follows it, and where to read on in the log.
    assert_eq!(seen.len(), 5);
    let first = &told.events[4];
    let from = first.pos.unwrap_or_else(|| Pos(first.after.unwrap().0 + 1));
    assert_eq!(seen[4].body, EventBody::Gap { missed: 1, from, until: None });
    assert!(seen[..4].iter().all(|event| event.pos.is_none_or(|pos| pos <= from)));

    let more = hear(handle.prompt("more")).await;
    let gap = slow.recv().await.unwrap();
    let last = told.events.last().unwrap().pos.unwrap();
    let (missed, until) = (told.events.len() as u64 - 4, Some(Pos(last.0 + 1)));
    assert_eq!(gap.body, EventBody::Gap { missed, from, until });
    assert_eq!((gap.pos, gap.after), (None, Some(last)));
    assert_eq!(slow.recv().await.unwrap(), more.events[0]);
}

// However small the buffer: what is told, with what the gaps count and name, is everything.
#[tokio::test]
async fn gaps_name_all_that_is_missing() {
    for buffer in 0..6 {
        let call = || Reply::call("echo", "{}");
        let stage = stage([call(), Reply::text("a"), call(), Reply::text("b"), call()]);
        stage.model.push(Reply::text("c"));
        let handle = stage.with(echo()).start();
        let (mut slow, mut fast) = (handle.subscribe(buffer), handle.subscribe(1000));
        let (mut told, mut missed) = (Vec::new(), 0);
        let mut gaps = Vec::new();
        for prompt in ["go", "more", "again"] {
            hear(handle.prompt(prompt)).await;
            while let Ok(event) = slow.try_recv() {
                match event.body {
                    EventBody::Gap { missed: 1, from, until: None } => gaps.push((from, None)),
                    EventBody::Gap { missed: more, from, until } => {
                        assert_eq!(gaps.pop(), Some((from, None)));
                        gaps.push((from, until));
                        missed += usize::try_from(more).unwrap();
                    }
                    _ => told.push((told.len() + missed, event)),
                }
            }
        }
        let mut all = Vec::new();
        while let Ok(event) = fast.try_recv() {
            all.push(event);
        }
        assert_eq!(gaps.len(), 3, "a gap after each run");
        assert!(told.len() + missed < all.len(), "the last gap goes on");
        assert!(told.iter().all(|(index, event)| *event == all[*index]));
        for (index, event) in all.iter().enumerate() {
            let is_named = |pos| gaps.iter().any(|(a, b)| *a <= pos && b.is_none_or(|b| pos < b));
            let is_told = told.iter().any(|(told, _)| *told == index);
            assert!(is_told || event.pos.is_none_or(is_named), "{event:?}");
        }
    }
}

// What nobody heard is known nevertheless: the rest of the run is told as it is in the log.
#[tokio::test]
async fn who_listens_late_hears_the_rest() {
    let latch = Latch::default();
    let calls = Reply::call("held", "{}").and_call("echo", "{}");
    let stage = stage([calls, Reply::text("done")]).with(held("held", &latch)).with(echo());
    let handle = stage.start();
    drop(handle.prompt("go"));
    latch.reached().await;
    let mut late = handle.subscribe(100);
    latch.open();
    handle.wait_for(|state| state.latest.is_some()).await.unwrap();
    let mut events = Vec::new();
    while let Ok(event) = late.try_recv() {
        events.push(event);
    }
    let told = lines(&events, |body| !matches!(body, EventBody::Status { .. }) && !is_delta(body));
    assert!(told.contains(&"tool_end(call_1, ok)".to_owned()), "{told:?}");
    assert_eq!(told.last().unwrap(), "run_end(done)");
    invariants::check_log(&events, &handle).await;
}

#[tokio::test(start_paused = true)]
async fn close_ends_what_runs() {
    let latch = Latch::default();
    let stage = stage([Reply::call("held", "{}")]).with(held("held", &latch));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    let began = tokio::time::Instant::now();
    let (told, ()) = tokio::join!(hear(run), handle.close());
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::Shutdown));
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)"]);
    assert!(began.elapsed() < Duration::from_secs(3));
    // What comes too late is refused.
    let late = handle.prompt("more").await;
    assert!(matches!(late, Err(AgentError::Closed)), "{late:?}");
    assert!(matches!(handle.queue("more").await, Err(AgentError::Closed)));
    handle.close().await;
}

// Usage of several runs adds up on the handle, and each run counts its own.
#[tokio::test]
async fn each_run_counts_what_it_spent() {
    let stage = stage([
        Reply::text("a").with_usage(usage(10, 1)),
        Reply::text("b").with_usage(usage(20, 2)),
    ]);
    let handle = stage.start();
    assert_eq!(hear(handle.prompt("go")).await.usage(), usage(10, 1));
    assert_eq!(hear(handle.prompt("go")).await.usage(), usage(20, 2));
    assert_eq!(handle.token_usage(), usage(30, 3));
}

#[tokio::test]
async fn what_an_agent_does_can_be_watched() {
    let gate = Gate::default();
    let latch = Latch::default();
    let stage = stage([Reply::call("held", "{}").held_by(&gate), Reply::text("done")])
        .with(held("held", &latch));
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    assert_eq!(handle.status(), Phase::Model);
    gate.open();
    latch.reached().await;
    let state = handle.state();
    assert_eq!((state.phase, state.run.is_some()), (Phase::Tools, true));
    assert_eq!(state.pending_calls, ["call_1".into()]);
    latch.open();
    hear(run).await;
    let state = handle.state();
    assert_eq!((state.phase, state.run), (Phase::Idle, None));
    assert_eq!(state.pending_calls, []);
    let _ = Arc::clone(&state);
}

// Whatever is said at whatever moment: the invariants hold, and the next prompt works.
#[tokio::test(start_paused = true)]
async fn a_run_may_be_interrupted_at_any_moment() {
    for moment in 0..60 {
        for what in 0..4 {
            let call = || Reply::call("echo", "{}").and_call("slow", "{}").and_call("echo", "{}");
            let slow = tool("slow", |_, _| async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                Ok("slow".into())
            });
            let stage =
                stage([call(), call(), Reply::text("a"), Reply::text("b"), Reply::text("c")])
                    .with(echo())
                    .with(slow)
                    .change(|agent| agent.tool_execution = ToolExecution::Sequential);
            let handle = stage.start();
            let run = handle.prompt("go");
            let interrupts = async {
                for _ in 0..moment {
                    tokio::task::yield_now().await;
                }
                match what {
                    0 => handle.cancel(),
                    1 => drop(handle.steer("hey").await),
                    2 => drop(handle.queue("hey").await),
                    _ => drop(handle.follow_up("hey").await),
                }
            };
            let (told, ()) = tokio::join!(hear(run), interrupts);
            let ending = told.ending();
            let wanted = [Ending::Done, Ending::Canceled(CancelReason::User)];
            assert!(wanted.contains(&ending), "{ending:?} at {moment} of {what}");
            assert!(what == 0 || ending == Ending::Done, "{moment} of {what}");
            let outcome = told.outcome.unwrap();
            assert_eq!(outcome.undelivered, [], "{moment} of {what}");
            let said = conversation(&handle).iter().filter(|line| *line == "user \"hey\"").count();
            assert!(said <= 1 && handle.state().drafts.is_empty());
            stage.model.push(Reply::text("d"));
            let again = hear(handle.prompt("again")).await;
            assert_eq!(again.ending(), Ending::Done, "{moment} of {what}");
        }
    }
}
