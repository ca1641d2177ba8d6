//! Permission: what a gate lets pass, rewrites, denies, or asks a person about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bowline_agent::children::Child;
use bowline_agent::entry::{Ending, Wake};
use bowline_agent::event::EventBody;
use bowline_agent::gate::{Gate, Review, Verdict};
use bowline_agent::id::EntryId;
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::op::{CancelReason, Decision, OpKind};
use bowline_agent::tool::{ToolContext, ToolError, ToolOutput};
use bowline_agent::{AgentError, State};
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use crate::support::{
    Latch, Stage, conversation, echo, hear, held, like, op, stage, tool, until_waiting, waiting,
    waits,
};

/// A gate made of a function of the call's arguments and what was decided.
struct Judge<F>(F);

#[async_trait]
impl<F: Fn(&str, Option<&Decision>) -> Verdict + Send + Sync> Gate for Judge<F> {
    async fn review(&self, call: &Review<'_>) -> Verdict {
        (self.0)(&call.call.arguments, call.decision)
    }
}

fn guarded(
    replies: impl IntoIterator<Item = Reply>,
    judge: impl Fn(&str, Option<&Decision>) -> Verdict + Send + Sync + 'static,
) -> Stage {
    let gate = Arc::new(Judge(judge));
    stage(replies).with(echo()).change(|agent| agent.gate = gate)
}

fn allow() -> Verdict {
    Verdict::Allow { rule: None }
}

/// Asks a person, and does what they say.
fn asks(_: &str, decision: Option<&Decision>) -> Verdict {
    match decision {
        None => Verdict::Wait { question: "may I?".to_owned(), rule: None },
        Some(Decision::Allow { .. }) => allow(),
        Some(Decision::Deny { reason }) => Verdict::Deny { reason: reason.clone() },
    }
}

fn call() -> Reply {
    Reply::call("echo", r#"{"text":"r"}"#)
}

fn decide(decision: Decision, waiting: Option<EntryId>) -> OpKind {
    OpKind::Decide { call: "call_1".into(), decision, waiting }
}

#[tokio::test]
async fn a_denied_call_does_not_start_and_the_model_is_told() {
    let denies = |arguments: &str, _: Option<&Decision>| match arguments.contains("bad") {
        true => Verdict::Deny { reason: "not that".to_owned() },
        false => Verdict::Allow { rule: Some("rest".to_owned()) },
    };
    let reply = Reply::call("echo", r#"{"text":"bad"}"#).and_call("echo", r#"{"text":"good"}"#);
    let stage = guarded([reply, Reply::text("done")], denies);
    let told = stage.play().await;
    assert_eq!(
        told.call_lines(),
        [
            "tool_call(call_1, echo)",
            "tool_call(call_2, echo)",
            "tool_end(call_1, denied)",
            "tool_start(call_2)",
            "tool_end(call_2, ok)",
        ]
    );
    assert_eq!(stage.asked()[1][2], "results call_1!=\"denied: not that\" call_2=\"good\"");
    assert_eq!(told.outcome.unwrap().denials, ["call_1".into()]);
}

#[tokio::test]
async fn rewritten_arguments_are_read_reviewed_and_recorded() {
    let rewrites = |arguments: &str, _: Option<&Decision>| match arguments {
        r#"{"text":"1"}"# => Verdict::Rewrite { arguments: r#"{"text":"2"}"#.to_owned() },
        r#"{"text":"bad"}"# => Verdict::Rewrite { arguments: "nonsense".to_owned() },
        _ => allow(),
    };
    let reply = Reply::call("echo", r#"{"text":"1"}"#).and_call("echo", r#"{"text":"bad"}"#);
    let stage = guarded([reply, Reply::text("done")], rewrites);
    let told = stage.play().await;
    assert_eq!(
        told.call_lines()[2..],
        ["tool_end(call_2, error)", "tool_start(call_1, {\"text\":\"2\"})", "tool_end(call_1, ok)",]
    );
    assert_eq!(told.result("call_1"), "2");
}

#[tokio::test]
async fn a_gate_that_rewrites_without_end_denies() {
    let told = guarded([call(), Reply::text("done")], |arguments, _| Verdict::Rewrite {
        arguments: arguments.to_owned(),
    });
    assert_eq!(told.play().await.ends(), ["tool_end(call_1, denied)"]);
}

#[tokio::test]
async fn what_was_allowed_runs_and_the_first_decision_counts() {
    let stage = guarded([call(), Reply::text("done")], asks);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let wake = Wake::Decision { question: "may I?".to_owned(), rule: None, twin: None };
    let state = handle.state();
    let waiting: Vec<_> =
        state.waiting_calls.iter().map(|(call, waiting)| (call.as_str(), &waiting.wake)).collect();
    assert_eq!(waiting, [("call_1", &wake)]);
    let denies = Decision::Deny { reason: "no".to_owned() };
    let nobody = handle.decide("call_9".into(), Decision::ONCE).await;
    assert!(matches!(nobody, Err(AgentError::NotWaiting(_))), "{nobody:?}");
    let wrong = handle.answer("call_1".into(), "yes".to_owned()).await;
    assert!(matches!(wrong, Err(AgentError::NotWaiting(_))), "{wrong:?}");
    let first = handle.decide("call_1".into(), Decision::ONCE).await;
    let second = handle.decide("call_1".into(), denies).await;
    assert!(first.is_ok());
    assert!(second.is_err(), "{second:?}");
    let told = hear(run).await;
    assert_eq!(
        waits(&told),
        [
            "permission_request(call_1, \"may I?\")",
            "permission_decision(call_1, allow)",
            "tool_start(call_1)",
            "tool_end(call_1, ok)",
        ]
    );
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn what_was_refused_does_not_run() {
    let stage = guarded([call(), Reply::text("done")], asks);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let denies = Decision::Deny { reason: "not today".to_owned() };
    handle.decide("call_1".into(), denies).await.unwrap();
    let told = hear(run).await;
    assert_eq!(
        waits(&told),
        [
            "permission_request(call_1, \"may I?\")",
            "permission_decision(call_1, deny \"not today\")",
            "tool_end(call_1, denied)",
        ]
    );
    assert_eq!(conversation(&handle)[2], "results call_1!=\"denied: not today\"");
}

// Others go on while one waits, and each waits for its own decision.
#[tokio::test]
async fn a_call_that_waits_does_not_hold_up_others() {
    let judge = |arguments: &str, decision: Option<&Decision>| match arguments.contains("ask") {
        true => asks(arguments, decision),
        false => allow(),
    };
    let asks = |n: u32| format!(r#"{{"text":"ask {n}"}}"#);
    let reply = Reply::call("echo", asks(1)).and_call("echo", "{}").and_call("echo", asks(2));
    let stage = guarded([reply, Reply::text("done")], judge);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    assert_eq!(handle.state().pending_calls, ["call_1".into(), "call_3".into()]);
    handle.decide("call_3".into(), Decision::ONCE).await.unwrap();
    handle.decide("call_1".into(), Decision::ONCE).await.unwrap();
    let told = hear(run).await;
    assert_eq!(
        told.ends(),
        ["tool_end(call_2, ok)", "tool_end(call_3, ok)", "tool_end(call_1, ok)"]
    );
}

#[tokio::test]
async fn a_decision_from_elsewhere_counts() {
    let stage = guarded([call(), Reply::text("done")], asks);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let kind = decide(Decision::ONCE, None);
    stage.agent.store.inbox(handle.session_id()).post(op(kind)).await.unwrap();
    assert_eq!(hear(run).await.ends(), ["tool_end(call_1, ok)"]);
}

/// A gate that asks so many times about the one call of a run.
fn asks_times(times: usize) -> impl Fn(&str, Option<&Decision>) -> Verdict + Send + Sync {
    let asked = AtomicUsize::new(0);
    move |arguments, decision| {
        if let Some(Decision::Deny { .. }) = decision {
            return asks(arguments, decision);
        }
        match asked.fetch_add(1, Ordering::Relaxed) {
            n if n < times => Verdict::Wait { question: format!("question {n}"), rule: None },
            _ => allow(),
        }
    }
}

// One call may be asked about twice. What was decided the first time, and comes again or late, is
// no decision about the second question.
#[tokio::test]
async fn a_late_decision_for_an_earlier_wait_does_not_decide_the_later_one() {
    let stage = guarded([call(), Reply::text("done")], asks_times(2));
    let handle = stage.start();
    let run = handle.prompt("go");
    let inbox = stage.agent.store.inbox(handle.session_id());
    until_waiting(&handle).await;
    let first = waiting(&handle);
    inbox.post(op(decide(Decision::ONCE, Some(first)))).await.unwrap();
    let is_later = |state: &State| {
        state.waiting_calls.first().is_some_and(|(_, waiting)| waiting.entry != first)
    };
    handle.wait_for(is_later).await.unwrap();
    let second = waiting(&handle);

    // From elsewhere it is recorded, as any answer that nobody waits for, and has no effect.
    let late = decide(Decision::Deny { reason: "late".to_owned() }, Some(first));
    inbox.post(op(late.clone())).await.unwrap();
    handle.wait_for(|state| state.head.is_some_and(|head| head != second)).await.unwrap();
    assert_eq!(waiting(&handle), second);
    // Who asks at the handle is told.
    let refused = handle.submit(late).await;
    assert!(matches!(refused, Err(AgentError::NotWaiting(_))), "{refused:?}");

    handle.submit(decide(Decision::ONCE, Some(second))).await.unwrap();
    let told = hear(run).await;
    assert_eq!(
        waits(&told),
        [
            "permission_request(call_1, \"question 0\")",
            "permission_decision(call_1, allow)",
            "permission_request(call_1, \"question 1\")",
            "permission_decision(call_1, deny \"late\")",
            "permission_decision(call_1, allow)",
            "tool_start(call_1)",
            "tool_end(call_1, ok)",
        ]
    );
    let named = told.events.iter().filter_map(|event| match &event.body {
        EventBody::PermissionRequest { waiting, .. } => Some((Some(*waiting), "asked")),
        EventBody::PermissionDecision { waiting, .. } => Some((*waiting, "decided")),
        _ => None,
    });
    let (first, second) = (Some(first), Some(second));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            (first, "asked"),
            (first, "decided"),
            (second, "asked"),
            (first, "decided"),
            (second, "decided"),
        ]
    );
}

// A client that names no wait means whatever the call waits for now.
#[tokio::test]
async fn a_decision_that_names_no_wait_is_for_the_one_that_is_open() {
    let stage = guarded([call(), Reply::text("done")], asks_times(2));
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    let first = waiting(&handle);
    handle.decide("call_1".into(), Decision::ONCE).await.unwrap();
    let is_later = |state: &State| {
        state.waiting_calls.first().is_some_and(|(_, waiting)| waiting.entry != first)
    };
    handle.wait_for(is_later).await.unwrap();
    handle.decide("call_1".into(), Decision::ONCE).await.unwrap();
    assert_eq!(hear(run).await.ends(), ["tool_end(call_1, ok)"]);
}

#[tokio::test]
async fn a_call_that_nobody_can_decide_about_ends_the_run() {
    let reply = Reply::call("echo", "{}").and_call("echo", "{}");
    let stage = guarded([reply, Reply::text("fine")], asks).change(|agent| agent.attended = false);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.ending(), Ending::NeedsApproval);
    assert_eq!(told.ends(), ["tool_end(call_1, denied)", "tool_end(call_2, denied)"]);
    assert_eq!(told.outcome.as_ref().unwrap().denials, ["call_1".into(), "call_2".into()]);
    assert_eq!(told.lines().last().unwrap(), "run_end(needs approval)");
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
    let told = "denied: this needs a person's decision or answer, and";
    assert!(conversation(&handle)[2].starts_with(&format!("results call_1!=\"{told}")));
}

#[tokio::test]
async fn a_waiting_call_can_be_canceled() {
    let stage = guarded([call(), Reply::text("fine")], asks);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)"]);
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::User));
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
}

// A call that waits for permission has not started: a steer skips it.
#[tokio::test]
async fn a_steer_skips_a_call_that_waits_for_permission() {
    let stage = guarded([call(), Reply::text("fine")], asks);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    handle.steer("never mind").await.unwrap();
    let told = hear(run).await;
    assert_eq!(told.ends(), ["tool_end(call_1, skipped)"]);
    assert_eq!(conversation(&handle)[3..], ["user \"never mind\"", "assistant \"fine\""]);
}

#[tokio::test]
async fn what_is_queued_while_a_call_waits_comes_after_its_result() {
    let stage = guarded([call(), Reply::text("fine")], asks);
    let handle = stage.start();
    let run = handle.prompt("go");
    until_waiting(&handle).await;
    handle.queue("also").await.unwrap();
    handle.decide("call_1".into(), Decision::ONCE).await.unwrap();
    hear(run).await;
    assert_eq!(
        conversation(&handle)[2..],
        ["results call_1=\"r\"", "user \"also\"", "assistant \"fine\""]
    );
}

#[tokio::test]
async fn a_gate_that_panics_denies() {
    let reply = Reply::call("echo", r#"{"text":"bad"}"#).and_call("echo", r#"{"text":"good"}"#);
    let stage = guarded([reply, Reply::text("done")], |arguments, _| match arguments {
        r#"{"text":"bad"}"# => panic!("no idea"),
        _ => allow(),
    });
    let told = stage.play().await;
    assert_eq!(told.ends(), ["tool_end(call_1, denied)", "tool_end(call_2, ok)"]);
    assert_eq!(told.result("call_1"), "denied: the gate panicked: no idea");
    assert_eq!(told.text(), "done");
}

/// A gate that thinks until a latch is opened.
struct Thinking(Latch);

#[async_trait]
impl Gate for Thinking {
    async fn review(&self, call: &Review<'_>) -> Verdict {
        if call.call.name == "echo" {
            self.0.pass().await;
        }
        allow()
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_thinks_does_not_keep_the_loop_from_hearing() {
    let (latch, other) = (Latch::default(), Latch::default());
    let reply = Reply::call("held", r#"{"text":"h"}"#).and_call("echo", r#"{"text":"e"}"#);
    let stage = stage([reply, Reply::text("done")]).with(echo()).with(held("held", &other));
    let gate = Arc::new(Thinking(latch.clone()));
    let stage = stage.change(|agent| agent.gate = gate);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    let queued = handle.queue("more");
    tokio::time::timeout(Duration::from_secs(60), queued).await.expect("it is deaf").unwrap();
    latch.open();
    other.open();
    let told = hear(run).await;
    assert_eq!(told.result("call_2"), "e");
    assert_eq!(conversation(&handle).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_does_not_wait_for_a_gate() {
    let latch = Latch::default();
    let stage = stage([call()]).with(echo());
    let gate = Arc::new(Thinking(latch.clone()));
    let stage = stage.change(|agent| agent.gate = gate);
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    handle.cancel();
    let told = tokio::time::timeout(Duration::from_secs(60), hear(run)).await.expect("it is deaf");
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::User));
    assert_eq!(told.ends(), ["tool_end(call_1, canceled)"]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_thinks_does_not_stop_the_clock() {
    let limits = Limits { run_time_ms: 5_000, ..Limits::none() };
    let latch = Latch::default();
    let stage = stage([call()]).with(echo());
    let gate = Arc::new(Thinking(latch.clone()));
    let stage = stage.change(|agent| (agent.gate, agent.limits) = (gate, limits));
    let told = tokio::time::timeout(Duration::from_secs(60), stage.play()).await;
    assert_eq!(told.expect("it is deaf").ending(), Ending::Limit(LimitKind::RunTime));
}

// A call that the gate rewrote waits for its turn with its new arguments, and is not asked about
// again.
#[tokio::test(start_paused = true)]
async fn a_rewritten_call_does_not_overlap_with_what_it_conflicts_with() {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let judge = {
        let asked = Arc::clone(&asked);
        move |arguments: &str, _: Option<&Decision>| {
            asked.lock().unwrap().push(arguments.to_owned());
            match arguments {
                r#"{"text":"b"}"# => Verdict::Rewrite { arguments: r#"{"text":"a"}"#.to_owned() },
                _ => allow(),
            }
        }
    };
    let latch = Latch::default();
    let reply = Reply::call("writes", r#"{"text":"a"}"#).and_call("writes", r#"{"text":"b"}"#);
    let stage = stage([reply, Reply::text("done")]).with(Writes(latch.clone()));
    let stage = stage.change(|agent| agent.gate = Arc::new(Judge(judge)));
    let handle = stage.start();
    let run = handle.prompt("go");
    latch.reached().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    latch.open();
    let told = hear(run).await;
    assert_eq!(
        told.call_lines()[2..],
        [
            "tool_start(call_1)",
            "tool_end(call_1, ok)",
            "tool_start(call_2, {\"text\":\"a\"})",
            "tool_end(call_2, ok)",
        ]
    );
    assert_eq!(asked.lock().unwrap().len(), 3);
}

/// Writes the file that it is told.
struct Writes(Latch);

impl bowline_agent::tool::Tool for Writes {
    const NAME: &'static str = "writes";
    type Input = crate::support::Text;

    fn access(&self, input: &Self::Input) -> bowline_agent::tool::Access {
        bowline_agent::tool::Access::write(&input.text)
    }

    async fn run(&self, _: Self::Input, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.pass().await;
        Ok("written".into())
    }
}

#[tokio::test]
async fn a_sub_agent_may_not_do_what_its_parent_may_not() {
    let stage = stage([Reply::call("ask", "{}"), Reply::text("done")]);
    let gate =
        Arc::new(Judge(|arguments: &str, _: Option<&Decision>| match arguments.contains("bad") {
            true => Verdict::Deny { reason: "never".to_owned() },
            false => allow(),
        }));
    let stage = stage.change(|agent| agent.gate = gate);
    let script = [Reply::call("echo", r#"{"text":"bad"}"#), Reply::text("child's")];
    let (model, mut child) = like(&stage.agent, "child", script);
    child.gate = Arc::new(bowline_agent::gate::Open);
    child.tools.add(Arc::new(echo())).unwrap();
    let stage = stage.with(tool("ask", move |_, cx: ToolContext| {
        let child = Child::new(child.clone());
        async move {
            let child = cx.children.create(child).await.unwrap();
            Ok(child.prompt("do it").await.unwrap().text().into())
        }
    }));
    assert_eq!(stage.play().await.text(), "done");
    let last = crate::support::lines_of(model.requests()[1].messages.iter());
    assert_eq!(last[2], "results call_1!=\"denied: never\"");
}
