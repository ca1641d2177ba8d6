//! Models that stand in for one another.

use std::sync::Arc;
use std::time::Duration;

use bowline_llm::fallback::{Candidate, REST};
use bowline_llm::retry::Policy;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{
    Effort, ErrorKind, Fallback, Model, ModelError, ModelInfo, Price, Request, Retry, Spent,
    StreamEvent, Usage,
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use tokio::time::advance;

type Events = Vec<Result<StreamEvent, ModelError>>;

fn failing(kind: ErrorKind) -> Reply {
    Reply::error(ModelError::new(kind, "no"))
}

fn named(name: &str, model: ScriptedModel) -> ScriptedModel {
    let (provider, model_name) = name.split_once('/').unwrap();
    let info = ModelInfo {
        provider: provider.to_owned(),
        model: model_name.to_owned(),
        ..ModelInfo::default()
    };
    model.with_info(info)
}

fn script(name: &str, replies: impl IntoIterator<Item = Reply>) -> ScriptedModel {
    named(name, ScriptedModel::new(replies))
}

fn always(name: &str, reply: Reply) -> ScriptedModel {
    named(name, ScriptedModel::answering(move |_| reply.clone()))
}

fn chain(models: &[&ScriptedModel]) -> Fallback {
    let mut all = models.iter().map(|model| -> Arc<dyn Model> { Arc::new((*model).clone()) });
    let first = all.next().unwrap();
    Fallback::new(first, all.map(Candidate::from))
}

async fn ask(model: &Fallback) -> Events {
    model.stream(Request::default()).collect().await
}

/// Asks, and returns the text of the answer, or the failure.
async fn say(model: &Fallback) -> String {
    match ask(model).await.pop().unwrap() {
        Ok(StreamEvent::Done(response)) => response.message.to_text(),
        Ok(other) => panic!("unexpected {other:?}"),
        Err(error) => error.to_string(),
    }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

#[tokio::test(start_paused = true)]
async fn the_first_answers_as_if_it_were_alone() {
    let (a, b) = (always("x/a", Reply::text("a")), always("y/b", Reply::text("b")));
    let plain: Events = a.stream(Request::default()).collect().await;
    let model = chain(&[&a, &b]);
    assert_eq!(ask(&model).await, plain);
    assert_eq!((model.info().id().as_str(), b.requests().len()), ("x/a", 0));
}

#[tokio::test(start_paused = true)]
async fn readers_are_told_why_and_who_and_drop_the_draft() {
    let draft = StreamEvent::TextDelta("half".to_owned());
    let a = script("x/a", [failing(ErrorKind::Overloaded).with_deltas([draft.clone()])]);
    let b = script("y/b", [Reply::text("b")]);
    let mut events = ask(&chain(&[&a, &b])).await;
    let Some(Ok(StreamEvent::Done(response))) = events.pop() else { panic!("{events:?}") };
    assert_eq!(response.by.as_deref(), Some(b.info()));
    let error = ModelError::new(ErrorKind::Overloaded, "no");
    assert_eq!(
        events,
        [
            Ok(draft),
            Ok(StreamEvent::Waiting {
                attempt: 2,
                reason: "provider unavailable: no; y/b is asked instead".to_owned(),
                delay: Duration::ZERO,
                spent: Spent::default(),
            }),
            Ok(StreamEvent::Restarted { attempt: 2, error }),
            Ok(StreamEvent::TextDelta("b".to_owned())),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn another_is_asked_unless_the_request_is_at_fault() {
    for (kind, goes_on) in [
        (ErrorKind::Auth, true),
        (ErrorKind::Quota, true),
        (ErrorKind::RateLimited, true),
        (ErrorKind::Overloaded, true),
        (ErrorKind::NotFound, true),
        (ErrorKind::Timeout, true),
        (ErrorKind::Transport, true),
        (ErrorKind::Decode, true),
        (ErrorKind::Incomplete, true),
        (ErrorKind::ContextOverflow, false),
        (ErrorKind::InvalidRequest, false),
        (ErrorKind::Refused, false),
    ] {
        let (a, b) = (script("x/a", [failing(kind)]), script("y/b", [Reply::text("b")]));
        let last = ask(&chain(&[&a, &b])).await.pop().unwrap();
        assert_eq!(last.is_ok(), goes_on, "{kind:?}");
        assert_eq!(last.err().map(|error| error.kind), (!goes_on).then_some(kind));
    }
    let a = script("x/a", [Reply::breaks_off()]);
    assert_eq!(say(&chain(&[&a, &script("y/b", [Reply::text("b")])])).await, "b");
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_in_may_have_other_abilities() {
    for kind in [ErrorKind::InvalidRequest, ErrorKind::ContextOverflow, ErrorKind::Auth] {
        let a = script("x/a", [failing(ErrorKind::Overloaded)]);
        let (b, c) = (script("y/b", [failing(kind)]), script("z/c", [Reply::text("c")]));
        assert_eq!(say(&chain(&[&a, &b, &c])).await, "c");
    }
    let a = script("x/a", [failing(ErrorKind::Overloaded)]);
    let (b, c) = (script("y/b", [failing(ErrorKind::Refused)]), script("z/c", []));
    assert_eq!(say(&chain(&[&a, &b, &c])).await, "request refused: no");
    assert_eq!(c.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn if_nobody_answers_the_first_failure_counts() {
    let a = script("x/a", [failing(ErrorKind::Overloaded)]);
    let (b, c) =
        (script("y/b", [failing(ErrorKind::Auth)]), script("z/c", [failing(ErrorKind::Quota)]));
    let error = ask(&chain(&[&a, &b, &c])).await.pop().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Overloaded);
    let told = "provider unavailable: no; y/b: authentication failed: no; z/c: no credit left: no";
    assert_eq!(error.to_string(), told);
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_rests_and_is_tried_again() {
    let a = script("x/a", [failing(ErrorKind::Overloaded), Reply::text("a")]);
    let b = always("y/b", Reply::text("b"));
    let model = chain(&[&a, &b]);
    for _ in 0..3 {
        assert_eq!(say(&model).await, "b");
    }
    assert_eq!(a.requests().len(), 1);
    advance(REST).await;
    assert_eq!(say(&model).await, "a");
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_for_more_time_rests_longer() {
    let retry_after = Some(REST * 2);
    let error = ModelError { retry_after, ..ModelError::new(ErrorKind::RateLimited, "no") };
    let a = script("x/a", [Reply::error(error), Reply::text("a")]);
    let model = chain(&[&a, &always("y/b", Reply::text("b"))]);
    assert_eq!(say(&model).await, "b");
    advance(REST).await;
    assert_eq!(say(&model).await, "b");
    advance(REST).await;
    assert_eq!(say(&model).await, "a");
}

#[tokio::test(start_paused = true)]
async fn rather_one_that_rests_than_none() {
    let a = script("x/a", [failing(ErrorKind::Overloaded), Reply::text("a")]);
    let b = script("y/b", [Reply::text("b"), failing(ErrorKind::Timeout)]);
    let model = chain(&[&a, &b]);
    assert_eq!(say(&model).await, "b");
    assert_eq!(say(&model).await, "a");
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_and_bills_are_told_once() {
    let failed = |input| failing(ErrorKind::Incomplete).with_usage(usage(input, 1));
    let a = script("x/a", [failed(10), failed(20)]);
    let b = script("y/b", [failed(30), Reply::text("b").with_usage(usage(5, 5))]);
    let policy = Policy { max_retries: 1, ..Policy::default() };
    let patient = |model| -> Arc<dyn Model> { Arc::new(Retry::new(model, policy)) };
    let model = Fallback::new(patient(a), [Candidate::from(patient(b))]);
    let mut events = ask(&model).await;
    let Some(Ok(StreamEvent::Done(response))) = events.pop() else { panic!("{events:?}") };
    assert_eq!((response.wasted.usage, response.usage), (usage(60, 3), Some(usage(65, 8))));
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event.as_ref().unwrap() {
            StreamEvent::Waiting { attempt, spent, .. } => Some((*attempt, spent.usage.input)),
            StreamEvent::Restarted { attempt, error } => Some((*attempt, error.usage.input)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(2, 10), (2, 0), (3, 20), (3, 0), (4, 30), (4, 0)]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_billed_when_nobody_answers() {
    let a = script("x/a", [failing(ErrorKind::Timeout).with_usage(usage(10, 1))]);
    let b = script("y/b", [failing(ErrorKind::Refused).with_usage(usage(20, 2))]);
    let error = ask(&chain(&[&a, &b])).await.pop().unwrap().unwrap_err();
    assert_eq!((error.kind, error.usage), (ErrorKind::Refused, usage(30, 3)));
}

#[tokio::test(start_paused = true)]
async fn each_thinks_as_hard_as_it_is_told() {
    let a = script("x/a", [failing(ErrorKind::Overloaded)]);
    let b = script("y/b", [Reply::text("b")]);
    let other = Candidate { model: Arc::new(b.clone()), effort: Some(Effort::Low) };
    let model = Fallback::new(Arc::new(a.clone()), [other]);
    let request = Request { effort: Some(Effort::High), ..Request::default() };
    let _: Events = model.stream(request).collect().await;
    let effort = |model: &ScriptedModel| model.requests()[0].effort;
    assert_eq!((effort(&a), effort(&b)), (Some(Effort::High), Some(Effort::Low)));
}

#[tokio::test(start_paused = true)]
async fn each_failure_costs_what_the_model_that_failed_takes() {
    let priced = |name, input, replies: Vec<Reply>| {
        let model = script(name, replies);
        let price = Price { input, output: 0.0, cache_read: None, cache_write: None, long: None };
        let info = ModelInfo { price: Some(price), ..model.info().clone() };
        model.with_info(info)
    };
    let failed = || failing(ErrorKind::Overloaded).with_usage(usage(1_000_000, 0));
    let policy = Policy { max_retries: 1, ..Policy::default() };
    let patient = |model| -> Arc<dyn Model> { Arc::new(Retry::new(model, policy)) };
    let whole = Reply::text("c").with_usage(usage(1_000_000, 0));
    let a = || patient(priced("x/a", 10.0, vec![failed(), failed()]));
    let b = || script("y/b", [failed()]);
    let c = priced("z/c", 1.0, vec![whole, failed(), failed()]);
    let c = patient(c);
    let others = || -> [Candidate; 2] {
        let b: Arc<dyn Model> = Arc::new(b());
        [b.into(), Arc::clone(&c).into()]
    };
    let Some(Ok(StreamEvent::Done(response))) = ask(&Fallback::new(a(), others())).await.pop()
    else {
        panic!("c answers")
    };
    assert_eq!(
        (response.wasted.cost_usd.to_dollars(), response.wasted.unpriced),
        (20.0, 1_000_000)
    );
    let price = response.by.as_ref().unwrap().price;
    assert_eq!(response.spent(price.as_ref()).unwrap().cost_usd.to_dollars(), 21.0);

    let error = ask(&Fallback::new(a(), others())).await.pop().unwrap().unwrap_err();
    assert_eq!(error.usage, usage(5_000_000, 0));
    let spent = *error.wasted + error.bill(None);
    assert_eq!((spent.cost_usd.to_dollars(), spent.unpriced), (22.0, 1_000_000));
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_for_all_the_time_there_is_rests_for_a_day() {
    let retry_after = Some(Duration::MAX);
    let error = ModelError { retry_after, ..ModelError::new(ErrorKind::RateLimited, "no") };
    let a = script("x/a", [Reply::error(error), Reply::text("a")]);
    let model = chain(&[&a, &always("y/b", Reply::text("b"))]);
    assert_eq!((say(&model).await, say(&model).await), ("b".to_owned(), "b".to_owned()));
    advance(Duration::from_secs(24 * 60 * 60)).await;
    assert_eq!(say(&model).await, "a");
}
