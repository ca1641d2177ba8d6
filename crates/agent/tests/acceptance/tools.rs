//! Tool calls: what becomes of each, whatever the tool or the model does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_agent::conversation::Conversation;
use bowline_agent::entry::{Ending, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_agent::tool::{ToolContext, ToolError, ToolOutput, ToolSource, Toolbox};
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, Part, text_of};
use pretty_assertions::assert_eq;

use crate::support::{
    Latch, conversation, echo, hear, hear_with, held, lines, log_of, stage, tool, usage,
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

// F111, B1
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

/// Tools that change between one look and the next.
struct Changing(Mutex<Toolbox>);

impl ToolSource for Changing {
    fn tools(&self) -> Toolbox {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn tools_that_come_and_go_are_those_of_the_beginning_of_the_run() {
    let source = Arc::new(Changing(Mutex::default()));
    let more = Arc::clone(&source);
    let grow = tool("grow", move |_, _| {
        let grown = more.tools().with(tool("more", |_, _| async { Ok("more!".into()) }));
        *more.0.lock().unwrap() = grown.unwrap();
        async { Ok("".into()) }
    });
    let replies = [
        Reply::call("grow", "{}").and_call("more", "{}"),
        Reply::text("one"),
        Reply::call("more", "{}"),
        Reply::text("two"),
    ];
    let stage = stage(replies).with(grow).change(|agent| agent.more_tools = Some(source));
    let handle = stage.start();
    let first = hear(handle.prompt("go")).await;
    assert_eq!(first.result("call_2"), "unknown tool \"more\": did you mean grow?");
    let second = hear(handle.prompt("again")).await;
    assert_eq!(second.result("call_3"), "more!");
    let log = log_of(handle.session_id()).await;
    assert_eq!(
        crate::support::kinds(&log).iter().filter(|kind| **kind == "tools_changed").count(),
        1
    );
}
