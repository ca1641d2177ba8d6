//! `progress` and `inject`.

use std::sync::Arc;

use bowline_agent::effect::{Inject, Progress, ToolScope};
use bowline_llm::StopReason;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use super::{acts, call, done, said, said_at, then_done, with, with_all};
use crate::support::{Stage, hear, tool};

fn steps(times: usize) -> Vec<Reply> {
    std::iter::repeat_with(|| call("count", "")).take(times).collect()
}

fn with_notes(stage: Stage, name: &str) -> Stage {
    stage.with(tool(name, |_, _| async move { Ok("noted".into()) }))
}

// B9
#[tokio::test]
async fn progress_is_asked_for_every_five_steps_where_notes_can_be_written() {
    let stage = with_notes(with(Progress::default(), then_done(steps(11))), "write_note");
    let told = stage.play().await;
    assert_eq!(said_at(&stage), [5, 10]);
    let text = &said(&stage)[0].1;
    assert!(text.starts_with("5 steps are done. Write a progress note with write_note"), "{text}");
    assert_eq!(acts(&told), ["effect(progress say)", "effect(progress say)", "run_end(done)"]);
}

#[tokio::test]
async fn progress_is_not_asked_for_without_a_tool_for_notes() {
    let stage = with(Progress::default(), then_done(steps(6)));
    stage.play().await;
    assert_eq!(said(&stage), []);

    // A tool that may not be called is none.
    for hide in [false, true] {
        let scope = ToolScope { exclude: vec!["write_note".into()], hide };
        let effects = [Arc::new(Progress::default()) as _, Arc::new(scope) as _];
        let stage = with_notes(with_all(effects, then_done(steps(6))), "write_note");
        stage.play().await;
        assert_eq!(said(&stage), []);
    }
}

#[tokio::test]
async fn the_interval_and_the_tool_of_progress_are_parameters() {
    let effect = Progress { interval: 2, note_tool: "remember".into() };
    let stage = with_notes(with(effect, then_done(steps(5))), "remember");
    stage.play().await;
    assert_eq!(said_at(&stage), [2, 4]);
}

#[tokio::test]
async fn each_run_counts_its_own_steps() {
    let effect = Progress { interval: 2, ..Progress::default() };
    let replies = then_done(steps(1)).into_iter().chain(then_done(steps(1)));
    let stage = with_notes(with(effect, replies), "write_note");
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    hear(handle.prompt("go")).await;
    assert_eq!(said(&stage), []);
}

#[tokio::test]
async fn a_text_is_said_at_the_steps_that_are_named() {
    let effect = Inject { text: "Mind the gap.".into(), at: vec![0, 2], every: 0 };
    let stage = with(effect, then_done(steps(3)));
    let told = stage.play().await;
    assert_eq!(said_at(&stage), [0, 2]);
    assert_eq!(stage.asked()[0], ["user \"go\"", "user \"Mind the gap.\""]);
    assert_eq!(acts(&told), ["effect(inject say)", "effect(inject say)", "run_end(done)"]);
}

#[tokio::test]
async fn a_text_is_said_again_and_again() {
    let effect = Inject { text: "Mind the gap.".into(), at: vec![1], every: 2 };
    let stage = with(effect, then_done(steps(4)));
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    assert_eq!(said_at(&stage), [1, 2, 4]);
    stage.model.push(call("count", ""));
    stage.model.push(done());
    hear(handle.prompt("go")).await;
    // Behind the five replies of the first run, one of the second.
    assert_eq!(said_at(&stage), [1, 2, 4, 6]);
}

// Nothing can be said between the parts of an answer.
#[tokio::test]
async fn what_could_not_be_said_while_an_answer_goes_on_is_said_at_the_next_step() {
    let cut = Reply::text("Let me").with_stop(StopReason::MaxTokens);
    let goes_on = Reply::text(" see.").and_call("count", "{}");
    let inject = Inject { text: "Mind the gap.".into(), at: vec![2], every: 0 };
    let progress = Progress { interval: 2, ..Progress::default() };
    let effects = [Arc::new(inject) as _, Arc::new(progress) as _];
    let replies = [call("count", ""), cut, goes_on, done()];
    let stage = with_notes(with_all(effects, replies), "write_note");
    stage.play().await;
    let said = said(&stage);
    let texts: Vec<_> = said.iter().map(|(at, text)| (*at, &text[..13])).collect();
    assert_eq!(texts, [(2, "Your answer w"), (3, "Mind the gap."), (3, "3 steps are d")]);
}
