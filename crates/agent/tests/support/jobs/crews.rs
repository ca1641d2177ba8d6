//! Jobs of agents that give each other tasks.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::Agent;
use bowline_agent::crew::board::{Board, TaskBoard};
use bowline_agent::crew::{Card, Interaction, Member, Registry, Spawn};
use bowline_agent::tool::{Access, Recovery, ToolContext, Toolbox};
use bowline_llm::Message;
use bowline_llm::scripted::Reply;
use serde_json::{Value, json};

use super::{World, says, tool, tools, usage};
use crate::support::scenario::Scenario;

/// Makes a reply with calls: id, tool, arguments.
fn calls(calls: &[(&str, &str, Value)]) -> Reply {
    let reply = Reply::text("let me see").with_usage(usage());
    calls.iter().fold(reply, |reply, (id, name, arguments)| {
        reply.and_call_with_id(id, *name, arguments.to_string())
    })
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

fn done(id: &str) -> Reply {
    let completion = json!({
        "status": "completed",
        "summary": "it is done",
        "files_modified": ["a.rs"],
        "tests_run": ["make"],
    });
    calls(&[(id, "task_complete", completion)])
}

fn task(agent: &str, task: &str) -> Value {
    json!({ "agent": agent, "task": task, "context": format!("{agent} knows") })
}

/// Returns what a worker can do; one tool waits until the root has answered once more.
fn own(world: &Arc<World>) -> Toolbox {
    let mut all = tools(world);
    let declared = ("patience", Access::none(), Recovery::Rerun);
    tool(&mut all, world, declared, |_, _, world| async move {
        let has_gone_on = |world: &World| {
            let requests = world.requests.lock().unwrap();
            requests.iter().any(|(_, request)| {
                let mut messages = request.messages.iter();
                &*request.system == "root"
                    && messages.any(|message| matches!(&**message, Message::Results(_)))
            })
        };
        while !has_gone_on(&world) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok("patient".into())
    });
    all
}

fn crew(world: &Arc<World>, agent: Agent, lead: fn(Member) -> Member) -> Agent {
    let registry = Registry::default();
    for name in ["coder", "tester", "lead", "writer"] {
        let (template, world) = (agent.clone(), Arc::clone(world));
        registry.register(Card { max_concurrency: 2, ..Card::new(name, "") }, move |spawn| {
            let member = Member { max_handoffs: 2, ..spawn.member() };
            let tools = Toolbox::layered([&own(&world), &member.tools(spawn)]);
            Ok(Agent { instructions: name.into(), tools, ..template.clone() })
        });
    }
    let member = lead(Member { max_handoffs: 2, ..Member::new("root", Arc::new(registry)) });
    let tools = Toolbox::layered([&tools(world), &member.tools(&Spawn::root("root"))]);
    Agent { tools, ..agent }
}

fn alone(world: &Arc<World>, agent: Agent) -> Agent {
    crew(world, agent, |member| member)
}

/// A crew whose tasks stand on the session's board, which the lead reads and plans. Its agents may ask.
fn planned(world: &Arc<World>, agent: Agent) -> Agent {
    let with_board: fn(Member) -> Member = |member| Member {
        board: Some(Arc::new(|cx: &ToolContext| Arc::new(Board::of(cx)) as Arc<dyn TaskBoard>)),
        interaction: Interaction::Interactive,
        ..member
    };
    let agent = crew(world, agent, with_board);
    let tools = Toolbox::layered([&agent.tools, &super::board::with_board(world)]);
    Agent { tools, ..agent }
}

fn asked(world: &Arc<World>, agent: Agent) -> Agent {
    crew(world, agent, |member| Member { interaction: Interaction::Interactive, ..member })
}

/// Returns the jobs.
pub(super) fn jobs() -> Vec<(&'static str, Scenario)> {
    let coder = vec![
        calls(&[("c1", "read", text("x")), ("c2", "shell", text("y"))]),
        calls(&[("c3", "note", text("z"))]),
        done("c4"),
    ];
    let writer = vec![calls(&[("w1", "note", text("z"))]), says("written")];
    let handoff = json!({ "target_agent": "writer", "reason": "words", "context": "as it is" });
    let tester = vec![calls(&[("t1", "read", text("x"))]), calls(&[("t2", "handoff", handoff)])];
    let further = json!({ "tasks": [task("writer", "write it"), task("nobody", "do it")] });
    let lead = vec![calls(&[("l1", "delegate", further)]), done("l2")];
    let all = [task("coder", "fix it"), task("tester", "test it"), task("lead", "lead it")];
    let question = |what: &str| json!({ "question": what });
    let asking = vec![
        calls(&[("q1", "request_input", question("which?"))]),
        calls(&[("q2", "request_input", question("really?")), ("q3", "note", text("z"))]),
        done("q4"),
    ];
    let interactive = |agent: &str| json!({ "agent": agent, "task": "go", "mode": "interactive", "context": "blue" });
    let answer = |id: &str, text: &str| {
        let answers = json!({ "answers": [{ "delegation_id": "d-1", "answer": text }] });
        calls(&[(id, "answer_delegation_questions", answers)])
    };
    let behind = json!({ "agent": "coder", "task": "go", "background": true });
    let on_the_board =
        json!({ "agent": "coder", "task": "go", "task_id": "task-1", "background": true });
    let in_question =
        json!({ "agent": "coder", "task": "go", "task_id": "task-1", "mode": "interactive" });
    let patient = vec![calls(&[("p1", "patience", text(""))]), says("it was long")];
    vec![
        (
            "a crew",
            Scenario {
                prompts: &["go"],
                scripts: vec![
                    (
                        "root",
                        vec![calls(&[("a", "delegate", json!({ "tasks": all }))]), says("done")],
                    ),
                    ("coder", coder),
                    ("tester", tester),
                    ("lead", lead),
                    ("writer", writer.clone()),
                ],
                build: alone,
            },
        ),
        (
            "a crew whose agents ask",
            Scenario {
                prompts: &["go"],
                scripts: vec![
                    (
                        "root",
                        vec![
                            calls(&[("a", "delegate", json!({ "tasks": [task("coder", "go")] }))]),
                            says("done"),
                        ],
                    ),
                    ("coder", asking.clone()),
                ],
                build: alone,
            },
        ),
        (
            "a crew that answers",
            Scenario {
                prompts: &["go"],
                scripts: vec![
                    (
                        "root",
                        vec![
                            calls(&[(
                                "a",
                                "delegate",
                                json!({ "tasks": [interactive("coder"), interactive("writer")] }),
                            )]),
                            answer("b", "the red one"),
                            answer("c", "yes"),
                            says("done"),
                        ],
                    ),
                    ("coder", asking.clone()),
                    ("writer", writer),
                ],
                build: asked,
            },
        ),
        (
            "a crew in the background",
            Scenario {
                prompts: &["go"],
                scripts: vec![
                    (
                        "root",
                        vec![
                            calls(&[("a", "delegate", json!({ "tasks": [behind] }))]),
                            says("meanwhile"),
                            says("done"),
                        ],
                    ),
                    ("coder", patient.clone()),
                ],
                build: alone,
            },
        ),
        (
            "a crew in the background, on the board",
            Scenario {
                prompts: &["go"],
                scripts: vec![
                    (
                        "root",
                        vec![
                            calls(&[("p", "plan", text("dig"))]),
                            calls(&[("a", "delegate", json!({ "tasks": [on_the_board] }))]),
                            says("meanwhile"),
                            calls(&[("t", "tasks", text(""))]),
                            says("done"),
                        ],
                    ),
                    ("coder", patient.clone()),
                ],
                build: planned,
            },
        ),
        (
            "a crew in the background that is canceled",
            stopped(&on_the_board, calls(&[("s", "say", text("cancel"))]), patient),
        ),
        (
            "a crew that asks and is canceled",
            stopped(&in_question, calls(&[("s", "say", text("cancel"))]), asking.clone()),
        ),
        ("a crew that asks and is dismissed", stopped(&in_question, says("enough"), asking)),
    ]
}

/// Returns a job whose lead gives one task and ends before that does, and then looks at the board.
fn stopped(task: &Value, end: Reply, agent: Vec<Reply>) -> Scenario {
    let lead = vec![
        calls(&[("p", "plan", text("dig"))]),
        calls(&[("a", "delegate", json!({ "tasks": [task] }))]),
        end,
        calls(&[("t", "tasks", text(""))]),
        says("done"),
    ];
    Scenario {
        prompts: &["go", "what is there?"],
        scripts: vec![("root", lead), ("coder", agent)],
        build: planned,
    }
}
