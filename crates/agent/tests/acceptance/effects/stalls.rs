//! `stall_detect`.

use bowline_agent::effect::StallDetect;
use bowline_agent::entry::Ending;
use bowline_agent::limits::LimitKind;
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;

use super::{acts, call, done, said, said_at, then_done, with};
use crate::support::{hear, tool};

/// Calls that differ, with results that do not.
fn idle(times: usize) -> Vec<Reply> {
    let call = |n| Reply::call("fail", format!(r#"{{"text":"{n}"}}"#));
    (0..times).map(call).collect()
}

fn new(times: usize) -> Vec<Reply> {
    std::iter::repeat_with(|| call("count", "")).take(times).collect()
}

#[tokio::test]
async fn fewer_steps_than_the_window_or_steps_that_differ_are_no_stall() {
    for replies in [idle(5), new(12), [idle(5), new(1)].concat()] {
        let stage = with(StallDetect::default(), then_done(replies));
        stage.play().await;
        assert_eq!(said(&stage), []);
    }
}

#[tokio::test]
async fn results_that_stay_the_same_are_told_once_and_stop_the_run_a_window_later() {
    let stage = with(StallDetect::default(), then_done(idle(11)));
    let told = stage.play().await;
    assert_eq!(said_at(&stage), [6]);
    assert_eq!(acts(&told), ["effect(stall_detect say)", "run_end(done)"]);

    let stage = with(StallDetect::default(), then_done(idle(12)));
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::Stall));
    assert_eq!(told.text(), "done");
    assert_eq!(
        acts(&told),
        [
            "effect(stall_detect say)",
            "effect(stall_detect stop)",
            "limit_hit(stall)",
            "run_end(limit stall)",
        ]
    );
}

// B12
#[tokio::test]
async fn results_that_come_in_turn_are_a_stall() {
    let turn = || [call("echo", "a"), call("echo", "b")];
    let stage = with(StallDetect::default(), then_done([turn(), turn(), turn()].concat()));
    stage.play().await;
    assert_eq!(said_at(&stage), [6]);
}

// B12: the window is one of steps.
#[tokio::test]
async fn the_results_of_one_step_are_no_stall() {
    let wide = (1..8).fold(Reply::call("fail", "{}"), |reply, _| reply.and_call("fail", "{}"));
    let stage = with(StallDetect::default(), then_done(vec![wide; 5]));
    stage.play().await;
    assert_eq!(said(&stage), []);
}

#[tokio::test]
async fn the_same_error_of_different_tools_is_no_stall() {
    let names: Vec<String> = (0..6).map(|n| format!("fail_{n}")).collect();
    let replies = names.iter().map(|name| call(name, ""));
    let mut stage = with(StallDetect::default(), then_done(replies));
    for name in &names {
        stage = stage.with(tool(name, |_, _| async move {
            Err(bowline_agent::tool::ToolError::failed("no such file"))
        }));
    }
    stage.play().await;
    assert_eq!(said(&stage), []);
}

#[tokio::test]
async fn results_are_told_apart_by_how_they_begin() {
    let long = |begins: &str, ends: usize| format!("{begins}{}{ends}", "x".repeat(200));
    let same = (0..6).map(|n| call("echo", &long("a", n)));
    let stage = with(StallDetect::default(), then_done(same));
    stage.play().await;
    assert_eq!(said_at(&stage), [6]);

    let other = (0..6).map(|n| call("echo", &long(&n.to_string(), 0)));
    let stage = with(StallDetect::default(), then_done(other));
    stage.play().await;
    assert_eq!(said(&stage), []);
}

// B12: only a stall that goes on is stopped.
#[tokio::test]
async fn a_later_stall_is_told_before_it_is_stopped() {
    let replies = [idle(8), new(1), idle(5)].concat();
    let stage = with(StallDetect::default(), then_done(replies));
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Done);
    // The first step of the new window is the one that brought something new.
    assert_eq!(said_at(&stage), [6, 14]);

    let replies = [idle(8), new(1), idle(11)].concat();
    let stage = with(StallDetect::default(), then_done(replies));
    assert_eq!(stage.play().await.ending(), Ending::Limit(LimitKind::Stall));
}

#[tokio::test]
async fn what_a_user_says_and_a_new_run_begin_the_count_anew() {
    let gate = Gate::default();
    let mut replies = idle(9);
    let held = replies.remove(4).held_by(&gate);
    replies.insert(4, held);
    let stage = with(StallDetect::default(), then_done(replies).into_iter().chain(idle(4)));
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.queue("go").await.unwrap();
    gate.open();
    hear(run).await;
    stage.model.push(done());
    hear(handle.prompt("go")).await;
    assert_eq!(said(&stage), []);
}

#[tokio::test]
async fn the_window_and_the_share_are_parameters() {
    let effect = StallDetect { window: 3, similarity_threshold: 1.0 };
    let stage = with(effect, then_done(idle(3)));
    stage.play().await;
    assert_eq!(said_at(&stage), [3]);

    let effect = StallDetect { window: 4, similarity_threshold: 0.3 };
    let stage = with(effect, then_done([new(2), idle(2)].concat()));
    stage.play().await;
    assert_eq!(said_at(&stage), [4]);
}
