//! What seed 004 does, with today's bowline: an immutable snapshot of a live state, pending calls,
//! steering, follow-ups, and an orchestrator of one's own.
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline::agent::conversation::Conversation;
use bowline::agent::entry::CallStatus;
use bowline::agent::event::{EventBody, Phase};
use bowline::agent::orchestrator::{NextStep, Orchestrator, React};
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, ToolError, Toolbox, tool_fn};
use bowline::agent::{Agent, Outcome};
use bowline::llm::scripted::{Gate, Reply, ScriptedModel};
use futures::StreamExt;
use tokio::sync::Semaphore;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// `AgentConfig.Orchestrator`: pure, so it may be asked as often as wanted, here by one that counts.
#[derive(Default)]
struct Counting {
    asked: AtomicUsize,
}

impl Orchestrator for Counting {
    fn next(&self, conversation: &Conversation) -> NextStep {
        self.asked.fetch_add(1, Ordering::Relaxed);
        React.next(conversation)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> support::Result {
    steering_and_follow_up().await?;
    snapshot().await?;
    println!("seed 004: all of it holds");
    Ok(())
}

/// `GetSteeringMessages`, `GetFollowUpMessages`, `PendingToolCalls`.
async fn steering_and_follow_up() -> support::Result {
    let ready = Arc::new(Semaphore::new(0));
    let wait = Arc::clone(&ready);
    let slow = tool_fn("slow", "Takes its time.", move |_: Nothing, _: ToolContext| {
        let wait = Arc::clone(&wait);
        async move {
            let _permit = wait.acquire().await.map_err(|error| ToolError::Fatal(error.into()))?;
            Ok("done".into())
        }
    });
    let model = ScriptedModel::new([
        Reply::call("slow", "{}").and_call("slow", "{}"),
        Reply::text("I stopped."),
        Reply::text("And I followed up."),
    ]);
    let orchestrator = Arc::new(Counting::default());
    let agent = Agent {
        tools: Toolbox::default().with(slow)?,
        orchestrator: Arc::clone(&orchestrator) as Arc<dyn Orchestrator>,
        ..Agent::new(Arc::new(model.clone()))
    };
    let handle = agent.start();
    let mut stream = handle.prompt("Do it twice.");
    let (mut statuses, mut texts) = (Vec::new(), Vec::new());
    while let Some(event) = stream.next().await {
        match &event.body {
            EventBody::ToolStart { .. } => {
                let state = handle.wait_for(|state| state.phase == Phase::Tools).await?;
                assert_eq!(state.pending_calls.len(), 2);
                handle.follow_up("Anything else?").await?;
                handle.steer("Once is enough.").await?;
                ready.add_permits(1);
            }
            EventBody::ToolEnd { status, .. } => statuses.push(*status),
            EventBody::Text { text, .. } => texts.push(text.clone()),
            _ => {}
        }
    }
    // The call in flight finished, the other one was skipped, and the model saw both results
    // before it saw the message.
    statuses.sort_by_key(|status| status.as_str());
    assert_eq!(statuses, [CallStatus::Ok, CallStatus::Skipped]);
    assert_eq!(texts, ["I stopped.", "And I followed up."]);
    let outcome: Outcome = stream.await?;
    assert!(outcome.is_done());
    assert_eq!(model.requests().len(), 3);
    assert!(orchestrator.asked.load(Ordering::Relaxed) >= 4);
    assert!(handle.state().pending_calls.is_empty());
    Ok(())
}

/// `state.ToContext().Clone()`: system text, messages and tools at a moment, which what happens
/// later does not touch.
async fn snapshot() -> support::Result {
    let gate = Gate::default();
    let model = ScriptedModel::new([Reply::text("Hello."), Reply::text("Later.").held_by(&gate)]);
    let agent = Agent { instructions: "Be kind.".into(), ..Agent::new(Arc::new(model.clone())) };
    let handle = agent.start();
    handle.prompt("Hi.").await?;
    let before = handle.state();
    let run = handle.prompt("And now?");
    gate.reached().await; // It runs: `IsStreaming`.
    assert_ne!(handle.status(), Phase::Idle);
    assert_eq!(handle.messages().len(), 3);
    gate.open();
    run.await?;
    assert_eq!(&*before.snapshot.system, "Be kind.");
    assert_eq!(before.snapshot.messages.len(), 2);
    assert_eq!(before.snapshot.tools.specs().len(), 0);
    assert_eq!(handle.messages().len(), 4);
    Ok(())
}
