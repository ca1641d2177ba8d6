//! Sub-agents end with the call that made them, however it ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_agent::children::{AgentCreator as _, Children};
use bowline_agent::entry::Ending;
use bowline_agent::event::{AgentMeta, Phase};
use bowline_agent::id::SessionId;
use bowline_agent::on_end::OnEnd;
use bowline_agent::op::CancelReason;
use bowline_agent::tool::{ToolContext, Toolbox};
use bowline_agent::{AgentError, SessionHandle};
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;

use super::{asks, brief, child, family};
use crate::support::{hear, like, stage, tool};

// F040
#[tokio::test(start_paused = true)]
async fn a_tool_that_returns_ends_its_sub_agents_first() {
    let gate = Gate::default();
    let stage = stage([Reply::call("leaves", "{}"), Reply::text("done")]);
    let (_, agent) = like(&stage.agent, "child", [Reply::text("late").held_by(&gate)]);
    let kept: Arc<Mutex<Option<SessionHandle>>> = Arc::default();
    let slot = Arc::clone(&kept);
    let stage = stage.with(tool("leaves", move |_, cx: ToolContext| {
        let (child, gate, slot) = (child(&agent), gate.clone(), Arc::clone(&slot));
        async move {
            let child = cx.children.create(child).await.unwrap();
            drop(child.prompt("work"));
            gate.reached().await;
            *slot.lock().unwrap() = Some(child);
            Ok("left".into())
        }
    }));
    let told = stage.play().await;
    assert_eq!(
        brief(&told)[6..12],
        [
            "child-1: run_start",
            "child-1: turn_start",
            "child-1: turn_end(canceled)",
            "child-1: run_end(canceled by parent)",
            "child-1: agent_end(canceled)",
            "tool_end(call_1, ok)",
        ]
    );
    // F043: its handle is of no use any more.
    let late = kept.lock().unwrap().take().unwrap();
    assert_eq!(late.status(), Phase::Idle);
    let told = hear(late.prompt("more")).await;
    let why = "the sub-agent's scope is closed: the tool call that made it has ended";
    assert_eq!(told.lines(), [format!("rejected({why})")]);
    assert!(matches!(told.outcome, Err(AgentError::ScopeClosed)));
    assert!(matches!(late.queue("x").await, Err(AgentError::ScopeClosed)));
}

// F041
#[tokio::test]
async fn no_sub_agent_is_made_after_the_call() {
    let kept: Arc<Mutex<Option<Children>>> = Arc::default();
    let slot = Arc::clone(&kept);
    let stage = stage([Reply::call("leaks", "{}"), Reply::text("done")]);
    let stage = stage.with(tool("leaks", move |_, cx: ToolContext| {
        *slot.lock().unwrap() = Some(cx.children);
        async { Ok("".into()) }
    }));
    let agent = stage.agent.clone();
    stage.play().await;
    let children = kept.lock().unwrap().take().unwrap();
    assert!(matches!(children.create(child(&agent)).await, Err(AgentError::ScopeClosed)));
    let new = children.new_with_default_model("x", Toolbox::default()).await;
    assert!(matches!(new, Err(AgentError::ScopeClosed)));
}

#[tokio::test(start_paused = true)]
async fn canceling_a_parent_cancels_and_joins_its_sub_agents_at_once() {
    let gate = Gate::default();
    let (stage, _) = family([Reply::text("late").held_by(&gate)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let began = tokio::time::Instant::now();
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(
        brief(&told)[7..],
        [
            "child-1: turn_start",
            "child-1: turn_end(canceled)",
            "child-1: run_end(canceled by parent)",
            "child-1: agent_end(canceled)",
            "tool_end(call_1, ok)",
            "run_end(canceled by user)",
        ]
    );
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_sub_agents_failure_is_its_callers_to_judge() {
    let panics = tool("panics", |_, _| async { panic!("boom") });
    let stage = stage([Reply::call("ask", "{}"), Reply::text("done")]);
    let script = [Reply::call("panics", "{}"), Reply::text("survived")];
    let (_, mut agent) = like(&stage.agent, "child", script);
    agent.tools.add(Arc::new(panics)).unwrap();
    let stage = stage.with(asks("ask", agent));
    let told = stage.play().await;
    assert_eq!(told.result("call_1"), "survived");
    let ends = told.ends();
    assert_eq!(ends, ["child-1: tool_end(call_1, error)", "tool_end(call_1, ok)"]);
    assert_eq!(told.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_takes_its_sub_agents_down() {
    let gate = Gate::default();
    let stage = stage([Reply::call("panics", "{}"), Reply::text("done")]);
    let (_, agent) = like(&stage.agent, "child", [Reply::text("late").held_by(&gate)]);
    let stage = stage.with(tool("panics", move |_, cx: ToolContext| {
        let (child, gate) = (child(&agent), gate.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            let _run = child.prompt("work");
            gate.reached().await;
            panic!("boom")
        }
    }));
    let told = stage.play().await;
    assert_eq!(
        brief(&told)[8..13],
        [
            "child-1: turn_end(canceled)",
            "child-1: run_end(canceled by parent)",
            "warning(\"the tool panicked: boom\")",
            "child-1: agent_end(canceled)",
            "tool_end(call_1, error)",
        ]
    );
    assert_eq!(told.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn closing_a_session_ends_sub_agents_too() {
    let gate = Gate::default();
    let (stage, _) = family([Reply::text("late").held_by(&gate)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    let (told, ()) = tokio::join!(hear(run), handle.close());
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::Shutdown));
    assert_eq!(told.lines().iter().filter(|line| line.contains("child-1: run_end")).count(), 1);
}

/// Takes note of who is down, and then panics.
struct Down(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl OnEnd for Down {
    async fn on_end(&self, session: SessionId, agent: &AgentMeta) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(agent.parent.is_none(), agent.id == session.root());
        self.0.lock().unwrap().push(agent.name.clone());
        panic!("nobody hears it");
    }
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_an_agent_is_ended_before_those_who_wait_for_it_go_on() {
    let down: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut stage = stage([Reply::call("works", "{}"), Reply::text("done")]);
    stage.agent.on_end = Some(Arc::new(Down(Arc::clone(&down))));
    let (_, agent) = like(&stage.agent, "child", [Reply::text("fine")]);
    let stage = stage.with(tool("works", move |_, cx: ToolContext| {
        let child = child(&agent);
        async move {
            cx.children.create(child).await.unwrap().prompt("work").await.unwrap();
            Ok("worked".into())
        }
    }));
    let handle = stage.start();
    handle.prompt("go").await.unwrap();
    assert_eq!(*down.lock().unwrap(), ["child-1"]);
    handle.close().await;
    assert_eq!(*down.lock().unwrap(), ["child-1", "root"]);
}
