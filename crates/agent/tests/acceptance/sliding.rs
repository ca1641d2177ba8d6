//! `sliding_window`: three zones, and one summary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_agent::effect::SlidingWindow;
use bowline_agent::event::EventBody;
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, Message, ModelError, Request, text_of};
use pretty_assertions::assert_eq;

use crate::invariants::check_request;
use crate::masking::rewrites;
use crate::narrow::{
    compactions, is_side_question, length, read, reads, side_questions, texts, within,
};
use crate::support::{Stage, conversation, hear, lines, lines_of, log_of};

fn small() -> SlidingWindow {
    SlidingWindow { recent_zone: 4, medium_zone: 4, ..SlidingWindow::default() }
}

fn reading(window: u64, effect: SlidingWindow, notes: Reply, turns: usize) -> Stage {
    let speak = move |turn: usize, _: &Request| {
        if turn < turns { reads(3_000) } else { Reply::text("done") }
    };
    within(window, effect, move |_| notes.clone(), speak).with(read())
}

fn prompt_of(question: &Request) -> String {
    match &**question.messages.get(0).unwrap() {
        Message::User(said) => text_of(&said.content),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn below_the_limit_nothing_is_asked() {
    let told = reading(10_000, small(), Reply::text("notes"), 8).play().await;
    assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
}

#[tokio::test]
async fn the_old_zone_is_summarised_and_the_medium_one_trimmed() {
    let stage = reading(10_000, small(), Reply::text("## Done\nTwo files."), 10);
    let told = stage.play().await;
    assert_eq!(
        compactions(&told),
        [
            "effect(sliding_window ask)",
            "compaction_start(sliding_window)",
            "effect(sliding_window rewrite)",
            "compaction_end(sliding_window true)",
            "cache_break(sliding_window)",
        ]
    );
    let last = texts(&stage, stage.model.requests().len() - 1);
    assert_eq!(last[0], r#"user "go""#);
    assert!(last[1].starts_with(r#"user "The conversation up to here was shortened"#), "{last:#?}");
    assert!(prompt_of(&side_questions(&stage)[0]).contains("[call] read("));
    let request = stage.model.requests().pop().unwrap();
    let lengths = request.messages.iter().filter_map(|message| match &**message {
        Message::Results(results) => Some(text_of(&results[0].content).len()),
        _ => None,
    });
    let short = 200 + "\n[... 2810 characters cut]".len();
    assert_eq!(lengths.collect::<Vec<_>>(), [short, short, 3_010, 3_010]);
}

/// The request at hand and what is pinned are not for a summary to retell.
#[tokio::test]
async fn the_request_at_hand_and_what_is_pinned_stay() {
    let stage = reading(10_000, small(), Reply::text("notes"), 40);
    let handle = stage.start();
    handle.pin("Never touch main.").await.unwrap();
    let told = hear(handle.prompt("the request")).await;
    assert_eq!(told.text(), "done");
    assert!(side_questions(&stage).len() > 2);
    for request in stage.model.requests().iter().filter(|request| !is_side_question(request)) {
        let lines = lines_of(request.messages.iter());
        assert_eq!(lines[..2], [r#"user "Never touch main.""#, r#"user "the request""#]);
        assert!(length(request) / 4 < 8_500);
    }
}

// B6
/// The latest summary takes the place of the one before, in a later run too.
#[tokio::test]
async fn there_is_one_summary_and_it_is_brought_up_to_date() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let notes = move |_: &Request| {
        Reply::text(format!("notes {}", count.fetch_add(1, Ordering::SeqCst) + 1))
    };
    let speak = |turn: usize, _: &Request| match turn % 20 {
        19 => Reply::text("done"),
        _ => reads(3_000),
    };
    let stage = within(10_000, small(), notes, speak).with(read());
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    hear(handle.prompt("two")).await;
    let questions = side_questions(&stage);
    assert!(questions.len() > 2, "{}", questions.len());
    for (at, question) in questions.iter().enumerate().skip(1) {
        let prompt = prompt_of(question);
        assert!(prompt.contains(&format!("<notes>\nnotes {at}\n</notes>")), "{prompt}");
    }
    for request in stage.model.requests() {
        let lines = lines_of(request.messages.iter());
        let summaries = lines.iter().filter(|line| line.contains("was shortened")).count();
        assert!(summaries <= 1, "{lines:#?}");
    }
    // One block makes room for several turns.
    let log = log_of(handle.session_id()).await;
    let epochs = rewrites(&log);
    assert!(epochs.len() <= 38 / 3, "{} epochs", epochs.len());
    assert!(epochs.iter().all(|epoch| epoch.before - epoch.after >= 700));
}

// B5
/// Wherever the zones end by the number of messages, no call is parted from its results.
#[tokio::test]
async fn no_zone_begins_between_a_call_and_its_results() {
    for (recent_zone, medium_zone) in [(3, 4), (4, 3), (3, 0), (4, 4)] {
        let zones = SlidingWindow { recent_zone, medium_zone, ..small() };
        let stage = reading(10_000, zones, Reply::text("notes"), 20);
        assert_eq!(stage.play().await.text(), "done");
        assert!(side_questions(&stage).len() > 1);
        for request in stage.model.requests() {
            check_request(&request);
        }
    }
}

#[tokio::test]
async fn without_a_summary_all_stays_as_it_is() {
    let failing = || Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no"));
    for notes in [failing(), Reply::text(""), Reply::text("w".repeat(60_000))] {
        let speak = |turn: usize, _: &Request| match turn {
            0..10 => reads(3_000),
            10..16 => reads(10),
            _ => Reply::text("done"),
        };
        let stage = within(10_000, small(), move |_| notes.clone(), speak).with(read());
        let handle = stage.start();
        let told = hear(handle.prompt("go")).await;
        assert_eq!(told.text(), "done");
        // Nor is it tried again before there is much more of it.
        assert_eq!(side_questions(&stage).len(), 1);
        let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert!(warnings[0].contains("could not be summarised"), "{warnings:#?}");
        let now = conversation(&handle);
        assert_eq!(now.len(), 1 + 16 * 2 + 1);
        assert!(rewrites(&log_of(handle.session_id()).await).is_empty());
    }
    // When it has grown by a twentieth of the window it is.
    let stage = reading(10_000, small(), failing(), 11);
    stage.play().await;
    assert_eq!(side_questions(&stage).len(), 2);
}

#[tokio::test]
async fn a_short_conversation_is_left_alone_however_long_its_messages_are() {
    for zone in [0, 1, 10] {
        let window = SlidingWindow { recent_zone: zone, ..SlidingWindow::default() };
        let stage = within(1_000, window, |_| panic!("asked"), |_, _| Reply::text("done"));
        let handle = stage.start();
        handle.pin("p".repeat(4_000)).await.unwrap();
        let told = hear(handle.prompt("p".repeat(4_000))).await;
        assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
    }
}

#[tokio::test]
async fn it_summarises_when_somebody_asks_for_it() {
    let stage = reading(100_000, small(), Reply::text("notes"), 10);
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let told = hear(handle.compact(Some("the port".into()))).await;
    assert_eq!(told.outcome.unwrap().is_done(), true);
    let questions = side_questions(&stage);
    assert_eq!(questions.len(), 1);
    assert!(prompt_of(&questions[0]).contains("asks that the notes keep this: the port"));
    assert!(conversation(&handle)[1].contains("was shortened"));
}

#[test]
fn what_makes_no_sense_is_named() {
    let default = SlidingWindow::default();
    assert!(default.clone().checked().is_ok());
    let zones = (default.threshold, default.recent_zone, default.medium_zone, default.trim_length);
    assert_eq!(zones, (0.7, 10, 10, 200));
    let error = SlidingWindow { recent_zone: 0, ..small() }.checked().unwrap_err();
    assert_eq!(error, "recent_zone must be at least 1");
    let error = SlidingWindow { threshold: -0.1, ..small() }.checked().unwrap_err();
    assert_eq!(error, "threshold must be more than 0 and at most 1");
    assert!(SlidingWindow { medium_zone: 0, ..small() }.checked().is_ok());
}
