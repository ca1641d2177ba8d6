//! What seed 003 does, with today's bowline: its README's event loop, sub-agents in a tool call,
//! `AgentCreator`, and what may be asked of an agent while it runs.
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::sync::{Arc, Mutex, PoisonError};

use bowline::agent::entry::Ending;
use bowline::agent::event::{EventBody, Phase};
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, ToolError, ToolOutput, Toolbox, tool_fn};
use bowline::agent::{Agent, AgentCreator, AgentError, SessionHandle};
use bowline::llm::ModelInfo;
use bowline::llm::scripted::{Gate, Reply, ScriptedModel};
use futures::StreamExt;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Explore {
    question: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    basic_usage().await?;
    sub_agents().await?;
    one_loop_at_a_time().await?;
    println!("seed 003: all of it holds");
    Ok(())
}

/// "Basic Usage".
async fn basic_usage() -> support::Result {
    let echo = tool_fn("explore", "Explores.", async |input: Explore, _: ToolContext| {
        Ok(format!("explored: {}", input.question).into())
    });
    let model = ScriptedModel::new([
        Reply::reasoning("I should look.")
            .and_text("I will look.")
            .and_call("explore", r#"{"question":"where?"}"#)
            .with_usage(support::tokens(100, 20)),
        Reply::text("It is in the attic.").with_usage(support::tokens(150, 10)),
    ])
    .with_info(ModelInfo { context_window: Some(1000), ..ModelInfo::default() });
    let prompt = Agent { tools: Toolbox::default().with(echo)?, ..Agent::new(Arc::new(model)) };

    let main_agent = prompt.start();
    println!("session id: {}", main_agent.session_id());
    main_agent.add_user_turn("<environment>…</environment>").await?;
    let mut out = main_agent.send_user_message("Where is it?");
    let mut seen = Vec::new();
    while let Some(event) = out.next().await {
        match &event.body {
            EventBody::Text { text, .. } => seen.push(format!("text: {text}")),
            EventBody::Reasoning { text } => seen.push(format!("reasoning: {text}")),
            EventBody::ToolCall { name, arguments } => {
                seen.push(format!("tool call: {name} {arguments}"));
            }
            EventBody::ToolEnd { name, status, .. } => {
                seen.push(format!("tool complete: {name} {}", status.as_str()));
            }
            EventBody::TurnEnd { usage, .. } => {
                seen.push(format!("turn: {} tokens", usage.map_or(0, |usage| usage.total())));
            }
            // `EventTypeDoneSuccess`, `EventTypeError`, `EventTypeCanceled`: one terminal event.
            EventBody::RunEnd(end) => seen.push(match &end.outcome {
                Ending::Done => "done".to_owned(),
                Ending::Failed(error) => format!("error: {error}"),
                Ending::Canceled(_) => "canceled".to_owned(),
                Ending::Limit(_) | Ending::NeedsApproval => "stopped".to_owned(),
            }),
            _ => {}
        }
    }
    let expected = [
        "reasoning: I should look.",
        "text: I will look.",
        r#"tool call: explore {"question":"where?"}"#,
        "turn: 120 tokens",
        "tool complete: explore ok",
        "text: It is in the attic.",
        "turn: 160 tokens",
        "done",
    ];
    assert_eq!(seen, expected);

    assert_eq!(main_agent.status(), Phase::Idle);
    // The two user turns, a reply, its results, the answer.
    assert_eq!(main_agent.messages().len(), 5);
    assert_eq!(main_agent.token_usage().total(), 280);
    assert_eq!(main_agent.context_usage(), (150, Some(1000)));
    assert_eq!(main_agent.context_usage_percent(), 15);
    Ok(())
}

/// "This enables a function to be created that either operates as a root agent, or as a SubAgent."
async fn research_plan(creator: &dyn AgentCreator, plan: &str) -> Result<String, ToolError> {
    let failed = |error: String| ToolError::failed(error);
    let agent = creator.new_with_default_model("You research plans.", Toolbox::default()).await;
    let agent = agent.map_err(|error| failed(error.to_string()))?;
    agent.prompt(plan).text().await.map_err(|error| failed(error.to_string()))
}

/// "SubAgents": only while servicing a call; events mirrored; usage rolled up; the parent's tools on
/// request; a creator that outlives its call is refused.
async fn sub_agents() -> support::Result {
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let explore = tool_fn("explore", "Explores.", move |input: Explore, cx: ToolContext| {
        let keep = Arc::clone(&keep);
        async move {
            // `SubAgentDepth`
            if cx.agent.depth > 0 {
                return Err(ToolError::failed("too much nesting"));
            }
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.children.clone());
            // `AgentToolsFromContext`
            let parent = cx.children.parent().ok_or_else(|| ToolError::failed("no parent"))?;
            let tools = parent.tools.clone();
            let child = cx.children.new_with_default_model("You explore.", tools).await;
            let child: SessionHandle = child.map_err(|error| ToolError::Fatal(error.into()))?;
            let mut out = child.send_user_message(input.question);
            let mut text = String::new();
            while let Some(event) = out.next().await {
                if let EventBody::Text { text: said, .. } = &event.body {
                    text.push_str(said);
                }
            }
            let plan = research_plan(&cx.children, "Is it right?").await?;
            Ok(ToolOutput::text(format!("{text} {plan}")))
        }
    });
    let model = ScriptedModel::new([
        Reply::call("explore", r#"{"question":"where?"}"#).with_usage(support::tokens(10, 1)),
        Reply::text("In the attic.").with_usage(support::tokens(20, 2)),
        Reply::text("It is right.").with_usage(support::tokens(30, 3)),
        Reply::text("In the attic, surely.").with_usage(support::tokens(40, 4)),
        Reply::text("A root agent now.").with_usage(support::tokens(50, 5)),
    ]);
    let tools = Toolbox::default().with(explore)?;
    let agent = Agent { tools, ..Agent::new(Arc::new(model.clone())) };
    let handle = agent.start();
    let mut out = handle.send_user_message("Where is it?");
    let mut texts = Vec::new();
    while let Some(event) = out.next().await {
        if let EventBody::Text { text, .. } = &event.body {
            texts.push((event.agent.depth, text.clone()));
        }
    }
    let said = |depth: u32, text: &str| (depth, text.to_owned());
    let expected =
        [said(1, "In the attic."), said(1, "It is right."), said(0, "In the attic, surely.")];
    assert_eq!(texts, expected);
    assert_eq!(handle.token_usage(), support::tokens(100, 10));
    let requests = model.requests();
    assert_eq!(requests[1].tools.specs().len(), 1); // The parent's tools.
    assert_eq!(requests[2].tools.specs().len(), 0); // None.

    let outlived = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let outlived = outlived.ok_or("the tool has run")?;
    let late = outlived.new_with_default_model("Too late.", Toolbox::default()).await;
    assert!(matches!(late, Err(AgentError::ScopeClosed)));

    // The same function with a root creator.
    assert_eq!(research_plan(&agent, "Go.").await?, "A root agent now.");
    Ok(())
}

/// "An agent may only run one active loop." The second message is refused on its own stream, and
/// the context that stops an agent is `cancel`.
async fn one_loop_at_a_time() -> support::Result {
    let gate = Gate::default();
    let model = ScriptedModel::new([Reply::text("late").held_by(&gate)]);
    let handle = Agent::new(Arc::new(model)).start();
    let first = handle.send_user_message("Take your time.");
    gate.reached().await;
    assert_eq!(handle.status(), Phase::Model);

    let second: Vec<_> = handle.send_user_message("And this?").collect().await;
    assert_eq!(second.len(), 1);
    assert!(matches!(second[0].body, EventBody::Rejected { .. }));
    let turn = handle.add_user_turn("And this?").await;
    assert!(matches!(turn, Err(AgentError::AlreadyRunning)));

    handle.cancel();
    assert!(matches!(first.await?.ending, Ending::Canceled(_)));
    assert_eq!(handle.status(), Phase::Idle);
    Ok(())
}
