//! Tools and jobs for the tests of crashes.

mod nudged;
mod plans;
mod shortened;

use std::future::Future;
use std::sync::Arc;

use bowline_agent::children::Beginning;
use bowline_agent::effect::Step;
use bowline_agent::entry::{Entry, EntryKind, Wake};
use bowline_agent::gate::{Gate, Review, Verdict};
use bowline_agent::limits::Limits;
use bowline_agent::middleware::{CatchPanic, OutputGuardrail};
use bowline_agent::on_stop::on_stop_fn;
use bowline_agent::op::OpKind;
use bowline_agent::tool::{Access, Recovery, ToolContext, ToolError, ToolOutput, Toolbox, tool_fn};
use bowline_agent::transform::{At, filter, inject};
use bowline_agent::{Agent, Child, OutputSchema, SessionHandle};
use bowline_llm::retry::Policy;
use bowline_llm::scripted::Reply;
use bowline_llm::{ErrorKind, Message, ModelError, Retry, StopReason, Usage, UserMessage};

use super::crashing::World;
use super::scenario::Scenario;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Args {
    #[serde(default)]
    pub(crate) text: String,
}

type Output = Result<ToolOutput, ToolError>;

fn shape() -> OutputSchema {
    let schema = r#"{"type": "object", "properties": {"n": {"type": "integer"}}}"#;
    OutputSchema::parse(schema).unwrap()
}

/// Adds a tool that is known to the world.
pub(crate) fn tool<F, R>(
    toolbox: &mut Toolbox,
    world: &Arc<World>,
    (name, access, recovery): (&str, Access, Recovery),
    run: F,
) where
    F: Fn(Args, ToolContext, Arc<World>) -> R + Send + Sync + Clone + 'static,
    R: Future<Output = Output> + Send + 'static,
{
    world.recovery.lock().unwrap().insert(name.to_owned(), recovery);
    let world = Arc::clone(world);
    let run = move |args: Args, cx: ToolContext| {
        world.ran(cx.agent.id, &cx.call);
        let running = world.runs();
        let work = run(args, cx, Arc::clone(&world));
        async move {
            let _running = running;
            work.await
        }
    };
    let tool = tool_fn(name, "A tool.", run).with_access(access).with_recovery(recovery);
    toolbox.add(Arc::new(tool)).unwrap();
}

/// Returns the tools that need no other agents.
pub(crate) fn tools(world: &Arc<World>) -> Toolbox {
    let mut all = Toolbox::default();
    let (shared, alone) = (Access::none, Access::exclusive);
    tool(&mut all, world, ("read", shared(), Recovery::Rerun), |args, _, _| async move {
        tokio::task::yield_now().await;
        Ok(format!("content of {}", args.text).into())
    });
    tool(&mut all, world, ("slow", shared(), Recovery::Rerun), |_, _, _| async move {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        Ok("slow".into())
    });
    tool(&mut all, world, ("shell", alone(), Recovery::Unknown), |args, _, _| async move {
        tokio::task::yield_now().await;
        Ok(format!("ran {}", args.text).into())
    });
    tool(&mut all, world, ("fail", shared(), Recovery::Rerun), |_, _, _| async move {
        Err(ToolError::failed("it failed"))
    });
    tool(
        &mut all,
        world,
        ("boom", shared(), Recovery::Rerun),
        |_, _, _| async move { panic!("boom") },
    );
    tool(&mut all, world, ("fatal", shared(), Recovery::Rerun), |_, _, _| async move {
        Err(ToolError::Fatal("the disk burns".into()))
    });
    tool(&mut all, world, ("note", alone(), Recovery::Rerun), |args, cx, _| async move {
        let before = cx.recorded("notes").len();
        cx.record("notes", &args.text)?;
        Ok(format!("{before} notes before {}", args.text).into())
    });
    tool(&mut all, world, ("spend", shared(), Recovery::Rerun), |_, cx, _| async move {
        cx.report_usage(Usage { input: 7, ..Usage::default() }, None);
        tokio::task::yield_now().await;
        Ok("spent".into())
    });
    tool(&mut all, world, ("big", shared(), Recovery::Rerun), |args, _, _| async move {
        Ok(args.text.repeat(300 * 1024).into())
    });
    tool(&mut all, world, ("say", alone(), Recovery::Rerun), |args, _, world| async move {
        let input = format!("please {}", args.text);
        let kind = match args.text.as_str() {
            "steer" => OpKind::Steer(input.into()),
            "queue" => OpKind::Queue(input.into()),
            "cancel" => OpKind::Cancel { reason: bowline_agent::op::CancelReason::User, run: None },
            _ => OpKind::FollowUp(input.into()),
        };
        world.post(&args.text, None, kind);
        tokio::task::yield_now().await;
        Ok("said".into())
    });
    tool(&mut all, world, ("ask", shared(), Recovery::Reattach), |_, cx, _| async move {
        match &cx.wake {
            Some(wake) => Ok(format!("{wake:?}").into()),
            None => Ok(ToolOutput::Waiting(Wake::Answer { question: "?".into(), options: vec![] })),
        }
    });
    tool(&mut all, world, ("job", shared(), Recovery::Reattach), |_, cx, _| async move {
        match &cx.wake {
            Some(wake) => Ok(format!("{wake:?}").into()),
            None => Ok(ToolOutput::Waiting(Wake::Job("1".into()))),
        }
    });
    tool(&mut all, world, ("sleep", shared(), Recovery::Reattach), |_, cx, _| async move {
        let at = jiff::Timestamp::from_millisecond(1_700_001_000_000).unwrap();
        match &cx.wake {
            Some(wake) => Ok(format!("{wake:?}").into()),
            None => Ok(ToolOutput::Waiting(Wake::At(at))),
        }
    });
    all
}

/// Makes a sub-agent that finds its script under `system`.
pub(crate) async fn child(
    cx: &ToolContext,
    system: &str,
    key: Option<&str>,
    tools: Toolbox,
) -> Result<SessionHandle, ToolError> {
    let parent = cx.children.parent().unwrap();
    let agent =
        Agent { name: "helper".into(), instructions: system.into(), tools, ..parent.clone() };
    let key = key.map(str::to_owned);
    let child = Child { agent, key, label: None, beginning: Beginning::Fresh };
    cx.children.create(child).await.map_err(|error| ToolError::failed(error.to_string()))
}

pub(crate) async fn ask(child: &SessionHandle, prompt: &str) -> Result<String, ToolError> {
    let outcome = child.prompt(prompt).await;
    outcome.map(|outcome| outcome.text()).map_err(|error| ToolError::failed(error.to_string()))
}

/// Returns the tools with those that work through other agents.
pub(crate) fn delegating(world: &Arc<World>) -> Toolbox {
    let mut all = tools(world);
    let shared = Access::none;
    tool(
        &mut all,
        world,
        ("delegate", shared(), Recovery::Reattach),
        |args, cx, world| async move {
            let child = child(&cx, &args.text, None, tools(&world)).await?;
            let first = ask(&child, "one").await?;
            let second = ask(&child, "two").await?;
            Ok(format!("{first}, {second}").into())
        },
    );
    tool(&mut all, world, ("both", shared(), Recovery::Reattach), |_, cx, world| async move {
        let (one, two) = (
            child(&cx, "child", Some("one"), tools(&world)).await?,
            child(&cx, "other", Some("two"), tools(&world)).await?,
        );
        let (first, second) = tokio::join!(ask(&one, "one"), ask(&two, "two"));
        Ok(format!("{}, {}", first?, second?).into())
    });
    tool(&mut all, world, ("nest", shared(), Recovery::Reattach), |_, cx, world| async move {
        let child = child(&cx, "nested", None, delegating(&world)).await?;
        Ok(ask(&child, "nest").await?.into())
    });
    tool(&mut all, world, ("await", shared(), Recovery::Reattach), |args, cx, world| async move {
        let child = child(&cx, &args.text, None, tools(&world)).await?;
        let mut run = child.prompt("one");
        run.id().await.unwrap();
        if child.state().run.is_some() {
            return Ok(ToolOutput::Waiting(Wake::Agent { agent: child.agent_id(), prompt: None }));
        }
        Ok(run.await.unwrap().text().into())
    });
    tool(&mut all, world, ("late", shared(), Recovery::Reattach), |args, cx, world| async move {
        let child = child(&cx, &args.text, None, tools(&world)).await?;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        Ok(ask(&child, "one").await?.into())
    });
    tool(&mut all, world, ("forked", shared(), Recovery::Reattach), |_, cx, world| async move {
        let parent = cx.children.parent().unwrap();
        let tools = tools(&world);
        let agent =
            Agent { name: "helper".into(), instructions: "fork".into(), tools, ..parent.clone() };
        let child = Child { agent, key: None, label: None, beginning: Beginning::Fork };
        let child = cx.children.create(child).await.unwrap();
        Ok(ask(&child, "fork").await?.into())
    });
    all
}

/// Asks about what is called `shell`, and rewrites what is to be rewritten.
pub(crate) struct Strict;

#[async_trait::async_trait]
impl Gate for Strict {
    async fn review(&self, review: &Review<'_>) -> Verdict {
        let arguments = &review.call.arguments;
        if arguments.contains("rewrite") {
            return Verdict::Rewrite { arguments: r#"{"text":"rewritten"}"#.to_owned() };
        }
        if arguments.contains("forbidden") {
            return Verdict::Deny { reason: "forbidden".to_owned() };
        }
        match (review.call.name.as_str(), review.decision) {
            ("shell", None) => Verdict::Wait { question: arguments.clone() },
            _ => Verdict::Allow { rule: Some("all".to_owned()) },
        }
    }
}

pub(crate) fn says(text: &str) -> Reply {
    Reply::text(text).with_usage(usage())
}

pub(crate) fn usage() -> Usage {
    Usage { input: 10, output: 1, ..Usage::default() }
}

/// Makes a reply with calls: id, tool, text.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Reply {
    let mut reply = Reply::text("let me see").with_usage(usage());
    for (id, name, text) in calls {
        let arguments = serde_json::json!({ "text": text }).to_string();
        reply = reply.and_call_with_id(id, *name, arguments);
    }
    reply
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
    let mut all = jobs().into_iter().chain(plans::jobs());
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
