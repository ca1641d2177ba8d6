//! What seed 001 does differently from seed 000, with today's bowline: several sub-agents at once,
//! the first failure cancels the others, children that have their parent's tools too, and compaction.
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline::agent::children::Child;
use bowline::agent::effect::{Choice, Compact, OnFailure};
use bowline::agent::entry::CallStatus;
use bowline::agent::event::EventBody;
use bowline::agent::schemars;
use bowline::agent::tool::{Access, ToolContext, ToolError, ToolOutput, Toolbox, tool_fn};
use bowline::agent::{Agent, RunFailure};
use bowline::llm::scripted::{Gate, Reply, ScriptedModel};
use bowline::llm::{ErrorKind, Message, ModelError, text_of};
use futures::future::try_join_all;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Makes a tool that answers with a fixed text.
fn saying(name: &str, text: &'static str) -> impl bowline::agent::tool::DynTool + use<> {
    tool_fn(name, "Says something.", async move |_: Nothing, _: ToolContext| Ok(text.into()))
        .with_access(Access::none())
}

/// `spawn_agents`: runs agents concurrently. Concurrent children are told apart by keys.
async fn spawn_all(cx: &ToolContext, agents: Vec<Agent>) -> Result<Vec<String>, RunFailure> {
    let runs = agents.into_iter().enumerate().map(|(n, agent)| async move {
        let child = Child { key: Some(n.to_string()), ..Child::new(agent) };
        cx.children.create(child).await?.prompt("Do your part.").cancel_on_drop().text().await
    });
    // The first failure drops the other runs, which cancels them.
    try_join_all(runs).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    inherited_tools().await?;
    first_failure_cancels().await?;
    compaction().await?;
    println!("seed 001: all of it holds");
    Ok(())
}

/// "Toolbox Inheritance": a child has its own tools and its parent's; of two with one name its own
/// wins.
async fn inherited_tools() -> support::Result {
    let spawn = tool_fn("spawn_agents", "Spawns.", async |_: Nothing, cx: ToolContext| {
        let parent = cx.children.parent().ok_or_else(|| ToolError::failed("no parent"))?;
        let own = Toolbox::default()
            .with(saying("who", "the child's"))
            .map_err(|error| ToolError::Fatal(error.into()))?;
        // Own first: the first wins.
        let tools = Toolbox::layered([&own, &parent.tools]);
        let agents = ["a", "b"].map(|name| Agent {
            name: name.to_owned(),
            tools: tools.clone(),
            ..Agent::new(Arc::new(ScriptedModel::new([
                Reply::call("who", "{}").and_call("where", "{}"),
                Reply::from_fn(|request| {
                    let last = request.messages.last().map(|message| (**message).clone());
                    let Some(Message::Results(results)) = last else {
                        return Reply::text("no results");
                    };
                    let texts = results.iter().map(|result| text_of(&result.content));
                    Reply::text(texts.collect::<Vec<_>>().join(", "))
                }),
            ])))
        });
        let answers = spawn_all(&cx, agents.into()).await;
        let answers = answers.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(ToolOutput::text(answers.join("; ")))
    });
    let tools = Toolbox::default()
        .with(spawn)?
        .with(saying("who", "the parent's"))?
        .with(saying("where", "here"))?;
    let model = ScriptedModel::new([Reply::call("spawn_agents", "{}"), Reply::text("Done.")]);
    let agent = Agent { tools, ..Agent::new(Arc::new(model)) };
    let results = results(&agent).await?;
    let both = "the child's, here; the child's, here";
    assert_eq!(results, [(CallStatus::Ok, both.to_owned())]);
    Ok(())
}

/// "Concurrent spawn uses cancel-on-first-error."
async fn first_failure_cancels() -> support::Result {
    let spawn = tool_fn("spawn_agents", "Spawns.", async |_: Nothing, cx: ToolContext| {
        // One never answers, the other fails.
        let never = Reply::text("too late").held_by(&Gate::default());
        let fails = Reply::error(ModelError::new(ErrorKind::InvalidRequest, "no such model"));
        let agents = [never, fails].map(|reply| Agent::new(Arc::new(ScriptedModel::new([reply]))));
        match spawn_all(&cx, agents.into()).await {
            Ok(answers) => Ok(ToolOutput::text(answers.join("; "))),
            Err(error) => Err(ToolError::failed(error.to_string())),
        }
    });
    let model = ScriptedModel::new([Reply::call("spawn_agents", "{}"), Reply::text("It failed.")]);
    let agent = Agent { tools: Toolbox::default().with(spawn)?, ..Agent::new(Arc::new(model)) };
    let results = results(&agent).await?;
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].0, CallStatus::Error);
    assert!(results[0].1.contains("no such model"), "{results:?}");
    Ok(())
}

/// "Compaction": at a share of the window the conversation becomes a summary; when there is none,
/// whoever is asked decides whether it is tried again.
async fn compaction() -> support::Result {
    let asked = Arc::new(AtomicUsize::new(0));
    let ask: OnFailure = {
        let asked = Arc::clone(&asked);
        Arc::new(move |_why| {
            asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Choice::Retry })
        })
    };
    let no = ModelError::new(ErrorKind::InvalidRequest, "not today");
    let model = ScriptedModel::new([
        Reply::text("A long story. ".repeat(500)),
        Reply::error(no),
        Reply::text("## Done\nA story was told."),
        Reply::text("The end."),
    ]);
    let compact = Compact {
        context_window: 2_000,
        threshold: 0.8,
        on_failure: Some(ask),
        ..Compact::default()
    };
    let agent = Agent { effects: vec![Arc::new(compact)], ..Agent::new(Arc::new(model.clone())) };
    let handle = agent.start();
    handle.prompt("Tell me a story.").text().await?;
    assert_eq!(handle.prompt("And then?").text().await?, "The end.");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let requests = model.requests();
    let last = requests.last().map(|request| request.messages.clone()).unwrap_or_default();
    let said = last.iter().filter_map(|message| match &**message {
        Message::User(said) => Some(text_of(&said.content)),
        Message::Assistant(_) | Message::Results(_) => None,
    });
    let said: Vec<_> = said.collect();
    assert_eq!(said.len(), last.len(), "the story itself is gone");
    assert_eq!((said[0].as_str(), said[2].as_str()), ("Tell me a story.", "And then?"));
    assert!(said[1].contains("A story was told."), "{said:?}");
    Ok(())
}

/// Runs an agent and returns what came of the calls of the agent itself.
async fn results(agent: &Agent) -> support::Result<Vec<(CallStatus, String)>> {
    let mut results = Vec::new();
    let run = agent.prompt("Go.").run_with_callback(|event| {
        if let (EventBody::ToolEnd { status, content, .. }, 0) = (&event.body, event.agent.depth) {
            results.push((*status, text_of(content)));
        }
    });
    assert!(run.await?.is_done());
    Ok(results)
}
