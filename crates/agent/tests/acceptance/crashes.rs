//! What is left of a run by a process that died, or by a log that failed.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::agent::Busy;
use bowline_agent::children::Child;
use bowline_agent::entry::{CallStatus, Ending, EntryKind, Wake};
use bowline_agent::event::EventBody;
use bowline_agent::id::SessionId;
use bowline_agent::op::CancelReason;
use bowline_agent::tool::{DynTool, Recovery, ToolContext, ToolError, ToolOutput};
use bowline_agent::{Agent, Outcome};
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, ModelError, ScriptedModel};
use pretty_assertions::assert_eq;

use crate::support::{
    Checked, Latch, Stage, Text, crashed, hear, held, like, log_of, project, stage, tool,
};

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), future).await.expect("it never ends")
}

/// A run that was cancelled while a tool was held, and has ended.
async fn canceled(stage: &Stage, latch: &Latch) -> SessionId {
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    run.await.unwrap();
    let id = handle.session_id();
    handle.close().await;
    id
}

#[tokio::test(start_paused = true)]
async fn a_prompt_may_cancel_a_run_that_was_found_open() {
    let latch = Latch::default();
    let stage = stage([Reply::call("held", "{}"), Reply::text("new")]);
    let stage = stage.with(held("held", &latch));
    let id = canceled(&stage, &latch).await;
    let agent = crashed(&stage.agent, id, |entry| entry.kind.name() == "call_started").await;
    let handle = agent.resume(id).await.unwrap();
    let outcome =
        soon(handle.prompt_with("again", Busy::CancelPrevious).into_future()).await.unwrap();
    assert_eq!(outcome.text(), "new");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_on_a_run_found_open_that_only_ends_starts_its_own() {
    for busy in [Busy::Reject, Busy::Queue, Busy::Steer] {
        let latch = Latch::default();
        let stage = stage([Reply::call("held", "{}"), Reply::text("new")]);
        let stage = stage.with(held("held", &latch));
        let id = canceled(&stage, &latch).await;
        let agent = crashed(&stage.agent, id, |entry| entry.kind.name() == "canceled").await;
        let handle = agent.resume(id).await.unwrap();
        let told = hear(handle.prompt_with("again", busy)).await;
        assert_eq!((told.ending(), told.text()), (Ending::Done, "new".to_owned()));
        assert_eq!(*handle.state().drafts, []);
    }
}

#[tokio::test]
async fn a_prompt_on_a_run_found_open_that_has_failed_starts_its_own() {
    let error = ModelError::new(ErrorKind::Auth, "no");
    let stage = stage([Reply::error(error), Reply::text("new")]);
    let handle = stage.start();
    handle.prompt("go").await.unwrap();
    let id = handle.session_id();
    handle.close().await;
    let agent = crashed(&stage.agent, id, |entry| entry.kind.name() == "assistant").await;
    let handle = agent.resume(id).await.unwrap();
    assert_eq!(soon(handle.prompt("again").into_future()).await.unwrap().text(), "new");
}

/// A parent whose tool goes when it is asked to, while its sub-agent's tool does not.
#[tokio::test(start_paused = true)]
async fn a_call_does_not_end_before_its_sub_agent_is_down() {
    let latch = Latch::default();
    let stage = stage([Reply::call("ask", "{}")]);
    let (_, child) = like(&stage.agent, "child", [Reply::call("held", "{}")]);
    let mut child = child;
    child.tools.add(Arc::new(held("held", &latch))).unwrap();
    let stage = stage.with(tool("ask", move |_, cx: ToolContext| {
        let child = Child::new(child.clone());
        async move {
            let handle = cx.children.create(child).await.unwrap();
            let _run = handle.prompt("sub");
            cx.cancel.cancelled().await;
            Ok(ToolOutput::text("gone"))
        }
    }));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    run.await.unwrap();
    let log = log_of(handle.session_id()).await;
    let ends: Vec<_> = log
        .iter()
        .filter(|(_, entry)| entry.kind.name() == "run_ended")
        .map(|(_, entry)| entry.agent == handle.agent_id())
        .collect();
    assert_eq!(ends, [false, true]);
    let is_parents = |kind: &EntryKind| {
        matches!(kind, EntryKind::RunEnded(ended)
            if ended.outcome == Ending::Canceled(CancelReason::Parent))
    };
    assert_eq!(log.iter().filter(|(_, entry)| is_parents(&entry.kind)).count(), 1);
}

/// A tool that waits for a time, and is cut off or not when it goes on.
fn patient(latch: &Latch, recovery: Recovery) -> impl DynTool + 'static {
    let latch = latch.clone();
    let run = move |_: Text, cx: ToolContext| {
        let latch = latch.clone();
        async move {
            match cx.wake {
                None => {
                    let soon = cx.now() + Duration::from_secs(60);
                    Ok(ToolOutput::Waiting(Wake::At(soon)))
                }
                Some(waked) => {
                    latch.pass().await;
                    Ok(format!("{waked:?}").into())
                }
            }
        }
    };
    tool("patient", run).with_recovery(recovery)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_woken_and_then_cut_off_does_not_run_again() {
    let expected =
        [(Recovery::Unknown, false), (Recovery::Rerun, true), (Recovery::Reattach, true)];
    for (recovery, again) in expected {
        let latch = Latch::default();
        let stage = stage([Reply::call("patient", "{}"), Reply::text("done")]);
        let stage = stage.with(patient(&latch, recovery));
        let handle = stage.start();
        let run = handle.prompt("go");
        latch.reached().await;
        latch.open();
        let told = hear(run).await;
        assert_eq!(told.result("call_1"), "Happened");
        let id = handle.session_id();
        handle.close().await;
        let mut starts = 0;
        let agent = crashed(&stage.agent, id, |entry| {
            starts += usize::from(entry.kind.name() == "call_started");
            starts == 2
        });
        let agent = agent.await;
        goes_on(&agent, id).await;
        let log = log_of(id).await;
        let text = log.iter().find_map(|(_, entry)| match &entry.kind {
            EntryKind::CallEnded(ended) => Some(bowline_llm::text_of(&ended.content)),
            _ => None,
        });
        let text = text.unwrap();
        assert_eq!(text == "Happened", again, "{recovery:?}: {text}");
        assert_eq!(text.contains("interrupted"), !again, "{recovery:?}: {text}");
        let starts = project(id, &log)
            .into_iter()
            .filter(|event| matches!(event.body, EventBody::ToolStart { .. }));
        assert_eq!(starts.count(), 1);
    }
}

/// Goes on with the run that is open in a session, with a new script.
async fn goes_on(agent: &Agent, id: SessionId) -> Outcome {
    let model = ScriptedModel::new([Reply::text("went on")]);
    let agent = Agent { model: Arc::new(Checked(model)), ..agent.clone() };
    let handle = agent.resume(id).await.unwrap();
    let run = handle.continue_run().await.unwrap().unwrap();
    let outcome = soon(run.into_future()).await.unwrap();
    handle.close().await;
    outcome
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_a_crash_does_not_hide_what_may_have_happened() {
    let expected = [
        (Recovery::Unknown, CallStatus::Interrupted),
        (Recovery::Reattach, CallStatus::Interrupted),
        (Recovery::Rerun, CallStatus::Canceled),
    ];
    for (recovery, status) in expected {
        let latch = Latch::default();
        let stage = stage([Reply::call("held", "{}"), Reply::text("done")]);
        let stage = stage.with(held("held", &latch).with_recovery(recovery));
        let id = canceled(&stage, &latch).await;
        let agent = crashed(&stage.agent, id, |entry| entry.kind.name() == "canceled").await;
        let outcome = goes_on(&agent, id).await;
        assert_eq!(outcome.ending, Ending::Canceled(CancelReason::User));
        let log = log_of(id).await;
        let ended = log.iter().find_map(|(_, entry)| match &entry.kind {
            EntryKind::CallEnded(ended) => Some(ended.status),
            _ => None,
        });
        assert_eq!(ended, Some(status));
    }
}

/// Makes a tool that asks a sub-agent, whatever came of it before.
fn delegates(child: &Agent, recovery: Recovery) -> impl DynTool + 'static {
    let child = child.clone();
    let run = move |_: Text, cx: ToolContext| {
        let child = Child::new(child.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            child
                .add_user_turn("note")
                .await
                .map_err(|error| ToolError::failed(error.to_string()))?;
            let mut run = child.prompt("do it");
            run.id().await.unwrap();
            child.queue("more").await.map_err(|error| ToolError::failed(error.to_string()))?;
            Ok(run.await.unwrap().text().into())
        }
    };
    tool("ask", run).with_recovery(recovery)
}

#[tokio::test(start_paused = true)]
async fn sub_agents_of_a_call_that_does_not_run_again_end_with_it() {
    for cancels in [false, true] {
        let latch = Latch::default();
        let stage = stage([Reply::call("ask", "{}")]);
        let (_, mut grandchild) = like(&stage.agent, "grandchild", [Reply::call("held", "{}")]);
        grandchild.tools.add(Arc::new(held("held", &latch))).unwrap();
        let (_, mut child) = like(&stage.agent, "child", [Reply::call("ask", "{}")]);
        child.tools.add(Arc::new(delegates(&grandchild, Recovery::Reattach))).unwrap();
        let stage = stage.with(delegates(&child, Recovery::Unknown));
        let id = canceled(&stage, &latch).await;
        let mut starts = 0;
        let agent = crashed(&stage.agent, id, |entry| {
            starts += usize::from(entry.kind.name() == "call_started");
            starts == 3
        });
        let agent = agent.await;
        if cancels {
            let model = ScriptedModel::new([Reply::text("new")]);
            let agent = Agent { model: Arc::new(Checked(model)), ..agent };
            let handle = agent.resume(id).await.unwrap();
            let run = handle.prompt_with("again", Busy::CancelPrevious);
            soon(run.into_future()).await.unwrap();
            handle.close().await;
        } else {
            goes_on(&agent, id).await;
        }
        let log = log_of(id).await;
        let root = id.root();
        let ends: Vec<_> = log
            .iter()
            .filter_map(|(_, entry)| match &entry.kind {
                EntryKind::RunEnded(ended) => Some((entry.agent == root, ended.outcome.clone())),
                _ => None,
            })
            .collect();
        let parent = Ending::Canceled(CancelReason::Parent);
        assert_eq!(ends[..2], [(false, parent.clone()), (false, parent)]);
        assert!(ends[2..].iter().all(|(is_root, _)| *is_root), "{ends:?}");
        let open = |name: &str| log.iter().filter(|(_, entry)| entry.kind.name() == name).count();
        assert_eq!(open("call_started"), open("call_ended"));
        let told = project(id, &log).into_iter();
        let ends = told.filter(|event| matches!(event.body, EventBody::AgentEnd { .. }));
        assert_eq!(ends.count(), 2);
    }
}

// What a tool says to a sub-agent is said once, although the tool runs again.
#[tokio::test(start_paused = true)]
async fn a_tool_that_runs_again_says_nothing_twice() {
    for kind in ["user", "run_started", "posted", "call_ended", "run_ended"] {
        let latch = Latch::default();
        let stage = stage([Reply::call("ask", "{}"), Reply::text("done")]);
        let script = [Reply::call("held", "{}"), Reply::text("x")];
        let (_, mut child) = like(&stage.agent, "child", script);
        child.tools.add(Arc::new(held("held", &latch))).unwrap();
        let first = stage.clone().with(delegates(&child, Recovery::Reattach));
        let handle = first.start();
        let run = handle.prompt("go");
        handle.wait_for(|state| !state.pending_calls.is_empty()).await.unwrap();
        latch.reached().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        latch.open();
        hear(run).await;
        let id = handle.session_id();
        handle.close().await;
        let root = id.root();
        let agent =
            crashed(&first.agent, id, |entry| entry.agent != root && entry.kind.name() == kind);
        let agent = agent.await;
        let script = match kind {
            "user" | "run_started" => vec![Reply::call("held", "{}"), Reply::text("y")],
            _ => vec![Reply::text("y")],
        };
        let (_, mut again) = like(&agent, "child", script);
        again.tools = child.tools.clone();
        let tools = stage.clone().with(delegates(&again, Recovery::Reattach)).agent.tools;
        let agent = Agent { tools, ..agent };
        assert_eq!(goes_on(&agent, id).await.ending, Ending::Done, "{kind}");
        let log = log_of(id).await;
        let said: Vec<_> = log
            .iter()
            .filter(|(_, entry)| entry.agent != root)
            .filter_map(|(_, entry)| match &entry.kind {
                EntryKind::User(said) => Some(bowline_llm::text_of(&said.message.content)),
                _ => None,
            })
            .collect();
        assert_eq!(said, ["note", "do it", "more"], "{kind}");
        let failed = log.iter().any(|(_, entry)| {
            matches!(&entry.kind, EntryKind::CallEnded(ended)
                if entry.agent == root && ended.status != CallStatus::Ok)
        });
        assert!(!failed, "{kind}: the tool was refused something");
    }
}
