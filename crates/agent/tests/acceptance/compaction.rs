//! `compact`: a conversation that stays within its window and does not forget what counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_agent::Agent;
use bowline_agent::children::Child;
use bowline_agent::effect::{Choice, Compact, OnFailure};
use bowline_agent::entry::{Act, Acted, Ending, EntryKind, Rewrite, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_agent::op::{CancelReason, OpKind};
use bowline_agent::tool::{Access, ToolContext, tool_fn};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, Message, ModelError, ModelInfo, Request, ScriptedModel, text_of};
use pretty_assertions::assert_eq;

use crate::narrow::{
    compactions, is_side_question, length, read, reads, side_questions, texts, within,
};
use crate::support::{Latch, Text, conversation, hear, lines, log_of, op, stage_for, tool, usage};

#[tokio::test]
async fn below_the_threshold_nothing_happens() {
    let stage = within(
        10_000,
        Compact::default(),
        |_| panic!("asked"),
        |turn, _| match turn {
            0..3 => reads(4_000),
            _ => Reply::text("done"),
        },
    );
    let told = stage.with(read()).play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(compactions(&told), Vec::<String>::new());
}

#[tokio::test]
async fn old_results_are_shortened_first_and_no_model_is_asked() {
    let stage = within(
        10_000,
        Compact::default(),
        |_| panic!("asked"),
        |turn, _| match turn {
            0..6 => reads(6_000),
            _ => Reply::text("done"),
        },
    );
    let stage = stage.with(read());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(compactions(&told), ["effect(compact rewrite)", "cache_break(compact)"]);
    let last = texts(&stage, 6);
    assert_eq!(last[0], r#"user "go""#);
    assert!(
        last[2].starts_with(r#"results call_1="[tool result for read: file.6000"#),
        "{last:#?}"
    );
    // The last two turns stand as they were.
    for at in [10, 12] {
        assert!(last[at].contains("file.6000\\nxxx"), "{last:#?}");
    }
    // It stays as it is until there is reason for more: the provider's cache holds.
    let tokens = stage.model.requests().last().map(length).unwrap() / 4;
    assert!(tokens <= 4_800, "{tokens} tokens are left of 8000");
}

// D20
#[tokio::test]
async fn what_the_user_said_and_the_latest_turns_outlast_a_summary() {
    let compact = Compact { pinned: vec!["The port is 8443.".into()], ..Compact::default() };
    let stage = within(
        10_000,
        compact,
        |_| Reply::text("## Done\nEverything up to now."),
        |turn, _| match turn {
            0..2 => Reply::text("y".repeat(14_000)),
            2 => reads(4_000),
            _ => Reply::text("done"),
        },
    );
    let stage = stage.with(read());
    let handle = stage.start();
    handle.pin("Never touch main.").await.unwrap();
    hear(handle.prompt("first request")).await;
    hear(handle.prompt("second request")).await;
    let told = hear(handle.prompt("third request")).await;
    assert_eq!(told.text(), "done");
    assert_eq!(
        compactions(&told),
        [
            "effect(compact ask)",
            "compaction_start(compact)",
            "effect(compact rewrite)",
            "compaction_end(compact true)",
            "cache_break(compact)",
        ]
    );
    let now = conversation(&handle);
    assert_eq!(now[0], r#"user "Never touch main.""#);
    assert_eq!(now[1], r#"user "first request""#);
    assert_eq!(now[2], r#"user "second request""#);
    assert!(now[3].starts_with(r#"user "The conversation up to here was shortened"#), "{now:#?}");
    assert_eq!(now[4], r#"user "third request""#);
    assert_eq!(now[5], "assistant call_1=read");
    assert!(now[6].contains("file.4000\\nxxx"));
    assert_eq!(now[7], r#"assistant "done""#);
    assert_eq!(now.len(), 8);
    let summary = match &**handle.messages().get(3).unwrap() {
        Message::User(said) => text_of(&said.content),
        other => panic!("{other:?}"),
    };
    assert!(summary.contains("## Done\nEverything up to now."), "{summary}");
    assert!(summary.contains("The port is 8443."), "{summary}");
    // The log keeps what was there.
    let log = log_of(handle.session_id()).await;
    let replies = log.iter().filter(|(_, entry)| matches!(entry.kind, EntryKind::Assistant(_)));
    assert_eq!(replies.count(), 5);
}

#[tokio::test]
async fn a_rewind_reaches_behind_a_summary() {
    let stage = within(
        10_000,
        Compact::default(),
        |_| Reply::text("notes"),
        |turn, _| match turn {
            0..2 => Reply::text("y".repeat(16_000)),
            _ => Reply::text("done"),
        },
    );
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    let head = handle.state().head;
    hear(handle.prompt("two")).await;
    hear(handle.prompt("three")).await;
    let shortened = conversation(&handle);
    assert!(shortened.iter().any(|line| line.contains("was shortened")), "{shortened:#?}");
    handle.rewind(head).await.unwrap();
    assert_eq!(conversation(&handle).len(), 2);
    assert!(conversation(&handle)[1].starts_with(r#"assistant "yyy"#));
}

// F117
#[tokio::test]
async fn a_summary_is_brought_up_to_date_and_never_stacked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let stage = within(
        10_000,
        Compact::default(),
        move |_| Reply::text(format!("notes {}", count.fetch_add(1, Ordering::SeqCst) + 1)),
        |turn, _| match turn {
            0..40 => Reply::text("z".repeat(4_000)).and_call("echo", r#"{"text":"a"}"#),
            _ => Reply::text("done"),
        },
    );
    let stage = stage.with(crate::support::echo());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    let questions = side_questions(&stage);
    assert!(questions.len() > 3, "{} summaries", questions.len());
    for (at, question) in questions.iter().enumerate().skip(1) {
        let prompt = text_of(match &**question.messages.get(0).unwrap() {
            Message::User(said) => &said.content,
            other => panic!("{other:?}"),
        });
        assert!(prompt.contains(&format!("<notes>\nnotes {at}\n</notes>")), "{prompt}");
        assert!(!prompt.contains("was shortened"), "an old summary is summarised: {prompt}");
        assert!(!prompt.contains("[user] go"), "what was summarised is summarised again: {prompt}");
    }
    for request in stage.model.requests() {
        let lines = crate::support::lines_of(request.messages.iter());
        let summaries = lines.iter().filter(|line| line.contains("was shortened")).count();
        assert!(summaries <= 1, "{lines:#?}");
        if !is_side_question(&request) {
            assert_eq!(lines[0], r#"user "go""#);
            assert!(length(&request) / 4 < 10_000);
        }
    }
}

#[tokio::test]
async fn files_are_carried_on_as_the_calls_say() {
    let write = async |_: Text, _| Ok("written".into());
    let write = tool_fn("write", "Writes.", write).with_access(Access::write("src/new.rs"));
    let fail = async |_: Text, _| Err(bowline_agent::tool::ToolError::failed("no"));
    let fail = tool_fn("fail", "Fails.", fail).with_access(Access::write("src/never.rs"));
    let stage = within(
        10_000,
        Compact::default(),
        |_| Reply::text("notes"),
        |turn, _| match turn {
            0 => reads(10).and_call("write", "{}").and_call("fail", "{}"),
            1..30 => Reply::text("z".repeat(4_000)).and_call("echo", "{}"),
            _ => Reply::text("done"),
        },
    );
    let stage = stage.with(read()).with(write).with(fail).with(crate::support::echo());
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    assert!(side_questions(&stage).len() > 1);
    let log = log_of(handle.session_id()).await;
    let summaries = log.iter().filter_map(|(_, entry)| match &entry.kind {
        EntryKind::Effect(Acted { act: Act::Rewrite(Rewrite { summary, .. }), .. }) => {
            summary.clone()
        }
        _ => None,
    });
    for summary in summaries {
        assert_eq!(summary.read, ["src/lib.rs"]);
        assert_eq!(summary.modified, ["src/new.rs"]);
    }
}

#[tokio::test]
async fn without_a_summary_the_run_warns_and_goes_on_and_asks_again_only_when_it_has_grown() {
    let failing = |_: &Request| Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no"));
    let stage = within(10_000, Compact::default(), failing, |turn, _| match turn {
        0 => Reply::text("y".repeat(24_000)).and_call("echo", "{}"),
        1 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
        2..6 => Reply::text("short").and_call("echo", "{}"),
        _ => Reply::text("done"),
    });
    let stage = stage.with(crate::support::echo());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(side_questions(&stage).len(), 1);
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    // An empty summary, and one that is no shorter, are none.
    for notes in [String::new(), "w".repeat(90_000)] {
        let stage = within(
            10_000,
            Compact::default(),
            move |_| Reply::text(&*notes),
            |turn, _| match turn {
                0 => Reply::text("y".repeat(24_000)).and_call("echo", "{}"),
                1 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
                _ => Reply::text("done"),
            },
        );
        let stage = stage.with(crate::support::echo());
        let handle = stage.start();
        let told = hear(handle.prompt("go")).await;
        assert_eq!(told.text(), "done");
        assert_eq!(side_questions(&stage).len(), 1);
        assert!(conversation(&handle)[1].starts_with(r#"assistant "yyy"#));
    }
}

#[tokio::test]
async fn whoever_is_asked_may_have_it_tried_once_more() {
    for (choice, asked) in [(Choice::Retry, 2), (Choice::Continue, 1)] {
        let on_failure: OnFailure = Arc::new(move |why| {
            assert!(why.contains("no"), "{why}");
            Box::pin(async move { choice })
        });
        let compact = Compact { on_failure: Some(on_failure), ..Compact::default() };
        let failing = |_: &Request| Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no"));
        let stage = within(10_000, compact, failing, |turn, _| match turn {
            0 => Reply::text("y".repeat(24_000)).and_call("echo", "{}"),
            1 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
            _ => Reply::text("done"),
        });
        let stage = stage.with(crate::support::echo());
        assert_eq!(stage.play().await.text(), "done");
        assert_eq!(side_questions(&stage).len(), asked);
    }
}

#[tokio::test]
async fn a_summary_that_comes_at_the_second_attempt_is_one() {
    let asked = AtomicUsize::new(0);
    let notes = move |_: &Request| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no")),
        _ => Reply::text("notes"),
    };
    let on_failure: OnFailure = Arc::new(|_| Box::pin(std::future::ready(Choice::Retry)));
    let compact = Compact { on_failure: Some(on_failure), ..Compact::default() };
    let stage = within(10_000, compact, notes, long).with(crate::support::echo());
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!((told.text().as_str(), side_questions(&stage).len()), ("done", 2));
    assert!(conversation(&handle)[1].contains("was shortened"), "{:#?}", conversation(&handle));
}

/// A reply that leaves no room, one that needs some, and the answer.
fn long(turn: usize, _: &Request) -> Reply {
    match turn {
        0 => Reply::text("y".repeat(24_000)).and_call("echo", "{}"),
        1 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
        _ => Reply::text("done"),
    }
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_whoever_is_asked() {
    let latch = Latch::default();
    let asked = latch.clone();
    let on_failure: OnFailure = Arc::new(move |_| {
        let asked = asked.clone();
        Box::pin(async move {
            asked.pass().await;
            Choice::Retry
        })
    });
    let compact = Compact { on_failure: Some(on_failure), ..Compact::default() };
    let failing = |_: &Request| Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no"));
    let stage = within(10_000, compact, failing, long).with(crate::support::echo());
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::User));
    assert_eq!(side_questions(&stage).len(), 1);
}

#[tokio::test]
async fn what_is_due_is_done_before_the_first_request_though_nobody_counts() {
    let model = ScriptedModel::answering(|request| match is_side_question(request) {
        true => Reply::text("notes"),
        false => Reply::text("y".repeat(17_000)),
    });
    let info = ModelInfo { context_window: Some(10_000), ..ModelInfo::default() };
    let stage = stage_for(model.with_info(info))
        .change(|agent| agent.effects = vec![Arc::new(Compact::default())]);
    let handle = stage.start();
    hear(handle.prompt("one")).await;
    // The reply fills the window, and there is no next request yet.
    let told = hear(handle.prompt("two")).await;
    assert_eq!(compactions(&told), Vec::<String>::new());
    hear(handle.prompt("three")).await;
    let asked: Vec<_> = stage.model.requests().iter().map(is_side_question).collect();
    assert_eq!(asked, [false, false, true, false]);
}

#[tokio::test]
async fn a_request_that_was_too_long_is_shortened_and_made_once_more() {
    let too_long = || Reply::error(ModelError::new(ErrorKind::ContextOverflow, "too long"));
    // Nobody knows the window.
    let stage = within(
        0,
        Compact::default(),
        |_| Reply::text("notes"),
        move |turn, _| match turn {
            0 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
            1 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
            2 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
            3 => too_long(),
            _ => Reply::text("done"),
        },
    );
    let stage = stage.with(crate::support::echo());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(side_questions(&stage).len(), 1);
    // A second time is the end.
    let stage = within(
        0,
        Compact::default(),
        |_| Reply::text("notes"),
        move |turn, _| match turn {
            0..3 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
            _ => too_long(),
        },
    );
    let stage = stage.with(crate::support::echo());
    let told = stage.play().await;
    let Ending::Failed(error) = told.ending() else { panic!("{:?}", told.ending()) };
    assert_eq!(error.kind, RunErrorKind::Model(ErrorKind::ContextOverflow));
    assert_eq!(side_questions(&stage).len(), 1);
    assert_eq!(stage.model.requests().len(), 6);
}

#[tokio::test]
async fn what_cannot_fit_is_not_sent() {
    let stage = within(10_000, Compact::default(), |_| panic!("asked"), |_, _| panic!("sent"));
    let told = hear(stage.start().prompt("p".repeat(100_000))).await;
    let Ending::Failed(error) = told.ending() else { panic!("{:?}", told.ending()) };
    assert_eq!(error.kind, RunErrorKind::ContextExhausted);
    assert!(error.message.contains("of 10000 tokens"), "{error}");
    assert!(stage.model.requests().is_empty());
}

#[tokio::test]
async fn a_result_that_is_too_long_alone_keeps_its_beginning_and_end() {
    let stage = within(
        10_000,
        Compact::default(),
        |_| Reply::text("notes"),
        |turn, _| match turn {
            0 => reads(60_000),
            _ => Reply::text("done"),
        },
    );
    let stage = stage.with(read());
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    let request = stage.model.requests().pop().unwrap();
    assert!(length(&request) / 4 < 8_000);
    assert!(texts(&stage, 1)[2].contains("file.60000\\nxxx"));
}

#[tokio::test]
async fn anybody_may_have_the_conversation_summarised() {
    let speak = |turn: usize, _: &Request| match turn {
        0 => Reply::text("an answer ".repeat(400)),
        1 => Reply::call("echo", "{}"),
        _ => Reply::text("done"),
    };
    let stage = within(100_000, Compact::default(), |_| Reply::text("notes"), speak);
    let stage = stage.with(crate::support::echo());
    let handle = stage.start();
    hear(handle.prompt("question")).await;
    let told = hear(handle.compact(Some("the port".into()))).await;
    assert_eq!(told.ending(), Ending::Done);
    let asked = side_questions(&stage);
    assert_eq!(asked.len(), 1);
    let prompt = crate::support::lines_of(asked[0].messages.iter());
    assert_eq!(prompt.len(), 1);
    let Message::User(said) = &**asked[0].messages.get(0).unwrap() else { panic!() };
    assert!(text_of(&said.content).contains("asks that the notes keep this: the port"));
    let now = conversation(&handle);
    assert_eq!(now[0], r#"user "question""#);
    assert!(now.last().unwrap().contains("was shortened"), "{now:#?}");
    // There is nothing more to do: that is said, and nothing is lost.
    let told = hear(handle.compact(None)).await;
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(side_questions(&stage).len(), 1);
    assert!(!lines(&told.events, |body| matches!(body, EventBody::Warning { .. })).is_empty());
    // Posted by somebody else while a run is open, it waits for the next boundary.
    handle.post(op(OpKind::Compact { focus: None })).await.unwrap();
    let told = hear(handle.prompt("more")).await;
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn a_summary_may_come_from_another_model() {
    let other = ScriptedModel::new([Reply::text("notes").with_usage(usage(7, 3))]);
    let compact = Compact { summariser: Some(Arc::new(other.clone())), ..Compact::default() };
    let stage = within(
        10_000,
        compact,
        |_| panic!("asked"),
        |turn, _| match turn {
            0 => Reply::text("y".repeat(32_000)).and_call("echo", "{}"),
            1 => Reply::text("y".repeat(8_000)).and_call("echo", "{}"),
            _ => Reply::text("done"),
        },
    );
    let told = stage.with(crate::support::echo()).play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(other.requests().len(), 1);
    let models = told.events.iter().filter(|event| {
        matches!(&event.body, EventBody::TurnEnd { usage: Some(spent), .. } if spent.input == 7)
    });
    assert_eq!(models.count(), 1, "what it cost counts");
}

/// Two thousand turns with a growing output in a small window.
#[tokio::test]
async fn a_long_run_stays_within_its_window() {
    const WINDOW: u64 = 32_000;
    const TURNS: usize = 2_000;
    let stage = within(
        WINDOW,
        Compact::default(),
        |_| Reply::text("## Done\nAll of it, so far."),
        |turn, _| match turn {
            TURNS.. => Reply::text("done"),
            turn => reads(1_000 + turn * 7 % 9_000).and_text(format!("step {turn}")),
        },
    );
    let stage = stage.with(read());
    let handle = stage.start();
    handle.pin("The port is 8443.").await.unwrap();
    let told = hear(handle.prompt("the original request")).await;
    assert_eq!(told.text(), "done");
    let requests = stage.model.requests();
    let mut bytes = 0;
    for request in &requests {
        assert!(length(request) / 4 <= WINDOW, "a request of {} tokens", length(request) / 4);
        if !is_side_question(request) {
            let lines = crate::support::lines_of(request.messages.iter());
            assert_eq!(lines[0], r#"user "The port is 8443.""#);
            assert_eq!(lines[1], r#"user "the original request""#);
        }
    }
    let log = log_of(handle.session_id()).await;
    for (_, entry) in &log {
        if let EntryKind::CallEnded(ended) = &entry.kind {
            bytes += text_of(&ended.content).len() as u64;
        }
    }
    let epochs = lines(&told.events, |body| matches!(body, EventBody::CacheBreak { .. })).len();
    let most = bytes / 4 / (WINDOW * 3 / 10) + 1;
    assert!(epochs as u64 <= most, "{epochs} epochs, at most {most} are worth it");
    assert!(requests.len() > TURNS);
}

// B11: how long a conversation is, is its own affair, whoever else uses the model.
#[tokio::test]
async fn a_sub_agents_long_request_does_not_shorten_its_parents_conversation() {
    let speak = |turn: usize, _: &Request| match turn {
        0..4 => reads(6_000),
        4 => Reply::call("ask", "{}"),
        _ => Reply::text("done"),
    };
    let stage = within(10_000, Compact::default(), |_| panic!("asked"), speak).with(read());
    let stage = stage.with(tool("ask", |_, cx: ToolContext| async move {
        let agent = Agent { effects: Vec::new(), ..cx.children.parent().unwrap().clone() };
        let child = cx.children.create(Child::new(agent)).await.unwrap();
        Ok(child.prompt("x".repeat(39_000)).await.unwrap().text().into())
    }));
    let told = stage.play().await;
    assert_eq!((told.text().as_str(), told.result("call_5").as_str()), ("done", "done"));
    assert_eq!(compactions(&told), Vec::<String>::new());
    let tokens: Vec<_> = stage.model.requests().iter().map(|sent| length(sent) / 4).collect();
    // It is below the limit, and there is more of it than would be left behind that.
    assert!(tokens[5] > 9_000 && (4_800..8_000).contains(&tokens[6]), "{tokens:?}");
}
