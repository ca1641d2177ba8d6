//! What may go wrong with a summary, and must not.

use std::sync::Arc;

use bowline_agent::effect::{Compact, Effect, SlidingWindow};
use bowline_agent::entry::{Ending, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, Message, ModelError, Request, ScriptedModel, text_of};
use pretty_assertions::assert_eq;

use crate::masking::rewrites;
use crate::narrow::{compactions, length, read, reads, side_questions, texts, within};
use crate::support::{conversation, echo, hear, lines, log_of};

fn no() -> Reply {
    Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no"))
}

fn too_long() -> Reply {
    Reply::error(ModelError::new(ErrorKind::ContextOverflow, "too long"))
}

fn prompt_of(question: &Request) -> String {
    match &**question.messages.get(0).unwrap() {
        Message::User(said) => text_of(&said.content),
        other => panic!("{other:?}"),
    }
}

/// A summary stands for what its model was shown: what comes in meanwhile moves no cut.
#[tokio::test]
async fn what_is_said_while_a_summary_is_written_cuts_nothing_unread() {
    let gate = Gate::default();
    let other = ScriptedModel::new([Reply::text("notes").held_by(&gate), Reply::text("notes")]);
    let compact = Compact {
        keep_recent_tokens: 2_000,
        summariser: Some(Arc::new(other.clone())),
        ..Compact::default()
    };
    let said = |turn: usize| format!("{turn:02} {}", "y".repeat(2_900));
    let speak = move |turn: usize, _: &Request| match turn {
        0..12 => Reply::text(said(turn)).and_call("echo", "{}"),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, compact, |_| panic!("asked"), speak).with(echo());
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let before = conversation(&handle).concat();
    for _ in 0..2 {
        handle.queue("w".repeat(3_000)).await.unwrap();
    }
    gate.open();
    assert_eq!(hear(run).await.text(), "done");
    let question = prompt_of(&other.requests()[0]);
    let asked = stage.asked();
    let next = asked.iter().find(|lines| lines.concat().contains("was shortened")).unwrap();
    for turn in 0..12 {
        let began = format!("{turn:02} yy");
        let is_known = question.contains(&began) || next.concat().contains(&began);
        assert!(!before.contains(&began) || is_known, "what was said in turn {turn} is lost");
    }
    assert_eq!(next.concat().matches(r#"user "www"#).count(), 2, "all of it is said");
}

/// The window that a model is thought to have may be too large.
#[tokio::test]
async fn a_request_that_was_too_long_is_shortened_whatever_the_window_is_said_to_be() {
    let sliding = SlidingWindow { recent_zone: 4, medium_zone: 2, ..SlidingWindow::default() };
    mends(sliding).await;
    mends(Compact::default()).await;
}

async fn mends(effect: impl Effect) {
    let speak = move |turn: usize, _: &Request| match turn {
        0..8 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
        8 => too_long(),
        _ => Reply::text("done"),
    };
    let stage = within(1_000_000, effect, |_| Reply::text("notes"), speak).with(echo());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(side_questions(&stage).len(), 1);
    let last = stage.model.requests().last().map(length).unwrap() / 4;
    assert!(last < 16_000 * 6 / 10, "{last} tokens are left");
}

/// Results that are shortened because there is no summary are no reason to ask for one again.
#[tokio::test]
async fn a_summary_that_failed_is_not_tried_again_for_every_result() {
    let speak = |turn: usize, _: &Request| match turn {
        0 => Reply::text("y".repeat(22_000)).and_call("read", r#"{"text":"f.10"}"#),
        1..9 => reads(5_000),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), |_| no(), speak).with(read());
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.text(), "done");
    assert!(rewrites(&log_of(handle.session_id()).await).len() > 1);
    assert_eq!(side_questions(&stage).len(), 1);
}

/// What would not fit is worth another attempt, however little has come since the last.
#[tokio::test]
async fn before_a_run_is_given_up_a_summary_is_tried_again() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let notes = move |_: &Request| {
        let before = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if before == 0 { no() } else { Reply::text("notes") }
    };
    let speak = |turn: usize, _: &Request| match turn {
        0 => Reply::text("y".repeat(30_000)).and_call("echo", "{}"),
        1 => Reply::text("y".repeat(8_600)).and_call("echo", "{}"),
        2 => Reply::text("y".repeat(1_900)).and_call("echo", "{}"),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), notes, speak).with(echo());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(side_questions(&stage).len(), 2);
}

/// A request that does not fit even with a summary is not made.
#[tokio::test]
async fn what_cannot_fit_even_with_a_summary_is_not_sent() {
    let speak = |turn: usize, _: &Request| match turn {
        0 => Reply::text("y".repeat(8_000)),
        _ => panic!("sent"),
    };
    let stage = within(10_000, Compact::default(), |_| Reply::text("notes"), speak);
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    let told = hear(handle.prompt("p".repeat(120_000))).await;
    let Ending::Failed(error) = told.ending() else { panic!("{:?}", told.ending()) };
    assert_eq!(error.kind, RunErrorKind::ContextExhausted);
    assert!(side_questions(&stage).len() <= 2);
}

/// However little is freed: what fits is sent.
#[tokio::test]
async fn what_just_fits_with_shorter_results_is_sent() {
    let speak = |turn: usize, _: &Request| match turn {
        0 | 1 => reads(1_200),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), |_| panic!("asked"), speak).with(read());
    let handle = stage.start();
    let told = hear(handle.prompt("p".repeat(38_000))).await;
    assert_eq!(told.text(), "done");
    assert_eq!(rewrites(&log_of(handle.session_id()).await).len(), 1);
}

#[tokio::test]
async fn a_result_that_lies_beside_the_log_makes_room_too() {
    let speak = |turn: usize, _: &Request| match turn {
        0 => reads(400_000),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), |_| Reply::text("notes"), speak).with(read());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    assert!(texts(&stage, 1)[2].contains("a text of 400012 bytes"), "{:#?}", texts(&stage, 1));
}

/// A model that summarises has a window as well.
#[tokio::test]
async fn the_question_fits_the_window_with_its_answer() {
    let speak = |turn: usize, _: &Request| match turn {
        0..3 => Reply::text("y".repeat(9_000)).and_call("echo", "{}"),
        3..20 => reads(4_000),
        _ => Reply::text("done"),
    };
    let notes = |_: &Request| Reply::text("n".repeat(4_000));
    let stage = within(8_000, Compact::default(), notes, speak).with(echo()).with(read());
    assert_eq!(stage.play().await.text(), "done");
    let questions = side_questions(&stage);
    assert!(questions.len() > 1);
    for question in questions {
        let most = length(&question) / 3 + question.max_output_tokens.unwrap();
        assert!(most <= 8_000, "{most} tokens");
    }
}

/// A message too long for the model that summarises is still heard of.
#[tokio::test]
async fn a_message_that_is_too_long_for_the_question_keeps_its_ends() {
    let speak = |turn: usize, _: &Request| match turn {
        0 => {
            let text = format!("BEGIN {} END", "y".repeat(26_000));
            Reply::text(text).and_call("echo", "{}")
        }
        1 => Reply::text("z".repeat(8_000)).and_call("echo", "{}"),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), |_| Reply::text("notes"), speak).with(echo());
    assert_eq!(stage.play().await.text(), "done");
    let question = prompt_of(&side_questions(&stage)[0]);
    assert!(question.contains("BEGIN yyy") && question.contains("yyy END"), "{question}");
}

// D20
/// A result is more than how it begins: the error that counts often stands at its end.
#[tokio::test]
async fn whoever_writes_the_notes_sees_results_whole_or_both_their_ends() {
    let result = |length: usize| {
        let half = "y".repeat(length / 2);
        let text = format!("BEGIN {half} MIDDLE{length} {half} END{length}");
        Reply::call("echo", serde_json::json!({ "text": text }).to_string())
    };
    let speak = move |turn: usize, _: &Request| match turn {
        0 => result(1_200),
        1 => result(5_000),
        2 | 3 => Reply::text("z".repeat(13_000)).and_call("echo", "{}"),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), |_| Reply::text("notes"), speak).with(echo());
    assert_eq!(stage.play().await.text(), "done");
    let question = prompt_of(&side_questions(&stage)[0]);
    let results: Vec<_> = question.lines().filter(|line| line.starts_with("[result")).collect();
    assert!(results[0].contains("BEGIN y") && results[0].contains("MIDDLE1200"), "{results:#?}");
    assert!(results[1].contains("BEGIN y") && results[1].ends_with(" END5000"), "{results:#?}");
    assert!(results[1].len() < 2_100, "{results:#?}");
}

/// Two effects that summarise share one summary.
#[tokio::test]
async fn summaries_of_several_effects_are_one() {
    let speak = |turn: usize, _: &Request| match turn {
        0..60 => Reply::text("z".repeat(2_000)).and_call("read", r#"{"text":"f.2000"}"#),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), |_| Reply::text("notes"), speak).with(read());
    let stage = stage.change(|agent| {
        let sliding = SlidingWindow { recent_zone: 8, medium_zone: 2, ..SlidingWindow::default() };
        agent.effects.push(Arc::new(sliding));
    });
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.text(), "done");
    let said = compactions(&told);
    assert!(said.iter().any(|line| line == "cache_break(sliding_window)"), "{said:#?}");
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert_eq!(warnings, Vec::<String>::new());
    let now = conversation(&handle);
    assert_eq!(now.iter().filter(|line| line.contains("was shortened")).count(), 1);
}

#[test]
fn what_makes_no_sense_is_named() {
    assert!(Compact::default().checked().is_ok());
    let error = Compact { target: 0.0, ..Compact::default() }.checked().unwrap_err();
    assert_eq!(error, "target must be more than 0 and at most 1");
    let error = Compact { threshold: 8.0, ..Compact::default() }.checked().unwrap_err();
    assert_eq!(error, "threshold must be more than 0 and at most 1");
}
