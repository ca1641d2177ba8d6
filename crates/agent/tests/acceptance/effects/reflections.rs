//! `reflection`.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_agent::effect::{Inject, Reflection};
use bowline_agent::gate::{Gate as Permission, Review, Verdict};
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;

use super::{acts, call, done, said, said_at, then_done, with, with_all};
use crate::support::hear;

fn failures(times: usize) -> Vec<Reply> {
    std::iter::repeat_with(|| call("fail", "")).take(times).collect()
}

#[tokio::test]
async fn two_steps_that_fail_in_a_row_are_asked_about_behind_their_results() {
    let stage = with(Reflection::default(), then_done(failures(2)));
    let told = stage.play().await;
    let [(2, text)] = &said(&stage)[..] else { panic!("{:?}", said(&stage)) };
    assert!(text.starts_with("The last 2 steps have failed."), "{text}");
    assert_eq!(stage.asked()[2][4], "results call_2!=\"it failed\"");
    assert_eq!(acts(&told), ["effect(reflection say)", "run_end(done)"]);
}

#[tokio::test]
async fn one_failure_or_a_success_in_between_is_not_asked_about() {
    for replies in [failures(1), [failures(1), vec![call("echo", "x")], failures(1)].concat()] {
        let stage = with(Reflection::default(), then_done(replies));
        stage.play().await;
        assert_eq!(said(&stage), []);
    }
}

#[tokio::test]
async fn a_step_with_a_success_has_not_failed() {
    let mixed = || call("fail", "").and_call("echo", "{}");
    let stage = with(Reflection::default(), [mixed(), mixed(), mixed(), done()]);
    stage.play().await;
    assert_eq!(said(&stage), []);
}

// A step is one however many calls it has.
#[tokio::test]
async fn failures_of_one_step_count_once() {
    let wide = || call("fail", "").and_call("fail", "{}").and_call("unknown", "{}");
    let stage = with(Reflection::default(), [wide(), done()]);
    stage.play().await;
    assert_eq!(said(&stage), []);
}

// B10: neither the effect's own words nor those of others end the count.
#[tokio::test]
async fn the_count_goes_on_whatever_effects_say() {
    let inject = Inject { text: "Go on.".into(), every: 1, ..Inject::default() };
    let effects = [Arc::new(inject) as _, Arc::new(Reflection::default()) as _];
    let stage = with_all(effects, then_done(failures(8)));
    stage.play().await;
    let asked: Vec<_> = said(&stage).into_iter().filter(|(_, text)| text != "Go on.").collect();
    let counts: Vec<_> = asked.iter().map(|(at, text)| (*at, &text[..22])).collect();
    let expected = [
        (2, "The last 2 steps have "),
        (4, "The last 4 steps have "),
        (8, "The last 8 steps have "),
    ];
    assert_eq!(counts, expected);
}

#[tokio::test]
async fn what_a_user_says_and_a_new_run_begin_the_count_anew() {
    let gate = Gate::default();
    let held = call("fail", "").held_by(&gate);
    let replies = [held, call("fail", ""), done(), call("fail", ""), done()];
    let stage = with(Reflection::default(), replies);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.queue("go").await.unwrap();
    gate.open();
    hear(run).await;
    hear(handle.prompt("go")).await;
    assert_eq!(said(&stage), []);
}

#[tokio::test]
async fn the_threshold_is_a_parameter() {
    let stage = with(Reflection { failure_threshold: 1 }, then_done(failures(1)));
    stage.play().await;
    assert!(said(&stage)[0].1.starts_with("The last step has failed."), "{:?}", said(&stage));
    let stage = with(Reflection { failure_threshold: 3 }, then_done(failures(3)));
    stage.play().await;
    assert_eq!(said_at(&stage), [3]);
}

struct Closed;

#[async_trait]
impl Permission for Closed {
    async fn review(&self, _: &Review<'_>) -> Verdict {
        Verdict::Deny { reason: "no".to_owned() }
    }
}

#[tokio::test]
async fn what_is_denied_has_failed() {
    let replies = [call("echo", "1"), call("echo", "2"), done()];
    let stage = with(Reflection::default(), replies).change(|agent| agent.gate = Arc::new(Closed));
    stage.play().await;
    assert_eq!(said_at(&stage), [2]);
}
