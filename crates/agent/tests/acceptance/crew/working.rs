//! Agents side by side: how many, how long, and in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_agent::Agent;
use bowline_agent::crew::board::{Board, NewTask, TaskBoard};
use bowline_agent::crew::{Card, Member, Spawn};
use bowline_agent::entry::Ending;
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::middleware::{Middleware, Timeout};
use bowline_agent::tool::{ToolContext, Toolbox};
use bowline_llm::scripted::Reply;
use bowline_llm::{Model, ModelInfo, ModelStream, Request, ScriptedModel};
use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Crew, delegate, employed, report, reports};
use crate::support::{Text, tool, usage};

/// How many are at it now, and how many ever were.
#[derive(Debug, Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

impl Crowd {
    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    /// Makes a tool that takes a second.
    fn tools(&self) -> Toolbox {
        let crowd = self.clone();
        let slow = tool("slow", move |_, cx: ToolContext| {
            let crowd = crowd.clone();
            async move {
                let (now, most) = &*crowd.0;
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                    () = cx.cancel.cancelled() => {}
                }
                now.fetch_sub(1, Ordering::SeqCst);
                Ok("slow".into())
            }
        });
        Toolbox::default().with(slow).unwrap()
    }
}

/// A model that works for a second and then answers, for any number of agents.
fn steady() -> ScriptedModel {
    ScriptedModel::answering(|request| match request.messages.len() {
        1 => Reply::call("slow", "{}"),
        _ => Reply::text("done"),
    })
}

fn tasks(agent: &str, count: usize) -> serde_json::Value {
    (0..count).map(|n| json!({ "agent": agent, "task": format!("part {n}") })).collect()
}

/// A model that thinks for a second about each reply.
#[derive(Debug)]
struct Thoughtful(ScriptedModel);

impl Model for Thoughtful {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let events = self.0.stream(request);
        let think = tokio::time::sleep(Duration::from_secs(1));
        Box::pin(think.map(|()| events).flatten_stream())
    }
}

// 68, D15, invariant 5: so many take as long as one, whether their model thinks or their tools work.
#[tokio::test(start_paused = true)]
async fn fifty_agents_take_as_long_as_one() {
    let crew = Crew::for_tasks(tasks("coder", 50));
    let crowd = Crowd::default();
    let model = Arc::new(Thoughtful(steady()));
    let coder = Agent { model, tools: crowd.tools(), ..crew.stage.agent.clone() };
    let hire = move |spawn: &Spawn| Ok(employed(&coder, spawn, |_| {}));
    crew.registry.register(Card::new("coder", "Does coder."), hire);
    let began = Instant::now();
    let told = crew.play().await;
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(crowd.most(), 50);
    let names: Vec<String> =
        reports(&told).iter().map(|report| report["name"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> = (1..=50).map(|n| format!("coder-part-{n}")).collect();
    assert_eq!(names, expected);
}

// 68
#[tokio::test(start_paused = true)]
async fn results_come_in_the_order_of_their_tasks() {
    let crew = Crew::for_tasks(json!([
        { "agent": "slow", "task": "a" },
        { "agent": "quick", "task": "b" },
    ]));
    crew.hire_with("slow", steady(), Crowd::default().tools(), |_| {});
    crew.hire("quick", [Reply::text("at once")]);
    let told = crew.play().await;
    let reports = reports(&told);
    assert_eq!((&reports[0]["result"], &reports[1]["result"]), (&json!("done"), &json!("at once")));
}

fn at_most(max_concurrency: usize, name: &str) -> Card {
    Card { max_concurrency, ..Card::new(name, "") }
}

// B25
#[tokio::test(start_paused = true)]
async fn no_more_of_a_configuration_work_at_once_than_may() {
    let crew = Crew::for_tasks(tasks("coder", 5));
    let crowd = Crowd::default();
    crew.hire_as(at_most(2, "coder"), steady(), crowd.tools(), |_| {});
    let began = Instant::now();
    let told = crew.play().await;
    assert_eq!((crowd.most(), began.elapsed().as_secs()), (2, 3));
    assert!(reports(&told).iter().all(|report| report["result"] == "done"));
}

// B25: an agent that waits for its own agents has given its slot back.
#[tokio::test(start_paused = true)]
async fn agents_that_wait_for_agents_of_their_own_kind_do_not_stop_each_other() {
    let crew = Crew::for_tasks(tasks("coder", 3));
    let crowd = Crowd::default();
    let model = ScriptedModel::answering(|request| {
        let said = format!("{:?}", request.messages.first());
        match (request.messages.len(), said.contains("below")) {
            (1, false) => delegate(json!([
                { "agent": "coder", "task": "below" },
                { "agent": "coder", "task": "below" },
            ])),
            (1, true) => Reply::call("slow", "{}"),
            _ => Reply::text("done"),
        }
    });
    let again = |member: &mut Member| member.allow_self = true;
    crew.hire_as(at_most(1, "coder"), model, crowd.tools(), again);
    let began = Instant::now();
    let told = crew.play().await;
    assert!(reports(&told).iter().all(|report| report["result"] == "done"), "{told:?}");
    assert_eq!((crowd.most(), began.elapsed().as_secs()), (1, 6));
}

// B25: nor does one whose agents work in the background, for which its run waits in the end.
#[tokio::test(start_paused = true)]
async fn an_agent_with_agents_of_its_own_kind_in_the_background_comes_to_its_end() {
    let crew = Crew::for_tasks(tasks("coder", 1));
    let model = ScriptedModel::answering(|request| {
        let said = format!("{:?}", request.messages.first());
        match (request.messages.len(), said.contains("below")) {
            (1, false) => {
                delegate(json!([{ "agent": "coder", "task": "below", "background": true }]))
            }
            (1, true) => Reply::text("from below"),
            (3, false) => Reply::text("meanwhile"),
            _ => Reply::text("done"),
        }
    });
    let again = |member: &mut Member| member.allow_self = true;
    crew.hire_as(at_most(1, "coder"), model, Toolbox::default(), again);
    let run = tokio::time::timeout(Duration::from_secs(60), crew.play());
    assert_eq!(report(&run.await.unwrap())["result"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_too_long_is_stopped() {
    let crew = Crew::for_tasks(tasks("coder", 1));
    let model = ScriptedModel::answering(|request| match request.messages.len() {
        1 => Reply::text("Looking.").and_call("slow", "{}"),
        3 => Reply::text("Still looking.").and_call("slow", "{}"),
        _ => Reply::text("never"),
    });
    crew.hire_with("coder", model, Crowd::default().tools(), |_| {});
    let task_timeout = Some(Duration::from_millis(1500));
    let member = Member { task_timeout, ..crew.member() };
    let began = Instant::now();
    let told = crew.play_as(member).await;
    assert_eq!(began.elapsed().as_millis(), 1500);
    let report = report(&told);
    assert_eq!(report["error"], "timed out after 1.5 s");
    assert_eq!(report["partial"], "Still looking.");
    assert_eq!(report["trace"], "slow {}\nslow {}");
}

// A task has one time, whoever has it.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_handed_on_has_no_more_time() {
    let crew = Crew::for_tasks(tasks("coder", 1));
    let handoff = json!({ "target_agent": "tester", "reason": "r", "context": "c" });
    let able = |member: &mut Member| member.max_handoffs = 1;
    let script = [Reply::call("slow", "{}"), Reply::call("handoff", handoff.to_string())];
    crew.hire_with("coder", ScriptedModel::new(script), Crowd::default().tools(), able);
    let model = ScriptedModel::new([Reply::call("slow", "{}"), Reply::text("never")]);
    crew.hire_with("tester", model, Crowd::default().tools(), |_| {});
    let task_timeout = Some(Duration::from_millis(1500));
    let member = Member { task_timeout, max_handoffs: 1, ..crew.member() };
    let began = Instant::now();
    let told = crew.play_as(member).await;
    assert_eq!(began.elapsed().as_millis(), 1500);
    assert_eq!(report(&told)["error"], "timed out after 1.5 s");
    assert_eq!(report(&told)["name"], "tester-part-1");
}

// The limit on the time of a tool is not one of delegation.
#[tokio::test(start_paused = true)]
async fn agents_may_take_longer_than_a_tool() {
    let crew = Crew::for_tasks(tasks("coder", 1));
    let hours = tool("slow", async |_, _| {
        tokio::time::sleep(Duration::from_secs(100)).await;
        Ok("".into())
    });
    let tools = Toolbox::default().with(hours).unwrap();
    let model = ScriptedModel::answering(|request| match request.messages.len() {
        1 | 3 => Reply::call("slow", "{}"),
        _ => Reply::text("done"),
    });
    crew.hire_with("coder", model, tools, |_| {});
    let told = crew.play().await;
    assert_eq!(report(&told)["result"], "done");
}

// Both calls take the slot back when they are done; there is one for the agent, not one for each.
#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_for_two_calls_at_once_needs_one_slot() {
    let crew = Crew::for_tasks(tasks("coder", 2));
    let model = ScriptedModel::answering(|request| {
        let said = format!("{:?}", request.messages.first());
        let below = || json!({ "tasks": [{ "agent": "coder", "task": "below" }] }).to_string();
        match (request.messages.len(), said.contains("below")) {
            (1, false) => Reply::call("delegate", below()).and_call("delegate", below()),
            (1, true) => Reply::call("slow", "{}"),
            _ => Reply::text("done"),
        }
    });
    let again = |member: &mut Member| member.allow_self = true;
    crew.hire_as(at_most(1, "coder"), model, Crowd::default().tools(), again);
    let run = tokio::time::timeout(Duration::from_secs(60), crew.play());
    let told = run.await.unwrap();
    assert!(reports(&told).iter().all(|report| report["result"] == "done"), "{told:?}");
}

// Who watches a task of the board waits for somebody too.
#[tokio::test(start_paused = true)]
async fn an_agent_that_watches_a_task_gives_its_slot_back() {
    let crew = Crew::new([
        Reply::call("plan", "{}"),
        delegate(json!([
            { "agent": "coder", "task": "watch" },
            { "agent": "coder", "task": "do", "task_id": "task-1" },
        ])),
        Reply::text("done"),
    ]);
    let watch = tool("watch", |_: Text, cx: ToolContext| async move {
        let seen = Board::of(&cx).watch("task-1", None).await?;
        Ok(seen.task.status.to_string().into())
    });
    let model = ScriptedModel::answering(|request| {
        let said = format!("{:?}", request.messages.last());
        match request.messages.len() {
            1 if said.contains("watch") => Reply::call("watch", "{}"),
            _ => Reply::text("done"),
        }
    });
    let tools = Toolbox::default().with(watch).unwrap();
    crew.hire_as(at_most(1, "coder"), model, tools, |_| {});
    let board = |cx: &ToolContext| Arc::new(Board::of(cx)) as Arc<dyn TaskBoard>;
    let member = Member { board: Some(Arc::new(board)), ..crew.member() };
    let plan = tool("plan", |_: Text, cx: ToolContext| async move {
        let new = NewTask { title: "dig".to_owned(), ..NewTask::default() };
        Ok(Board::of(&cx).create(new)?.task.id.into())
    });
    let stage = crew.lead(&member).with(plan);
    // A task that is claimed may be watched for ever.
    let run = tokio::time::timeout(Duration::from_secs(10), stage.play());
    let told = run.await.unwrap();
    let reports: Vec<Value> = serde_json::from_str(&told.result("call_2")).unwrap();
    assert!(reports.iter().all(|report| report["result"] == "done"), "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_own_timeout_is_over_has_failed() {
    let crew = Crew::for_tasks(tasks("coder", 1));
    let Crew { registry, stage } = crew;
    let timeout = Arc::new(Timeout(Duration::from_secs(3))) as Arc<dyn Middleware>;
    let stage = stage.change(|agent| agent.middleware = vec![timeout]);
    let crew = Crew { registry, stage };
    let model = ScriptedModel::answering(|_| Reply::call("slow", "{}"));
    crew.hire_with("coder", model, Crowd::default().tools(), |_| {});
    let Crew { registry, stage } = crew;
    let stage = stage.change(|agent| agent.middleware = Vec::new());
    let told = Crew { registry, stage }.play().await;
    assert_eq!(report(&told)["error"], "it took longer than its timeout");
}

/// A fan-out shares the turns of its lead: what is in flight counts.
#[tokio::test]
async fn many_agents_at_once_do_not_use_more_turns_than_there_are() {
    let crew = Crew::for_tasks(tasks("coder", 30));
    let coder = ScriptedModel::answering(|_| Reply::text("done"));
    let coder = crew.hire_with("coder", coder, Toolbox::default(), |_| {});
    let Crew { registry, stage } = crew;
    let limits = Limits { model_turns: 3, wrap_up: false, ..Limits::none() };
    let stage = stage.change(|agent| agent.limits = limits);
    let lead = stage.model.clone();
    let told = Crew { registry, stage }.play().await;
    assert_eq!((lead.requests().len(), coder.requests().len()), (1, 2));
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    let summaries: Vec<_> = reports(&told)
        .into_iter()
        .filter_map(|report| Some(report["completion"]["summary"].as_str()?.to_owned()))
        .collect();
    assert_eq!(summaries.len(), 28);
    let expected = "stopped: the iteration limit of an agent above it is used up";
    assert!(summaries.iter().all(|summary| summary == expected), "{summaries:?}");
}

/// What goes into calls that are in flight counts as used while they are.
#[tokio::test]
async fn many_agents_at_once_do_not_send_more_tokens_than_there_are() {
    let crew = Crew::new([
        delegate(json!(vec![json!({ "agent": "coder", "task": "word ".repeat(2_000) }); 30])),
        Reply::text("done"),
    ]);
    let coder = ScriptedModel::answering(|_| Reply::text("done").with_usage(usage(2_500, 1)));
    let coder = crew.hire_with("coder", coder, Toolbox::default(), |_| {});
    let Crew { registry, stage } = crew;
    let limits = Limits { total_tokens: 10_000, wrap_up: false, ..Limits::none() };
    let stage = stage.change(|agent| agent.limits = limits);
    Crew { registry, stage }.play().await;
    assert!((2..=6).contains(&coder.requests().len()), "{}", coder.requests().len());
}
