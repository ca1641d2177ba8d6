//! Tool calls: what becomes of each, whatever the tool or the model does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_agent::conversation::Conversation;
use bowline_agent::entry::{Ending, EntryKind, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_agent::limits::Limits;
use bowline_agent::tool::{ToolContext, ToolError, ToolOutput};
use bowline_agent::{Agent, Redaction};
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, Part, text_of};
use pretty_assertions::assert_eq;

use crate::support::{
    Latch, Told, conversation, echo, hear, hear_with, held, lines, log_of, stage, tool, usage,
};

// F011, F097
#[tokio::test]
async fn an_unknown_tool_is_an_error_with_the_nearest_names() {
    let stage = stage([Reply::call("ecko", "{}"), Reply::text("done")])
        .with(echo())
        .with(tool("zzz", |_, _| async { Ok("".into()) }));
    let told = stage.play().await;
    assert_eq!(told.call_lines(), ["tool_call(call_1, ecko)", "tool_end(call_1, error)"]);
    assert_eq!(told.result("call_1"), "unknown tool \"ecko\": did you mean echo, zzz?");
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn an_unknown_tool_of_an_agent_without_tools_is_an_error() {
    let told = stage([Reply::call("x", "{}"), Reply::text("done")]).play().await;
    assert_eq!(told.result("call_1"), "unknown tool \"x\": there are no tools");
    assert_eq!(told.text(), "done");
}

// F096
#[tokio::test]
async fn bad_arguments_are_told_to_the_model_and_the_tool_does_not_run() {
    let bad = ["{\"text\":", "{\"text\":5}", "[]", "nonsense"];
    let reply = bad.iter().fold(Reply::text("x"), |reply, bad| reply.and_call("echo", *bad));
    let stage = stage([reply, Reply::text("done")]).with(echo());
    let told = stage.play().await;
    let ends = (1..=4).map(|n| format!("tool_end(call_{n}, error)")).collect::<Vec<_>>();
    assert_eq!(told.ends(), ends);
    let starts = lines(&told.events, |body| matches!(body, EventBody::ToolStart { .. }));
    assert_eq!(starts, Vec::<String>::new());
    let said: Vec<_> = (1..=4).map(|n| told.result(&format!("call_{n}"))).collect();
    assert_eq!(
        said,
        [
            "the arguments are no valid JSON: EOF while parsing a value at line 1 column 8; send \
             one JSON object",
            "the arguments do not fit: invalid type: integer `5`, expected a string at line 1 \
             column 9",
            "the arguments do not fit: expected one JSON object, found an array",
            "the arguments are no valid JSON: expected ident at line 1 column 2; send one JSON \
             object",
        ]
    );
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn no_arguments_at_all_are_an_empty_object() {
    let told = stage([Reply::call("echo", ""), Reply::text("done")]).with(echo()).play().await;
    assert_eq!(told.ends(), ["tool_end(call_1, ok)"]);
}

// F098
#[tokio::test]
async fn a_failing_tool_is_told_to_the_model() {
    let fails = tool("fails", |_, _| async { Err(ToolError::failed("boom")) });
    let stage = stage([Reply::call("fails", "{}"), Reply::text("done")]).with(fails);
    let told = stage.play().await;
    assert_eq!(told.ends(), ["tool_end(call_1, error)"]);
    assert_eq!(stage.asked()[1][2], "results call_1!=\"boom\"");
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn a_fatal_error_of_a_tool_ends_the_run_and_all_calls() {
    let fatal = tool("fatal", |_, _| async { Err(ToolError::Fatal("disk is gone".into())) });
    let waits = tool("waits", |_, cx: ToolContext| async move {
        cx.cancel.cancelled().await;
        Err(ToolError::failed("stopped"))
    });
    let reply = Reply::call("waits", "{}").and_call("fatal", "{}");
    let stage = stage([reply, Reply::text("done")]).with(fatal).with(waits);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.ends(), ["tool_end(call_2, error)", "tool_end(call_1, canceled)"]);
    let Ending::Failed(error) = told.ending() else { panic!("it failed") };
    assert_eq!(
        (error.kind, error.message.as_str()),
        (RunErrorKind::Tool, "a tool ended the run: disk is gone")
    );
    assert_eq!(hear(handle.prompt("again")).await.text(), "done");
}

// F111
#[tokio::test]
async fn a_panicking_tool_is_an_error_and_its_neighbours_finish() {
    let latch = Latch::default();
    let opener = latch.clone();
    let panics = tool("panics", move |_, _| {
        let latch = opener.clone();
        async move {
            latch.open();
            panic!("boom")
        }
    });
    let reply = Reply::call("held", r#"{"text":"fine"}"#).and_call("panics", "{}");
    let stage = stage([reply, Reply::text("done")]).with(held("held", &latch)).with(panics);
    let told = stage.play().await;
    let mut ends = told.ends();
    ends.sort();
    assert_eq!(ends, ["tool_end(call_1, ok)", "tool_end(call_2, error)"]);
    assert_eq!(told.result("call_2"), "the tool panicked: boom");
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert_eq!(warnings, ["warning(\"the tool panicked: boom\")"]);
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn a_tool_that_panics_before_its_first_wait_is_an_error() {
    fn panics() -> std::future::Ready<Result<ToolOutput, ToolError>> {
        panic!("at once")
    }
    let stage = stage([Reply::call("panics", "{}"), Reply::text("done")])
        .with(tool("panics", |_, _| panics()));
    let told = stage.play().await;
    assert_eq!(told.result("call_1"), "the tool panicked: at once");
    assert_eq!(told.text(), "done");
}

// F101
#[tokio::test(start_paused = true)]
async fn a_tool_that_never_returns_is_dropped_after_a_grace_period() {
    let latch = Latch::default();
    let stage = stage([Reply::call("held", "{}"), Reply::text("done")]).with(held("held", &latch));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    let began = tokio::time::Instant::now();
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)"]);
    assert_eq!(told.ending(), Ending::Canceled(bowline_agent::op::CancelReason::User));
    assert!(began.elapsed() <= Duration::from_millis(2100), "{:?}", began.elapsed());
    assert_eq!(hear(handle.prompt("again")).await.text(), "done");
}

// F104
#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_too_long_times_out() {
    let ignores = Latch::default();
    let heeds = tool("heeds", |_, cx: ToolContext| async move {
        cx.cancel.cancelled().await;
        Err(ToolError::failed("gave up half way"))
    });
    let reply = Reply::call("heeds", "{}").and_call("ignores", "{}").and_call("echo", "{}");
    let stage = stage([reply, Reply::text("done")])
        .with(heeds)
        .with(held("ignores", &ignores))
        .with(echo())
        .change(|agent| agent.limits.tool_time_ms = 10_000);
    let told = stage.play().await;
    assert_eq!(
        told.ends(),
        ["tool_end(call_3, ok)", "tool_end(call_1, timeout)", "tool_end(call_2, timeout)"]
    );
    assert_eq!(told.result("call_1"), "gave up half way");
    assert_eq!(told.result("call_2"), "timed out after 12.0 s and was stopped");
    assert_eq!(told.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_finishes_although_its_time_is_up_has_finished() {
    let heeds = tool("heeds", |_, cx: ToolContext| async move {
        cx.cancel.cancelled().await;
        Ok("done in time for the bell".into())
    });
    let stage = stage([Reply::call("heeds", "{}"), Reply::text("done")])
        .with(heeds)
        .change(|agent| agent.limits.tool_time_ms = 10_000);
    assert_eq!(stage.play().await.ends(), ["tool_end(call_1, ok)"]);
}

// A tool that never stops talking can be stopped.
#[tokio::test]
async fn a_tool_that_floods_its_output_times_out() {
    let floods = tool("floods", |_, cx: ToolContext| async move {
        while !cx.cancel.is_cancelled() {
            for _ in 0..1000 {
                cx.output("x");
            }
            tokio::task::yield_now().await;
        }
        Err(ToolError::failed("stopped"))
    });
    let stage = stage([Reply::call("floods", "{}"), Reply::text("done")])
        .with(floods)
        .change(|agent| agent.limits.tool_time_ms = 20);
    let outcome = stage.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.text(), "done");
    assert_eq!(stage.asked()[1][2], "results call_1!=\"stopped\"");
}

// F105: the head and the tail stay, the whole is kept beside the log.
#[tokio::test]
async fn a_long_output_is_cut_to_the_limit() {
    let text = format!("{}{}", "a".repeat(1500), "é".repeat(750));
    let long = text.clone();
    let stage = stage([Reply::call("long", "{}"), Reply::text("done")])
        .with(tool("long", move |_, _| {
            let long = long.clone();
            async move { Ok(long.into()) }
        }))
        .change(|agent| agent.limits.output_bytes = 1024);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let wanted = format!("{}\n[… 1976 bytes left out …]\n{}", "a".repeat(256), "é".repeat(384));
    assert_eq!(told.result("call_1"), wanted);
    let truncated = told
        .events
        .iter()
        .any(|event| matches!(event.body, EventBody::ToolEnd { truncated, .. } if truncated));
    assert!(truncated);
    assert_eq!(whole_output(&stage.agent, &handle).await, text);
}

async fn whole_output(agent: &Agent, handle: &bowline_agent::SessionHandle) -> String {
    let log = log_of(handle.session_id()).await;
    let full = log.iter().find_map(|(_, entry)| match &entry.kind {
        EntryKind::CallEnded(ended) => ended.full.clone(),
        _ => None,
    });
    let full = full.expect("the whole output was kept");
    let body = agent.store.blobs(handle.session_id()).get(&full.hash).await.unwrap();
    assert_eq!(full.bytes, body.len() as u64);
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn two_hundred_megabytes_of_output_are_cut() {
    let stage = stage([Reply::call("huge", "{}"), Reply::text("done")])
        .with(tool("huge", |_, _| async { Ok("0123456789".repeat(20_000_000).into()) }));
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let seen = told.result("call_1");
    assert!(seen.len() < 65_536 + 64, "{}", seen.len());
    assert!(seen.contains("[… 199934464 bytes left out …]"));
    assert_eq!(whole_output(&stage.agent, &handle).await.len(), 200_000_000);
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn large_bodies_leave_the_log_and_reach_the_model_whole() {
    let (said, shown) = ("s".repeat(300_000), "t".repeat(400_000));
    let output = shown.clone();
    let stage = stage([Reply::call("long", "{}"), Reply::text("a"), Reply::text("b")])
        .with(tool("long", move |_, _| {
            let output = output.clone();
            async move { Ok(output.into()) }
        }))
        .change(|agent| agent.limits = Limits { output_bytes: 0, ..Limits::default() });
    let handle = stage.start();
    hear(handle.prompt(said.clone())).await;
    let log = log_of(handle.session_id()).await;
    let written: usize =
        log.iter().map(|(_, entry)| serde_json::to_string(entry).unwrap().len()).sum();
    assert!(written < 20_000, "{written}");
    hear(handle.prompt("more")).await;
    for request in &stage.model.requests()[1..] {
        let texts: Vec<&str> = request
            .messages
            .iter()
            .flat_map(|message| match &**message {
                Message::User(said) => said.content.iter().filter_map(Part::as_text).collect(),
                Message::Assistant(_) => Vec::new(),
                Message::Results(results) => results
                    .iter()
                    .flat_map(|r| r.content.iter())
                    .filter_map(Part::as_text)
                    .collect::<Vec<_>>(),
            })
            .collect();
        assert!(texts[0] == said && texts[1] == shown, "the bodies came back whole");
    }
    // Whoever resumes the session gives the model the same.
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    stage.model.push(Reply::text("c"));
    let handle = stage.agent.resume(id).await.unwrap();
    hear(handle.prompt("third")).await;
    let before: Vec<_> = stage.model.requests()[2].messages.iter().cloned().collect();
    let after: Vec<_> = stage.model.requests()[3].messages.iter().cloned().collect();
    assert!(before[..] == after[..before.len()], "the same prefix");
}

#[tokio::test]
async fn call_ids_that_repeat_are_made_unique() {
    let stage = stage([
        Reply::text("x").and_call_with_id("a", "echo", r#"{"text":"1"}"#).and_call_with_id(
            "a",
            "echo",
            r#"{"text":"2"}"#,
        ),
        Reply::text("y").and_call_with_id("a", "echo", r#"{"text":"3"}"#),
        Reply::text("done"),
    ])
    .with(echo());
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    assert_eq!(
        conversation(&handle)[1..5],
        [
            "assistant \"x\" a=echo a_2=echo",
            "results a=\"1\" a_2=\"2\"",
            "assistant \"y\" a_3=echo",
            "results a_3=\"3\"",
        ]
    );
}

#[tokio::test]
async fn an_empty_call_id_is_given_one() {
    // The scripted model fills empty ids in, so this one is around it.
    struct Nameless(bowline_llm::ScriptedModel);
    impl bowline_llm::Model for Nameless {
        fn info(&self) -> &bowline_llm::ModelInfo {
            self.0.info()
        }
        fn stream(&self, request: bowline_llm::Request) -> bowline_llm::ModelStream {
            use futures::StreamExt;
            Box::pin(self.0.stream(request).map(|event| {
                event.map(|event| match event {
                    bowline_llm::StreamEvent::Done(mut response) => {
                        for part in &mut response.message.content {
                            if let bowline_llm::AssistantPart::ToolCall(call) = part {
                                call.id = "".into();
                            }
                        }
                        bowline_llm::StreamEvent::Done(response)
                    }
                    event => event,
                })
            }))
        }
    }
    let call = || Reply::call("echo", "{}").and_call("echo", "{}");
    let stage = stage([call(), call(), Reply::text("done")]).with(echo());
    let model = Nameless(stage.model.clone());
    let stage = stage.change(|agent| agent.model = Arc::new(model));
    let told = stage.play().await;
    assert_eq!(told.text(), "done");
    let mut ids: Vec<_> = told
        .events
        .iter()
        .filter_map(|event| match event.body {
            EventBody::ToolEnd { .. } => event.call_id.clone(),
            _ => None,
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert!(ids.iter().all(|id| !id.as_str().is_empty()));
}

// F031, F033
#[tokio::test]
async fn what_a_tool_says_after_its_end_is_dropped() {
    let kept: Arc<std::sync::Mutex<Option<ToolContext>>> = Arc::default();
    let slot = Arc::clone(&kept);
    let stage = stage([
        Reply::call("spends", "{}").with_usage(usage(10, 1)),
        Reply::text("a").with_usage(usage(20, 2)),
        Reply::text("b"),
    ])
    .with(tool("spends", move |_, cx: ToolContext| {
        let slot = Arc::clone(&slot);
        async move {
            cx.report_usage(usage(1000, 100), Some(0.5));
            cx.record("state", &1).unwrap();
            *slot.lock().unwrap() = Some(cx);
            Ok("x".into())
        }
    }));
    let handle = stage.start();
    let told = hear_with(handle.prompt("go"), usage(1000, 100)).await;
    assert_eq!(told.usage(), usage(1030, 103));
    let late = kept.lock().unwrap().take().unwrap();
    late.output("too late");
    late.report_usage(usage(5, 5), None);
    late.record("state", &2).unwrap();
    hear(handle.prompt("more")).await;
    assert_eq!(handle.token_usage(), usage(1030, 103));
    // F033: it is no part of the context or the history.
    assert_eq!(handle.context_usage().0, 20);
    let customs = log_of(handle.session_id()).await;
    let customs = customs.iter().filter(|(_, entry)| entry.kind.name() == "custom").count();
    assert_eq!(customs, 1);
    assert!(late.children.parent().is_some(), "the scope is known, but closed");
}

// F032
#[tokio::test]
async fn tool_output_is_shown_and_never_enters_the_history() {
    let chatty = tool("chatty", |_, cx: ToolContext| async move {
        cx.output("working");
        tokio::task::yield_now().await;
        cx.output("still");
        Ok("result".into())
    });
    let stage = stage([Reply::call("chatty", "{}"), Reply::text("done")]).with(chatty);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        told.call_lines(),
        [
            "tool_call(call_1, chatty)",
            "tool_start(call_1)",
            "tool_output(call_1, \"working\")",
            "tool_output(call_1, \"still\")",
            "tool_end(call_1, ok)",
        ]
    );
    assert_eq!(conversation(&handle)[2], "results call_1=\"result\"");
}

// F031, F034: a context outside of any agent is harmless.
#[tokio::test]
async fn a_standalone_context_swallows_what_is_said() {
    let cx = ToolContext::standalone(Arc::new(bowline_agent::id::SystemSource), None);
    cx.output("nobody hears");
    cx.report_usage(usage(1, 1), None);
    cx.record("a", &1).unwrap();
    cx.record("b", &2).unwrap();
    cx.record("a", &3).unwrap();
    let recorded: Vec<_> = cx.recorded("a").iter().map(|data| data.as_str().to_owned()).collect();
    assert_eq!(recorded, ["1", "3"]);
    let last = |name| cx.last_recorded(name, |data| data.read::<u32>().ok());
    assert_eq!((last("a"), last("b"), last("c")), (Some(3), Some(2), None));
    assert!(cx.children.parent().is_none());
}

#[tokio::test]
async fn a_tool_finds_what_it_recorded_in_later_calls_and_after_resume() {
    let counts = || {
        tool("counts", |_, cx: ToolContext| async move {
            let before = cx.recorded("count").len();
            assert_eq!(cx.last_recorded("count", |d| d.read().ok()).unwrap_or(0), before);
            cx.record("count", &(before + 1))?;
            let mut seen = Vec::new();
            let no: Option<()> = cx.last_recorded("count", |d| {
                seen.push(d.read::<usize>().unwrap());
                None
            });
            assert_eq!((no, seen), (None, (1..=before + 1).rev().collect()));
            let all: Vec<_> = cx.recorded("count").iter().map(|d| d.as_str().to_owned()).collect();
            Ok(all.join(",").into())
        })
    };
    let call = || Reply::call("counts", "{}");
    let stage = stage([call(), call(), Reply::text("a"), call(), Reply::text("b")]).with(counts());
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let id = handle.session_id();
    handle.close().await;
    drop(handle);
    let handle = stage.agent.resume(id).await.unwrap();
    hear(handle.prompt("go on")).await;
    let results: Vec<_> =
        conversation(&handle).into_iter().filter(|line| line.starts_with("results")).collect();
    assert_eq!(
        results,
        ["results call_1=\"1\"", "results call_2=\"1,2\"", "results call_3=\"1,2,3\""]
    );
}

// A call that fails keeps what it recorded: it may have done a part of its work.
#[tokio::test]
async fn records_of_a_failed_call_are_kept() {
    let stage = stage([Reply::call("fails", "{}"), Reply::call("looks", "{}"), Reply::text("x")])
        .with(tool("fails", |_, cx: ToolContext| async move {
            cx.record("seen", &"half")?;
            Err(ToolError::failed("no"))
        }))
        .with(tool("looks", |_, cx: ToolContext| async move {
            Ok(cx
                .recorded("seen")
                .iter()
                .map(|data| data.as_str().to_owned())
                .collect::<String>()
                .into())
        }));
    assert_eq!(stage.play().await.result("call_2"), "\"half\"");
}

#[tokio::test]
async fn a_tool_runs_once_however_often_the_log_is_read() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ran);
    let stage =
        stage([Reply::call("runs", "{}"), Reply::text("done")]).with(tool("runs", move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            async { Ok("ran".into()) }
        }));
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let log = log_of(handle.session_id()).await;
    for cut in 0..=log.len() {
        let replayed = Conversation::replay(log[..cut].iter().map(|(_, entry)| entry));
        assert!(replayed.open_calls().len() <= 1);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_result_of_a_call_may_hold_more_than_text() {
    let image =
        bowline_llm::Media { media_type: "image/png".to_owned(), data: "AAAA".into(), name: None };
    let part = Part::Image(image.clone());
    let shows = part.clone();
    let stage = stage([Reply::call("shows", "{}"), Reply::text("done")]).with(tool(
        "shows",
        move |_, _| {
            let content = vec![Part::Text("an image".to_owned()), shows.clone()];
            async move { Ok(ToolOutput::Content(content)) }
        },
    ));
    stage.play().await;
    let request = &stage.model.requests()[1];
    let Some(Message::Results(results)) = request.messages.last().map(|message| &**message) else {
        panic!("results come last")
    };
    assert_eq!(text_of(&results[0].content), "an image");
    assert_eq!(results[0].content[1], part);
}

// A tool that says many little things at once is heard in pieces, and nothing it says is lost.
#[tokio::test]
async fn what_a_talkative_tool_says_is_joined_and_not_lost() {
    let stage = stage([Reply::call("talks", "{}"), Reply::text("done")]);
    let stage = stage.with(tool("talks", |_, cx: ToolContext| async move {
        for _ in 0..10_000 {
            cx.output("x");
        }
        Ok("said".into())
    }));
    let told = stage.play().await;
    let said: Vec<&str> = told
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ToolOutput { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(said.len() < 1_000, "{} pieces", said.len());
    assert_eq!(said.concat().len(), 10_000);
}

/// Returns what a run told of what tools showed, piece by piece, and how much was left out before
/// each.
fn shown(told: &Told) -> Vec<(&str, u64)> {
    let shown = told.events.iter().filter_map(|event| match &event.body {
        EventBody::ToolOutput { text, omitted } => Some((text.as_str(), *omitted)),
        _ => None,
    });
    shown.collect()
}

// What nobody can listen to as fast as it is said does not fill the memory: the newest part is told,
// and how much is missing before it.
#[tokio::test]
async fn of_a_flood_of_output_the_newest_part_is_told() {
    // Two bytes each, so that no cut falls between them by chance.
    let line = format!("x{}\n", "é".repeat(500));
    let said = line.repeat(10_000);
    for pieces in [10_000, 10, 1] {
        let whole = Arc::new(said.clone());
        let talks = tool("talks", move |_, cx: ToolContext| {
            let whole = Arc::clone(&whole);
            async move {
                let lines: Vec<&str> = whole.split_inclusive('\n').collect();
                for piece in lines.chunks(10_000 / pieces) {
                    cx.output(piece.concat());
                    // What a tool spends is heard however much it says.
                    cx.report_usage(usage(1, 0), None);
                }
                cx.output("the end");
                Ok("said".into())
            }
        });
        let stage = stage([Reply::call("talks", "{}"), Reply::text("done")]).with(talks);
        let told = hear_with(stage.agent.prompt("go"), usage(pieces as u64, 0)).await;
        let shown = shown(&told);
        let kept: usize = shown.iter().map(|(text, _)| text.len()).sum();
        let omitted: u64 = shown.iter().map(|(_, omitted)| omitted).sum();
        assert!(shown.iter().all(|(text, _)| text.len() <= 65_536), "of {pieces} pieces");
        assert!(kept <= 4 * 65_536, "{kept} bytes of {pieces} pieces");
        assert_eq!(kept as u64 + omitted, (said.len() + "the end".len()) as u64);
        let mut told = shown.iter().rev().map(|(text, _)| *text);
        let mut end = told.next().unwrap().to_owned();
        if end == "the end" {
            end.insert_str(0, told.next().unwrap());
        }
        assert!(format!("{said}the end").ends_with(&end), "of {pieces} pieces");
    }
}

// A cut through a secret would leave a part of it that nobody recognises.
#[tokio::test]
async fn a_flood_of_secrets_shows_no_part_of_one() {
    let secret = "very-secret-value";
    let talks = tool("talks", move |_, cx: ToolContext| async move {
        for _ in 0..1_000 {
            cx.output(secret.repeat(100));
        }
        cx.output(secret.repeat(100_000));
        Ok("said".into())
    });
    let stage = stage([Reply::call("talks", "{}"), Reply::text("done")])
        .with(talks)
        .change(|agent| agent.redaction = Redaction::new([("KEY".to_owned(), secret.into())]));
    let told = stage.play().await;
    assert!(shown(&told).iter().any(|(_, omitted)| *omitted > 0));
    assert!(shown(&told).iter().all(|(text, _)| !text.contains("value")));
}
