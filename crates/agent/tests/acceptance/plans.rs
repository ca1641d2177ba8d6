//! Plans: made once, done step by step with real calls, made anew when a step fails.

use std::sync::Arc;

use bowline_agent::OutputSchema;
use bowline_agent::conversation::Conversation;
use bowline_agent::entry::{Ending, RunErrorKind};
use bowline_agent::event::EventBody;
use bowline_agent::limits::{LimitKind, Limits};
use bowline_agent::orchestrator::{NextStep, Orchestrator, PlanExecute, Replan, named, read_plan};
use bowline_agent::tool::{ToolContext, ToolError};
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{ErrorKind, ModelError, StopReason};
use pretty_assertions::assert_eq;

use crate::support::{Stage, Told, echo, hear, is_delta, stage, tool};

/// Makes a reply that is a plan of echoes, but for words that name other tools.
fn plan(steps: &[&str]) -> Reply {
    let step = |word: &&str| {
        let tool = if ["fail", "slow", "missing"].contains(word) { word } else { "echo" };
        format!(r#"{{"tool":"{tool}","args":{{"text":"{word}"}}}}"#)
    };
    let steps: Vec<String> = steps.iter().map(step).collect();
    Reply::text(format!(r#"{{"steps":[{}]}}"#, steps.join(",")))
}

fn planning(replan: Replan, replies: impl IntoIterator<Item = Reply>) -> Stage {
    let fail = tool("fail", |_, _: ToolContext| async { Err(ToolError::failed("no luck")) });
    stage(replies)
        .with(echo())
        .with(fail)
        .change(|agent| agent.orchestrator = Arc::new(PlanExecute { replan }))
}

fn steps(told: &Told) -> Vec<String> {
    let is_step = |body: &EventBody| {
        matches!(body, EventBody::PlanCreated { .. } | EventBody::PlanStepEnd { .. })
    };
    crate::support::lines(&told.events, is_step)
}

/// F084, F085, F086.
#[tokio::test]
async fn a_plan_is_made_and_its_steps_are_done_in_order() {
    let stage = planning(Replan::OnFailure, [plan(&["a", "b"]), Reply::text("both")]);
    let told = stage.play().await;
    assert_eq!(
        told.lines(),
        [
            "run_start",
            "added(user \"go\")",
            "turn_start",
            "turn_end(end_turn)",
            "plan_created(echo echo)",
            "plan_step_start(plan-step-0, 0 of 2, echo {\"text\":\"a\"})",
            "tool_call(plan-step-0, echo)",
            "added(assistant plan-step-0=echo)",
            "tool_start(plan-step-0)",
            "tool_end(plan-step-0, ok)",
            "plan_step_end(plan-step-0, 0 of 2, echo, ok)",
            "added(results plan-step-0=\"a\")",
            "plan_step_start(plan-step-1, 1 of 2, echo {\"text\":\"b\"})",
            "tool_call(plan-step-1, echo)",
            "added(assistant plan-step-1=echo)",
            "tool_start(plan-step-1)",
            "tool_end(plan-step-1, ok)",
            "plan_step_end(plan-step-1, 1 of 2, echo, ok)",
            "added(results plan-step-1=\"b\")",
            "turn_start",
            "text(\"both\", final)",
            "added(assistant \"both\")",
            "turn_end(end_turn)",
            "run_end(done)",
        ]
    );
    assert_eq!(told.outcome.unwrap().model_turns, 2);
}

#[tokio::test]
async fn the_question_for_a_plan_follows_what_was_sent_and_is_not_kept() {
    let stage = planning(Replan::OnFailure, [plan(&["a"]), Reply::text("done")]);
    stage.play().await;
    let requests = stage.model.requests();
    let (question, answer) = (&requests[0], &requests[1]);
    assert_eq!((&question.system, &question.tools), (&answer.system, &answer.tools));
    assert_eq!(question.tools.specs().len(), 2);
    let asked = stage.asked();
    assert_eq!(asked[0][..1], asked[1][..1]);
    assert!(asked[0][1].starts_with("user \"Do not call tools now"), "{asked:#?}");
    let kept = ["user \"go\"", "assistant plan-step-0=echo", "results plan-step-0=\"a\""]
        .map(str::to_owned);
    assert_eq!(asked[1], kept);
}

/// F083.
#[tokio::test]
async fn an_empty_plan_is_two_model_calls_and_no_tool_calls() {
    for replan in [Replan::OnFailure, Replan::Off] {
        let stage = planning(replan, [plan(&[]), Reply::text("hello")]);
        let told = stage.play().await;
        assert_eq!(told.text(), "hello");
        assert_eq!(steps(&told), ["plan_created()"]);
        assert_eq!((stage.model.requests().len(), told.ends().len()), (2, 0));
    }
}

/// F088. What is no plan is no error either: the model does it step by step.
#[tokio::test]
async fn without_a_plan_that_can_be_read_it_goes_on_as_ever() {
    let calls = Reply::call("echo", r#"{"text":"not run"}"#);
    for said in
        [Reply::text("I would echo."), calls, Reply::text("{").with_stop(StopReason::MaxTokens)]
    {
        let again = Reply::call("echo", r#"{"text":"a"}"#);
        let stage = planning(Replan::OnFailure, [said, again, Reply::text("done")]);
        let told = stage.play().await;
        assert_eq!(
            (told.text(), steps(&told)),
            ("done".to_owned(), vec!["plan_created()".to_owned()])
        );
        assert_eq!(told.ends().len(), 1);
        assert_eq!(stage.asked()[1], ["user \"go\""]);
    }
}

/// What the model says of its plan is no text of the agent's.
#[tokio::test]
async fn nothing_is_shown_of_the_reply_that_is_a_plan() {
    let stage = planning(Replan::OnFailure, [plan(&["a"]), Reply::text("done")]);
    let told = stage.play().await;
    let deltas = crate::support::lines(&told.events, is_delta);
    assert!(deltas.iter().all(|delta| !delta.contains("steps")), "{deltas:?}");
}

/// F089.
#[tokio::test]
async fn a_model_that_cannot_be_asked_for_a_plan_fails_the_run() {
    let failures = [
        (
            Reply::error(ModelError::new(ErrorKind::Auth, "no")),
            RunErrorKind::Model(ErrorKind::Auth),
        ),
        (plan(&["a"]).with_stop(StopReason::Refused), RunErrorKind::Stop),
    ];
    for (said, expected) in failures {
        let stage = planning(Replan::OnFailure, [said]);
        let told = stage.play().await;
        let Ending::Failed(error) = told.ending() else { panic!("{:?}", told.ending()) };
        assert_eq!(error.kind, expected);
        assert_eq!((steps(&told).len(), told.text()), (0, String::new()));
    }
}

#[tokio::test]
async fn a_step_that_fails_is_planned_for_anew() {
    let replies = [plan(&["a", "fail", "b"]), plan(&["c"]), Reply::text("done")];
    let stage = planning(Replan::OnFailure, replies);
    let told = stage.play().await;
    assert_eq!(
        steps(&told),
        [
            "plan_created(echo fail echo)",
            "plan_step_end(plan-step-0, 0 of 3, echo, ok)",
            "plan_step_end(plan-step-1, 1 of 3, fail, error)",
            "plan_created(echo)",
            "plan_step_end(plan-step-0_2, 0 of 1, echo, ok)",
        ]
    );
    let question = stage.model.requests()[1].messages.last().cloned().unwrap();
    let question = format!("{question:?}");
    assert!(question.contains("Step 2 of the plan ended as error."), "{question}");
    assert!(question.contains(r#"\"text\":\"b\""#), "{question}");
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn after_three_more_plans_that_fail_the_model_does_it_step_by_step() {
    let mut replies = vec![plan(&["fail", "a"]); 4];
    replies.push(Reply::call("echo", r#"{"text":"by hand"}"#));
    replies.push(Reply::text("done"));
    let stage = planning(Replan::OnFailure, replies);
    let told = stage.play().await;
    assert_eq!(steps(&told).len(), 8);
    assert_eq!((told.text(), told.ends().len()), ("done".to_owned(), 5));
}

/// Seed 004: all steps run, whatever becomes of them; two model calls.
#[tokio::test]
async fn without_replanning_all_steps_are_done() {
    let stage = planning(Replan::Off, [plan(&["fail", "missing", "a"]), Reply::text("done")]);
    let told = stage.play().await;
    assert_eq!(
        steps(&told)[1..],
        [
            "plan_step_end(plan-step-0, 0 of 3, fail, error)",
            "plan_step_end(plan-step-1, 1 of 3, missing, error)",
            "plan_step_end(plan-step-2, 2 of 3, echo, ok)",
        ]
    );
    assert!(told.result("plan-step-1").contains("unknown tool"));
    assert_eq!((stage.model.requests().len(), told.text()), (2, "done".to_owned()));
}

/// Steers while the first step runs, and returns what came of it.
async fn steered(replan: Replan, replies: Vec<Reply>) -> (Stage, Told) {
    let stage = planning(replan, replies);
    let stage = stage.with(tool("slow", |_, cx: ToolContext| async move {
        let parent = cx.children.parent();
        assert!(parent.is_some());
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        Ok("slow".into())
    }));
    let handle = stage.start();
    let run = handle.prompt("go");
    let told = async {
        handle.wait_for(|state| !state.pending_calls.is_empty()).await.unwrap();
        handle.steer("stop that").await.unwrap();
    };
    let (told, ()) = tokio::join!(hear(run), told);
    (stage, told)
}

#[tokio::test(start_paused = true)]
async fn what_the_user_says_makes_the_rest_of_a_plan_void() {
    let replies = vec![plan(&["slow", "a"]), plan(&["b"]), Reply::text("done")];
    let (stage, told) = steered(Replan::OnFailure, replies).await;
    let plans = steps(&told);
    assert_eq!(
        plans[2..],
        ["plan_created(echo)", "plan_step_end(plan-step-0_2, 0 of 1, echo, ok)"]
    );
    let asked = &stage.asked()[1];
    assert_eq!(asked[3], "user \"stop that\"");
    assert!(asked[4].starts_with("user \"The plan is overtaken."), "{asked:#?}");
    assert_eq!(told.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn without_replanning_what_the_user_says_waits_for_the_answer() {
    let replies = vec![plan(&["slow", "a"]), Reply::text("done")];
    let (stage, told) = steered(Replan::Off, replies).await;
    assert_eq!(steps(&told).len(), 3);
    let asked = &stage.asked()[1];
    assert_eq!(asked[3], "user \"stop that\"");
    assert_eq!(asked.len(), 6);
    assert_eq!(told.text(), "done");
}

#[tokio::test]
async fn every_prompt_and_follow_up_has_a_plan_of_its_own() {
    let gate = Gate::default();
    let replies = [
        plan(&["a"]),
        Reply::text("one").held_by(&gate),
        plan(&["b"]),
        Reply::text("two"),
        plan(&[]),
        Reply::text("three"),
    ];
    let stage = planning(Replan::Off, replies);
    let handle = stage.start();
    let run = handle.prompt("go");
    let follow = async {
        gate.reached().await;
        handle.follow_up("and now?").await.unwrap();
        gate.open();
    };
    let (told, ()) = tokio::join!(hear(run), follow);
    assert_eq!(steps(&told).len(), 4);
    assert_eq!(told.text(), "two");
    assert_eq!(hear(handle.prompt("again")).await.text(), "three");
}

#[tokio::test]
async fn limits_count_plans_and_steps() {
    let many = plan(&["a", "b", "c"]);
    let cases = [
        (Limits { tool_calls: 2, ..Limits::default() }, LimitKind::ToolCalls, 2),
        (Limits { model_turns: 1, ..Limits::default() }, LimitKind::ModelTurns, 3),
    ];
    for (limits, limit, ends) in cases {
        let stage = planning(Replan::OnFailure, [many.clone(), Reply::text("so far")]);
        let told = stage.change(|agent| agent.limits = limits).play().await;
        assert_eq!((told.ending(), told.text()), (Ending::Limit(limit), "so far".to_owned()));
        assert_eq!(told.ends().len(), ends);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_canceled_in_the_middle_of_a_plan() {
    let stage = planning(Replan::OnFailure, [plan(&["slow", "a"])]);
    let stage = stage.with(tool("slow", |_, _: ToolContext| std::future::pending()));
    let handle = stage.start();
    let run = handle.prompt("go");
    let cancel = async {
        handle.wait_for(|state| !state.pending_calls.is_empty()).await.unwrap();
        handle.cancel();
    };
    let (told, ()) = tokio::join!(hear(run), cancel);
    assert_eq!(told.ending().as_str(), "canceled");
    assert_eq!(steps(&told)[1..], ["plan_step_end(plan-step-0, 0 of 2, slow, canceled)"]);
}

#[tokio::test]
async fn the_shape_of_the_answer_is_asked_of_the_answer_only() {
    let schema = OutputSchema::parse(r#"{"type":"object","required":["n"]}"#).unwrap();
    let stage = planning(Replan::OnFailure, [plan(&["a"]), Reply::text(r#"{"n":1}"#)]);
    let stage = stage.change(|agent| agent.output_schema = Some(schema));
    assert_eq!(stage.play().await.text(), r#"{"n":1}"#);
    let shaped = stage
        .model
        .requests()
        .iter()
        .map(|request| request.output_schema.is_some())
        .collect::<Vec<_>>();
    assert_eq!(shaped, [false, true]);
}

#[test]
fn orchestrators_have_names() {
    let names = ["react", "agentic", "plan_execute", "plan_execute_once", "custom"];
    let found = names.map(|name| named(name).map(|found| found.name().to_owned()));
    let expected =
        [Some("react"), Some("react"), Some("plan_execute"), Some("plan_execute_once"), None];
    assert_eq!(found, expected.map(|name| name.map(str::to_owned)));
}

/// Says that the next step is to be done, plan or not.
struct Stepping;

impl Orchestrator for Stepping {
    fn next(&self, conversation: &Conversation) -> NextStep {
        let planning = conversation.run().map(|run| &run.planning);
        match planning.map_or(0, |planning| planning.plans) {
            0 => NextStep::Plan(read_plan(r#"{"steps":[{"tool":"echo","args":{"text":"a"}}]}"#)),
            _ => NextStep::Step,
        }
    }
}

#[tokio::test]
async fn a_plan_can_be_the_orchestrators_own_and_without_a_step_left_the_run_settles() {
    let stage = stage([]).with(echo()).change(|agent| agent.orchestrator = Arc::new(Stepping));
    let told = stage.play().await;
    assert_eq!(told.ends(), ["tool_end(plan-step-0, ok)"]);
    assert_eq!((told.ending(), told.outcome.unwrap().model_turns), (Ending::Done, 0));
}
