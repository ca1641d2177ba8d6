//! Tasks for the background.

use std::sync::Arc;

use bowline_agent::crew::board::{Board, NewTask, TaskBoard, TaskFilter};
use bowline_agent::crew::{Boards, Card, Interaction, Member};
use bowline_agent::entry::Ending;
use bowline_agent::tool::{ToolContext, Toolbox};
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Crew, delegate, done, report};
use crate::support::{Stage, Text, hear, tool};

fn boards() -> Option<Boards> {
    Some(Arc::new(|cx: &ToolContext| Arc::new(Board::of(cx)) as Arc<dyn TaskBoard>))
}

/// Adds tools that make a task of the session's board, and tell of all of them.
fn with_board(stage: Stage) -> Stage {
    let plan = tool("plan", |input: Text, cx: ToolContext| async move {
        let new = NewTask { title: input.text, ..NewTask::default() };
        Ok(Board::of(&cx).create(new)?.task.id.into())
    });
    let tasks = tool("tasks", |_: Text, cx: ToolContext| async move {
        let all = Board::of(&cx).list(&TaskFilter::default());
        let line = |view: &bowline_agent::crew::board::TaskView| {
            let assignee = view.task.assignee.as_deref().unwrap_or("nobody");
            format!("{} {} {assignee}", view.task.id, view.task.status)
        };
        Ok(all.iter().map(line).collect::<Vec<_>>().join("; ").into())
    });
    stage.with(plan).with(tasks)
}

fn plan() -> Reply {
    Reply::call("plan", r#"{"text":"dig"}"#)
}

fn tasks() -> Reply {
    Reply::call("tasks", r#"{"text":""}"#)
}

/// Plays a crew to its end, opens its session anew, and returns what stands on the board then.
async fn board_afterwards(crew: Crew, member: Member) -> (crate::support::Told, String) {
    let stage = with_board(crew.lead(&member));
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    let session = handle.session_id();
    handle.close().await;
    drop(handle);
    let again = stage.agent.resume(session).await.unwrap();
    let seen = hear(again.prompt("what is there?")).await;
    let id = seen
        .lines()
        .iter()
        .find_map(|line| Some(line.strip_prefix("tool_end(")?.split_once(',')?.0.to_owned()));
    let all = seen.result(&id.unwrap());
    (told, all)
}

#[tokio::test]
async fn a_task_in_the_background_is_settled_on_the_board_and_stays_so() {
    let task = json!({ "agent": "coder", "task": "go", "task_id": "task-1", "background": true });
    let crew = Crew::new([
        plan(),
        delegate(json!([task])),
        Reply::text("meanwhile"),
        Reply::text("done"),
        tasks(),
        Reply::text("seen"),
    ]);
    crew.hire("coder", [done("dug")]);
    let member = Member { board: boards(), ..crew.member() };
    let (told, all) = board_afterwards(crew, member).await;
    assert_eq!((told.text().as_str(), all.as_str()), ("done", "task-1 completed coder-task-1"));
}

// It is claimed when the agent begins, which is behind the call.
#[tokio::test]
async fn a_task_in_the_background_that_waits_for_its_turn_is_done_and_settled() {
    let task =
        |id: &str| json!({ "agent": "coder", "task": "go", "task_id": id, "background": true });
    let crew = Crew::new([
        plan(),
        plan(),
        delegate(json!([task("task-1"), task("task-2")])),
        Reply::text("meanwhile"),
        Reply::text("done"),
        tasks(),
        Reply::text("seen"),
    ]);
    let card = Card { max_concurrency: 1, ..Card::new("coder", "") };
    let model = bowline_llm::ScriptedModel::new([done("dug"), done("built")]);
    crew.hire_as(card, model, Toolbox::default(), |_| {});
    let member = Member { board: boards(), ..crew.member() };
    let (_, all) = board_afterwards(crew, member).await;
    assert_eq!(all, "task-1 completed coder-task-1; task-2 completed coder-task-2");
}

// Nobody else could take it: its agent is gone.
#[tokio::test]
async fn a_task_whose_agent_is_dismissed_has_failed() {
    let ask = Reply::call("request_input", r#"{"question":"which?"}"#);
    let task =
        json!({ "agent": "coder", "task": "go", "task_id": "task-1", "mode": "interactive" });
    let crew = Crew::new([
        plan(),
        delegate(json!([task])),
        Reply::text("done"),
        tasks(),
        Reply::text("seen"),
    ]);
    crew.hire("coder", [ask]);
    let interaction = Interaction::Interactive;
    let member = Member { board: boards(), interaction, ..crew.member() };
    let (told, all) = board_afterwards(crew, member).await;
    assert_eq!((told.text().as_str(), all.as_str()), ("done", "task-1 failed coder-task-1"));
}

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
