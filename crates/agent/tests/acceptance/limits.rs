//! Limits: each kind, with and without a word to sum up.

use std::time::Duration;

use bowline_agent::Agent;
use bowline_agent::children::Child;
use bowline_agent::entry::Ending;
use bowline_agent::event::EventBody;
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::tool::ToolContext;
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ModelInfo, Price, ScriptedModel};
use pretty_assertions::assert_eq;

use crate::support::{
    Latch, Stage, conversation, echo, hear, held, like, lines, stage, stage_for, tool, usage,
};

fn call() -> Reply {
    Reply::call("echo", "{}").with_usage(usage(100, 10))
}

fn limited(replies: impl IntoIterator<Item = Reply>, limits: Limits) -> Stage {
    stage(replies).with(echo()).change(|agent| agent.limits = limits)
}

// F102
#[tokio::test]
async fn model_turns_without_wrap_up_end_the_run_after_so_many_calls() {
    let limits = Limits { model_turns: 2, ..Limits::none() };
    let stage = limited([call(), call(), Reply::text("never")], limits);
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    assert_eq!(stage.model.requests().len(), 2);
    assert_eq!(told.outcome.as_ref().unwrap().model_turns, 2);
    let last = told.lines();
    assert_eq!(
        last[last.len() - 3..],
        ["added(results call_2=\"\")", "limit_hit(model_turns)", "run_end(limit model_turns)",]
    );
}

#[tokio::test]
async fn model_turns_with_wrap_up_ask_once_more_to_sum_up() {
    let limits = Limits { model_turns: 2, wrap_up: true, ..Limits::none() };
    let stage = limited([call(), call(), Reply::text("So far: nothing.")], limits);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    assert_eq!(told.text(), "So far: nothing.");
    assert_eq!(told.outcome.as_ref().unwrap().model_turns, 2);
    assert_eq!(
        conversation(&handle)[5..],
        [
            "user \"The limit model_turns of this run is reached. Do not call an…\"",
            "assistant \"So far: nothing.\"",
        ]
    );
    // The tools stay in the request, so that the prefix stays the same.
    let requests = stage.model.requests();
    assert_eq!(requests[2].tools, requests[0].tools);
}

// A run that is done within its limit is done.
#[tokio::test]
async fn a_final_answer_is_returned_whatever_the_limits_say() {
    let limits =
        Limits { model_turns: 1, total_tokens: 1, tool_calls: 1, wrap_up: true, ..Limits::none() };
    let told = limited([Reply::text("x").with_usage(usage(100, 1))], limits).play().await;
    assert_eq!((told.ending(), told.text().as_str()), (Ending::Done, "x"));
}

#[tokio::test]
async fn calls_made_in_the_wrap_up_are_skipped() {
    let limits = Limits { model_turns: 1, wrap_up: true, ..Limits::none() };
    let stage = limited([call(), Reply::text("Wait").and_call("echo", "{}")], limits);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.ends(), ["tool_end(call_1, ok)", "tool_end(call_2, skipped)"]);
    assert_eq!(told.result("call_2"), "skipped: the limit model_turns is reached");
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    stage.model.push(Reply::text("fine"));
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
}

// F103
#[tokio::test]
async fn tool_calls_over_the_limit_are_skipped() {
    let three = || call().and_call("echo", "{}").and_call("echo", "{}");
    let limits = Limits { tool_calls: 2, ..Limits::none() };
    let stage = limited([three(), Reply::text("never")], limits);
    let told = stage.play().await;
    let mut ends = told.ends();
    ends.sort();
    assert_eq!(ends, ["tool_end(call_1, ok)", "tool_end(call_2, ok)", "tool_end(call_3, skipped)"]);
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ToolCalls));
    assert_eq!(stage.model.requests().len(), 1);

    let limits = Limits { tool_calls: 2, wrap_up: true, ..Limits::none() };
    let told = limited([three(), Reply::text("sum")], limits).play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ToolCalls));
    assert_eq!(told.text(), "sum");
}

// F103: as many calls as allowed are no harm; one more is.
#[tokio::test]
async fn the_tool_calls_allowed_may_be_used_up() {
    let limits = Limits { tool_calls: 1, ..Limits::none() };
    let told = limited([call(), Reply::text("done")], limits.clone()).play().await;
    assert_eq!(told.ending(), Ending::Done);
    let told = limited([call(), call(), Reply::text("never")], limits).play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ToolCalls));
    assert_eq!(told.ends(), ["tool_end(call_1, ok)", "tool_end(call_2, skipped)"]);
}

// Calls that cannot start do not count.
#[tokio::test]
async fn only_calls_that_start_count() {
    let limits = Limits { tool_calls: 1, ..Limits::none() };
    let reply = Reply::call("nope", "{}").and_call("echo", "oops").and_call("echo", "{}");
    let told = limited([reply, Reply::text("done")], limits).play().await;
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(
        told.ends(),
        ["tool_end(call_1, error)", "tool_end(call_2, error)", "tool_end(call_3, ok)"]
    );
}

#[tokio::test]
async fn tokens_are_limited_with_and_without_wrap_up() {
    let limits = Limits { total_tokens: 200, ..Limits::none() };
    let stage = limited([call(), call(), call(), Reply::text("never")], limits.clone());
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TotalTokens));
    // The limit is found before the calls of the second reply start.
    assert_eq!(told.ends(), ["tool_end(call_1, ok)", "tool_end(call_2, skipped)"]);
    assert_eq!(told.usage(), usage(200, 20));
    assert_eq!(stage.model.requests().len(), 2);

    let limits = Limits { wrap_up: true, ..limits };
    let told = limited([call(), call(), Reply::text("sum")], limits).play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TotalTokens));
    assert_eq!(told.text(), "sum");
}

#[tokio::test]
async fn money_is_limited_with_and_without_wrap_up() {
    let price =
        Price { input: 1000.0, output: 0.0, cache_read: None, cache_write: None, long: None };
    let info = ModelInfo { price: Some(price), ..ModelInfo::default() };
    for wrap_up in [false, true] {
        let model = ScriptedModel::new([call(), call(), Reply::text("sum")]);
        let stage = stage_for(model.with_info(info.clone())).with(echo());
        let limits = Limits { cost_usd: 0.15, wrap_up, ..Limits::none() };
        let stage = stage.change(|agent| agent.limits = limits);
        let told = stage.play().await;
        assert_eq!(told.ending(), Ending::Limit(LimitKind::CostUsd));
        let spent = told.outcome.as_ref().unwrap().spent;
        assert_eq!(spent.cost().map(|cost| (cost * 1000.0).round()), Some(200.0));
        assert_eq!(stage.model.requests().len(), if wrap_up { 3 } else { 2 });
    }
}

// What sub-agents spend counts against the limit of the one that made them.
#[tokio::test]
async fn tokens_of_sub_agents_count() {
    let limits = Limits { total_tokens: 200, ..Limits::none() };
    let stage = limited([Reply::call("ask", "{}"), Reply::text("never")], limits);
    let agent = Agent { limits: Limits::none(), ..stage.agent.clone() };
    let stage = stage.with(tool("ask", move |_, cx| {
        let (_, agent) = like(&agent, "child", [Reply::text("x").with_usage(usage(200, 1))]);
        async move {
            let child = Child::new(agent);
            let child = cx.children.create(child).await.unwrap();
            Ok(child.prompt("say").await.unwrap().text().into())
        }
    }));
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TotalTokens));
    assert_eq!(told.ends(), ["tool_end(call_1, ok)"]);
}

// A sub-agent has limits of its own, and its parent goes on.
#[tokio::test]
async fn a_sub_agent_that_reaches_its_limit_ends_alone() {
    let stage = limited([Reply::call("ask", "{}"), Reply::text("done")], Limits::none());
    let agent = stage.agent.clone();
    let stage = stage.with(tool("ask", move |_, cx| {
        let (_, mut agent) = like(&agent, "child", [call(), call()]);
        agent.limits = Limits { model_turns: 1, ..Limits::none() };
        async move {
            let child = Child::new(agent);
            let child = cx.children.create(child).await.unwrap();
            Ok(child.prompt("say").await.unwrap().ending.as_str().into())
        }
    }));
    let told = stage.play().await;
    assert_eq!((told.result("call_1").as_str(), told.text().as_str()), ("limit", "done"));
}

#[tokio::test(start_paused = true)]
async fn run_time_ends_a_model_call() {
    for wrap_up in [false, true] {
        let gate = Gate::default();
        let limits = Limits { run_time_ms: 5_000, wrap_up, ..Limits::none() };
        let reply = Reply::text("Half").held_at_the_end_by(&gate);
        let stage = limited([reply, Reply::text("sum")], limits);
        let began = tokio::time::Instant::now();
        let told = stage.play().await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        assert_eq!(told.ending(), Ending::Limit(LimitKind::RunTime));
        assert_eq!(
            told.lines()[3..6],
            ["text(\"Half\")", "turn_end(canceled)", "limit_hit(run_time)"]
        );
        assert_eq!(told.text(), if wrap_up { "sum" } else { "Half" });
    }
}

#[tokio::test(start_paused = true)]
async fn run_time_ends_tools() {
    for wrap_up in [false, true] {
        let latch = Latch::default();
        let limits = Limits { run_time_ms: 5_000, wrap_up, ..Limits::none() };
        let reply = Reply::call("echo", "{}").and_call("held", "{}");
        let stage = limited([reply, Reply::text("sum")], limits).with(held("held", &latch));
        let began = tokio::time::Instant::now();
        let told = stage.play().await;
        assert!(began.elapsed() < Duration::from_millis(7_100), "{:?}", began.elapsed());
        assert_eq!(told.ending(), Ending::Limit(LimitKind::RunTime));
        assert_eq!(told.ends(), ["tool_end(call_1, ok)", "tool_end(call_2, canceled)"]);
        assert_eq!(stage.model.requests().len(), if wrap_up { 2 } else { 1 });
    }
}

// The time of a run is the sum of its steps.
#[tokio::test(start_paused = true)]
async fn run_time_adds_up_over_steps() {
    let naps = || {
        tool("naps", |_, _| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok("".into())
        })
    };
    let call = || Reply::call("naps", "{}");
    let limits = Limits { run_time_ms: 5_000, ..Limits::none() };
    let stage = limited([call(), call(), call(), Reply::text("never")], limits).with(naps());
    let began = tokio::time::Instant::now();
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::RunTime));
    assert!(began.elapsed() <= Duration::from_millis(7_100), "{:?}", began.elapsed());
    assert_eq!(told.ends().len(), 3);
}

// The clock of a call stands still while a sub-agent is at work.
#[tokio::test(start_paused = true)]
async fn tool_time_does_not_run_while_a_sub_agent_works() {
    let sleepy = |seconds: u64| {
        tool("nap", move |_, _| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok("".into())
        })
    };
    let limits = Limits { tool_time_ms: 10_000, ..Limits::none() };
    for (before, after, end) in [(6, 3, "ok"), (6, 9, "timeout"), (11, 0, "timeout")] {
        let script = [Reply::call("ask", "{}"), Reply::text("done")];
        let stage = limited(script, limits.clone());
        let agent = Agent { limits: Limits::none(), ..stage.agent.clone() };
        let stage = stage.with(tool("ask", move |_, cx: ToolContext| {
            let (_, mut agent) =
                like(&agent, "child", [Reply::call("nap", "{}"), Reply::text("x")]);
            agent.tools.add(std::sync::Arc::new(sleepy(60))).unwrap();
            async move {
                tokio::time::sleep(Duration::from_secs(before)).await;
                let child = Child::new(agent);
                let child = cx.children.create(child).await.unwrap();
                child.prompt("say").await.unwrap();
                tokio::time::sleep(Duration::from_secs(after)).await;
                Ok("fine".into())
            }
        }));
        let told = stage.play().await;
        let ends = lines(
            &told.events,
            |body| matches!(body, EventBody::ToolEnd { name, .. } if name == "ask"),
        );
        assert_eq!(ends, [format!("tool_end(call_1, {end})")], "{before} {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_word_that_never_comes_does_not_keep_the_run_open() {
    let gate = Gate::default();
    let limits = Limits { model_turns: 1, run_time_ms: 5_000, wrap_up: true, ..Limits::none() };
    let stage = limited([call(), Reply::text("never").held_by(&gate)], limits);
    let told = tokio::time::timeout(Duration::from_secs(3600), stage.play()).await;
    let told = told.expect("it never ends");
    assert_eq!(told.ending(), Ending::Limit(LimitKind::ModelTurns));
    let hits = lines(&told.events, |body| matches!(body, EventBody::LimitHit { .. }));
    assert_eq!(hits, ["limit_hit(model_turns)"]);
}
