//! A board that the agents of a session share: through their calls, over a new opening of the
//! session, rewinds and forks.

use bowline_agent::children::Child;
use bowline_agent::crew::board::{Board, NewTask, TaskFilter, TaskView};
use bowline_agent::tool::{ToolContext, Toolbox};
use bowline_agent::{Agent, ForkPoint};
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use crate::support::{Latch, Stage, Text, hear, like, log_of, stage, tool};

fn line(view: &TaskView) -> String {
    format!("{} {} {:?}", view.task.title, view.task.status, view.task.assignee)
}

fn all(cx: &ToolContext) -> String {
    let lines: Vec<_> = Board::of(cx).list(&TaskFilter::default()).iter().map(line).collect();
    lines.join("; ")
}

fn tools() -> Toolbox {
    let plan = tool("plan", |input: Text, cx: ToolContext| async move {
        let new = NewTask { title: input.text, ..NewTask::default() };
        Ok(Board::of(&cx).create(new)?.task.id.into())
    });
    let claim = tool("claim", |input: Text, cx: ToolContext| async move {
        Ok(line(&Board::of(&cx).claim(&input.text)?).into())
    });
    let tasks = tool("tasks", |_: Text, cx: ToolContext| async move { Ok(all(&cx).into()) });
    Toolbox::default().with(plan).unwrap().with(claim).unwrap().with(tasks).unwrap()
}

fn with_tools(stage: Stage) -> Stage {
    stage.change(|agent| agent.tools.add_all(&tools()).unwrap())
}

fn plan(title: &str) -> Reply {
    Reply::call("plan", format!(r#"{{"text":"{title}"}}"#))
}

/// Adds a tool with which a sub-agent claims the first task, and stands at a latch before it ends.
fn with_worker(stage: Stage, latch: &Latch) -> Stage {
    let script = [Reply::call("claim", r#"{"text":"task-1"}"#), Reply::text("mine")];
    let (_, worker) = like(&stage.agent, "worker", script);
    let worker = Agent { tools: tools(), ..worker };
    let latch = latch.clone();
    stage.with(tool("work", move |_: Text, cx: ToolContext| {
        let (agent, latch) = (worker.clone(), latch.clone());
        async move {
            let child = cx.children.create(Child::new(agent)).await?;
            let said = child.prompt("work").await?.text();
            latch.pass().await;
            Ok(said.into())
        }
    }))
}

#[tokio::test]
async fn a_session_that_is_opened_again_has_the_tasks_of_all_its_agents() {
    let latch = Latch::default();
    latch.open();
    let stage = stage([
        plan("dig"),
        Reply::call("work", "{}"),
        Reply::text("done"),
        Reply::call("tasks", "{}"),
        Reply::text("seen"),
    ]);
    let stage = with_worker(with_tools(stage), &latch);
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    let session = handle.session_id();
    handle.close().await;
    drop(handle);
    let again = stage.agent.resume(session).await.unwrap();
    let told = hear(again.prompt("what is there?")).await;
    assert_eq!(told.result("call_3"), "dig in_progress Some(\"worker-1\")");
}

#[tokio::test]
async fn a_rewind_does_not_undo_what_is_shared() {
    let stage = with_tools(stage([
        Reply::text("hello"),
        plan("dig"),
        Reply::text("done"),
        Reply::call("tasks", "{}"),
        Reply::text("seen"),
    ]));
    let handle = stage.start();
    hear(handle.prompt("hi")).await;
    let back = handle.state().head;
    hear(handle.prompt("go")).await;
    handle.rewind(back).await.unwrap();
    let told = hear(handle.prompt("what is there?")).await;
    assert_eq!(told.result("call_2"), "dig pending None");
}

// What sub-agents have changed counts too, though their logs are not copied.
#[tokio::test]
async fn a_fork_begins_with_what_was_shared_by_then() {
    let latch = Latch::default();
    let stage = stage([
        plan("dig"),
        Reply::text("planned"),
        Reply::call("work", "{}"),
        Reply::call("tasks", "{}"),
        Reply::text("early"),
        Reply::call("tasks", "{}"),
        plan("build"),
        Reply::text("late"),
        Reply::text("root's"),
    ]);
    let stage = with_worker(with_tools(stage), &latch);
    let handle = stage.start();
    hear(handle.prompt("plan")).await;
    let at = handle.state().head;
    let run = handle.prompt("work");
    latch.reached().await;
    let (session, entries) = (handle.session_id(), log_of(handle.session_id()).await);
    let late = ForkPoint { session, entries, hash: None, at: None };
    let early = ForkPoint { at, ..late.clone() };
    let fork = stage.agent.fork(early).await.unwrap();
    let told = hear(fork.prompt("what is there?")).await;
    assert_eq!(told.result("call_3"), "dig pending None");
    let fork = stage.agent.fork(late).await.unwrap();
    let told = hear(fork.prompt("what is there?")).await;
    assert_eq!(told.result("call_4"), "dig in_progress Some(\"worker-1\")");
    assert_eq!(told.result("call_5"), "task-2");
    latch.open();
    assert_eq!(hear(run).await.text(), "root's");
}

// What a call was told is in the log when it has ended, though the call that did it goes on.
#[tokio::test]
async fn what_one_has_seen_is_there_after_a_crash_of_the_other() {
    let latch = Latch::default();
    let held = latch.clone();
    let stage = stage([
        Reply::call("hold", "{}").and_call("tasks", "{}"),
        Reply::text("done"),
        Reply::call("tasks", "{}"),
        Reply::text("seen"),
    ]);
    let stage = with_tools(stage).change(|agent| {
        agent.tool_execution = bowline_agent::ToolExecution::Parallel { max: 2 };
    });
    let stage = stage.with(tool("hold", move |_: Text, cx: ToolContext| {
        let latch = held.clone();
        async move {
            let new = NewTask { title: "dig".into(), ..NewTask::default() };
            let made = Board::of(&cx).create(new)?;
            latch.pass().await;
            Ok(made.task.id.into())
        }
    }));
    let handle = stage.start();
    let run = handle.prompt("go");
    handle.wait_for(|state| state.pending_calls.len() == 1).await.unwrap();
    let session = handle.session_id();
    let dead =
        crate::support::crashed(&stage.agent, session, |entry| entry.kind.name() == "call_ended")
            .await;
    latch.open();
    run.await.unwrap();
    let again = dead.resume(session).await.unwrap();
    // What was in flight is not known to have ended, but its task is there.
    again.continue_run().await.unwrap().unwrap().await.unwrap();
    let log = log_of(session).await;
    let shared = log.iter().filter(|(_, entry)| entry.kind.name() == "custom").count();
    assert_eq!(shared, 1);
    let messages = again.messages();
    let seen = format!("{messages:?}");
    assert!(seen.contains("dig pending None"), "{seen}");
}
