//! What a run tells of the model's replies, and how it ends by them.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::entry::{Ending, RunError, RunErrorKind};
use bowline_agent::event::{EventBody, Phase};
use bowline_agent::op::CancelReason;
use bowline_llm::scripted::{Gate, Reply};
use bowline_llm::{
    AssistantMessage, AssistantPart, ErrorKind, Fallback, Model, ModelError, ModelInfo, Price,
    Reasoning, ScriptedModel, Spent, StopReason, StreamEvent, Usage,
};
use pretty_assertions::assert_eq;

use crate::support::{conversation, echo, hear, is_delta, lines, stage, stage_for, usage};

fn delta(text: &str) -> StreamEvent {
    StreamEvent::TextDelta(text.to_owned())
}

fn thought(text: &str) -> AssistantPart {
    AssistantPart::Reasoning(Reasoning { text: text.to_owned(), payload: None })
}

// F001, F021
#[tokio::test]
async fn an_answer_is_told_once_and_whole() {
    let reply = Reply::text("Hello").with_deltas([delta("Hel"), delta("lo")]);
    let stage = stage([reply.with_usage(usage(10, 2))]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        told.lines(),
        [
            "run_start",
            "added(user \"go\")",
            "turn_start",
            "text(\"Hello\", final)",
            "added(assistant \"Hello\")",
            "turn_end(end_turn)",
            "run_end(done)",
        ]
    );
    let deltas = lines(&told.events, is_delta);
    assert_eq!(deltas, ["text_delta(\"Hel\")", "text_delta(\"lo\")"]);
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(told.text(), "Hello");
    assert_eq!(told.usage(), usage(10, 2));
    assert_eq!(handle.token_usage(), usage(10, 2));
    assert_eq!(handle.status(), Phase::Idle);
    assert_eq!(conversation(&handle), ["user \"go\"", "assistant \"Hello\""]);
    for event in &told.events {
        assert_eq!((event.agent.depth, event.agent.parent), (0, None));
        assert_eq!(event.agent.id, handle.agent_id());
        assert_eq!(event.session.root(), handle.agent_id());
    }
    let system: Vec<_> = stage.model.requests().iter().map(|sent| sent.system.clone()).collect();
    assert_eq!(system, ["Be brief.".into()]);
}

// F002, F009
#[tokio::test]
async fn text_before_reasoning_is_not_final() {
    let streamed = [delta("Hm"), StreamEvent::ReasoningDelta("why".to_owned())];
    for reply in [
        Reply::text("Hm").and(thought("why")).with_deltas(streamed),
        Reply::text("Hm").and(thought("why")).with_deltas([]),
    ] {
        let told = stage([reply]).play().await;
        assert_eq!(
            told.lines()[3..],
            [
                "text(\"Hm\")",
                "reasoning(\"why\")",
                "added(assistant \"Hm\" <why>)",
                "turn_end(end_turn)",
                "run_end(done)",
            ]
        );
    }
}

// F003, F010
#[tokio::test]
async fn a_tool_round_trip_runs_the_tool_once() {
    let stage = stage([
        Reply::text("Looking").and_call("echo", r#"{"text":"hi"}"#).with_usage(usage(10, 1)),
        Reply::text("Done").with_usage(usage(20, 2)),
    ])
    .with(echo());
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        told.lines(),
        [
            "run_start",
            "added(user \"go\")",
            "turn_start",
            "text(\"Looking\")",
            "tool_call(call_1, echo)",
            "added(assistant \"Looking\" call_1=echo)",
            "turn_end(tool_use)",
            "tool_start(call_1)",
            "tool_end(call_1, ok)",
            "added(results call_1=\"hi\")",
            "turn_start",
            "text(\"Done\", final)",
            "added(assistant \"Done\")",
            "turn_end(end_turn)",
            "run_end(done)",
        ]
    );
    assert_eq!(told.usage(), usage(30, 3));
    assert_eq!(
        conversation(&handle),
        [
            "user \"go\"",
            "assistant \"Looking\" call_1=echo",
            "results call_1=\"hi\"",
            "assistant \"Done\"",
        ]
    );
    assert_eq!(stage.model.remaining(), 0);
}

// F004
#[tokio::test]
async fn neighbouring_texts_are_one() {
    let message = AssistantMessage {
        content: vec![
            thought("t"),
            AssistantPart::Text("a".into()),
            AssistantPart::Text("b".into()),
        ],
    };
    let told = stage([Reply::message(message)]).play().await;
    assert_eq!(told.lines()[3..5], ["reasoning(\"t\")", "text(\"ab\", final)"]);
}

// F005
#[tokio::test]
async fn the_completed_reply_wins_over_its_deltas() {
    let told = stage([Reply::text("draft answer").with_deltas([delta("answer")])]).play().await;
    assert_eq!(told.lines()[3], "text(\"draft answer\", final)");
    assert_eq!(told.text(), "draft answer");
}

// F006
#[tokio::test]
async fn a_stream_that_ends_without_a_reply_is_an_error() {
    let stage = stage([Reply::breaks_off().with_deltas([delta("half an ans")])]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        told.lines()[2..],
        [
            "turn_start",
            "text(\"half an ans\")",
            "turn_end(error)",
            "run_end(error: answer broke off: the stream ended without a completed reply)",
        ]
    );
    // What had come stays in the conversation, marked, and the next prompt works.
    assert_eq!(
        conversation(&handle),
        ["user \"go\"", "assistant \"half an ans\\n\\n[the connection to the model failed here]\"",]
    );
    stage.model.push(Reply::text("whole"));
    assert_eq!(hear(handle.prompt("again")).await.text(), "whole");
}

// F007, F019, F101
#[tokio::test(start_paused = true)]
async fn cancel_keeps_what_was_said() {
    let gate = Gate::default();
    let stage = stage([
        Reply::text("Half").with_deltas([delta("Half")]).held_at_the_end_by(&gate),
        Reply::text("whole"),
    ]);
    let handle = stage.start();
    let began = tokio::time::Instant::now();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(
        told.lines()[2..],
        ["turn_start", "text(\"Half\")", "turn_end(canceled)", "run_end(canceled by user)"]
    );
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(handle.status(), Phase::Idle);
    assert_eq!(
        conversation(&handle),
        ["user \"go\"", "assistant \"Half\\n\\n[stopped here by the user]\""]
    );
    assert_eq!(hear(handle.prompt("again")).await.text(), "whole");
}

#[tokio::test]
async fn what_a_failed_attempt_cost_counts_when_the_wait_after_it_is_canceled() {
    let gate = Gate::default();
    let wait = StreamEvent::Waiting {
        attempt: 2,
        reason: "busy".to_owned(),
        delay: Duration::from_secs(60),
        spent: Spent::at(None, usage(7, 1)),
    };
    let stage =
        stage([Reply::text("late").with_deltas([delta("Half"), wait]).held_at_the_end_by(&gate)]);
    let handle = stage.start();
    let run = handle.prompt("go");
    gate.reached().await;
    handle.cancel();
    let told = hear(run).await;
    assert_eq!(told.usage(), usage(7, 1));
    assert_eq!(handle.token_usage(), usage(7, 1));
}

// F008
#[tokio::test]
async fn a_retry_voids_the_draft() {
    let error = ModelError::new(ErrorKind::Overloaded, "busy");
    let reply = Reply::text("final").with_deltas([
        delta("draft"),
        StreamEvent::Waiting {
            attempt: 2,
            reason: "busy".to_owned(),
            delay: Duration::from_secs(1),
            spent: Spent::default(),
        },
        StreamEvent::Restarted { attempt: 2, error },
        delta("final"),
    ]);
    let told = stage([reply]).play().await;
    let told = lines(&told.events, |body| !matches!(body, EventBody::MessageAdded { .. }));
    assert_eq!(
        told,
        [
            "run_start",
            "status(model)",
            "turn_start",
            "text_delta(\"draft\")",
            "status(retrying)",
            "retry(2, \"busy\")",
            "text_reset",
            "status(model)",
            "text_delta(\"final\")",
            "text(\"final\", final)",
            "turn_end(end_turn)",
            "run_end(done)",
        ]
    );
}

#[tokio::test]
async fn an_answer_after_a_wait_for_a_rate_limit_is_one_again() {
    let wait = StreamEvent::Waiting {
        attempt: 1,
        reason: "rate limit".to_owned(),
        delay: Duration::from_secs(1),
        spent: Spent::default(),
    };
    let told = stage([Reply::text("a").with_deltas([wait, delta("a")])]).play().await;
    let told = lines(&told.events, |body| !matches!(body, EventBody::MessageAdded { .. }));
    assert_eq!(
        told[1..6],
        [
            "status(model)",
            "turn_start",
            "status(retrying)",
            "retry(1, \"rate limit\")",
            "status(model)",
        ]
    );
}

#[tokio::test]
async fn every_attempt_costs_the_price_of_the_model_that_was_asked() {
    let price =
        |input| Price { input, output: 0.0, cache_read: None, cache_write: None, long: None };
    let info = |model: &str, input| ModelInfo {
        provider: "p".to_owned(),
        model: model.to_owned(),
        price: Some(price(input)),
        ..ModelInfo::default()
    };
    let busy = Reply::error(ModelError::new(ErrorKind::Overloaded, "busy"));
    let first =
        ScriptedModel::new([busy.with_usage(usage(100_000, 0))]).with_info(info("first", 1.0));
    let second = ScriptedModel::new([Reply::text("a").with_usage(usage(1_000_000, 1))]);
    let second: Arc<dyn Model> = Arc::new(second.with_info(info("second", 3.0)));
    let model = Fallback::new(Arc::new(first), [second.into()]);
    let stage = stage([]).change(|agent| agent.model = Arc::new(model));
    let told = stage.play().await;
    assert_eq!(told.text(), "a");
    assert_eq!(told.outcome.as_ref().unwrap().spent.cost(), Some(3.1));
}

#[tokio::test]
async fn deltas_are_numbered_within_their_attempt() {
    let error = ModelError::new(ErrorKind::Overloaded, "busy");
    let reply = Reply::text("ab").with_deltas([
        delta("x"),
        delta("y"),
        StreamEvent::Restarted { attempt: 2, error },
        delta("a"),
        delta("b"),
    ]);
    let told = stage([reply]).play().await;
    let deltas = told.events.iter().filter(|event| is_delta(&event.body));
    let numbers: Vec<_> = deltas.map(|event| (event.attempt, event.n)).collect();
    let number = |attempt, n| (Some(attempt), Some(n));
    assert_eq!(numbers, [number(1, 0), number(1, 1), number(2, 0), number(2, 1)]);
}

// F012 to F014, F016, F017
#[tokio::test]
async fn a_reply_that_stops_oddly_ends_the_run() {
    let ends = |stop| async move {
        let stage = stage([Reply::text("So").with_stop(stop), Reply::text("fine")]);
        let handle = stage.start();
        let told = hear(handle.prompt("go")).await;
        assert_eq!(told.lines()[3..5], ["text(\"So\", final)", "added(assistant \"So\")"]);
        assert_eq!(handle.status(), Phase::Idle);
        assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
        told.lines()[5..].to_vec()
    };
    assert_eq!(
        ends(StopReason::Canceled).await,
        ["turn_end(canceled)", "run_end(canceled by provider)"]
    );
    assert_eq!(
        ends(StopReason::Error).await,
        ["turn_end(error)", "run_end(error: the provider ended the reply with an error)"]
    );
    assert_eq!(
        ends(StopReason::Refused).await,
        ["turn_end(refused)", "run_end(error: the model refused to answer)"]
    );
    assert_eq!(
        ends(StopReason::Other("paused".to_owned())).await,
        ["turn_end({\"other\":\"paused\"})", "run_end(error: unsupported stop reason \"paused\")"]
    );
    assert_eq!(
        ends(StopReason::ToolUse).await,
        [
            "turn_end(tool_use)",
            "run_end(error: the model stopped to use tools but made no tool calls)",
        ]
    );
}

#[tokio::test]
async fn a_reply_in_which_the_provider_paused_goes_on_without_another_word() {
    let paused = |text: &str| Reply::text(text).with_stop(StopReason::Paused);
    let stage = stage([paused("One "), paused("and "), Reply::text("two.")]);
    let told = stage.play().await;
    assert_eq!(told.text(), "One and two.");
    let asked = stage.asked();
    assert_eq!(asked[1], [r#"user "go""#, r#"assistant "One ""#]);
    assert_eq!(asked[2], [r#"user "go""#, r#"assistant "One ""#, r#"assistant "and ""#]);
}

// F015
#[tokio::test]
async fn a_cut_answer_goes_on_once() {
    let cut = |text: &str| Reply::text(text).with_stop(StopReason::MaxTokens);
    let stage = stage([cut("One, "), Reply::text("two.")]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(told.text(), "One, two.");
    assert_eq!(
        conversation(&handle),
        [
            "user \"go\"",
            "assistant \"One, \"",
            "user \"Your answer was cut at the output limit. Go on exactly where…\"",
            "assistant \"two.\"",
        ]
    );
}

// F015
#[tokio::test]
async fn an_answer_cut_twice_is_an_error() {
    let cut = |text: &str| Reply::text(text).with_stop(StopReason::MaxTokens);
    let told = stage([cut("One, "), cut("two, "), Reply::text("three")]).play().await;
    let message = "the answer reached the model's output token limit twice in a row".to_owned();
    assert_eq!(told.ending(), Ending::Failed(RunError { kind: RunErrorKind::MaxTokens, message }));
    assert_eq!(told.text(), "One, two, ");
}

// F015: only cuts in a row count.
#[tokio::test]
async fn a_whole_reply_between_two_cuts_lets_the_second_go_on_too() {
    let cut = |text: &str| Reply::text(text).with_stop(StopReason::MaxTokens);
    let stage = stage([
        cut("I will "),
        Reply::text("look.").and_call("echo", "{}"),
        cut("It is "),
        Reply::text("done."),
    ])
    .with(echo());
    let told = stage.play().await;
    assert_eq!(told.ending(), Ending::Done);
    assert_eq!(told.text(), "It is done.");
}

#[tokio::test]
async fn a_failed_model_call_ends_the_run_with_its_kind() {
    let error = ModelError::new(ErrorKind::Auth, "no key");
    let stage = stage([Reply::error(error).with_usage(usage(5, 0))]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert_eq!(
        told.lines()[2..],
        ["turn_start", "turn_end(error)", "run_end(error: authentication failed: no key)"]
    );
    let Ending::Failed(RunError { kind, .. }) = told.ending() else { panic!("it failed") };
    assert_eq!(kind, RunErrorKind::Model(ErrorKind::Auth));
    // A failed attempt counts. F116: what the user said is in the log.
    assert_eq!(told.usage(), usage(5, 0));
    assert_eq!(conversation(&handle), ["user \"go\""]);
}

#[tokio::test]
async fn a_model_that_panics_ends_the_run_and_not_the_agent() {
    let stage = stage([Reply::from_fn(|_| panic!("the model is broken")), Reply::text("fine")]);
    let handle = stage.start();
    let told = hear(handle.prompt("go")).await;
    assert!(matches!(told.ending(), Ending::Failed(_)), "{:?}", told.ending());
    assert_eq!(hear(handle.prompt("again")).await.text(), "fine");
}

// F020: what was taken from an agent does not change with it.
#[tokio::test]
async fn messages_are_a_copy() {
    let stage = stage([Reply::text("Hello")]);
    let handle = stage.start();
    let before = handle.messages();
    hear(handle.prompt("go")).await;
    assert_eq!((before.len(), handle.messages().len()), (0, 2));
}

// F024
#[tokio::test]
async fn the_share_of_the_context_window_is_rounded_and_bounded() {
    let percent = |window, used: Usage| async move {
        let info = ModelInfo { context_window: window, ..ModelInfo::default() };
        let model = bowline_llm::ScriptedModel::new([Reply::text("x").with_usage(used)]);
        let handle = stage_for(model.with_info(info)).start();
        let told = hear(handle.prompt("go")).await;
        let told = told.events.iter().find_map(|event| match event.body {
            EventBody::TurnEnd { context_percent, .. } => Some(context_percent),
            _ => None,
        });
        (handle.context_usage_percent(), told.unwrap())
    };
    let cached = Usage { cache_read: Some(40), ..usage(50, 500) };
    assert_eq!(percent(Some(100), cached).await, (50, Some(50)));
    assert_eq!(percent(Some(200), usage(1, 0)).await, (1, Some(1)));
    assert_eq!(percent(Some(201), usage(1, 0)).await, (0, Some(0)));
    assert_eq!(percent(Some(100), usage(101, 0)).await, (100, Some(100)));
    assert_eq!(percent(None, usage(101, 0)).await, (0, None));
}

#[tokio::test]
async fn facts_that_change_are_told_with_the_first_prompt_only() {
    let stage = stage([Reply::text("a"), Reply::text("b")])
        .change(|agent| agent.context = "It is Monday. ".to_owned());
    let handle = stage.start();
    hear(handle.prompt("go")).await;
    hear(handle.prompt("on")).await;
    assert_eq!(
        conversation(&handle),
        ["user \"It is Monday. go\"", "assistant \"a\"", "user \"on\"", "assistant \"b\""]
    );
    let system: Vec<_> = stage.model.requests().iter().map(|sent| sent.system.clone()).collect();
    assert_eq!(system, ["Be brief.".into(), "Be brief.".into()]);
}

#[tokio::test]
async fn a_provider_that_cancels_is_named_as_the_reason() {
    let told = stage([Reply::text("So").with_stop(StopReason::Canceled)]).play().await;
    assert_eq!(told.ending(), Ending::Canceled(CancelReason::Provider));
}
