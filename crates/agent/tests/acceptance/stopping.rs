//! What keeps a run going: what decides whether it may stop, and feeds of messages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bowline_agent::effect::Step;
use bowline_agent::entry::{Ending, EntryKind, RunErrorKind, Via};
use bowline_agent::event::EventBody;
use bowline_agent::feed::{Feed, feed_fn};
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::middleware::OutputGuardrail;
use bowline_agent::on_stop::{OnStop, on_stop_fn};
use bowline_agent::op::{CancelReason, Input};
use bowline_agent::tool::{ToolContext, ToolError};
use bowline_agent::{Agent, AgentCreator as _, Child, ToolExecution};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, ModelError};
use pretty_assertions::assert_eq;

use crate::support::{Latch, Stage, conversation, echo, hear, held, lines, log_of, stage, tool};

/// Wants to hear that it is done.
fn insists(stage: Stage) -> Stage {
    stage.change(|agent| {
        agent.on_stop =
            Some(Arc::new(on_stop_fn(|answer, _| (answer != "done").then(|| "go on".into()))));
    })
}

#[tokio::test]
async fn an_agent_that_may_not_stop_yet_is_sent_back_to_work() {
    let replies = [Reply::text("half"), Reply::call("echo", "{}"), Reply::text("done")];
    let stage = insists(stage(replies)).with(echo());
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.text(), "done");
    assert_eq!(
        conversation(&handle),
        [
            "user \"go\"",
            "assistant \"half\"",
            "user \"go on\"",
            "assistant call_1=echo",
            "results call_1=\"\"",
            "assistant \"done\""
        ]
    );
    let log = log_of(handle.session_id()).await;
    let vias: Vec<Via> = log
        .iter()
        .filter_map(|(_, entry)| match &entry.kind {
            EntryKind::User(said) => Some(said.via),
            _ => None,
        })
        .collect();
    assert_eq!(vias, [Via::Prompt, Via::OnStop]);
}

#[tokio::test]
async fn what_follows_up_comes_first_and_the_answer_is_judged_last() {
    let judged = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&judged);
    let guard = OutputGuardrail::new(move |answer: &str| {
        heard.lock().unwrap().push(answer.to_owned());
        Ok(())
    });
    let (stage, gate) =
        crate::support::at_gate(Reply::text("one"), [Reply::text("two"), Reply::text("done")]);
    let stage = insists(stage).change(|agent| agent.middleware = vec![Arc::new(guard)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.follow_up("and?").await.unwrap();
    gate.open();
    hear(run).await;
    assert_eq!(
        conversation(&handle)[1..5],
        ["assistant \"one\"", "user \"and?\"", "assistant \"two\"", "user \"go on\""]
    );
    assert_eq!(*judged.lock().unwrap(), ["done"]);
}

#[tokio::test]
async fn the_limits_of_the_run_count_however_often_it_is_sent_back() {
    let replies = [Reply::text("a"), Reply::text("b"), Reply::text("c")];
    let stage = insists(stage(replies)).change(|agent| {
        agent.limits = Limits { model_turns: 3, wrap_up: false, ..Limits::default() };
    });
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    assert_eq!(stage.model.requests().len(), 3);
}

#[tokio::test]
async fn nobody_is_asked_about_a_run_that_failed() {
    let stage = insists(stage([Reply::error(ModelError::new(ErrorKind::Auth, "no"))]));
    let Ending::Failed(error) = stage.play().await.ending() else { panic!("it ended otherwise") };
    assert_eq!(error.kind, RunErrorKind::Model(ErrorKind::Auth));
}

#[tokio::test]
async fn a_panic_of_what_decides_is_a_warning() {
    let stage = stage([Reply::text("half")]).change(|agent| {
        agent.on_stop = Some(Arc::new(on_stop_fn(|_, _| panic!("oh"))));
    });
    let told = stage.play().await;
    assert_eq!(told.text(), "half");
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert_eq!(warnings, ["warning(\"on_stop panicked: oh\")"]);
}

/// Decides when its latch is opened.
struct Ponders(Latch);

#[async_trait]
impl OnStop for Ponders {
    async fn on_stop(&self, answer: &str, step: &Step) -> Option<Input> {
        assert!(step.is_final());
        self.0.pass().await;
        (answer == "one").then(|| "stale".into())
    }
}

#[tokio::test]
async fn what_comes_in_while_it_is_decided_comes_first() {
    let latch = Latch::default();
    let stage = stage([Reply::text("one"), Reply::text("two")])
        .change(|agent| agent.on_stop = Some(Arc::new(Ponders(latch.clone()))));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.queue("more").await.unwrap();
    latch.open();
    hear(run).await;
    assert_eq!(conversation(&handle)[2..], ["user \"more\"", "assistant \"two\""]);
}

#[tokio::test]
async fn a_run_is_canceled_while_it_is_decided() {
    let latch = Latch::default();
    let stage = stage([Reply::text("one")])
        .change(|agent| agent.on_stop = Some(Arc::new(Ponders(latch.clone()))));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::User));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_returned_if_nobody_decides_in_time() {
    let stage = stage([Reply::text("one")]).change(|agent| {
        agent.on_stop = Some(Arc::new(Ponders(Latch::default())));
        agent.limits = Limits { run_time_ms: 5_000, ..Limits::default() };
    });
    assert_eq!(stage.play().await.text(), "one");
}

/// A feed of messages that others put there.
#[derive(Clone, Default)]
struct Tray(Arc<Mutex<VecDeque<&'static str>>>);

impl Tray {
    fn put(&self, message: &'static str) {
        self.0.lock().unwrap().push_back(message);
    }

    /// Hands over all that is there.
    fn feed(&self) -> Option<Arc<dyn Feed>> {
        let tray = self.clone();
        Some(Arc::new(feed_fn(move || tray.0.lock().unwrap().drain(..).map(Input::from).collect())))
    }
}

// F092
#[tokio::test]
async fn what_is_steered_in_after_a_tool_skips_the_calls_behind_it() {
    let tray = Tray::default();
    let puts = tray.clone();
    let first = tool("first", move |_, _| {
        puts.put("stop");
        puts.put("now");
        async { Ok("f".into()) }
    });
    let reply = Reply::call("first", "{}").and_call("echo", "{}").and_call("echo", "{}");
    let stage = stage([reply, Reply::text("done")]).with(first).with(echo()).change(|agent| {
        agent.steering = tray.feed();
        agent.tool_execution = ToolExecution::Sequential;
    });
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        told.ends(),
        ["tool_end(call_1, ok)", "tool_end(call_2, skipped)", "tool_end(call_3, skipped)"]
    );
    assert_eq!(conversation(&handle)[3..], ["user \"stop\"", "user \"now\"", "assistant \"done\""]);
    assert_eq!(handle.state().pending_calls, []);
}

#[tokio::test]
async fn what_a_feed_has_before_the_first_request_is_in_it() {
    let tray = Tray::default();
    tray.put("first of all");
    let stage = stage([Reply::text("done")]).change(|agent| agent.steering = tray.feed());
    stage.play().await;
    assert_eq!(stage.asked(), [["user \"go\"", "user \"first of all\""]]);
}

// F093
#[tokio::test]
async fn what_follows_up_is_another_turn_of_the_same_run() {
    let tray = Tray::default();
    tray.put("and?");
    tray.put("and then?");
    let replies = [Reply::text("one"), Reply::text("two"), Reply::text("three")];
    let stage = stage(replies).change(|agent| agent.follow_ups = tray.feed());
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.text(), "three");
    let said = lines(&told.events, |body| {
        matches!(
            body,
            EventBody::RunStart { .. }
                | EventBody::Queued { .. }
                | EventBody::Delivered { .. }
                | EventBody::TurnStart {}
                | EventBody::RunEnd(_)
        )
    });
    assert_eq!(
        said,
        [
            "run_start",
            "turn_start",
            "queued(follow_up, 1)",
            "queued(follow_up, 2)",
            "delivered(1)",
            "turn_start",
            "delivered(2)",
            "turn_start",
            "run_end(done)",
        ]
    );
}

/// A feed that hands over one message when its latch is opened, and then nothing.
struct Slow {
    latch: Latch,
    message: Mutex<Option<&'static str>>,
}

#[async_trait]
impl Feed for Slow {
    async fn take(&self) -> Vec<Input> {
        self.latch.pass().await;
        self.message.lock().unwrap().take().map(Input::from).into_iter().collect()
    }
}

fn slow(latch: &Latch) -> Option<Arc<dyn Feed>> {
    Some(Arc::new(Slow { latch: latch.clone(), message: Mutex::new(Some("late")) }))
}

#[tokio::test]
async fn a_run_is_canceled_while_a_feed_hangs_and_the_next_one_hears_it() {
    type Set = fn(&mut Agent, Option<Arc<dyn Feed>>);
    let sets: [(Set, &[&str]); 2] = [
        (|agent, feed| agent.steering = feed, &["user \"late\"", "assistant \"one\""]),
        (
            |agent, feed| agent.follow_ups = feed,
            &["assistant \"two\"", "user \"late\"", "assistant \"three\""],
        ),
    ];
    for (set, expected) in sets {
        let latch = Latch::default();
        let stage = stage([Reply::text("one"), Reply::text("two"), Reply::text("three")]);
        let stage = stage.change(|agent| set(agent, slow(&latch)));
        let handle = stage.start();
        let run = handle.prompt("go");
        latch.reached().await;
        handle.cancel();
        assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::User));
        latch.open();
        hear(handle.prompt("again")).await;
        let said = conversation(&handle);
        assert_eq!(said[said.len() - expected.len()..], *expected);
    }
}

#[tokio::test]
async fn tools_that_run_are_not_held_up_by_a_feed_that_hangs_but_others_wait_for_it() {
    let (latch, tool_latch) = (Latch::default(), Latch::default());
    let asked = Arc::new(AtomicUsize::new(0));
    let (waits, count) = (latch.clone(), Arc::clone(&asked));
    // The first question is the one before the first step.
    struct Second(Latch, Arc<AtomicUsize>);
    #[async_trait]
    impl Feed for Second {
        async fn take(&self) -> Vec<Input> {
            if self.1.fetch_add(1, Ordering::SeqCst) == 2 {
                self.0.pass().await;
                return vec!["stop".into()];
            }
            Vec::new()
        }
    }
    let reply = Reply::call("echo", r#"{"text":"e"}"#)
        .and_call("held", r#"{"text":"h"}"#)
        .and_call("echo", "{}");
    let stage = stage([reply, Reply::text("done")])
        .with(echo())
        .with(held("held", &tool_latch))
        .change(|agent| {
            agent.steering = Some(Arc::new(Second(waits, count)));
            agent.tool_execution = ToolExecution::Parallel { max: 2 };
        });
    let handle = stage.start();
    let mut told = tokio::spawn(hear(handle.prompt("go")));
    latch.reached().await;
    tool_latch.open();
    // The end of the other tool is committed while the feed hangs.
    handle.wait_for(|state| state.pending_calls.len() == 1).await.unwrap();
    latch.open();
    let told = (&mut told).await.unwrap();
    assert_eq!(
        told.ends(),
        ["tool_end(call_1, ok)", "tool_end(call_2, ok)", "tool_end(call_3, skipped)"]
    );
    assert_eq!(conversation(&handle)[3], "user \"stop\"");
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_hangs_takes_no_more_time_than_the_run_has() {
    let stage = stage([Reply::text("sum")]).change(|agent| {
        agent.steering = slow(&Latch::default());
        agent.limits = Limits { run_time_ms: 5_000, ..Limits::default() };
    });
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::RunTime));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_returned_however_long_a_feed_hangs() {
    let latch = Latch::default();
    let stage = stage([Reply::text("one")]).change(|agent| {
        agent.follow_ups = slow(&latch);
        agent.limits = Limits { run_time_ms: 5_000, ..Limits::default() };
    });
    let began = tokio::time::Instant::now();
    assert_eq!(stage.play().await.text(), "one");
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_feed_that_panics_is_a_warning() {
    let stage = stage([Reply::text("one")]).change(|agent| {
        agent.follow_ups = Some(Arc::new(feed_fn(|| panic!("oh"))));
    });
    let told = stage.play().await;
    assert_eq!(told.text(), "one");
    let warnings = lines(&told.events, |body| matches!(body, EventBody::Warning { .. }));
    assert_eq!(warnings, ["warning(\"the feed follow_ups panicked: oh\")"]);
}

#[tokio::test]
async fn a_sub_agent_does_not_take_what_is_there_for_its_parent() {
    let tray = Tray::default();
    let puts = tray.clone();
    let delegate = tool("delegate", move |_, cx: ToolContext| {
        puts.put("for the parent");
        async move {
            let failed = |error: bowline_agent::AgentError| ToolError::failed(error.to_string());
            let first = cx.children.new_with_default_model("first", Default::default()).await;
            let agent = cx.children.parent().unwrap().clone();
            let beginning = Default::default();
            let second = Child { beginning, ..Child::new(agent) };
            let second = cx.children.create(second).await.map_err(failed)?;
            first.map_err(failed)?.prompt("work").await.unwrap();
            second.prompt("work").await.unwrap();
            Ok("worked".into())
        }
    });
    let replies = [
        Reply::call("delegate", "{}"),
        Reply::text("first"),
        Reply::text("second"),
        Reply::text("done"),
    ];
    let stage = stage(replies).with(delegate).change(|agent| {
        agent.steering = tray.feed();
        agent.follow_ups = tray.feed();
    });
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    assert_eq!(conversation(&handle)[3..], ["user \"for the parent\"", "assistant \"done\""]);
    assert_eq!(stage.asked()[1], ["user \"work\""]);
    assert_eq!(stage.asked()[2], ["user \"work\""]);
}

#[tokio::test]
async fn how_often_an_agent_was_sent_back_is_known_from_the_log() {
    let replies = [Reply::text("a"), Reply::text("b"), Reply::text("c"), Reply::text("d")];
    let stage = stage(replies).change(|agent| {
        let decide = |_: &str, step: &Step| (step.sent_back < 2).then(|| "go on".into());
        agent.on_stop = Some(Arc::new(on_stop_fn(decide)));
    });
    let handle = stage.start();
    assert_eq!(hear(handle.prompt("go")).await.text(), "c");
    // A new run begins anew.
    assert_eq!(stage.model.requests().len(), 3);
}
