//! What those who watch an agent see of it.

use std::sync::Arc;

use bowline_agent::event::{EventBody, Phase};
use bowline_agent::journal::Pos;
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;

use crate::invariants;
use crate::support::{Latch, echo, hear, held, is_delta, lines, stage, usage};

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
