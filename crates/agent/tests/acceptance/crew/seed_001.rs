//! The tools of seed 001.

use bowline_agent::crew::{Extra, Member};
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, ModelError};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Crew, complete};

fn broken() -> Reply {
    Reply::error(ModelError::new(ErrorKind::Auth, "no key"))
}

async fn play(crew: Crew) -> crate::support::Told {
    let extras = vec![Extra::DelegateToAgent, Extra::SpawnAgents];
    let member = Member { extras, ..crew.member() };
    crew.play_as(member).await
}

#[tokio::test]
async fn delegate_to_agent_answers_with_a_text_or_fails() {
    let to = |agent: &str| {
        Reply::call("delegate_to_agent", json!({ "agent": agent, "task": "go" }).to_string())
    };
    let crew = Crew::new([to("good"), to("bad"), to("root"), to("worse"), Reply::text("done")]);
    crew.hire("good", [Reply::text("here")]);
    crew.hire("bad", [broken()]);
    crew.hire("worse", [complete(&json!({ "status": "failed", "summary": "I cannot" }))]);
    let told = play(crew).await;
    assert_eq!(told.result("call_1"), "here");
    assert!(told.result("call_2").contains("no key"));
    assert_eq!(told.result("call_3"), "root cannot delegate to itself");
    assert_eq!(told.result("call_4"), "I cannot");
    let ends = ["ok", "error", "error", "error"];
    let ends: Vec<_> =
        ends.iter().zip(1..).map(|(end, n)| format!("tool_end(call_{n}, {end})")).collect();
    let own = told.ends().into_iter().filter(|end| end.starts_with("tool_end"));
    assert_eq!(own.collect::<Vec<_>>(), ends);
}

#[tokio::test]
async fn spawn_agents_cancels_the_others_when_one_fails() {
    let tasks = json!({ "tasks": [
        { "agent": "good", "task": "a" },
        { "agent": "slow", "task": "b" },
        { "agent": "bad", "task": "c" },
    ] });
    let crew = Crew::new([Reply::call("spawn_agents", tasks.to_string()), Reply::text("done")]);
    let gate = Gate::default();
    crew.hire("good", [Reply::text("one")]);
    crew.hire("slow", [Reply::text("").held_by(&gate)]);
    crew.hire("bad", [Reply::call("nothing", "{}"), Reply::call("nothing", "{}"), broken()]);
    let told = play(crew).await;
    let spawned: Vec<Value> = serde_json::from_str(&told.result("call_1")).unwrap();
    assert_eq!(spawned[0], json!({ "agent": "good", "result": "one" }));
    assert_eq!(spawned[1], json!({ "agent": "slow", "error": "canceled: another task failed" }));
    assert!(spawned[2]["error"].as_str().unwrap().contains("no key"), "{spawned:?}");
    assert_eq!(told.text(), "done");
}
