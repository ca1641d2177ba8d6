//! Work that goes on behind a call, and calls that wait for the agent above.

use bowline_agent::Agent;
use bowline_agent::children::Child;
use bowline_agent::entry::{
    Behind, Completion, CompletionStatus, Conclusion, Ending, Handoff, Wake,
};
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::op::CancelReason;
use bowline_agent::tool::{ToolContext, ToolOutput, Waked};
use bowline_llm::Part;
use bowline_llm::scripted::{Gate, Reply};
use pretty_assertions::assert_eq;

use crate::support::{Stage, conversation, echo, hear, like, stage, tool, usage};

fn call(name: &str) -> Reply {
    Reply::call(name, "{}").with_usage(usage(1, 1))
}

/// Adds a tool that asks a sub-agent with a script, and does not wait for it.
fn starts(stage: Stage, behind: Behind, script: Vec<Reply>) -> Stage {
    let (_, agent) = like(&stage.agent, "child", script);
    stage.with(tool("start", move |_, cx: ToolContext| {
        let child = Child::new(agent.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            let mut run = child.prompt("say");
            run.id().await.unwrap();
            cx.leave_behind(behind, async move {
                Some(format!("It said: {}", run.await.ok()?.text()).into())
            });
            Ok("started".into())
        }
    }))
}

#[tokio::test]
async fn a_run_waits_for_work_behind_its_calls_and_hears_what_it_came_to() {
    let gate = Gate::default();
    let stage = stage([call("start"), Reply::text("meanwhile"), Reply::text("done")]);
    let held = Reply::text("late").with_usage(usage(5, 5)).held_by(&gate);
    let stage = starts(stage, Behind::Awaited, vec![held]);
    let handle = stage.start();
    let mut run = handle.prompt("go");
    run.id().await.unwrap();
    let said = |state: &bowline_agent::State| state.snapshot.messages.len() == 4;
    handle.wait_for(|state| said(state)).await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!((told.ending(), told.text().as_str()), (Ending::Done, "done"));
    assert_eq!(
        conversation(&handle)[3..],
        ["assistant \"meanwhile\"", "user \"It said: late\"", "assistant \"done\"",]
    );
    assert_eq!(told.usage(), usage(6, 6));
    // It is over before the run is, and its agent ends with it and not with the call.
    let lines = told.lines();
    let at = |what: &str| lines.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(at("tool_end(call_1, ok)") < at("child-1: run_end(done)"));
    assert!(at("child-1: run_end(done)") < at("child-1: agent_end(done)"));
    assert!(at("child-1: agent_end(done)") < at("run_end(done)"));
}

#[tokio::test]
async fn work_that_is_not_awaited_is_stopped_with_the_run() {
    let gate = Gate::default();
    let stage = stage([call("start"), Reply::text("done")]);
    let stage = starts(stage, Behind::Dismissed, vec![Reply::text("never").held_by(&gate)]);
    let told = stage.play().await;
    assert_eq!((told.ending(), told.text().as_str()), (Ending::Done, "done"));
    let lines = told.lines();
    assert!(lines.contains(&"child-1: run_end(canceled by parent)".to_owned()), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "run_end(done)");
}

#[tokio::test]
async fn a_cancel_stops_the_work_behind_calls() {
    let gate = Gate::default();
    let stage = stage([call("start"), Reply::text("meanwhile")]);
    let stage = starts(stage, Behind::Awaited, vec![Reply::text("never").held_by(&gate)]);
    let handle = stage.start();
    let mut run = handle.prompt("go");
    run.id().await.unwrap();
    handle.wait_for(|state| state.snapshot.messages.len() == 4).await.unwrap();
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::User));
    let lines = told.lines();
    assert!(lines.contains(&"child-1: run_end(canceled by parent)".to_owned()), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_run_ends_what_it_waits_for() {
    let gate = Gate::default();
    let stage = stage([call("start"), Reply::text("meanwhile")]);
    let stage = starts(stage, Behind::Awaited, vec![Reply::text("never").held_by(&gate)]);
    let limits = Limits { run_time_ms: 5_000, ..Limits::none() };
    let stage = stage.change(|agent| agent.limits = limits);
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::RunTime));
}

#[tokio::test]
async fn work_behind_a_call_that_panics_is_told() {
    let stage = stage([call("start"), Reply::text("meanwhile"), Reply::text("done")]);
    let stage = stage.with(tool("start", |_, cx: ToolContext| async move {
        cx.leave_behind(Behind::Awaited, async { panic!("oh") });
        Ok("started".into())
    }));
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.text(), "done");
    let talk = conversation(&handle);
    assert!(talk.iter().any(|line| line.contains("panicked: oh")), "{talk:?}");
}

/// A sub-agent asks, and the tool that made it answers.
#[tokio::test]
async fn a_sub_agent_waits_for_the_answer_of_the_agent_above() {
    let stage = stage([call("delegate"), Reply::text("done")]);
    // Nobody is there, but it is no person who is asked.
    let stage = stage.change(|agent| agent.attended = false);
    let (model, agent) = like(&stage.agent, "child", [call("ask"), Reply::text("so be it")]);
    let mut tools = bowline_agent::tool::Toolbox::default();
    let ask = tool("ask", |_, cx: ToolContext| async move {
        Ok(match cx.wake {
            Some(Waked::Answered(text)) => text.into(),
            _ => ToolOutput::Waiting(Wake::Parent { question: "which?".to_owned() }),
        })
    });
    tools.add(std::sync::Arc::new(ask)).unwrap();
    let agent = Agent { tools, ..agent };
    let stage = stage.with(tool("delegate", move |_, cx: ToolContext| {
        let child = Child::new(agent.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            let run = child.prompt("go");
            let state = child.wait_for(|state| !state.waiting_calls.is_empty()).await.unwrap();
            let (call, waiting) = state.waiting_calls[0].clone();
            assert_eq!(waiting.wake, Wake::Parent { question: "which?".to_owned() });
            child.answer(call, "the blue one".to_owned()).await.unwrap();
            Ok(run.await.unwrap().text().into())
        }
    }));
    let told = stage.play().await;
    assert_eq!((told.ending(), told.result("call_1")), (Ending::Done, "so be it".to_owned()));
    let asked = model.requests();
    assert!(format!("{:?}", asked[1].messages).contains("the blue one"));
}

fn concluding(conclusion: Conclusion, gate: Option<&Gate>) -> Stage {
    let calls = Reply::call("finish", "{}").and_call("echo", r#"{"text":"beside"}"#);
    let calls = calls.with_usage(usage(1, 1));
    let calls = match gate {
        Some(gate) => calls.held_by(gate),
        None => calls,
    };
    let stage = stage([calls, Reply::text("never")]);
    stage.with(echo()).with(tool("finish", move |_, _| {
        let content = vec![Part::Text("noted".to_owned())];
        let conclusion = conclusion.clone();
        async move { Ok(ToolOutput::Concluded { content, conclusion }) }
    }))
}

fn completion() -> Completion {
    Completion {
        status: CompletionStatus::Completed,
        summary: "all of it".to_owned(),
        files_modified: vec!["a.rs".to_owned()],
        tests_run: Vec::new(),
        caveats: None,
    }
}

// 75: the loop ends with the reply that calls it, and the other calls of that reply are run.
#[tokio::test]
async fn a_completion_ends_the_run_when_its_batch_is_in() {
    let stage = concluding(Conclusion::Completed(completion()), None);
    let told = stage.play().await;
    assert_eq!((told.ending(), told.text().as_str()), (Ending::Done, "all of it"));
    assert_eq!(told.outcome.as_ref().unwrap().completion.as_deref(), Some(&completion()));
    assert_eq!(told.result("call_2"), "beside");
    assert_eq!(stage.model.requests().len(), 1);
}

#[tokio::test]
async fn a_handoff_ends_the_run() {
    let handoff = Handoff { target: "b".into(), reason: "r".into(), context: "c".into() };
    let told = concluding(Conclusion::HandedOff(handoff.clone()), None).play().await;
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(told.outcome.unwrap().handoff.as_deref(), Some(&handoff));
}

// What a user says after a completion is answered.
#[tokio::test]
async fn what_is_said_behind_a_completion_is_answered() {
    let gate = Gate::default();
    let stage = concluding(Conclusion::Completed(completion()), Some(&gate));
    let handle = stage.start();
    let mut run = handle.prompt("go");
    run.id().await.unwrap();
    handle.queue("and then?").await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!((told.ending(), told.text().as_str()), (Ending::Done, "never"));
    assert_eq!(told.outcome.unwrap().completion, None);
}

// A budget is shared with all agents below, as they come.
#[tokio::test]
async fn the_turns_of_a_run_are_shared_with_the_agents_below() {
    let replies = [call("start"), call("start"), Reply::text("never")];
    let stage = stage(replies).change(|agent| {
        agent.limits = Limits { model_turns: 4, ..Limits::none() };
    });
    let agent = Agent { limits: Limits::none(), ..stage.agent.clone() };
    let stage = stage.with(tool("start", move |_, cx: ToolContext| {
        let script = [call("echo"), Reply::text("said").with_usage(usage(1, 1))];
        let (_, agent) = like(&agent, "child", script);
        let mut tools = bowline_agent::tool::Toolbox::default();
        tools.add(std::sync::Arc::new(echo())).unwrap();
        let child = Child::new(Agent { tools, ..agent });
        async move {
            let child = cx.children.create(child).await.unwrap();
            Ok(child.prompt("say").await.unwrap().ending.as_str().into())
        }
    }));
    let told = stage.play().await;
    // One turn of its own, two of the first child, one more of its own: nothing is left for the second.
    assert_eq!((told.result("call_1"), told.result("call_2")), ("done".into(), "limit".into()));
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    assert_eq!(stage.model.requests().len(), 2);
}
