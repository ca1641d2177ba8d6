//! Delegations that are stopped.

use bowline_agent::crew::{Member, OnError};
use bowline_agent::entry::Ending;
use bowline_agent::event::EventBody;
use bowline_agent::op::{CancelReason, OpKind};
use bowline_agent::tool::Toolbox;
use bowline_llm::ScriptedModel;
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, ModelError};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Crew, delegate, reports};
use crate::support::{Latch, hear, held, lines, op};

// Invariant 7: canceling a parent joins all below it before it returns.
#[tokio::test]
async fn canceling_a_lead_stops_all_below_it_first() {
    let crew = Crew::for_tasks(json!([
        { "agent": "middle", "task": "a" },
        { "agent": "leaf", "task": "b" },
    ]));
    let latch = Latch::default();
    let tools = Toolbox::default().with(held("held", &latch)).unwrap();
    let work = [Reply::call("held", "{}"), Reply::call("held", "{}")];
    crew.hire_with("leaf", ScriptedModel::new(work), tools, |_| {});
    crew.hire("middle", [delegate(json!([{ "agent": "leaf", "task": "c" }]))]);
    let member = crew.member();
    let handle = crew.lead(&member).start();
    let run = handle.prompt("go");
    let (told, ()) = tokio::join!(hear(run), async {
        latch.reached_by(2).await;
        handle.cancel();
    });
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::User));
    let ends = lines(&told.events, |body| {
        matches!(body, EventBody::AgentEnd { .. } | EventBody::RunEnd(_))
    });
    let place = |line: &str| ends.iter().position(|end| end.ends_with(line)).unwrap();
    let ended = |name: &str| ends.iter().position(|end| end.starts_with(name)).unwrap();
    assert_eq!(ends.len(), 7, "{ends:?}");
    assert!(place("run_end(canceled by user)") == 6, "{ends:?}");
    assert!(ended("leaf-task-") < ended("middle-task-"), "{ends:?}");
}

#[tokio::test]
async fn others_are_stopped_when_one_fails_if_that_is_wanted() {
    for on_error in [OnError::Collect, OnError::CancelSiblings] {
        let crew = Crew::for_tasks(json!([
            { "agent": "slow", "task": "a" },
            { "agent": "nobody", "task": "b" },
        ]));
        let gate = Gate::default();
        crew.hire("slow", [Reply::text("fine").held_by(&gate)]);
        let member = Member { on_error, ..crew.member() };
        if on_error == OnError::Collect {
            gate.open();
        }
        let told = crew.play_as(member).await;
        let reports = reports(&told);
        match on_error {
            OnError::Collect => assert_eq!(reports[0]["result"], "fine"),
            OnError::CancelSiblings => {
                let error = reports[0]["error"].as_str().unwrap();
                assert!(error.starts_with("canceled"), "{error}");
            }
        }
        assert_eq!(told.text(), "done");
    }
}

/// A sub-agent that somebody cancels by its own id.
#[tokio::test]
async fn an_agent_that_is_canceled_by_itself_ends_its_task_alone() {
    let crew = Crew::for_tasks(json!([
        { "agent": "slow", "task": "a" },
        { "agent": "bad", "task": "b" },
    ]));
    let gate = Gate::default();
    let slow = crew.hire("slow", [Reply::text("").held_by(&gate)]);
    crew.hire("bad", [Reply::error(ModelError::new(ErrorKind::Auth, "no key"))]);
    let member = crew.member();
    let stage = crew.lead(&member);
    let handle = stage.start();
    let mut seen = handle.subscribe(1000);
    let run = handle.prompt("go");
    let (told, ()) = tokio::join!(hear(run), async {
        let child = loop {
            let event = seen.recv().await.unwrap();
            if event.agent.config == "slow" {
                break event.agent.id;
            }
        };
        while slow.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        let mut cancel = op(OpKind::Cancel { reason: CancelReason::User, run: None });
        cancel.to = Some(child);
        handle.post(cancel).await.unwrap();
    });
    assert_eq!(reports(&told)[0]["error"], "task canceled");
    assert!(reports(&told)[1]["error"].as_str().unwrap().contains("no key"));
    assert_eq!(told.text(), "done");
}
