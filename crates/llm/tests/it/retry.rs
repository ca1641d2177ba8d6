//! Trying again: when, how long, and what it costs.

use std::time::Duration;

use bowline_llm::retry::Policy;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{
    ErrorKind, LongPrice, Model, ModelError, ModelInfo, Price, Request, Retry, Spent, StreamEvent,
    Usage,
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use tokio::time::Instant;

type Events = Vec<Result<StreamEvent, ModelError>>;

fn failing(kind: ErrorKind) -> Reply {
    Reply::error(ModelError::new(kind, "no"))
}

fn asking(seconds: u64) -> Reply {
    let retry_after = Some(Duration::from_secs(seconds));
    Reply::error(ModelError { retry_after, ..ModelError::new(ErrorKind::RateLimited, "no") })
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// Asks a retrying model that always waits as long as it may.
async fn ask(model: &ScriptedModel, policy: Policy) -> Events {
    let retry = Retry::with_random(model.clone(), policy, || u64::MAX);
    retry.stream(Request::default()).collect().await
}

fn delays(events: &Events) -> Vec<u64> {
    let delay = |event: &Result<StreamEvent, ModelError>| match event {
        Ok(StreamEvent::Waiting { delay, .. }) => Some(u64::try_from(delay.as_millis()).unwrap()),
        _ => None,
    };
    events.iter().filter_map(delay).collect()
}

fn is_done(events: &Events) -> bool {
    matches!(events.last(), Some(Ok(StreamEvent::Done(_))))
}

#[tokio::test(start_paused = true)]
async fn what_succeeds_is_passed_on_as_it_is() {
    let model = ScriptedModel::new([Reply::text("a"), Reply::text("a")]);
    let plain: Events = model.stream(Request::default()).collect().await;
    assert_eq!(ask(&model, Policy::default()).await, plain);
}

#[tokio::test(start_paused = true)]
async fn every_wait_and_every_start_is_told() {
    let model = ScriptedModel::new([
        failing(ErrorKind::Overloaded).with_deltas([StreamEvent::TextDelta("half".to_owned())]),
        Reply::text("whole"),
    ]);
    let start = Instant::now();
    let events = ask(&model, Policy::default()).await;
    assert_eq!(start.elapsed().as_millis(), 500);
    let error = ModelError::new(ErrorKind::Overloaded, "no");
    assert_eq!(
        events[..4],
        [
            Ok(StreamEvent::TextDelta("half".to_owned())),
            Ok(StreamEvent::Waiting {
                attempt: 2,
                reason: "provider unavailable: no".to_owned(),
                delay: Duration::from_millis(500),
                spent: Spent::default(),
            }),
            Ok(StreamEvent::Restarted { attempt: 2, error }),
            Ok(StreamEvent::TextDelta("whole".to_owned())),
        ]
    );
    assert!(is_done(&events) && events.len() == 5);
}

#[tokio::test(start_paused = true)]
async fn waits_double_up_to_the_cap_and_end_with_the_last_retry() {
    let model = ScriptedModel::answering(|_| failing(ErrorKind::Overloaded));
    let events = ask(&model, Policy::default()).await;
    assert_eq!(delays(&events), [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    assert_eq!(model.requests().len(), 9);
    assert_eq!(events.last(), Some(&Err(ModelError::new(ErrorKind::Overloaded, "no"))));
}

#[tokio::test(start_paused = true)]
async fn only_what_may_pass_is_tried_again() {
    for kind in [
        ErrorKind::Auth,
        ErrorKind::Quota,
        ErrorKind::ContextOverflow,
        ErrorKind::InvalidRequest,
        ErrorKind::Refused,
        ErrorKind::NotFound,
        ErrorKind::Decode,
    ] {
        let model = ScriptedModel::new([failing(kind)]);
        let events = ask(&model, Policy::default()).await;
        assert_eq!(events, [Err(ModelError::new(kind, "no"))]);
    }
    for kind in [
        ErrorKind::RateLimited,
        ErrorKind::Overloaded,
        ErrorKind::Timeout,
        ErrorKind::Transport,
        ErrorKind::Incomplete,
    ] {
        let model = ScriptedModel::new([failing(kind), Reply::text("a")]);
        assert!(is_done(&ask(&model, Policy::default()).await), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_an_end_is_tried_again() {
    let delta = StreamEvent::TextDelta("half".to_owned());
    let model =
        ScriptedModel::new([Reply::breaks_off().with_deltas([delta]), Reply::text("whole")]);
    let events = ask(&model, Policy::default()).await;
    let Ok(StreamEvent::Restarted { error, .. }) = &events[2] else { panic!("{events:?}") };
    assert_eq!(error.kind, ErrorKind::Incomplete);
    assert!(is_done(&events));
}

// B14
#[tokio::test(start_paused = true)]
async fn what_the_provider_asks_for_is_the_least() {
    let model = ScriptedModel::new([asking(20), Reply::text("a")]);
    assert_eq!(delays(&ask(&model, Policy::default()).await), [20_500]);
    let model = ScriptedModel::new([asking(20), Reply::text("a")]);
    let retry = Retry::with_random(model, Policy::default(), || 0);
    let events: Events = retry.stream(Request::default()).collect().await;
    assert_eq!(delays(&events), [20_000]);
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_too_much_is_not_waited_for() {
    let model = ScriptedModel::new([asking(61)]);
    let events = ask(&model, Policy::default()).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].as_ref().unwrap_err().kind, ErrorKind::RateLimited);
}

#[tokio::test(start_paused = true)]
async fn the_budget_ends_the_waiting() {
    let model = ScriptedModel::answering(|_| asking(50));
    let policy = Policy { budget: Some(Duration::from_secs(120)), ..Policy::default() };
    let events = ask(&model, policy).await;
    assert_eq!(delays(&events), [50_500, 51_000]);
    let model = ScriptedModel::answering(|_| asking(50));
    let policy = Policy { budget: None, ..Policy::default() };
    assert_eq!(delays(&ask(&model, policy).await).len(), 8);
}

#[tokio::test(start_paused = true)]
async fn no_retries_means_one_attempt() {
    let model = ScriptedModel::answering(|_| failing(ErrorKind::Overloaded));
    let events = ask(&model, Policy { max_retries: 0, ..Policy::default() }).await;
    assert_eq!((events.len(), model.requests().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_paid_for_too() {
    let failed = |n| failing(ErrorKind::Incomplete).with_usage(usage(n, 1));
    let model = ScriptedModel::new([
        failed(10),
        failing(ErrorKind::Overloaded),
        failed(20),
        Reply::text("a").with_usage(usage(30, 5)),
    ]);
    let mut events = ask(&model, Policy::default()).await;
    let Some(Ok(StreamEvent::Done(response))) = events.pop() else { panic!("{events:?}") };
    assert_eq!((response.wasted.usage, response.usage), (usage(30, 2), Some(usage(60, 7))));

    let billed = |event: &Result<StreamEvent, ModelError>| match event {
        Ok(StreamEvent::Waiting { spent, .. }) => spent.usage,
        Ok(StreamEvent::Restarted { error, .. }) => error.usage,
        _ => Usage::default(),
    };
    let told: Vec<_> = events.iter().map(billed).filter(|usage| usage.total() > 0).collect();
    assert_eq!(told, [usage(10, 1), usage(20, 1)], "each is told once, before the wait");

    let model = ScriptedModel::new([failed(10), failing(ErrorKind::Auth).with_usage(usage(1, 0))]);
    let events = ask(&model, Policy::default()).await;
    assert_eq!(events.last().unwrap().as_ref().unwrap_err().usage, usage(11, 1));
}

#[tokio::test(start_paused = true)]
async fn the_same_request_is_sent_each_time() {
    let model = ScriptedModel::new([failing(ErrorKind::Timeout), Reply::text("a")]);
    let retry = Retry::new(model.clone(), Policy::default());
    let request = Request { system: "s".into(), ..Request::default() };
    let _: Events = retry.stream(request).collect().await;
    assert!(model.requests().iter().all(|request| &*request.system == "s"));
    assert_eq!(model.requests().len(), 2);
    assert_eq!(retry.info(), model.info());
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_charged_by_its_own_length() {
    let long =
        LongPrice { above: 200, input: 4.0, output: 0.0, cache_read: None, cache_write: None };
    let price =
        Price { input: 2.0, output: 0.0, cache_read: None, cache_write: None, long: Some(long) };
    let model = ScriptedModel::new([
        failing(ErrorKind::Incomplete).with_usage(usage(150, 0)),
        failing(ErrorKind::Incomplete).with_usage(usage(250, 0)),
        Reply::text("a").with_usage(usage(150, 0)),
    ])
    .with_info(ModelInfo { price: Some(price), ..ModelInfo::default() });
    let mut events = ask(&model, Policy::default()).await;
    let Some(Ok(StreamEvent::Done(response))) = events.pop() else { panic!("{events:?}") };
    assert_eq!(response.wasted.cost(), Some(0.0013));
    assert_eq!(response.spent(Some(&price)).unwrap().cost(), Some(0.0016));
}

#[tokio::test(start_paused = true)]
async fn a_wrapper_around_another_tells_every_attempt_once() {
    let failed = |n| failing(ErrorKind::Overloaded).with_usage(usage(n, 0));
    let model = ScriptedModel::new([failed(1), failed(2), failed(4), Reply::text("a")]);
    let policy = Policy { max_retries: 1, ..Policy::default() };
    let model = Retry::new(Retry::new(model, policy), policy);
    let events: Events = model.stream(Request::default()).collect().await;
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event.as_ref().unwrap() {
            StreamEvent::Waiting { spent, .. } => Some(spent.usage.input),
            StreamEvent::Restarted { error, .. } => Some(error.usage.input),
            _ => None,
        })
        .collect();
    assert_eq!(told, [1, 0, 2, 0, 4, 0]);
    let Some(Ok(StreamEvent::Done(response))) = events.last() else { panic!("{events:?}") };
    assert_eq!(response.wasted, Spent::at(None, usage(7, 0)));
}
