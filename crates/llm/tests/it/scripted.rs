//! The scripted model does what its users' tests rely on.

use bowline_llm::scripted::{Gate, Reply, ScriptedModel};
use bowline_llm::{
    ErrorKind, Model, ModelError, Request, Response, StopReason, StreamEvent, Usage,
};
use futures::{FutureExt, StreamExt};
use pretty_assertions::assert_eq;

async fn events(model: &ScriptedModel) -> Vec<Result<StreamEvent, ModelError>> {
    model.stream(Request::default()).collect().await
}

async fn response(model: &ScriptedModel) -> Response {
    match events(model).await.pop() {
        Some(Ok(StreamEvent::Done(response))) => *response,
        other => panic!("unexpected {other:?}"),
    }
}

#[tokio::test]
async fn replies_come_in_order_with_a_delta_for_each_part() {
    let model = ScriptedModel::new([
        Reply::reasoning("hm").and_text("so").and_call("f", "{}").and_call("g", "{"),
        Reply::text("end").with_stop(StopReason::MaxTokens),
    ]);
    let got = events(&model).await;
    assert_eq!(got.len(), 5);
    assert_eq!(got[0], Ok(StreamEvent::ReasoningDelta("hm".to_owned())));
    assert_eq!(
        got[3],
        Ok(StreamEvent::ToolCallDelta {
            index: 1,
            name: Some("g".to_owned()),
            arguments: "{".to_owned(),
        })
    );
    let Ok(StreamEvent::Done(first)) = &got[4] else { panic!("{got:?}") };
    assert_eq!(first.stop, StopReason::ToolUse);
    assert_eq!(model.remaining(), 1);
    assert_eq!(response(&model).await.stop, StopReason::MaxTokens);
}

#[tokio::test]
async fn calls_get_ids_that_never_repeat() {
    let model = ScriptedModel::answering(|_| {
        Reply::call("f", "{}").and_call_with_id("mine", "f", "{}").and_call("f", "{}")
    });
    let mut ids = Vec::new();
    for _ in 0..2 {
        let message = response(&model).await.message;
        ids.extend(message.tool_calls().map(|call| call.id.to_string()));
    }
    assert_eq!(ids, ["call_1", "mine", "call_2", "call_3", "mine", "call_4"]);
}

#[tokio::test]
async fn requests_are_kept_and_may_decide() {
    let model = ScriptedModel::new([Reply::from_fn(|request| Reply::text(&*request.system))]);
    model.push(Reply::text("next").with_usage(Usage { input: 1, ..Usage::default() }));
    let request = Request { system: "you".into(), ..Request::default() };
    let got: Vec<_> = model.stream(request).collect().await;
    assert_eq!(got[0], Ok(StreamEvent::TextDelta("you".to_owned())));
    assert_eq!(response(&model).await.usage.unwrap().input, 1);
    let systems: Vec<_> = model.requests().iter().map(|r| r.system.to_string()).collect();
    assert_eq!(systems, ["you", ""]);
}

#[tokio::test]
async fn a_script_that_ran_out_says_so() {
    let model = ScriptedModel::new([Reply::text("a")]);
    response(&model).await;
    let error = events(&model).await.pop().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert_eq!(error.message, "script exhausted after 1 replies");
}

#[tokio::test]
async fn a_stream_that_is_not_polled_sends_nothing() {
    let model = ScriptedModel::new([Reply::text("a")]);
    drop(model.stream(Request::default()));
    assert_eq!((model.requests().len(), model.remaining()), (0, 1));
}

#[tokio::test]
async fn a_gate_holds_a_reply_in_the_middle() {
    let gate = Gate::default();
    let model = ScriptedModel::new([Reply::text("a").held_at_the_end_by(&gate)]);
    let mut stream = model.stream(Request::default());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::TextDelta(_)))));
    assert!(stream.next().now_or_never().is_none());
    gate.reached().await;
    gate.open();
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Done(_)))));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_may_break_off() {
    let delta = StreamEvent::TextDelta("half".to_owned());
    let model = ScriptedModel::new([Reply::breaks_off().with_deltas([delta.clone()])]);
    assert_eq!(events(&model).await, [Ok(delta)]);
}
