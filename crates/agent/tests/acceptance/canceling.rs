//! Runs that are canceled, dropped, closed or disturbed.

use std::time::Duration;

use bowline_agent::entry::Ending;
use bowline_agent::event::Phase;
use bowline_agent::op::{CancelReason, OpKind};
use bowline_agent::tool::{ToolContext, ToolError};
use bowline_agent::{AgentError, ToolExecution};
use bowline_llm::scripted::{Gate, Reply};
use futures::StreamExt;
use pretty_assertions::assert_eq;

use crate::support::{Latch, at_gate, conversation, echo, hear, held, log_of, op, stage, tool};

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

// F109: "Cancel with three calls pending and one done." B2
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
