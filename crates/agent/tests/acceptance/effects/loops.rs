//! `loop_detect`.

use std::sync::Arc;

use bowline_agent::effect::{Inject, LoopDetect};
use bowline_agent::entry::Ending;
use bowline_agent::limits::LimitKind;
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;

use super::{acts, call, done, said, said_at, same, then_done, with, with_all};
use crate::support::hear;

#[tokio::test]
async fn the_same_call_three_times_is_told_behind_its_results() {
    let stage = with(LoopDetect::default(), then_done(same(3)));
    let told = stage.play().await;
    let [(3, text)] = &said(&stage)[..] else { panic!("{:?}", said(&stage)) };
    assert!(text.contains("echo 3 times in a row"), "{text}");
    assert_eq!(
        stage.asked()[3][5..],
        [
            "assistant call_3=echo",
            "results call_3=\"x\"",
            "user \"You have called echo 3 times in a row with the same argument…\"",
        ]
    );
    assert_eq!(acts(&told), ["effect(loop_detect say)", "run_end(done)"]);
}

#[tokio::test]
async fn two_calls_or_calls_that_differ_are_no_loop() {
    for replies in [
        same(2),
        vec![call("echo", "1"), call("echo", "2"), call("echo", "3")],
        vec![call("echo", "x"), call("count", "x"), call("fail", "x")],
        vec![call("echo", "x"), call("echo", "x"), call("echo", "y"), call("echo", "x")],
    ] {
        let stage = with(LoopDetect::default(), then_done(replies));
        stage.play().await;
        assert_eq!(said(&stage), []);
    }
}

#[tokio::test]
async fn the_threshold_is_a_parameter() {
    let effect = LoopDetect { threshold: 5, ..LoopDetect::default() };
    let stage = with(effect, then_done(same(5)));
    stage.play().await;
    assert_eq!(said_at(&stage), [5]);
}

// The last call of a reply is the newest.
#[tokio::test]
async fn calls_of_one_reply_count_one_by_one_and_in_order() {
    let three = || call("echo", "x").and_call("echo", r#"{"text":"x"}"#);
    let repeats = three().and_call("echo", r#"{"text":"x"}"#);
    let stage = with(LoopDetect::default(), [repeats.clone(), done()]);
    stage.play().await;
    assert_eq!(said_at(&stage), [1]);

    let stage = with(LoopDetect::default(), [repeats.and_call("count", "{}"), done()]);
    stage.play().await;
    assert_eq!(said(&stage), []);
}

// B13: neither at every step, nor silently not at all behind the window.
#[tokio::test]
async fn a_loop_is_told_again_when_it_has_doubled_however_long_it_is() {
    let stage = with(LoopDetect::default(), then_done(same(26)));
    stage.play().await;
    assert_eq!(said_at(&stage), [3, 6, 12, 24]);
    let last = said(&stage).pop().unwrap().1;
    assert!(last.contains("24 times"), "{last}");
}

#[tokio::test]
async fn another_loop_is_told_as_soon_as_it_is_one() {
    let other = std::iter::repeat_with(|| call("echo", "y")).take(3);
    let stage = with(LoopDetect::default(), then_done(same(4).into_iter().chain(other)));
    stage.play().await;
    assert_eq!(said_at(&stage), [3, 7]);
}

// B13
#[tokio::test]
async fn what_a_user_says_begins_the_count_anew() {
    let gate = Gate::default();
    let held = call("echo", "x").held_by(&gate);
    let replies = [call("echo", "x"), held, call("echo", "x"), call("echo", "x"), done()];
    let stage = with(LoopDetect::default(), replies);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.queue("again, please").await.unwrap();
    gate.open();
    hear(run).await;
    assert_eq!(said(&stage), [(2, "again, please".to_owned())]);
}

#[tokio::test]
async fn a_run_begins_anew() {
    let replies = then_done(same(2)).into_iter().chain(then_done(same(2)));
    let stage = with(LoopDetect::default(), replies);
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    hear(handle.prompt("go")).await;
    assert_eq!(said(&stage), []);
}

#[tokio::test]
async fn what_other_effects_say_does_not_end_a_count() {
    let inject = Inject { text: "Go on.".into(), every: 1, ..Inject::default() };
    let stage =
        with_all([Arc::new(inject) as _, Arc::new(LoopDetect::default()) as _], then_done(same(3)));
    stage.play().await;
    assert_eq!(said_at(&stage), [1, 2, 3, 3]);
}

#[tokio::test]
async fn calls_made_in_turn_are_a_loop() {
    let turn = || [call("echo", "x"), call("echo", "y")];
    let stage = with(LoopDetect::default(), then_done([turn(), turn(), turn()].concat()));
    stage.play().await;
    let [(6, text)] = &said(&stage)[..] else { panic!("{:?}", said(&stage)) };
    assert!(text.contains("echo, echo in turn, 3 times"), "{text}");

    // A window too small for so many rounds sees only calls in a row.
    let effect = LoopDetect { window_size: 5, ..LoopDetect::default() };
    let stage = with(effect, then_done([turn(), turn(), turn()].concat()));
    stage.play().await;
    assert_eq!(said(&stage), []);
}

#[tokio::test]
async fn a_run_that_goes_on_repeating_is_stopped_if_that_is_wanted() {
    let effect = || LoopDetect { stop_after: 5, ..LoopDetect::default() };
    let stage = with(effect(), same(5).into_iter().chain([Reply::text("I was stuck.")]));
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::Stall));
    assert_eq!(told.text(), "I was stuck.");
    assert_eq!(
        acts(&told),
        [
            "effect(loop_detect say)",
            "effect(loop_detect stop)",
            "limit_hit(stall)",
            "run_end(limit stall)",
        ]
    );

    // Not before it was told.
    let one = || r#"{"text":"x"}"#;
    let five = (1..5).fold(call("echo", "x"), |reply, _| reply.and_call("echo", one()));
    let stage = with(effect(), [five, done()]);
    let told = stage.play().await;
    assert_eq!(acts(&told), ["effect(loop_detect say)", "run_end(done)"]);
}
