//! `observation_mask` and `trim_tool_results`: old results that are shown shorter, in blocks.

use std::collections::HashSet;
use std::sync::Arc;

use bowline_agent::effect::{
    Compact, DynEffect, Effect, ObservationMask, Offload, SlidingWindow, TrimToolResults,
};
use bowline_agent::entry::{Act, Acted, Entry, EntryKind, Rewrite};
use bowline_agent::event::EventBody;
use bowline_agent::journal::Pos;
use bowline_agent::tool::{Access, ToolError, ToolOutput, tool_fn};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, Media, Message, ModelError, Part, Request, text_of};
use pretty_assertions::assert_eq;

use crate::narrow::{compactions, length, read, reads, texts, within};
use crate::support::{Stage, Text, hear, hear_with, lines, log_of, usage};

/// A stage where so many files are read, one after the other, and then there is an answer.
fn reading(window: u64, effect: impl Effect, turns: usize, bytes: usize) -> Stage {
    let speak = move |turn: usize, _: &_| {
        if turn < turns { reads(bytes) } else { Reply::text("done") }
    };
    within(window, effect, |_| panic!("asked"), speak).with(read())
}

pub(crate) fn rewrites(log: &[(Pos, Entry)]) -> Vec<Rewrite> {
    let rewrites = log.iter().filter_map(|(_, entry)| match &entry.kind {
        EntryKind::Effect(Acted { act: Act::Rewrite(rewrite), .. }) => Some(rewrite.clone()),
        _ => None,
    });
    rewrites.collect()
}

fn breaks(told: &crate::support::Told) -> usize {
    lines(&told.events, |body| matches!(body, EventBody::CacheBreak { .. })).len()
}

#[tokio::test]
async fn below_the_limit_results_stay_as_they_are() {
    let told = reading(10_000, ObservationMask::default(), 6, 3_000).play().await;
    assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
    let told = reading(10_000, TrimToolResults::default(), 5, 3_000).play().await;
    assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
    // Where nobody knows the window there is no limit.
    let told = reading(0, ObservationMask::default(), 30, 3_000).play().await;
    assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
}

#[tokio::test]
async fn old_results_are_masked_at_the_limit_and_the_latest_messages_stay() {
    let stage = reading(10_000, ObservationMask::default(), 8, 3_000);
    let told = stage.play().await;
    assert_eq!(
        compactions(&told),
        ["effect(observation_mask rewrite)", "cache_break(observation_mask)"]
    );
    let last = texts(&stage, 8);
    assert_eq!(last[0], r#"user "go""#);
    for at in [2, 4, 6] {
        assert!(last[at].contains("[tool result for read: file.3000 xxx"), "{last:#?}");
        assert!(last[at - 1].starts_with("assistant call_"), "{last:#?}");
    }
    for at in (8..=16).step_by(2) {
        assert!(last[at].contains("file.3000\\nxxx"), "{last:#?}");
    }
    let begins = format!("file.3000 {}...", "x".repeat(70));
    let request = stage.model.requests().pop().unwrap();
    assert_eq!(result(&request, 2), format!("[tool result for read: {begins}]"));
}

#[tokio::test]
async fn trimmed_results_keep_their_beginning() {
    let stage = reading(10_000, TrimToolResults::default(), 7, 3_000);
    let told = stage.play().await;
    assert_eq!(
        compactions(&told),
        ["effect(trim_tool_results rewrite)", "cache_break(trim_tool_results)"]
    );
    let request = stage.model.requests().pop().unwrap();
    let results: Vec<String> = request
        .messages
        .iter()
        .filter_map(|message| match &**message {
            Message::Results(results) => Some(text_of(&results[0].content)),
            _ => None,
        })
        .collect();
    let (whole, cut) = (3_010, "\n[... 2510 characters cut]");
    let lengths: Vec<usize> = results.iter().map(String::len).collect();
    let short = 500 + cut.len();
    assert_eq!(lengths, [short, short, short, whole, whole, whole, whole]);
    assert!(results[0].starts_with("file.3000\nxxx") && results[0].ends_with(cut));
}

// B5
/// Cut by their number, results of a turn that the model has not seen yet would be lost to it.
#[tokio::test]
async fn a_turn_is_never_cut_in_the_middle() {
    let many = |bytes: usize| {
        let call = |reply: Reply, _| reply.and_call("read", format!(r#"{{"text":"f.{bytes}"}}"#));
        (0..4).fold(Reply::text("look"), call)
    };
    let mask = Arc::new(ObservationMask { threshold: 0.1, recent_window: 1 });
    let trim = Arc::new(TrimToolResults {
        threshold: 0.1,
        preserve_recent: 1,
        ..TrimToolResults::default()
    });
    let effects: [Arc<dyn DynEffect>; 2] = [mask, trim];
    for effect in effects {
        let speak = move |turn: usize, _: &_| match turn {
            0..3 => many(2_000),
            _ => Reply::text("done"),
        };
        let stage = within(10_000, ObservationMask::default(), |_| panic!("asked"), speak);
        let stage = stage.with(read()).change(|agent| agent.effects = vec![effect]);
        stage.play().await;
        for request in stage.model.requests() {
            let Some(Message::Results(last)) = request.messages.iter().next_back().map(|it| &**it)
            else {
                continue;
            };
            assert_eq!(last.len(), 4);
            for result in last {
                assert_eq!(text_of(&result.content).len(), 2_007, "cut before it was seen");
            }
        }
        let request = stage.model.requests().pop().unwrap();
        let Message::Results(oldest) = &**request.messages.get(2).unwrap() else { panic!() };
        assert!(oldest.iter().all(|result| text_of(&result.content).len() < 600));
    }
}

#[tokio::test]
async fn errors_small_results_and_what_is_no_text_stay() {
    let fail = async |_: Text, _| Err(ToolError::failed("e".repeat(3_000)));
    let fail = tool_fn("fail", "Fails.", fail).with_access(Access::none());
    let shot = async |_: Text, _| {
        let image = Media { media_type: "image/png".into(), data: "aaaa".into(), name: None };
        let parts = vec![Part::Text("t".repeat(3_000)), Part::Image(image)];
        Ok(ToolOutput::Content(parts))
    };
    let shot = tool_fn("shot", "Shows.", shot).with_access(Access::none());
    let speak = |turn: usize, _: &_| match turn {
        0 => Reply::call("fail", "{}"),
        1 => Reply::call("shot", "{}"),
        2 => reads(10),
        3..9 => reads(3_000),
        _ => Reply::text("done"),
    };
    let trim = TrimToolResults { threshold: 0.6, ..TrimToolResults::default() };
    let stage = within(10_000, trim, |_| panic!("asked"), speak);
    let stage = stage.with(read()).with(fail).with(shot);
    let told = stage.play().await;
    assert_eq!(breaks(&told), 1);
    let request = stage.model.requests().pop().unwrap();
    let result = |at: usize| match &**request.messages.get(at).unwrap() {
        Message::Results(results) => results[0].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text_of(&result(2).content), "e".repeat(3_000));
    let shot = result(4).content;
    assert!(text_of(&shot).ends_with("[... 2500 characters cut]"));
    assert!(matches!(&shot[1], Part::Image(_)), "the image stays");
    assert!(text_of(&result(6).content).ends_with("xxxxxxxxxx"));
}

/// All that shortens results without a model, from a share of the window on.
fn shortening(threshold: f64) -> [Arc<dyn DynEffect>; 4] {
    [
        Arc::new(ObservationMask { threshold, ..ObservationMask::default() }),
        Arc::new(TrimToolResults { threshold, ..TrimToolResults::default() }),
        Arc::new(Offload { threshold, ..Offload::default() }),
        Arc::new(SlidingWindow { threshold, medium_zone: 100, ..SlidingWindow::default() }),
    ]
}

/// Of what went wrong no word may be lost.
#[tokio::test]
async fn errors_stay_whole_whatever_shortens_the_rest() {
    for effect in shortening(0.5) {
        let kind = effect.kind().to_owned();
        let fail = async |_: Text, _| Err(ToolError::failed("e".repeat(3_000)));
        let fail = tool_fn("fail", "Fails.", fail).with_access(Access::none());
        let speak = |turn: usize, _: &_| match turn {
            0 => Reply::call("fail", "{}"),
            1..10 => reads(3_000),
            _ => Reply::text("done"),
        };
        let stage = within(10_000, ObservationMask::default(), |_| panic!("asked"), speak);
        let stage = stage.with(read()).with(fail).change(|agent| agent.effects = vec![effect]);
        let told = stage.play().await;
        assert!(breaks(&told) > 0, "{kind}");
        let request = stage.model.requests().pop().unwrap();
        assert_eq!(result(&request, 2), "e".repeat(3_000), "{kind}");
        assert!(result(&request, 4).len() < 600, "{kind}");
        assert_eq!(result(&request, 20).len(), 3_010, "{kind}");
    }
}

/// Returns the text of the only result in a message.
fn result(request: &Request, at: usize) -> String {
    let Message::Results(results) = &**request.messages.get(at).unwrap() else { panic!("{at}") };
    let [result] = results.as_slice() else { panic!("{results:?}") };
    text_of(&result.content)
}

#[tokio::test]
async fn a_conversation_with_nothing_to_cut_is_left_alone() {
    let none = ObservationMask { threshold: 0.6, recent_window: 0 };
    for effect in shortening(0.6).into_iter().chain([Arc::new(none) as _]) {
        let stage = within(
            1_000,
            ObservationMask::default(),
            |_| panic!("asked"),
            |_, _| Reply::text("done"),
        );
        let stage = stage.change(|agent| agent.effects = vec![effect]);
        let told = hear(stage.start().prompt("p".repeat(3_600))).await;
        assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
    }
}

#[tokio::test]
async fn where_there_is_no_window_or_no_share_of_it_there_is_no_limit() {
    for (window, threshold) in [(0, 0.1), (1_000, 0.0)] {
        let compact = Compact { threshold, ..Compact::default() };
        for effect in shortening(threshold).into_iter().chain([Arc::new(compact) as _]) {
            let stage = reading(window, ObservationMask::default(), 20, 3_000);
            let told = stage.change(|agent| agent.effects = vec![effect]).play().await;
            assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
        }
    }
}

/// What others spend, a sub-agent or a tool, is no part of the conversation.
#[tokio::test]
async fn what_a_tool_spends_fills_no_window() {
    let spend = async |_: Text, cx: bowline_agent::tool::ToolContext| {
        cx.report_usage(usage(1_000_000, 0), None);
        Ok("spent".into())
    };
    let spend = tool_fn("spend", "Spends.", spend).with_access(Access::none());
    let speak = |turn: usize, _: &_| match turn {
        0..3 => reads(1_000),
        3 => Reply::call("spend", "{}"),
        _ => Reply::text("done"),
    };
    let mask = ObservationMask { recent_window: 1, ..ObservationMask::default() };
    let stage = within(10_000, mask, |_| panic!("asked"), speak).with(read()).with(spend);
    let told = hear_with(stage.agent.prompt("go"), usage(1_000_000, 0)).await;
    assert_eq!((told.text().as_str(), compactions(&told)), ("done", vec![]));
}

/// A provider's cache is lost once a block, and nothing is cut a second time.
#[tokio::test]
async fn results_are_cut_in_blocks() {
    const WINDOW: u64 = 32_000;
    const TURNS: usize = 150;
    let trim = TrimToolResults { max_result_length: 100, ..TrimToolResults::default() };
    let mask = (reading(WINDOW, ObservationMask::default(), TURNS, 4_000), 0.6);
    for (stage, share) in [mask, (reading(WINDOW, trim, TURNS, 4_000), 0.5)] {
        let handle = stage.start();
        let told = hear(handle.prompt("go")).await;
        assert_eq!(told.text(), "done");
        let log = log_of(handle.session_id()).await;
        let mut cut = HashSet::new();
        for rewrite in rewrites(&log) {
            assert!(rewrite.before - rewrite.after >= (WINDOW as f64 * share * 0.1) as u64);
            for shown in rewrite.results {
                assert!(cut.insert(shown.call), "cut twice");
            }
        }
        let limit = (WINDOW as f64 * share) as usize;
        // Each block makes room for two fifths of the limit, less what stands in place of results.
        let most = TURNS * 1_000 / (limit * 3 / 10) + 1;
        let breaks = breaks(&told);
        assert!(breaks > 5 && breaks <= most, "{breaks} breaks, at most {most}");
        let longest = stage.model.requests().iter().map(length).max().unwrap() / 4;
        assert!(longest <= limit as u64 + 1_100, "{longest} tokens, and {limit} is the limit");
    }
}

/// There is one more request only: who cannot cut enough leaves it to those who can.
#[tokio::test]
async fn after_a_request_that_was_too_long_enough_is_cut_or_nothing() {
    let too_long = || Reply::error(ModelError::new(ErrorKind::ContextOverflow, "too long"));
    for (recent, is_mended) in [(2, true), (12, false)] {
        let mask = ObservationMask { recent_window: recent, ..ObservationMask::default() };
        let speak = move |turn: usize, _: &_| match turn {
            0..8 => reads(3_000),
            8 => too_long(),
            _ => Reply::text("done"),
        };
        let stage = within(0, mask, |_| panic!("asked"), speak).with(read());
        let told = stage.play().await;
        assert_eq!(told.outcome.unwrap().is_done(), is_mended);
        assert_eq!(stage.model.requests().len(), if is_mended { 10 } else { 9 });
    }
}

#[test]
fn what_makes_no_sense_is_named() {
    assert!(ObservationMask::default().checked().is_ok());
    assert!(TrimToolResults::default().checked().is_ok());
    let error = ObservationMask { threshold: 1.5, ..ObservationMask::default() }.checked();
    assert_eq!(error.unwrap_err(), "threshold must be more than 0 and at most 1");
    let error = ObservationMask { recent_window: 0, ..ObservationMask::default() }.checked();
    assert_eq!(error.unwrap_err(), "recent_window must be at least 1");
    let error = TrimToolResults { threshold: f64::NAN, ..TrimToolResults::default() }.checked();
    assert!(error.unwrap_err().starts_with("threshold "));
    let error = TrimToolResults { preserve_recent: 0, ..TrimToolResults::default() }.checked();
    assert_eq!(error.unwrap_err(), "preserve_recent must be at least 1");
    let known: ObservationMask = serde_json::from_str(r#"{"threshold": 0.5}"#).unwrap();
    assert_eq!((known.threshold, known.recent_window), (0.5, 10));
    assert!(serde_json::from_str::<TrimToolResults>(r#"{"thresholt": 0.5}"#).is_err());
}
