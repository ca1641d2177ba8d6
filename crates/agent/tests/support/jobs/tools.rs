//! What the agents of the jobs can do, and what their models say.

use std::future::Future;
use std::sync::Arc;

use bowline_agent::children::Beginning;
use bowline_agent::entry::{Behind, Wake};
use bowline_agent::gate::{Gate, Review, Verdict};
use bowline_agent::op::OpKind;
use bowline_agent::tool::{Access, Recovery, ToolContext, ToolError, ToolOutput, Toolbox, tool_fn};
use bowline_agent::{Agent, Child, SessionHandle};
use bowline_llm::scripted::Reply;
use bowline_llm::{Message, Usage};

use crate::support::crashing::World;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Args {
    #[serde(default)]
    pub(crate) text: String,
}

type Output = Result<ToolOutput, ToolError>;

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
    let child = Child { key, ..Child::new(agent) };
    cx.children.create(child).await.map_err(|error| ToolError::failed(error.to_string()))
}

pub(crate) async fn ask(child: &SessionHandle, prompt: &str) -> Result<String, ToolError> {
    let outcome = child.prompt(prompt).await;
    outcome.map(|outcome| outcome.text()).map_err(|error| ToolError::failed(error.to_string()))
}

/// Tells whether the root was asked with the results of its calls.
fn has_seen_results(world: &World) -> bool {
    let requests = world.requests.lock().unwrap();
    let root = World::session().root().to_string();
    requests.iter().any(|(_, request)| {
        let is_root = request.cache_key.as_deref() == Some(&root);
        is_root && request.messages.iter().any(|message| matches!(**message, Message::Results(_)))
    })
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
    tool(&mut all, world, ("behind", shared(), Recovery::Reattach), |args, cx, world| async move {
        let child = child(&cx, &args.text, None, tools(&world)).await?;
        cx.leave_behind(Behind::Awaited, async move {
            // What it comes to is said after the reply that follows the call, whoever is faster.
            while !has_seen_results(&world) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let first = ask(&child, "one").await.ok()?;
            let second = ask(&child, "two").await.ok()?;
            Some(format!("{first}, {second}").into())
        });
        Ok("begun".into())
    });
    tool(&mut all, world, ("forked", shared(), Recovery::Reattach), |_, cx, world| async move {
        let parent = cx.children.parent().unwrap();
        let tools = tools(&world);
        let agent =
            Agent { name: "helper".into(), instructions: "fork".into(), tools, ..parent.clone() };
        let child = Child { beginning: Beginning::Fork, ..Child::new(agent) };
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
            ("shell", None) => Verdict::Wait { question: arguments.clone(), rule: None },
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
