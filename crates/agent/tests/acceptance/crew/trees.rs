//! Trees of agents, three levels below the lead and four wide, that are stopped anywhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_agent::crew::{Interaction, Member};
use bowline_agent::event::{Event, EventBody};
use bowline_agent::id::{AgentId, RunId};
use bowline_agent::tool::Toolbox;
use bowline_agent::{Run, SessionHandle};
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{Message, Request, ScriptedModel, Usage};
use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Crew, delegate};
use crate::invariants;
use crate::support::tool;

/// What does not stop when it is asked to is dropped after two seconds, however many levels are
/// above it. A timer may be a little late.
const PATIENCE: Duration = Duration::from_millis(2_050);

/// What happens by chance, the same in each run of a test.
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Gives four tasks: two of which one may ask, and two for the background.
fn delegations(agent: &str) -> Reply {
    let task = |more: Value| {
        let mut task = json!({ "agent": agent, "task": "go" });
        task.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        task
    };
    let behind = task(json!({ "background": true }));
    let behind = json!({ "tasks": [behind, behind] });
    delegate(json!([task(json!({})), task(json!({ "mode": "interactive" }))]))
        .and_call("delegate", behind.to_string())
}

/// Works: with a model or a tool that takes for ever, with a question, or with an answer at once.
fn work(chance: &mut Chance) -> Reply {
    match chance.below(5) {
        0 => Reply::text("never said").held_by(&Gate::default()),
        1 => Reply::call("hang", "{}"),
        2 => Reply::call("listen", "{}"),
        3 => Reply::call("request_input", r#"{"question":"which?"}"#),
        _ => Reply::text("done"),
    }
}

/// Returns the first delegation about which a model is asked something.
fn asked(request: &Request) -> Option<String> {
    let Message::Results(results) = &**request.messages.last()? else { return None };
    let told = results.iter().map(|result| bowline_llm::text_of(&result.content));
    let mut reports = told.filter_map(|told| serde_json::from_str::<Vec<Value>>(&told).ok());
    let report = reports.find_map(|reports| {
        reports.into_iter().find(|report| report["pending_question"].is_object())
    })?;
    Some(report["delegation_id"].as_str()?.to_owned())
}

/// A model that delegates to `below` if there is anybody, and then does something.
fn model(mut chance: Chance, below: Option<&'static str>) -> ScriptedModel {
    ScriptedModel::answering(move |request| {
        let is_first = request.messages.len() < 2;
        match (below, asked(request)) {
            (Some(below), _) if is_first => delegations(below),
            (_, Some(id)) if chance.below(2) == 0 => {
                let answers = json!({ "answers": [{ "delegation_id": id, "answer": "this" }] });
                Reply::call("answer_delegation_questions", answers.to_string())
            }
            _ => work(&mut chance),
        }
    })
}

fn crew(chance: &Chance) -> SessionHandle {
    let chance = |of: u64| Chance(chance.0 ^ of << 32);
    let mut crew = Crew::new([]);
    crew.stage = crate::support::stage_for(model(chance(0), Some("upper")));
    let tools = Toolbox::default()
        .with(tool("hang", |_, _| std::future::pending()))
        .unwrap()
        .with(tool("listen", |_, cx| async move {
            cx.cancel.cancelled().await;
            Ok("stopped".into())
        }))
        .unwrap();
    let asks = |member: &mut Member| member.interaction = Interaction::Interactive;
    for (of, (name, below)) in
        (1..).zip([("upper", Some("middle")), ("middle", Some("leaf")), ("leaf", None)])
    {
        crew.hire_with(name, model(chance(of), below), tools.clone(), asks);
    }
    crew.stage.agent.tools.add_all(&tools).unwrap();
    let member = Member { interaction: Interaction::Interactive, ..crew.member() };
    crew.lead(&member).start()
}

/// Hears so many events, or fewer if nothing happens any more.
async fn hear_some(run: &mut Run, events: &mut Vec<Arc<Event>>, most: u64) {
    for _ in 0..most {
        match tokio::time::timeout(Duration::from_millis(1), run.next()).await {
            Ok(Some(event)) => events.push(event),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Returns how many ends each run has, and each agent below the lead.
fn ends(events: &[Arc<Event>]) -> HashMap<(AgentId, Option<RunId>), usize> {
    let mut ends = HashMap::new();
    for event in events {
        let (of, is_end) = match &event.body {
            EventBody::RunStart { .. } => ((event.agent.id, event.run), 0),
            EventBody::RunEnd(_) => ((event.agent.id, event.run), 1),
            EventBody::AgentStart { .. } => ((event.agent.id, None), 0),
            EventBody::AgentEnd { .. } => ((event.agent.id, None), 1),
            _ => continue,
        };
        *ends.entry(of).or_default() += is_end;
    }
    ends
}

/// Stops a tree after a random number of events; returns of how many agents it was then.
async fn stop_anywhere(seed: u64) -> usize {
    let alive = tokio::runtime::Handle::current().metrics();
    let before = alive.num_alive_tasks();
    let mut chance = Chance(seed);
    let handle = crew(&chance);
    let mut run = handle.prompt("go");
    let mut events = Vec::new();
    hear_some(&mut run, &mut events, chance.below(1_500)).await;

    let began = Instant::now();
    match chance.below(2) {
        0 => handle.cancel(),
        _ => handle.close().await,
    }
    while let Some(event) = run.next().await {
        events.push(event);
    }
    let outcome = run.await;
    assert!(outcome.is_ok() || events.is_empty(), "seed {seed}: {outcome:?}");
    handle.close().await;
    let took = began.elapsed();
    assert!(took < PATIENCE, "seed {seed}: it took {took:?}");
    assert_eq!(alive.num_alive_tasks(), before, "seed {seed}: a task is left");
    let ends = ends(&events);
    assert!(ends.values().all(|ends| *ends == 1), "seed {seed}: {ends:?}");
    invariants::check(&events, Usage::default());
    ends.keys().filter(|(_, run)| run.is_none()).count()
}

async fn stop_often(seeds: std::ops::Range<u64>) {
    let mut largest = 0;
    for seed in seeds {
        largest = largest.max(stop_anywhere(seed).await);
    }
    assert_eq!(largest, 4 + 16 + 64, "no tree was ever whole");
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_is_stopped_anywhere_leaves_nothing() {
    stop_often(0..100).await;
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_is_stopped_anywhere_else_leaves_nothing() {
    stop_often(100..200).await;
}
