//! What else a call can wait for: answers, times, jobs, sub-agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_agent::AgentError;
use bowline_agent::children::Child;
use bowline_agent::entry::{Ending, Wake};
use bowline_agent::event::EventBody;
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::op::{Decision, OpKind};
use bowline_agent::tool::{ToolContext, ToolError, ToolOutput, Waked};
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use crate::support::{
    Latch, conversation, hear, held, like, lines, log_of, op, stage, tool, until_waiting, waiting,
    waits,
};

/// A tool that asks a person and says what they answered.
fn curious() -> impl bowline_agent::tool::DynTool + 'static {
    tool("curious", |_, cx: ToolContext| async move {
        Ok(match cx.wake {
            None => {
                let question = "red or blue?".to_owned();
                let options = vec!["red".to_owned(), "blue".to_owned()];
                ToolOutput::Waiting(Wake::Answer { question, options })
            }
            Some(Waked::Answered(text)) => text.into(),
            Some(other) => return Err(ToolError::failed(format!("{other:?}"))),
        })
    })
}

#[tokio::test]
async fn a_question_is_answered_and_the_tool_runs_again() {
    let script = [Reply::call("curious", "{}"), Reply::text("done")];
    let stage = stage(script).with(curious());
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let decided = handle.decide("call_1".into(), Decision::ONCE).await;
    assert!(matches!(decided, Err(AgentError::NotWaiting(_))), "{decided:?}");
    handle.answer("call_1".into(), "green".to_owned()).await.unwrap();
    let told = hear(run).await;
    assert_eq!(
        waits(&told),
        [
            "tool_start(call_1)",
            "question(call_1, \"red or blue?\")",
            "answer(call_1, \"green\")",
            "tool_end(call_1, ok)",
        ]
    );
    assert_eq!(conversation(&handle)[2], "results call_1=\"green\"");
}

#[tokio::test]
async fn a_question_is_answered_from_elsewhere_and_the_first_answer_counts() {
    let script = [Reply::call("curious", "{}"), Reply::text("done")];
    let stage = stage(script).with(curious());
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let inbox = stage.agent.store.inbox(handle.session_id());
    for text in ["first", "second"] {
        let kind = OpKind::Answer { call: "call_1".into(), text: text.to_owned(), waiting: None };
        inbox.post(op(kind)).await.unwrap();
    }
    let told = hear(run).await;
    assert_eq!(told.result("call_1"), "first");
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_ends_the_run() {
    let script = [Reply::call("curious", "{}"), Reply::text("fine")];
    let stage = stage(script).with(curious()).change(|agent| agent.attended = false);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.ending(), Ending::NeedsApproval);
    assert_eq!(told.ends(), ["tool_end(call_1, denied)"]);
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
}

// Detaching from a run does not end its wait.
#[tokio::test]
async fn a_question_is_answered_although_nobody_watches_the_run() {
    let script = [Reply::call("curious", "{}"), Reply::text("done")];
    let stage = stage(script).with(curious());
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    drop(run);
    assert_eq!(handle.state().waiting_calls.len(), 1);
    handle.answer("call_1".into(), "late".to_owned()).await.unwrap();
    let state = handle.wait_for(|state| state.run.is_none()).await.unwrap();
    assert_eq!(state.latest.as_ref().unwrap().text(), "done");
}

/// A tool that waits for a time.
fn patient(wait: Duration) -> impl bowline_agent::tool::DynTool + 'static {
    tool("patient", move |_, cx: ToolContext| async move {
        Ok(match cx.wake {
            None => ToolOutput::Waiting(Wake::At(cx.now() + wait)),
            Some(waked) => format!("{waked:?}").into(),
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_time_wakes_a_call_by_itself() {
    let script = [Reply::call("patient", "{}"), Reply::text("done")];
    // Nobody needs to be there, and the time of the tool does not run.
    let stage = stage(script).with(patient(Duration::from_secs(3600))).change(|agent| {
        agent.attended = false;
        agent.limits.tool_time_ms = 1_000;
    });
    let began = tokio::time::Instant::now();
    let told = stage.play().await;
    assert_eq!(told.result("call_1"), "Happened");
    assert!(began.elapsed().as_secs().abs_diff(3600) <= 1, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wake_may_come_early() {
    let script = [Reply::call("patient", "{}"), Reply::text("done")];
    let stage = stage(script).with(patient(Duration::from_secs(3600)));
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let began = tokio::time::Instant::now();
    handle.wake("call_1".into()).await.unwrap();
    assert_eq!(hear(run).await.result("call_1"), "Happened");
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_time_counts_against_the_run_and_for_a_person_does_not() {
    let limits = Limits { run_time_ms: 60_000, ..Limits::none() };
    let script = || [Reply::call("patient", "{}").and_call("curious", "{}"), Reply::text("done")];
    let limited = stage(script())
        .with(patient(Duration::from_secs(3600)))
        .change(|agent| agent.limits = limits.clone());
    let handle = limited.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    // Mail does not set the clock back.
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(19)).await;
        handle.queue("hello").await.unwrap();
    }
    let told = hear(run).await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::RunTime));
    assert!(began.elapsed() <= Duration::from_secs(61), "{:?}", began.elapsed());

    let script = [Reply::call("curious", "{}"), Reply::text("done")];
    let stage = stage(script).with(curious()).change(|agent| agent.limits = limits);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    tokio::time::sleep(Duration::from_secs(7 * 24 * 3600)).await;
    handle.answer("call_1".into(), "at last".to_owned()).await.unwrap();
    assert_eq!(hear(run).await.ending(), Ending::Done);
}

// A tool may wait for its sub-agent: it finds it again, and what came of it, without asking a
// model twice.
#[tokio::test]
async fn a_tool_that_waits_for_a_sub_agent_finds_it_again() {
    let latch = Latch::default();
    let stage = stage([Reply::call("delegates", "{}"), Reply::text("done")]);
    let script = [Reply::call("held", r#"{"text":"x"}"#), Reply::text("child's")];
    let (model, mut child) = like(&stage.agent, "child", script);
    child.tools.add(Arc::new(held("held", &latch))).unwrap();
    let stage = stage.with(tool("delegates", move |_, cx: ToolContext| {
        let child = Child::new(child.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            let mut run = child.prompt("do it");
            run.id().await.unwrap();
            if cx.wake.is_none() {
                return Ok(ToolOutput::Waiting(Wake::Agent {
                    agent: child.agent_id(),
                    prompt: None,
                }));
            }
            Ok(run.await.unwrap().text().into())
        }
    }));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    until_waiting(&handle).await;
    latch.open();
    let told = hear(run).await;
    assert_eq!(told.result("call_1"), "child's");
    assert_eq!(model.requests().len(), 2);
    let starts = lines(&told.events, |body| matches!(body, EventBody::AgentStart { .. }));
    assert_eq!(starts, ["child-1: agent_start(call_1)"]);
}

#[tokio::test(start_paused = true)]
async fn a_canceled_wait_ends_the_sub_agents_it_waited_for() {
    let latch = Latch::default();
    let stage = stage([Reply::call("delegates", "{}")]);
    let (_, mut child) = like(&stage.agent, "child", [Reply::call("held", "{}")]);
    child.tools.add(Arc::new(held("held", &latch))).unwrap();
    let stage = stage.with(tool("delegates", move |_, cx: ToolContext| {
        let child = Child::new(child.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            child.prompt("do it").id().await.unwrap();
            Ok(ToolOutput::Waiting(Wake::Agent { agent: child.agent_id(), prompt: None }))
        }
    }));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    until_waiting(&handle).await;
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(
        told.lines()[told.lines().len() - 5..],
        [
            "child-1: run_end(canceled by parent)",
            "child-1: agent_end(canceled)",
            "tool_end(call_1, canceled)",
            "added(results call_1!=\"canceled before it ended\")",
            "run_end(canceled by user)",
        ]
    );
}

// What happens before a call can say that it waits for it is not forgotten.
#[tokio::test(start_paused = true)]
async fn a_wake_that_comes_before_its_wait_counts() {
    let latch = Latch::default();
    let its = latch.clone();
    let stage = stage([Reply::call("job", "{}"), Reply::text("done")]);
    let stage = stage.with(tool("job", move |_, cx: ToolContext| {
        let latch = its.clone();
        async move {
            latch.pass().await;
            Ok(match cx.wake {
                None => ToolOutput::Waiting(Wake::Job("1".into())),
                Some(waked) => format!("{waked:?}").into(),
            })
        }
    }));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.wake("call_1".into()).await.unwrap();
    latch.open();
    let told = tokio::time::timeout(Duration::from_secs(3600), hear(run)).await;
    assert_eq!(told.expect("it waits for ever").result("call_1"), "Happened");
}

// A queue that delivers twice wakes once: what happened before the second wait is not what that
// one is for, also if it comes before the call can say that it waits again.
#[tokio::test(start_paused = true)]
async fn a_wake_that_comes_again_is_not_for_the_next_wait() {
    let latch = Latch::default();
    let its = latch.clone();
    let stage = stage([Reply::call("jobs", "{}"), Reply::text("done")]);
    let runs = AtomicUsize::new(0);
    let stage = stage.with(tool("jobs", move |_, _: ToolContext| {
        let (latch, run) = (its.clone(), runs.fetch_add(1, Ordering::Relaxed));
        async move {
            if run == 1 {
                latch.pass().await;
            }
            Ok(match run {
                0 | 1 => ToolOutput::Waiting(Wake::Job(run.to_string())),
                _ => "both".into(),
            })
        }
    }));
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let first = Some(waiting(&handle));
    let wake = |waiting| op(OpKind::Wake { call: "call_1".into(), waiting });
    let inbox = stage.agent.store.inbox(handle.session_id());
    inbox.post(wake(first)).await.unwrap();
    latch.reached().await;
    let head = handle.state().head;
    inbox.post(wake(first)).await.unwrap();
    handle.wait_for(|state| state.head != head).await.unwrap();
    let again = handle.submit(wake(first).kind).await;
    assert!(matches!(again, Err(AgentError::NotWaiting(_))), "{again:?}");
    latch.open();
    until_waiting(&handle).await;
    inbox.post(wake(first)).await.unwrap();
    inbox.post(wake(Some(waiting(&handle)))).await.unwrap();
    assert_eq!(hear(run).await.result("call_1"), "both");
    let woken = log_of(handle.session_id()).await;
    let woken = woken.iter().filter(|(_, entry)| entry.kind.name() == "woken");
    assert_eq!(woken.count(), 4);
}
