//! Tasks for the background.

use bowline_agent::crew::{Interaction, Member};
use bowline_agent::entry::Ending;
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Crew, delegate, done, report};
use crate::support::hear;

#[tokio::test]
async fn a_lead_goes_on_and_is_told_later() {
    let task = json!({ "agent": "coder", "task": "go", "background": true });
    let crew = Crew::new([
        delegate(json!([task, { "agent": "tester", "task": "go" }])),
        Reply::text("meanwhile"),
        Reply::text("done"),
    ]);
    let gate = Gate::default();
    crew.hire("coder", [done("coded").held_by(&gate)]);
    crew.hire("tester", [Reply::text("tested")]);
    let member = crew.member();
    let stage = crew.lead(&member);
    let run = stage.start().prompt("go");
    let (told, ()) = tokio::join!(hear(run), async {
        while stage.model.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        gate.open();
    });
    let first: Vec<serde_json::Value> = serde_json::from_str(&told.result("call_1")).unwrap();
    let running = json!({ "agent": "coder", "name": "coder-task-1", "status": "running" });
    assert_eq!(first[0], running);
    assert_eq!(first[1]["result"], "tested");
    let asked = &stage.asked()[2];
    let said = asked.last().unwrap();
    assert!(
        said.starts_with("user \"<delegation_results>\\n[{\\\"agent\\\":\\\"coder\\\""),
        "{said}"
    );
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn canceling_a_lead_stops_what_is_in_the_background() {
    let task = json!({ "agent": "coder", "task": "go", "background": true });
    let crew = Crew::new([delegate(json!([task])), Reply::text("waiting")]);
    let gate = Gate::default();
    let coder = crew.hire("coder", [Reply::text("").held_by(&gate)]);
    let member = crew.member();
    let stage = crew.lead(&member);
    let handle = stage.start();
    let run = handle.prompt("go");
    let (told, ()) = tokio::join!(hear(run), async {
        while stage.model.requests().len() < 2 || coder.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        handle.cancel();
    });
    assert!(matches!(told.ending(), Ending::Canceled(_)));
    assert_eq!(report(&told)["status"], "running");
}

#[tokio::test]
async fn background_and_questions_do_not_go_together() {
    let crew = Crew::for_tasks(json!([
        { "agent": "coder", "task": "a", "background": true },
        { "agent": "coder", "task": "b", "mode": "interactive" },
    ]));
    let coder = crew.hire("coder", []);
    let member = Member { interaction: Interaction::Interactive, ..crew.member() };
    let told = crew.play_as(member).await;
    assert!(told.result("call_1").contains("in calls of their own"));
    assert_eq!(coder.requests().len(), 0);
}
