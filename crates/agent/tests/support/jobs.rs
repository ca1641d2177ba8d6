//! Tools and jobs for the tests of crashes.

mod board;
mod crews;
mod nudged;
mod plans;
mod shortened;
mod tools;

use std::sync::Arc;

use bowline_agent::effect::Step;
use bowline_agent::entry::{Entry, EntryKind};
use bowline_agent::limits::Limits;
use bowline_agent::middleware::{CatchPanic, OutputGuardrail};
use bowline_agent::on_stop::on_stop_fn;
use bowline_agent::transform::{At, filter, inject};
use bowline_agent::{Agent, OutputSchema};
use bowline_llm::retry::Policy;
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, Message, ModelError, Retry, StopReason, Usage, UserMessage};

use super::crashing::World;
use super::scenario::Scenario;

pub(crate) use tools::*;

fn shape() -> OutputSchema {
    let schema = r#"{"type": "object", "properties": {"n": {"type": "integer"}}}"#;
    OutputSchema::parse(schema).unwrap()
}

fn plain(world: &Arc<World>, agent: Agent) -> Agent {
    Agent { tools: tools(world), ..agent }
}

/// Shows notes, hides one message and adds another, goes on after half of the work, and judges what
/// comes of it.
fn shown_otherwise(world: &Arc<World>, agent: Agent) -> Agent {
    let is_shown = |message: &Message| *message != Message::user("one");
    let note = |entry: &Entry| match &entry.kind {
        EntryKind::Custom(custom) => Some(UserMessage::text(custom.data.as_str())),
        _ => None,
    };
    let wants_all = |answer: &str, _: &Step| (answer == "half").then(|| "and the rest?".into());
    let is_whole = |answer: &str| match answer {
        "done" => Ok(()),
        _ => Err("not done".to_owned()),
    };
    Agent {
        transforms: vec![
            Arc::new(filter(is_shown)),
            Arc::new(inject([Message::user("be quick")], At::BeforeLastUser)),
        ],
        convert: Some(Arc::new(note)),
        on_stop: Some(Arc::new(on_stop_fn(wants_all))),
        middleware: vec![Arc::new(CatchPanic), Arc::new(OutputGuardrail::new(is_whole))],
        ..plain(world, agent)
    }
}

fn with_children(world: &Arc<World>, agent: Agent) -> Agent {
    Agent { tools: delegating(world), ..agent }
}

/// What children say.
fn family() -> Vec<(&'static str, Vec<Reply>)> {
    let worker = |id: &str| {
        vec![
            calls(&[(&format!("{id}1"), "read", "x"), (&format!("{id}2"), "shell", "y")]),
            says("first part"),
            calls(&[(&format!("{id}3"), "note", "z")]),
            says("second part"),
        ]
    };
    vec![("child", worker("c")), ("other", worker("o"))]
}

/// Returns the job of a name.
pub(crate) fn job(name: &str) -> Scenario {
    let mut all = jobs().into_iter().chain(plans::jobs()).chain(board::jobs());
    let found = all.find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("there is no job {name:?}")).1
}

/// Returns the jobs that are not planned.
fn jobs() -> Vec<(&'static str, Scenario)> {
    let alone = |replies: Vec<Reply>| vec![("root", replies)];
    let parent = |replies: Vec<Reply>| [alone(replies), family()].concat();
    let one: &[&str] = &["go"];
    let mut jobs = vec![
        (
            "parallel calls of all sorts",
            Scenario {
                prompts: one,
                scripts: alone(vec![
                    calls(&[
                        ("a", "read", "1"),
                        ("b", "slow", ""),
                        ("c", "fail", ""),
                        ("d", "boom", ""),
                    ]),
                    calls(&[
                        ("e", "shell", "x"),
                        ("f", "read", "2"),
                        ("g", "nothing", ""),
                        ("h", "shell", "y"),
                    ]),
                    says("done"),
                ]),
                build: plain,
            },
        ),
        (
            "three turns with notes",
            Scenario {
                prompts: &["one", "two", "three"],
                scripts: alone(vec![
                    calls(&[("a", "note", "1"), ("b", "note", "2")]),
                    says("one"),
                    calls(&[("c", "note", "3"), ("d", "spend", "")]),
                    says("two"),
                    says("three"),
                ]),
                build: |world, agent| Agent { context: "today".to_owned(), ..plain(world, agent) },
            },
        ),
        (
            "a child with two prompts",
            Scenario {
                prompts: &["one", "two"],
                scripts: parent(vec![
                    calls(&[("a", "delegate", "child")]),
                    says("one"),
                    says("two"),
                ]),
                build: with_children,
            },
        ),
        (
            "children side by side",
            Scenario {
                prompts: one,
                scripts: parent(vec![
                    calls(&[("a", "delegate", "child"), ("b", "delegate", "other")]),
                    calls(&[("c", "both", "")]),
                    says("done"),
                ]),
                build: with_children,
            },
        ),
        (
            "nested children",
            Scenario {
                prompts: one,
                scripts: [
                    parent(vec![calls(&[("a", "nest", "")]), says("done")]),
                    vec![("nested", vec![calls(&[("n", "delegate", "child")]), says("nested")])],
                ]
                .concat(),
                build: with_children,
            },
        ),
        (
            "a child that is waited for",
            Scenario {
                prompts: one,
                scripts: parent(vec![
                    calls(&[("a", "await", "child"), ("b", "slow", "")]),
                    says("done"),
                ]),
                build: with_children,
            },
        ),
        (
            "a child that forks its parent",
            Scenario {
                prompts: one,
                scripts: [
                    parent(vec![
                        calls(&[("a", "read", "1")]),
                        calls(&[("b", "forked", "")]),
                        says("done"),
                    ]),
                    vec![(
                        "fork",
                        vec![says("0"), says("1"), calls(&[("f", "read", "2")]), says("forked")],
                    )],
                ]
                .concat(),
                build: with_children,
            },
        ),
        (
            "an answer that is cut and goes on",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    says("half").with_stop(StopReason::MaxTokens),
                    says("whole"),
                    says("two"),
                ]),
                build: plain,
            },
        ),
        (
            "an answer that does not fit and is mended",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    calls(&[("a", "read", "1")]),
                    says("Done!"),
                    calls(&[("b", "read", "2")]),
                    says("{\"n\": 1}"),
                    says("{\"n\": \"one\"}"),
                    says("never"),
                ]),
                build: |world, agent| Agent { output_schema: Some(shape()), ..plain(world, agent) },
            },
        ),
        (
            "what others say",
            Scenario {
                prompts: one,
                scripts: alone(vec![
                    calls(&[("a", "say", "queue"), ("b", "read", "1")]),
                    calls(&[("c", "say", "follow"), ("d", "say", "steer"), ("e", "read", "2")]),
                    says("not done"),
                    says("done"),
                ]),
                build: plain,
            },
        ),
        (
            "a cancel from elsewhere",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    calls(&[("a", "say", "cancel"), ("b", "read", "2")]),
                    says("two"),
                ]),
                build: plain,
            },
        ),
        (
            "decisions and answers",
            Scenario {
                prompts: one,
                scripts: alone(vec![
                    calls(&[
                        ("a", "shell", "ok"),
                        ("b", "ask", ""),
                        ("c", "job", ""),
                        ("d", "sleep", ""),
                    ]),
                    calls(&[
                        ("e", "shell", "deny"),
                        ("f", "read", "rewrite"),
                        ("g", "read", "forbidden"),
                    ]),
                    says("done"),
                ]),
                build: |world, agent| Agent { gate: Arc::new(Strict), ..plain(world, agent) },
            },
        ),
        (
            "decisions for children",
            Scenario {
                prompts: one,
                scripts: parent(vec![calls(&[("a", "delegate", "child")]), says("done")]),
                build: |world, agent| Agent {
                    gate: Arc::new(Strict),
                    ..with_children(world, agent)
                },
            },
        ),
        (
            "a question that nobody answers",
            Scenario {
                prompts: one,
                scripts: alone(vec![calls(&[("a", "read", "1"), ("b", "shell", "nobody")])]),
                build: |world, agent| Agent {
                    gate: Arc::new(Strict),
                    attended: false,
                    ..plain(world, agent)
                },
            },
        ),
        (
            "a limit of model calls",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    calls(&[("a", "read", "1")]),
                    calls(&[("b", "read", "2")]),
                    calls(&[("c", "read", "3")]),
                    says("two"),
                ]),
                build: |world, agent| Agent {
                    limits: Limits { model_turns: 2, ..Limits::default() },
                    ..plain(world, agent)
                },
            },
        ),
        (
            "a limit of tool calls",
            Scenario {
                prompts: one,
                scripts: alone(vec![
                    calls(&[("a", "read", "1"), ("b", "slow", ""), ("c", "read", "3")]),
                    says("sum"),
                ]),
                build: |world, agent| Agent {
                    limits: Limits { tool_calls: 2, ..Limits::default() },
                    ..plain(world, agent)
                },
            },
        ),
        (
            "a limit of tokens",
            Scenario {
                prompts: one,
                scripts: alone(vec![calls(&[("a", "read", "1"), ("b", "spend", "")]), says("sum")]),
                build: |world, agent| Agent {
                    limits: Limits { total_tokens: 15, ..Limits::default() },
                    ..plain(world, agent)
                },
            },
        ),
        (
            "a limit of time while the model speaks",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    says("I was about to")
                        .held_at_the_end_by(&bowline_llm::scripted::Gate::default()),
                    says("sum"),
                    says("two"),
                ]),
                build: |world, agent| Agent {
                    limits: Limits { run_time_ms: 7_000, ..Limits::default() },
                    ..plain(world, agent)
                },
            },
        ),
        (
            "a limit of time without a last word",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![says("").held_by(&bowline_llm::scripted::Gate::default())]),
                build: |world, agent| Agent {
                    limits: Limits { run_time_ms: 7_000, wrap_up: false, ..Limits::default() },
                    ..plain(world, agent)
                },
            },
        ),
        (
            "a limit of time while tools run",
            Scenario {
                prompts: one,
                scripts: alone(vec![
                    calls(&[("a", "read", "1"), ("b", "slow", ""), ("c", "shell", "")]),
                    says("sum"),
                ]),
                build: |world, agent| Agent {
                    limits: Limits { run_time_ms: 3_000, ..Limits::default() },
                    ..plain(world, agent)
                },
            },
        ),
        (
            "children that speak late",
            Scenario {
                prompts: one,
                scripts: parent(vec![
                    calls(&[
                        ("a", "late", "child"),
                        ("b", "delegate", "other"),
                        ("c", "late", "child"),
                    ]),
                    says("done"),
                ]),
                build: with_children,
            },
        ),
        (
            "work behind a call",
            Scenario {
                prompts: one,
                scripts: parent(vec![
                    calls(&[("a", "behind", "child"), ("b", "read", "x")]),
                    says("meanwhile"),
                    says("done"),
                ]),
                build: with_children,
            },
        ),
        (
            "a tool that ends the run",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    calls(&[("a", "fatal", ""), ("b", "slow", ""), ("c", "shell", "")]),
                    says("two"),
                ]),
                build: plain,
            },
        ),
        (
            "a model that is tried again",
            Scenario {
                prompts: one,
                scripts: alone(vec![calls(&[("a", "read", "1")]), says("done")]),
                build: |world, agent| {
                    let patience = Policy::default();
                    let failing =
                        Failing { world: Arc::clone(world), model: Arc::clone(&agent.model) };
                    let model = Arc::new(Retry::with_random(failing, patience, || 1));
                    Agent { model, ..plain(world, agent) }
                },
            },
        ),
        (
            "large bodies",
            Scenario {
                prompts: one,
                scripts: alone(vec![
                    calls(&[("a", "big", "x"), ("b", "read", "1")]),
                    calls(&[("c", "big", "y")]),
                    says("done"),
                ]),
                build: |world, agent| Agent {
                    limits: Limits { output_bytes: 0, ..Limits::default() },
                    ..plain(world, agent)
                },
            },
        ),
        (
            "outputs that are cut",
            Scenario {
                prompts: one,
                scripts: alone(vec![calls(&[("a", "big", "x"), ("b", "read", "1")]), says("done")]),
                build: plain,
            },
        ),
        (
            "what is shown and what is around it",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![
                    calls(&[("a", "note", "1"), ("b", "read", "2")]),
                    says("half"),
                    calls(&[("c", "note", "3")]),
                    says("done"),
                    says("half"),
                    says("done"),
                ]),
                build: shown_otherwise,
            },
        ),
        (
            "a model that fails",
            Scenario {
                prompts: &["one", "two"],
                scripts: alone(vec![Reply::error(ModelError::new(ErrorKind::Auth, "no"))]),
                build: plain,
            },
        ),
    ];
    jobs.extend(crews::jobs());
    jobs.extend(nudged::jobs());
    jobs.extend(shortened::jobs());
    jobs
}

/// Fails the first attempt at every request, in every life.
struct Failing {
    world: Arc<World>,
    model: Arc<dyn bowline_llm::Model>,
}

impl bowline_llm::Model for Failing {
    fn info(&self) -> &bowline_llm::ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: bowline_llm::Request) -> bowline_llm::ModelStream {
        let key = (self.world.life(), format!("{}", request.messages.len()));
        let mut failures = self.world.failures.lock().unwrap();
        let times = failures.entry(key).or_default();
        *times += 1;
        if *times > 1 {
            return self.model.stream(request);
        }
        let usage = Usage { input: 3, ..Usage::default() };
        let error = ModelError { usage, ..ModelError::new(ErrorKind::Overloaded, "busy") };
        Box::pin(futures::stream::iter([Err(error)]))
    }
}
