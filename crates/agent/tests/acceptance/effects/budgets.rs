//! `token_budget`, `time_budget` and `cost_budget`.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::Agent;
use bowline_agent::children::{Beginning, Child};
use bowline_agent::effect::{CostBudget, Effect, TimeBudget, TokenBudget};
use bowline_agent::entry::Ending;
use bowline_agent::limits::LimitKind;
use bowline_agent::tool::ToolContext;
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{Model, ModelInfo, Price, ScriptedModel};
use pretty_assertions::assert_eq;

use super::{acts, call, done, said, said_at, said_in, then_done, with};
use crate::support::{Checked, Stage, echo, hear, hear_with, stage_for, tool, usage};

fn tokens(max_tokens: u64) -> TokenBudget {
    TokenBudget { max_tokens, ..TokenBudget::default() }
}

/// A step that takes 100 tokens.
fn step() -> Reply {
    call("count", "").with_usage(usage(90, 10))
}

// B3
#[tokio::test]
async fn tokens_that_run_low_are_told_once_and_behind_the_results() {
    let stage =
        with(tokens(500), then_done([step(), step(), step(), step().and_call("echo", "{}")]));
    let told = stage.play().await;
    let [(4, text)] = &said(&stage)[..] else { panic!("{:?}", said(&stage)) };
    assert!(text.contains("80 %") && text.contains("400 of 500 tokens"), "{text}");
    let asked = stage.asked();
    assert_eq!(asked[4][8], "results call_4=\"3\" call_5=\"\"");
    assert!(asked[4][9].starts_with("user \"80 %"), "{:?}", asked[4]);
    assert_eq!(acts(&told), ["effect(token_budget say)", "run_end(done)"]);

    let replies = then_done([step(), step(), call("count", ""), call("count", "")]);
    let stage = with(tokens(250), replies);
    stage.play().await;
    assert_eq!(said_at(&stage), [2], "it is told once");
}

#[tokio::test]
async fn when_the_tokens_are_gone_the_run_ends_with_a_last_word() {
    let stage = with(tokens(200), [step(), step(), Reply::text("So far: nothing.")]);
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TokenBudget));
    assert_eq!(told.text(), "So far: nothing.");
    // What was called with the last of them does not start.
    assert_eq!(told.ends(), ["tool_end(call_1, ok)", "tool_end(call_2, skipped)"]);
    assert_eq!(told.result("call_2"), "skipped: the limit token_budget is reached");
    assert_eq!(
        acts(&told),
        ["effect(token_budget stop)", "limit_hit(token_budget)", "run_end(limit token_budget)",]
    );
    assert_eq!(stage.model.requests().len(), 3);
}

// B4
#[tokio::test]
async fn a_final_answer_is_returned_and_the_overrun_is_told() {
    let stage = with(tokens(100), [done().with_usage(usage(90, 30))]);
    let told = stage.play().await;
    assert_eq!((told.ending(), told.text().as_str()), (Ending::Done, "done"));
    assert_eq!(
        acts(&told),
        [
            "effect(token_budget warn)",
            "warning(\"the limit token_budget is reached with the final answer\")",
            "run_end(done)",
        ]
    );
    // What only runs low with the final answer is nobody's business any more.
    let stage = with(tokens(100), [done().with_usage(usage(80, 10))]);
    assert_eq!(acts(&stage.play().await), ["run_end(done)"]);
}

#[tokio::test]
async fn a_run_does_not_go_on_behind_its_answer_when_the_tokens_are_gone() {
    let gate = Gate::default();
    let last = done().with_usage(usage(90, 30)).held_by(&gate);
    let stage = with(tokens(100), [last, Reply::text("That was all.")]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.follow_up("more").await.unwrap();
    gate.open();
    let told = hear(run).await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TokenBudget));
    assert_eq!(told.text(), "That was all.");
}

#[tokio::test]
async fn each_run_has_the_whole_budget() {
    let stage = with(tokens(250), then_done([step(), step()]));
    let handle = stage.start();
    for _ in 0..2 {
        let told = hear(handle.prompt("go")).await;
        assert_eq!(acts(&told), ["effect(token_budget say)", "run_end(done)"]);
        for reply in then_done([step(), step()]) {
            stage.model.push(reply);
        }
    }
}

#[tokio::test]
async fn what_tools_spend_counts_before_the_next_request() {
    let stage = with(tokens(200), [step().and_call("spend", "{}"), done()]).with(tool(
        "spend",
        |_, cx: ToolContext| async move {
            cx.report_usage(usage(50, 50), None);
            Ok("spent".into())
        },
    ));
    let handle = stage.start();
    let told = hear_with(handle.prompt("go"), usage(50, 50)).await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TokenBudget));
    assert_eq!(told.ends().len(), 2);
}

// B11: what others have used before is not a sub-agent's.
#[tokio::test]
async fn a_sub_agent_counts_its_own_run_and_its_parent_all_of_it() {
    let child = ScriptedModel::new(then_done([step()]));
    let model: Arc<dyn Model> = Arc::new(Checked(child.clone()));
    let ask = tool("ask", move |_, cx: ToolContext| {
        let model = Arc::clone(&model);
        async move {
            let parent = cx.children.parent().unwrap();
            let agent = Agent { model, ..parent.clone() };
            let beginning = Beginning::Fresh;
            let child = Child { beginning, ..Child::new(agent) };
            let child = cx.children.create(child).await.unwrap();
            Ok(child.prompt("help").await.unwrap().text().into())
        }
    });
    let replies = [step(), call("ask", "").with_usage(usage(90, 10)), done()];
    let stage = with(tokens(300), replies).with(ask);
    let told = stage.play().await;
    let requests = child.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(said_in(&requests[1]), [(0, "help".to_owned())]);
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TokenBudget));
    assert_eq!(told.usage().total(), 300);
}

#[tokio::test]
async fn a_budget_of_nothing_is_none() {
    async fn is_silent(effect: impl Effect) {
        let stage = with(effect, then_done([step(), step()]));
        assert_eq!(acts(&stage.play().await), ["run_end(done)"]);
    }
    is_silent(TokenBudget::default()).await;
    is_silent(TimeBudget::default()).await;
    is_silent(CostBudget::default()).await;
}

#[tokio::test]
async fn a_model_that_does_not_count_uses_nothing() {
    let stage = with(tokens(1), then_done([call("count", "")]));
    assert_eq!(acts(&stage.play().await), ["run_end(done)"]);
}

fn priced(effect: CostBudget, replies: Vec<Reply>, price: Option<Price>) -> Stage {
    let model = ScriptedModel::new(replies);
    let info = ModelInfo { price, ..ModelInfo::default() };
    stage_for(model.with_info(info))
        .with(echo())
        .change(|agent| agent.effects = vec![Arc::new(effect)])
}

/// A step that costs ten cents.
fn paid() -> Reply {
    Reply::call("echo", "{}").with_usage(usage(100, 0))
}

fn price() -> Price {
    Price { input: 1000.0, output: 0.0, cache_read: None, cache_write: None, long: None }
}

#[tokio::test]
async fn money_that_runs_low_is_told_and_what_is_spent_stops_the_run() {
    let effect = CostBudget { max_cost_usd: 0.3, warn_threshold: 0.5 };
    let stage = priced(effect, then_done([paid(), paid(), paid()]), Some(price()));
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::CostBudget));
    assert_eq!(
        acts(&told),
        [
            "effect(cost_budget say)",
            "effect(cost_budget stop)",
            "limit_hit(cost_budget)",
            "run_end(limit cost_budget)",
        ]
    );
    let (at, text) = &said(&stage)[0];
    assert!(*at == 2 && text.contains("0.2000 of 0.3000 US dollars"), "{text}");
}

#[tokio::test]
async fn tokens_without_a_price_are_told_once() {
    let effect = CostBudget { max_cost_usd: 0.3, ..CostBudget::default() };
    let stage = priced(effect, then_done([paid(), paid(), paid(), paid()]), None);
    let told = stage.play().await;
    let [act, warning, end] = &acts(&told)[..] else { panic!("{:?}", acts(&told)) };
    assert_eq!((act.as_str(), end.as_str()), ("effect(cost_budget warn)", "run_end(done)"));
    assert!(warning.contains("the price of 100 tokens is not known"), "{warning}");
    assert_eq!(said(&stage), []);
}

/// A step for which the model thinks so long.
fn slow(seconds: u64) -> Reply {
    let gate = Gate::default();
    let opened = gate.clone();
    let reply = call("nap", "").held_by(&gate);
    tokio::spawn(async move {
        opened.reached().await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        opened.open();
    });
    reply
}

fn timed(effect: TimeBudget, replies: Vec<Reply>) -> Stage {
    with(effect, replies).with(tool("nap", |_, _| async move {
        tokio::time::sleep(Duration::from_secs(40)).await;
        Ok("rested".into())
    }))
}

#[tokio::test(start_paused = true)]
async fn the_time_of_model_calls_adds_up_and_that_of_tools_does_not_count() {
    let effect = TimeBudget { max_duration: Duration::from_secs(100), ..TimeBudget::default() };
    let stage = timed(effect.clone(), then_done([slow(50), slow(20), slow(10), slow(10)]));
    let told = stage.play().await;
    assert_eq!(acts(&told), ["effect(time_budget say)", "run_end(done)"]);
    let (at, text) = &said(&stage)[0];
    assert!(*at == 3 && text.contains("80 of 100 seconds"), "{at}: {text}");

    let stage = timed(effect, then_done([slow(50), slow(50)]));
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Limit(LimitKind::TimeBudget));
    assert_eq!(told.ends(), ["tool_end(call_1, ok)", "tool_end(call_2, skipped)"]);
    assert_eq!(
        acts(&told),
        ["effect(time_budget stop)", "limit_hit(time_budget)", "run_end(limit time_budget)",]
    );
}

#[tokio::test(start_paused = true)]
async fn each_run_has_the_whole_time() {
    let effect = TimeBudget { max_duration: Duration::from_secs(100), ..TimeBudget::default() };
    let stage =
        timed(effect, then_done([slow(60)]).into_iter().chain([slow(60), done()]).collect());
    let handle = stage.start();
    for _ in 0..2 {
        assert_eq!(acts(&hear(handle.prompt("go")).await), ["run_end(done)"]);
    }
}
