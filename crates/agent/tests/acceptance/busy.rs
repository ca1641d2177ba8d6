//! A prompt while a run is open: what an agent does with it.

use bowline_agent::entry::Ending;
use bowline_agent::event::EventBody;
use bowline_agent::op::CancelReason;
use bowline_agent::{AgentError, Busy, SessionHandle, ToolExecution};
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use crate::support::{Latch, Stage, Told, at_gate, conversation, echo, hear, held, stage};

// F018
#[tokio::test]
async fn a_second_prompt_is_refused_and_the_first_run_untouched() {
    let (stage, gate) = at_gate(Reply::text("first"), []);
    let handle = stage.start();
    let first = handle.prompt("go");
    gate.reached().await;
    assert!(matches!(handle.add_user_turn("psst").await, Err(AgentError::AlreadyRunning)));
    let second = hear(handle.prompt("again")).await;
    assert_eq!(second.lines(), ["rejected(the agent is already running)"]);
    assert!(matches!(second.outcome, Err(AgentError::AlreadyRunning)));
    // Dropping what was refused cancels nothing.
    drop(handle.prompt("again").cancel_on_drop());
    let mut third = handle.prompt("again").cancel_on_drop();
    assert!(matches!(third.id().await, Err(AgentError::AlreadyRunning)));
    drop(third);
    gate.open();
    assert_eq!(hear(first).await.text(), "first");
    assert_eq!(conversation(&handle), ["user \"go\"", "assistant \"first\""]);
}

async fn busy(busy: Busy) -> (Stage, SessionHandle, [Told; 2]) {
    let latch = Latch::default();
    let reply = Reply::call("held", r#"{"text":"r"}"#).and_call("echo", "{}");
    let stage = stage([reply, Reply::text("a"), Reply::text("b")])
        .with(held("held", &latch))
        .with(echo())
        .change(|agent| {
            agent.tool_execution = ToolExecution::Sequential;
            agent.busy = busy;
        });
    let handle = stage.start();
    let first = handle.prompt("go");
    latch.reached().await;
    let mut second = handle.prompt("more");
    let asked = async {
        // For a policy that joins the run: the second is seated before the tool goes on.
        if busy != Busy::CancelPrevious {
            second.id().await.unwrap();
        }
        latch.open();
        hear(second).await
    };
    let (first, second) = tokio::join!(hear(first), asked);
    (stage, handle, [first, second])
}

#[tokio::test]
async fn a_busy_agent_may_queue_prompts() {
    let (_stage, handle, [first, second]) = busy(Busy::Queue).await;
    assert_eq!(
        conversation(&handle)[2..],
        ["results call_1=\"r\" call_2=\"\"", "user \"more\"", "assistant \"a\""]
    );
    let (first, second) = (first.outcome.unwrap(), second.outcome.unwrap());
    assert_eq!(first, second);
    assert_eq!(first.text(), "a");
}

#[tokio::test]
async fn a_busy_agent_may_be_steered_by_prompts() {
    let (_stage, handle, [first, second]) = busy(Busy::Steer).await;
    assert_eq!(first.ends(), ["tool_end(call_2, skipped)", "tool_end(call_1, ok)"]);
    assert_eq!(conversation(&handle)[3..], ["user \"more\"", "assistant \"a\""]);
    assert_eq!(first.outcome.unwrap(), second.outcome.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_busy_agent_may_give_up_for_a_new_prompt() {
    let latch = Latch::default();
    let stage = stage([Reply::call("held", "{}"), Reply::text("a")]).with(held("held", &latch));
    let handle = stage.start();
    let first = handle.prompt("go");
    latch.reached().await;
    let second = handle.prompt_with("more", Busy::CancelPrevious);
    let (first, second) = tokio::join!(hear(first), hear(second));
    assert_eq!(first.ending(), Ending::Canceled(CancelReason::User));
    assert_eq!(second.ending(), Ending::Done);
    assert_eq!(second.text(), "a");
    assert_ne!(first.outcome.unwrap().run, second.outcome.unwrap().run);
    assert_eq!(conversation(&handle)[3..], ["user \"more\"", "assistant \"a\""]);
}

// A prompt that waits for the run before it is not lost with its handle.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_cancels_the_run_before_it_outlives_its_handle() {
    let latch = Latch::default();
    let script = [Reply::call("held", "{}"), Reply::text("fine")];
    let stage = stage(script).with(held("held", &latch));
    let handle = stage.start();
    let mut events = handle.subscribe(100);
    drop(handle.prompt("go"));
    latch.reached().await;
    drop(handle.prompt_with("more", Busy::CancelPrevious));
    drop(handle);
    let mut ends = Vec::new();
    while let Some(event) = events.recv().await {
        if let EventBody::RunEnd(end) = &event.body {
            ends.push(end.outcome.clone());
        }
    }
    assert_eq!(ends, [Ending::Canceled(CancelReason::User), Ending::Done]);
}
