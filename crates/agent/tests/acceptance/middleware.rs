//! What wraps a run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bowline_agent::entry::{Ending, EntryKind, RunError, RunErrorKind};
use bowline_agent::event::{Event, EventBody};
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::middleware::{
    Activation, CatchPanic, GRACE, Logger, Middleware, Next, OutputGuardrail, Timeout,
};
use bowline_agent::op::CancelReason;
use bowline_agent::tool::{ToolContext, ToolError};
use bowline_agent::{AgentCreator as _, AgentError, Outcome};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, ModelError};
use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use tokio::time::Instant;

use crate::support::{Latch, Stage, at_gate, conversation, echo, hear, held, log_of, stage, tool};

type Result = std::result::Result<Outcome, AgentError>;

/// A middleware that is a function.
struct Around<F>(F);

#[async_trait]
impl<F> Middleware for Around<F>
where
    F: for<'a> Fn(&'a Activation, Next<'a>) -> BoxFuture<'a, Result> + Send + Sync,
{
    async fn run(&self, activation: &Activation, next: Next<'_>) -> Result {
        (self.0)(activation, next).await
    }
}

fn around<F>(run: F) -> Arc<dyn Middleware>
where
    F: for<'a> Fn(&'a Activation, Next<'a>) -> BoxFuture<'a, Result> + Send + Sync + 'static,
{
    Arc::new(Around(run))
}

fn wrapped(stage: Stage, middleware: Vec<Arc<dyn Middleware>>) -> Stage {
    stage.change(|agent| agent.middleware = middleware)
}

/// Notes, in order, what happens.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    /// Notes an event that the log has, and not that of a model call's start, which only it dates.
    fn committed(&self, event: &Event) {
        if event.pos.is_some() && event.body != (EventBody::TurnStart {}) {
            let body = serde_json::to_value(&event.body).unwrap();
            self.add(format!("{} {}", event.agent.name, body["type"].as_str().unwrap()));
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// A middleware that notes when it begins, and what it returns.
    fn taker(&self, name: &'static str) -> Arc<dyn Middleware> {
        let notes = self.clone();
        around(move |_, next| {
            let notes = notes.clone();
            Box::pin(async move {
                notes.add(format!("before {name}"));
                let result = next.run().await;
                notes.add(match &result {
                    Ok(outcome) => format!("after {name}: {}", outcome.ending.as_str()),
                    Err(error) => format!("after {name}: {error}"),
                });
                result
            })
        })
    }
}

fn failed(told: &crate::support::Told) -> (RunErrorKind, String) {
    let Ending::Failed(RunError { kind, message }) = told.ending() else {
        panic!("{:?}", told.ending())
    };
    (kind, message)
}

// shelly 20
#[tokio::test]
async fn the_first_middleware_is_the_outermost() {
    let notes = Notes::default();
    let seen = notes.clone();
    let runs = tool("runs", move |_, _| {
        seen.add("run");
        async { Ok("r".into()) }
    });
    let stage = stage([Reply::call("runs", "{}"), Reply::text("done")]).with(runs);
    let told = wrapped(stage, vec![notes.taker("A"), notes.taker("B")]).play().await;
    assert_eq!(told.text(), "done");
    assert_eq!(notes.all(), ["before A", "before B", "run", "after B: done", "after A: done"]);
}

#[tokio::test]
async fn whoever_waits_gets_what_the_outermost_middleware_returns() {
    let refuses = around(|_, next| {
        Box::pin(async move {
            let outcome = next.run().await?;
            Err(AgentError::Middleware(format!("not {}", outcome.text())))
        })
    });
    let shortens = around(|_, next| {
        Box::pin(async move { Ok(Outcome { model_turns: 9, ..next.run().await? }) })
    });
    let told = wrapped(stage([Reply::text("done")]), vec![shortens]).play().await;
    assert_eq!(told.outcome.unwrap().model_turns, 9);
    let stage = wrapped(stage([Reply::text("done")]), vec![refuses]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.outcome.as_ref().unwrap_err().to_string(), "not done");
    // The run is what it is.
    assert_eq!(told.lines().last().unwrap(), "run_end(done)");
    assert_eq!(handle.state().latest.as_ref().unwrap().ending, Ending::Done);
}

// shelly 17
#[tokio::test(start_paused = true)]
async fn a_run_that_takes_longer_than_its_timeout_is_canceled() {
    let latch = Latch::default();
    let stage = wrapped(
        stage([Reply::call("held", r#"{"text":"h"}"#), Reply::text("done")]),
        vec![Arc::new(Timeout(Duration::from_secs(60)))],
    )
    .with(held("held", &latch));
    let began = Instant::now();
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::Timeout));
    // The time in which the tool does not stop comes on top.
    assert!(began.elapsed() < Duration::from_secs(65), "{:?}", began.elapsed());
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_in_time_is_not_canceled() {
    let slow = tool("slow", |_, _| async {
        tokio::time::sleep(Duration::from_secs(59)).await;
        Ok("slow".into())
    });
    let stage = stage([Reply::call("slow", "{}"), Reply::text("done")]).with(slow);
    let told = wrapped(stage, vec![Arc::new(Timeout(Duration::from_secs(60)))]).play().await;
    assert_eq!(told.text(), "done");
}

// shelly 18
#[tokio::test]
async fn a_panic_inside_is_the_error_of_the_run() {
    let panics = || around(|_, _| Box::pin(async { panic!("oh no") }));
    let notes = Notes::default();
    let caught: Vec<Arc<dyn Middleware>> = vec![notes.taker("A"), Arc::new(CatchPanic), panics()];
    for middleware in [caught, vec![notes.taker("B"), panics()]] {
        let stage = wrapped(stage([Reply::text("unheard")]), middleware);
        let told = stage.play().await;
        let message = "a middleware panicked: oh no".to_owned();
        assert_eq!(failed(&told), (RunErrorKind::Panic, message));
        assert_eq!(stage.model.requests().len(), 0);
    }
    // Who catches it lets those outside go on.
    assert_eq!(notes.all(), ["before A", "after A: error", "before B"]);
}

#[tokio::test]
async fn a_panic_while_the_run_goes_on_stops_it() {
    let (stage, gate) = at_gate(Reply::text("unheard"), []);
    let reached = gate.clone();
    let panics = around(move |_, next| {
        let reached = reached.clone();
        Box::pin(async move {
            tokio::select! {
                result = next.run() => result,
                () = reached.reached() => panic!("oh no"),
            }
        })
    });
    let told = wrapped(stage, vec![panics]).play().await;
    let message = "a middleware panicked: oh no".to_owned();
    assert_eq!(failed(&told), (RunErrorKind::Panic, message));
}

#[tokio::test]
async fn a_panic_after_the_answer_is_told_unless_it_is_caught() {
    let panics = || {
        around(|_, next| {
            Box::pin(async {
                next.run().await?;
                panic!("oh no")
            })
        })
    };
    let told = wrapped(stage([Reply::text("done")]), vec![panics()]).play().await;
    assert_eq!(told.outcome.unwrap_err().to_string(), "a middleware panicked: oh no");
    let caught: Vec<Arc<dyn Middleware>> = vec![Arc::new(CatchPanic), panics()];
    assert_eq!(wrapped(stage([Reply::text("done")]), caught).play().await.text(), "done");
}

// shelly 19
#[tokio::test]
async fn an_answer_that_is_refused_is_not_returned() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let polite = OutputGuardrail::new(move |answer: &str| {
        heard.lock().unwrap().push(answer.to_owned());
        if answer.contains("damn") { Err("not polite".to_owned()) } else { Ok(()) }
    });
    let stage = stage([
        Reply::call("echo", "{}"),
        Reply::text("good"),
        Reply::text("damn"),
        Reply::error(ModelError::new(ErrorKind::Auth, "no key")),
        Reply::text("good again"),
    ]);
    let stage = wrapped(stage, vec![Arc::new(polite)]).with(echo());
    let handle = stage.start();
    assert_eq!(hear(handle.prompt("a")).await.text(), "good");
    let told = hear(handle.prompt("b")).await;
    assert_eq!(failed(&told), (RunErrorKind::Guardrail, "not polite".to_owned()));
    assert_eq!(told.outcome.unwrap().answer, []);
    // Nobody is asked about a run that failed.
    let told = hear(handle.prompt("c")).await;
    assert_eq!(failed(&told).0, RunErrorKind::Model(ErrorKind::Auth));
    assert_eq!(hear(handle.prompt("d")).await.text(), "good again");
    assert_eq!(*asked.lock().unwrap(), ["good", "damn", "good again"]);
    // What was refused was said all the same.
    assert!(conversation(&handle).contains(&"assistant \"damn\"".to_owned()));
}

#[tokio::test]
async fn the_innermost_guardrail_judges_first_and_one_that_panics_refuses() {
    let notes = Notes::default();
    let guard = |name: &'static str| {
        let notes = notes.clone();
        Arc::new(OutputGuardrail::new(move |_: &str| {
            notes.add(name);
            Ok(())
        })) as Arc<dyn Middleware>
    };
    let both = vec![guard("outer"), guard("inner")];
    assert_eq!(wrapped(stage([Reply::text("done")]), both).play().await.text(), "done");
    assert_eq!(notes.all(), ["inner", "outer"]);
    let panics = OutputGuardrail::new(|_: &str| panic!("oh"));
    let told = wrapped(stage([Reply::text("done")]), vec![Arc::new(panics)]).play().await;
    let message = "a guardrail panicked: oh".to_owned();
    assert_eq!(failed(&told), (RunErrorKind::Guardrail, message));
}

/// Judges when its latch is opened.
struct Ponders(Latch);

#[async_trait]
impl Middleware for Ponders {
    async fn judge(&self, _: &str) -> std::result::Result<(), String> {
        self.0.pass().await;
        Ok(())
    }
}

#[tokio::test]
async fn what_comes_in_while_an_answer_is_judged_is_not_lost() {
    let latch = Latch::default();
    let replies = [Reply::text("one"), Reply::text("two")];
    let stage = wrapped(stage(replies), vec![Arc::new(Ponders(latch.clone()))]);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.queue("more").await.unwrap();
    latch.open();
    assert_eq!(hear(run).await.text(), "two");
}

#[tokio::test]
async fn a_run_is_canceled_while_its_answer_is_judged() {
    let latch = Latch::default();
    let stage = wrapped(stage([Reply::text("one")]), vec![Arc::new(Ponders(latch.clone()))]);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::User));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_judges_in_time_is_refused() {
    let middleware: Vec<Arc<dyn Middleware>> = vec![Arc::new(Ponders(Latch::default()))];
    let stage = wrapped(stage([Reply::text("one")]), middleware).change(|agent| {
        agent.limits = Limits { run_time_ms: 5_000, ..Limits::default() };
    });
    assert_eq!(failed(&stage.play().await).0, RunErrorKind::Guardrail);
}

#[tokio::test(start_paused = true)]
async fn whoever_drops_what_is_inside_cancels_the_run_and_its_commits_are_finished() {
    let latch = Latch::default();
    let reached = latch.clone();
    let drops = around(move |_, next| {
        let reached = reached.clone();
        Box::pin(async move {
            tokio::select! {
                result = next.run() => result,
                () = reached.reached() => Err(AgentError::Middleware("enough".to_owned())),
            }
        })
    });
    let replies = [Reply::call("held", r#"{"text":"h"}"#), Reply::text("unheard")];
    let stage = wrapped(stage(replies), vec![drops]).with(held("held", &latch));
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.outcome.as_ref().unwrap_err().to_string(), "enough");
    assert_eq!(
        told.lines().last().unwrap(),
        "run_end(canceled by user)",
        "the run ended before the answer came"
    );
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)"]);
}

#[tokio::test]
async fn a_middleware_that_lets_nothing_happen_leaves_no_open_run() {
    let refuses = around(|_, _| {
        Box::pin(async { Err(AgentError::Middleware("closed on sundays".to_owned())) })
    });
    let gives_a_reason = around(|activation, next| {
        Box::pin(async {
            activation.cancel(CancelReason::Shutdown);
            drop(next);
            Err(AgentError::Middleware("later".to_owned()))
        })
    });
    for (middleware, reason) in
        [(refuses, CancelReason::User), (gives_a_reason, CancelReason::Shutdown)]
    {
        let stage = wrapped(stage([]), vec![middleware]);
        let handle = stage.start();
        let told = hear(handle.prompt("go")).await;
        assert!(matches!(told.outcome, Err(AgentError::Middleware(_))));
        let state = handle.state();
        assert_eq!(state.latest.as_ref().unwrap().ending, Ending::Canceled(reason));
        assert_eq!(stage.model.requests().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_canceled_while_a_middleware_hangs_before_it() {
    let latch = Latch::default();
    let waits = latch.clone();
    let hangs = around(move |_, next| {
        let waits = waits.clone();
        Box::pin(async move {
            waits.pass().await;
            next.run().await
        })
    });
    let stage = wrapped(stage([]), vec![hangs]);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    let began = Instant::now();
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::User));
    assert_eq!(began.elapsed(), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_does_not_wait_for_what_lingers_inside() {
    let lingers = around(|_, next| {
        Box::pin(async move {
            next.run().await?;
            std::future::pending().await
        })
    });
    let middleware: Vec<Arc<dyn Middleware>> =
        vec![Arc::new(Timeout(Duration::from_secs(60))), lingers];
    assert_eq!(wrapped(stage([Reply::text("done")]), middleware).play().await.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn time_that_a_middleware_takes_before_the_run_is_the_time_of_the_run() {
    let hangs = around(|_, next| {
        Box::pin(async move {
            std::future::pending::<()>().await;
            next.run().await
        })
    });
    let limits = Limits { run_time_ms: 5_000, wrap_up: false, ..Limits::default() };
    let stage = wrapped(stage([]), vec![hangs]).change(|agent| agent.limits = limits);
    assert_eq!(stage.play().await.ending(), Ending::Limit(LimitKind::RunTime));
}

#[tokio::test]
async fn a_prompt_waits_for_those_around_the_run_before() {
    let latch = Latch::default();
    let notes = Notes::default();
    let (waits, seen) = (latch.clone(), notes.clone());
    let lingers = around(move |_, next| {
        let (waits, notes) = (waits.clone(), seen.clone());
        Box::pin(async move {
            notes.add("begins");
            let result = next.run().await;
            waits.pass().await;
            notes.add("ends");
            result
        })
    });
    let stage = wrapped(stage([Reply::text("one"), Reply::text("two")]), vec![lingers]);
    let handle = stage.start();
    let first = handle.prompt("a");
    latch.reached().await;
    let second = handle.prompt("b");
    handle.record("note", bowline_llm::RawJson::of(&1).unwrap()).await.unwrap();
    latch.open();
    assert_eq!(hear(first).await.text(), "one");
    assert_eq!(hear(second).await.text(), "two");
    assert_eq!(notes.all(), ["begins", "ends", "begins", "ends"]);
}

#[tokio::test(start_paused = true)]
async fn those_around_a_run_hear_of_its_end_when_the_session_is_closed() {
    let (stage, gate) = at_gate(Reply::text("unheard"), []);
    let notes = Notes::default();
    let stage = wrapped(stage, vec![notes.taker("A")]);
    let handle = stage.start();
    let run = handle.prompt("a");
    gate.reached().await;
    handle.close().await;
    assert_eq!(hear(run).await.ending(), Ending::Canceled(CancelReason::Shutdown));
    assert_eq!(notes.all(), ["before A", "after A: canceled"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_closes_while_a_middleware_lingers() {
    let latch = Latch::default();
    let waits = latch.clone();
    let lingers = around(move |_, next| {
        let waits = waits.clone();
        Box::pin(async move {
            let result = next.run().await;
            waits.pass().await;
            result
        })
    });
    let stage = wrapped(stage([Reply::text("one")]), vec![lingers]);
    let handle = stage.start();
    let run = handle.prompt("a");
    latch.reached().await;
    handle.close().await;
    assert_eq!(run.await.unwrap().text(), "one");
}

#[tokio::test]
async fn a_run_that_goes_on_in_another_process_is_wrapped_again() {
    let notes = Notes::default();
    let stage = stage([Reply::text("one"), Reply::text("two")]);
    let stage = wrapped(stage, vec![notes.taker("A")]);
    let handle = stage.start();
    hear(handle.prompt("a")).await;
    let session = handle.session_id();
    let starts = |entry: &bowline_agent::entry::Entry| matches!(entry.kind, EntryKind::User(_));
    let again = crate::support::crashed(&stage.agent, session, starts).await;
    let handle = again.resume(session).await.unwrap();
    let run = handle.continue_run().await.unwrap().unwrap();
    assert_eq!(hear(run).await.text(), "two");
    assert_eq!(notes.all(), ["before A", "after A: done", "before A", "after A: done"]);
}

#[tokio::test]
async fn a_sub_agent_has_middleware_of_its_own() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let counts = around(move |_, next| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(next.run())
    });
    let delegate = tool("delegate", |_, cx: ToolContext| async move {
        let child = cx.children.new_with_default_model("child", Default::default()).await;
        let child = child.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(child.prompt("work").await.unwrap().text().into())
    });
    let replies = [Reply::call("delegate", "{}"), Reply::text("worked"), Reply::text("done")];
    let stage = wrapped(stage(replies), vec![counts]).with(delegate);
    let told = stage.play().await;
    assert_eq!((told.text().as_str(), told.result("call_1").as_str()), ("done", "worked"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn those_around_a_run_can_watch_all_of_it() {
    let notes = Notes::default();
    let told = notes.clone();
    let watches = around(move |activation, next| {
        let told = told.clone();
        Box::pin(async move {
            let mut watched = activation.watch().await?;
            watched.before.iter().for_each(|event| told.committed(event));
            told.add("--");
            let result = next.run().await;
            while let Some(event) = watched.events.recv().await {
                told.committed(&event);
            }
            result
        })
    });
    let delegate = tool("delegate", |_, cx: ToolContext| async move {
        let child = cx.children.new_with_default_model("child", Default::default()).await;
        let child = child.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(child.prompt("work").await.unwrap().text().into())
    });
    let replies = [Reply::text("before"), Reply::call("delegate", "{}"), Reply::text("worked")];
    let replies = replies.into_iter().chain([Reply::text("done"), Reply::text("done")]);
    let stage = wrapped(stage(replies), vec![watches]).with(delegate);
    let handle = stage.start();
    hear(handle.prompt("a")).await;
    let before = notes.all().len();
    hear(handle.prompt("b")).await;
    let lived = notes.all().split_off(before);
    let [begins, goes_on] = parts(&lived);
    assert_eq!(begins, ["root run_start", "root message_added"]);
    assert_eq!(goes_on.last().unwrap(), "root run_end");
    assert!(goes_on.contains(&"root-1 run_end".to_owned()), "{lived:?}");

    let session = handle.session_id();
    let ends = |entry: &bowline_agent::entry::Entry| matches!(entry.kind, EntryKind::CallEnded(_));
    let again = crate::support::crashed(&stage.agent, session, ends).await;
    let handle = again.resume(session).await.unwrap();
    hear(handle.continue_run().await.unwrap().unwrap()).await;
    let resumed = notes.all().split_off(before + lived.len());
    let [told, happens] = parts(&resumed);
    assert!(told.contains(&"root-1 run_end".to_owned()), "{told:?}");
    assert!(!happens.contains(&"root-1 run_end".to_owned()), "{happens:?}");
    assert_eq!([told, happens].concat(), [begins, goes_on].concat());
}

/// Returns what was told before a run was watched, and what happened then.
fn parts(notes: &[String]) -> [&[String]; 2] {
    let at = notes.iter().position(|note| note == "--").unwrap();
    [&notes[..at], &notes[at + 1..]]
}

#[tokio::test]
async fn a_logger_tells_that_a_run_starts_and_how_it_ended() {
    let notes = Notes::default();
    let told = notes.clone();
    let logger = Logger::new(move |logged| {
        let line = logged.to_string();
        let words: Vec<&str> = line.split(' ').collect();
        // Without the id and the time.
        let kept = [&words[..2], &words[3..4], words.get(7..).unwrap_or_default()].concat();
        told.add(format!("{} {}", logged.is_error(), kept.join(" ")));
    });
    let stage = stage([Reply::text("one"), Reply::error(ModelError::new(ErrorKind::Auth, "no"))]);
    let stage = wrapped(stage, vec![Arc::new(logger)]);
    let handle = stage.start();
    hear(handle.prompt("a")).await;
    let told = hear(handle.prompt("b")).await;
    let error = failed(&told).1;
    assert_eq!(
        notes.all(),
        [
            "false root: run started".to_owned(),
            "false root: run ended done".to_owned(),
            "false root: run started".to_owned(),
            format!("true root: run ended error: {error}"),
        ]
    );
    assert!(!log_of(handle.session_id()).await.is_empty());
}

#[tokio::test]
async fn what_wraps_a_run_warns_and_says_something_to_the_model() {
    let talks = around(|activation, next| {
        Box::pin(async move {
            activation.warn("look out");
            activation.say("It rains.".into());
            next.run().await
        })
    });
    let stage = wrapped(stage([Reply::text("done")]), vec![talks]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let is_warning =
        |body: &EventBody| matches!(body, EventBody::Warning { message } if message == "look out");
    assert_eq!(told.events.iter().filter(|event| is_warning(&event.body)).count(), 1);
    assert_eq!(conversation(&handle), ["user \"go\"", "user \"It rains.\"", "assistant \"done\""]);
}
