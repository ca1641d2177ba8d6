//! What seed 004 does, with today's bowline: an immutable snapshot of a live state, pending calls,
//! steering, follow-ups, the pipeline, an orchestrator of one's own, and a plan that is carried out.
#![expect(clippy::print_stdout, reason = "an example shows something")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bowline::agent::conversation::Conversation;
use bowline::agent::entry::{CallStatus, Entry, EntryKind};
use bowline::agent::event::{EventBody, Phase};
use bowline::agent::feed::feed_fn;
use bowline::agent::op::Input;
use bowline::agent::orchestrator::{NextStep, Orchestrator, PlanExecute, React, Replan};
use bowline::agent::schemars;
use bowline::agent::tool::{ToolContext, ToolError, Toolbox, tool_fn};
use bowline::agent::transform::{filter, keep_first_and_recent};
use bowline::agent::{Agent, Outcome, ToolExecution};
use bowline::llm::scripted::{Gate, Reply, ScriptedModel};
use bowline::llm::{Message, RawJson, UserMessage, text_of};
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
    callbacks().await?;
    pipeline().await?;
    snapshot().await?;
    plan_and_execute().await?;
    println!("seed 004: all of it holds");
    Ok(())
}

/// `PendingToolCalls`, and what is said through the handle instead of the callbacks.
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

/// `GetSteeringMessages`, `GetFollowUpMessages`: asked after each tool, and at the end of a turn.
async fn callbacks() -> support::Result {
    let said = Arc::new(Mutex::new(Vec::new()));
    let tray = Arc::clone(&said);
    let work = tool_fn("work", "Works.", move |_: Nothing, _: ToolContext| {
        tray.lock().unwrap_or_else(PoisonError::into_inner).push("Once is enough.");
        async { Ok("done".into()) }
    });
    let steering = feed_fn(move || {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.drain(..).map(Input::from).collect()
    });
    let left = AtomicUsize::new(1);
    let follow_ups = feed_fn(move || {
        let is_first = left.swap(0, Ordering::Relaxed) == 1;
        is_first.then(|| "Anything else?".into()).into_iter().collect()
    });
    let model = ScriptedModel::new([
        Reply::call("work", "{}").and_call("work", "{}"),
        Reply::text("I stopped."),
        Reply::text("No."),
    ]);
    let agent = Agent {
        tools: Toolbox::default().with(work)?,
        tool_execution: ToolExecution::Sequential,
        steering: Some(Arc::new(steering)),
        follow_ups: Some(Arc::new(follow_ups)),
        ..Agent::new(Arc::new(model.clone()))
    };
    let handle = agent.start();
    assert_eq!(handle.prompt("Do it twice.").text().await?, "No.");
    assert_eq!(
        lines(handle.messages().iter()),
        [
            "Do it twice.",
            "(a reply)",
            "done, skipped: the user said something first",
            "Once is enough.",
            "(a reply)",
            "Anything else?",
            "(a reply)",
        ]
    );
    Ok(())
}

/// `Pipeline`, `TransformFunc`, `ConvertFunc`: from a snapshot to what the model gets.
async fn pipeline() -> support::Result {
    let model = ScriptedModel::answering(|_| Reply::text("Yes."));
    let is_no_secret = |message: &Message| *message != Message::user("My secret.");
    let converts = |entry: &Entry| match &entry.kind {
        EntryKind::Custom(custom) if custom.name == "note" => {
            Some(UserMessage::text(custom.data.as_str()))
        }
        _ => None,
    };
    let agent = Agent {
        transforms: vec![Arc::new(filter(is_no_secret)), Arc::new(keep_first_and_recent(2))],
        convert: Some(Arc::new(converts)),
        ..Agent::new(Arc::new(model.clone()))
    };
    let handle = agent.start();
    handle.prompt("Begin.").await?;
    handle.add_user_turn("My secret.").await?;
    // An app's own message: the model sees those for which there is a conversion.
    handle.record("note", RawJson::of(&"a note")?).await?;
    handle.record("metric", RawJson::of(&42)?).await?;
    handle.prompt("End.").await?;
    let request = model.requests().pop().ok_or("no request")?;
    assert_eq!(lines(&request.messages), ["Begin.", "\"a note\"", "End."]);
    // The state itself is untouched.
    assert_eq!(handle.messages().len(), 5);
    Ok(())
}

fn lines<'a>(messages: impl IntoIterator<Item = &'a bowline::llm::MessageRef>) -> Vec<String> {
    let line = |message: &bowline::llm::MessageRef| match &**message {
        Message::User(said) => text_of(&said.content),
        Message::Assistant(_) => "(a reply)".to_owned(),
        Message::Results(results) => {
            let texts = results.iter().map(|result| text_of(&result.content));
            texts.collect::<Vec<_>>().join(", ")
        }
    };
    messages.into_iter().map(line).collect()
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

/// `orchestrators/planexecute`: two model calls, and in between all steps, whatever becomes of them.
async fn plan_and_execute() -> support::Result {
    let look = tool_fn("look", "Looks.", async |_: Nothing, _| Ok("a knot".into()));
    let plan = r#"```json
        {"steps": [{"tool": "untie", "args": {}}, {"tool": "look", "args": {}}]}
    ```"#;
    let model = ScriptedModel::new([Reply::text(plan), Reply::text("It is tied.")]);
    let agent = Agent {
        tools: Toolbox::default().with(look)?,
        orchestrator: Arc::new(PlanExecute { replan: Replan::Off }),
        ..Agent::new(Arc::new(model.clone()))
    };
    let mut run = agent.prompt("Is it tied?");
    let mut steps = Vec::new();
    while let Some(event) = run.next().await {
        if let EventBody::PlanStepEnd { index, count, status, .. } = &event.body {
            let call = event.call_id.as_ref().map(ToString::to_string);
            steps.push((*index, *count, *status, call.unwrap_or_default()));
        }
    }
    let expected =
        [(0, 2, CallStatus::Error, "plan-step-0"), (1, 2, CallStatus::Ok, "plan-step-1")];
    assert_eq!(steps, expected.map(|(i, n, status, call)| (i, n, status, call.to_owned())));
    assert_eq!(run.await?.text(), "It is tied.");
    assert_eq!(model.requests().len(), 2);
    Ok(())
}
