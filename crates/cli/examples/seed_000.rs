//! What seed 000 does, with today's bowline: the loop, its limit, calls at the same time, events,
//! sub-agents with names and tools of their own, panics that stay where they happen, and middleware.
//!
//! The left column of `docs/seeds.md`, seed 000, says which symbol is which.
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bowline::agent::children::Child;
use bowline::agent::entry::{CallStatus, Ending, RunErrorKind};
use bowline::agent::event::EventBody;
use bowline::agent::limits::{LimitKind, Limits};
use bowline::agent::middleware::{
    Activation, CatchPanic, Logger, Middleware, Next, OutputGuardrail, Timeout,
};
use bowline::agent::op::CancelReason;
use bowline::agent::schemars;
use bowline::agent::tool::{Access, ToolContext, ToolError, ToolOutput, Toolbox, tool_fn};
use bowline::agent::{Agent, AgentError, Outcome, RunFailure, async_trait};
use bowline::llm::scripted::{Gate, Reply, ScriptedModel};
use bowline::server::dialect::shelly::{Callbacks, Notice};
use tokio::sync::Barrier;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    the_loop_and_its_events().await?;
    the_limit().await?;
    delegation().await?;
    recovery().await?;
    middleware().await?;
    println!("seed 000: all of it holds");
    Ok(())
}

/// `New`, `Options`, `AddToolBoxes`, `Run`, `EventFunc`, `EventNotifier`: calls of one reply run at the same time,
/// their results stand in call order.
async fn the_loop_and_its_events() -> support::Result {
    // Neither call can end before both have begun.
    let both = Arc::new(Barrier::new(2));
    let meet = move |name: &str| {
        let (both, name) = (Arc::clone(&both), name.to_owned());
        let said = name.clone();
        tool_fn(&name, "Meets the other one.", move |_: Nothing, _: ToolContext| {
            let (both, said) = (Arc::clone(&both), said.clone());
            async move {
                both.wait().await;
                Ok(said.into())
            }
        })
        .with_access(Access::none())
    };
    let toolbox = Toolbox::default().with(meet("left"))?.with(meet("right"))?;
    let mut tools = Toolbox::default();
    tools.add_all(&toolbox)?;
    tools.add_all(&toolbox)?; // The very same toolbox again changes nothing.
    assert_eq!(tools.names().collect::<Vec<_>>(), ["left", "right"]);

    let model = ScriptedModel::new([
        Reply::call("left", "{}").and_call("right", "{}"),
        Reply::text("They have met."),
    ]);
    let agent = Agent {
        name: "assistant".to_owned(),
        instructions: "Be helpful.".into(),
        tools,
        ..Agent::new(Arc::new(model.clone()))
    };
    let (tell, told) = mpsc::channel();
    let notify = tell.clone();
    let mut callbacks = Callbacks::new(
        move |notice| {
            let _ = tell.send(match notice {
                Notice::ToolCall("tool_call_start", call) => format!("starts {}", call.tool_name),
                Notice::MessageAdded(added) => format!("message of {}", added.role),
                other => other.kind().to_owned(),
            });
        },
        move |kind, agent, data| {
            let _ = notify.send(format!("{kind} {} {agent}", data.prefix));
        },
    );
    let run = agent.prompt("Let them meet.");
    let outcome = run.run_with_callback(|event| callbacks.event(event)).await?;
    assert_eq!(outcome.text(), "They have met.");
    let expected = [
        "agent_start 🤖 assistant",
        "message of assistant",
        "starts left",
        "starts right",
        "tool_call_end",
        "tool_call_end",
        "message of tool",
        "message of tool",
        "message of assistant",
        "agent_end 🤖 assistant",
    ];
    assert_eq!(told.try_iter().collect::<Vec<_>>(), expected);
    assert_eq!(model.requests().len(), 2);
    Ok(())
}

/// `MaxIterations`, `ErrMaxIterations`.
async fn the_limit() -> support::Result {
    let model = ScriptedModel::answering(|_| Reply::call("again", "{}"));
    let again =
        tool_fn("again", "Does it again.", async |_: Nothing, _: ToolContext| Ok("done".into()));
    let agent = Agent {
        tools: Toolbox::default().with(again)?,
        // The seed ends without a word; `wrap_up: true` gives the model one last call to sum up.
        limits: Limits { model_turns: 3, wrap_up: false, ..Limits::default() },
        ..Agent::new(Arc::new(model.clone()))
    };
    let failure = agent.prompt("Go on and on.").run_to_message().await;
    assert!(matches!(failure, Err(RunFailure::Limit(LimitKind::ModelTurns))));
    assert_eq!(model.requests().len(), 3);
    Ok(())
}

/// What `delegate` does underneath: a fresh sub-agent with its own tools and nothing inherited, a
/// name of its own beside that of its configuration, `agent_start` and `agent_end`.
async fn delegation() -> support::Result {
    let delegate = tool_fn("delegate", "Delegates.", async |_: Nothing, cx: ToolContext| {
        // `MaxDelegationDepth`
        if cx.agent.depth > 0 {
            return Err(ToolError::failed("delegation goes no deeper"));
        }
        let coder = Agent {
            name: "coder".to_owned(),
            ..Agent::new(Arc::new(ScriptedModel::new([Reply::text("refactored")])))
        };
        let child = Child { label: Some("✎".to_owned()), ..Child::new(coder) };
        let child = cx.children.create(child).await.map_err(|e| ToolError::Fatal(e.into()))?;
        let failed = |error: &dyn std::fmt::Display| ToolError::failed(error.to_string());
        child.add_user_turn("<delegation_context>…").await.map_err(|error| failed(&error))?;
        let answer = child.prompt("Refactor it.").text().await;
        answer.map(ToolOutput::from).map_err(|error| failed(&error))
    });
    let model =
        ScriptedModel::new([Reply::call("delegate", "{}"), Reply::text("The coder did it.")]);
    let agent = Agent {
        name: "orchestrator".to_owned(),
        tools: Toolbox::default().with(delegate)?,
        ..Agent::new(Arc::new(model))
    };
    let mut seen = Vec::new();
    let outcome = agent
        .prompt("Have it refactored.")
        .run_with_callback(|event| {
            let who = &event.agent;
            let kind = match &event.body {
                EventBody::AgentStart { .. } => "agent_start",
                EventBody::AgentEnd { .. } => "agent_end",
                _ => return,
            };
            let label = who.label.as_deref().unwrap_or_default();
            seen.push(format!("{kind} {label} {} of {}", who.name, who.config));
        })
        .await?;
    assert_eq!(outcome.ending, Ending::Done);
    assert_eq!(seen, ["agent_start ✎ coder-1 of coder", "agent_end ✎ coder-1 of coder"]);
    Ok(())
}

/// `Recovery()` needs no middleware for tools: a panic in one is that call's failure.
async fn recovery() -> support::Result {
    // The panic is expected; nobody needs to read of it.
    std::panic::set_hook(Box::new(|_| {}));
    #[expect(clippy::panic, reason = "this is what it shows")]
    let bad = tool_fn("bad", "Panics.", async |_: Nothing, _: ToolContext| {
        panic!("oh no");
    });
    let model = ScriptedModel::new([Reply::call("bad", "{}"), Reply::text("It is broken.")]);
    let agent = Agent { tools: Toolbox::default().with(bad)?, ..Agent::new(Arc::new(model)) };
    let mut statuses = Vec::new();
    let outcome = agent
        .prompt("Try the bad tool.")
        .run_with_callback(|event| {
            if let EventBody::ToolEnd { status, .. } = &event.body {
                statuses.push(*status);
            }
        })
        .await?;
    assert_eq!(statuses, [CallStatus::Error]);
    assert_eq!(outcome.text(), "It is broken.");
    Ok(())
}

/// A middleware that cannot do its work.
struct Broken;

#[async_trait]
impl Middleware for Broken {
    #[expect(clippy::panic, reason = "this is what it shows")]
    async fn run(&self, _: &Activation, _: Next<'_>) -> Result<Outcome, AgentError> {
        panic!("oh no")
    }
}

/// `Middleware`, `Timeout(d)`, `Recovery()`, `Logger(log, name)`, `OutputGuardrail(check)`: the first one
/// is the outermost.
async fn middleware() -> support::Result {
    let logged = Arc::new(Mutex::new(Vec::new()));
    let log = |name: &'static str| {
        let logged = Arc::clone(&logged);
        Arc::new(Logger::new(move |line| {
            let is_error = line.is_error();
            let mut logged = logged.lock().unwrap_or_else(|error| error.into_inner());
            logged.push((name, is_error));
        }))
    };
    let polite = |answer: &str| match answer.contains("damn") {
        true => Err("the answer is not polite".to_owned()),
        false => Ok(()),
    };
    let hangs = Gate::default();
    let replies = [Reply::text("Gladly."), Reply::text("damn"), Reply::text("").held_by(&hangs)];
    let agent = Agent {
        middleware: vec![
            log("outer"),
            Arc::new(Timeout(Duration::from_millis(100))),
            Arc::new(OutputGuardrail::new(polite)),
            log("inner"),
        ],
        ..Agent::new(Arc::new(ScriptedModel::new(replies)))
    };
    let handle = agent.start();
    assert_eq!(handle.prompt("Please.").text().await?, "Gladly.");
    let order = std::mem::take(&mut *logged.lock().unwrap_or_else(|error| error.into_inner()));
    assert_eq!(order, [("outer", false), ("inner", false), ("inner", false), ("outer", false)]);

    let refused = handle.prompt("Now!").await?;
    let Ending::Failed(error) = &refused.ending else { return Err("it was not refused".into()) };
    assert_eq!(error.kind, RunErrorKind::Guardrail);
    assert_eq!(refused.text(), "");

    let late = handle.prompt("Take your time.").await?;
    assert_eq!(late.ending, Ending::Canceled(CancelReason::Timeout));

    let model = Arc::new(ScriptedModel::new([]));
    let middleware: Vec<Arc<dyn Middleware>> = vec![Arc::new(CatchPanic), Arc::new(Broken)];
    let agent = Agent { middleware, ..Agent::new(model) };
    let panicked = agent.prompt("Go.").await?;
    let Ending::Failed(error) = panicked.ending else { return Err("it did not fail".into()) };
    assert_eq!(error.message, "a middleware panicked: oh no");
    Ok(())
}
