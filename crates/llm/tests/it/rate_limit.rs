//! Keeping below the limits of a provider, in time that does not pass.

use std::sync::Arc;
use std::time::Duration;

use bowline_llm::rate_limit::{Limits, RateLimited, RateLimiter};
use bowline_llm::retry::Policy;
use bowline_llm::scripted::{Reply, ScriptedModel};
use bowline_llm::{
    ErrorKind, Message, Model, ModelError, ModelInfo, ModelStream, Request, Retry, StreamEvent,
    Usage,
};
use futures::{FutureExt, StreamExt, future, stream};
use pretty_assertions::assert_eq;
use tokio::time::{Instant, sleep};

/// A model whose answers take some time.
#[derive(Clone)]
struct Slow {
    model: ScriptedModel,
    latency: Duration,
}

impl Slow {
    fn new(latency: u64, usage: Usage) -> Self {
        let model = ScriptedModel::answering(move |_| Reply::text("a").with_usage(usage));
        Self { model, latency: Duration::from_secs(latency) }
    }
}

impl Model for Slow {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let events = self.model.stream(request);
        let latency = self.latency;
        let late = events.then(move |event| async move {
            if matches!(event, Ok(StreamEvent::Done(_))) {
                sleep(latency).await;
            }
            event
        });
        Box::pin(late)
    }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// A request of about `tokens` tokens.
fn request(tokens: usize) -> Request {
    let text = "word".repeat(tokens - 4);
    Request { messages: [Message::user(text).into()].into_iter().collect(), ..Request::default() }
}

/// Asks to the end; returns how many seconds after the start it ended, and the reasons to wait.
async fn ask(model: &impl Model, request: Request) -> (u64, Vec<String>) {
    let (start, mut reasons) = (Instant::now(), Vec::new());
    let mut stream = model.stream(request);
    while let Some(event) = stream.next().await {
        if let StreamEvent::Waiting { reason, delay, .. } = event.unwrap() {
            reasons.push(format!("{reason} {}", delay.as_secs()));
        }
    }
    (start.elapsed().as_secs(), reasons)
}

fn limited(model: Slow, limits: Limits) -> RateLimited<Slow> {
    RateLimited::new(model, RateLimiter::new(limits))
}

// D15
#[tokio::test(start_paused = true)]
async fn fifty_agents_take_as_long_as_one() {
    let limits = Limits { rpm: 60, input_tpm: 100_000, output_tpm: 100_000 };
    let limiter = RateLimiter::new(limits);
    let model = |_| RateLimited::new(Slow::new(7, usage(100, 10)), limiter.clone());
    let models: Vec<_> = (0..50).map(model).collect();
    let all = future::join_all(models.iter().map(|model| ask(model, request(100)))).await;
    assert_eq!(all, vec![(7, Vec::new()); 50]);
}

#[tokio::test(start_paused = true)]
async fn what_exceeds_the_requests_of_a_minute_waits_in_order() {
    let limits = Limits { rpm: 2, ..Limits::default() };
    let model = limited(Slow::new(1, usage(1, 1)), limits);
    let all = future::join_all((0..5).map(|_| ask(&model, request(10)))).await;
    let ends: Vec<_> = all.iter().map(|(end, _)| *end).collect();
    assert_eq!(ends, [1, 1, 61, 61, 121]);
    assert!(all[1].1.is_empty());
    assert_eq!(all[2].1, ["rate limit: requests a minute 60"]);
    assert_eq!(all[3].1, ["rate limit: others are first 60"]);
    let [queued, first] = &*all[4].1 else { panic!("{:?}", all[4]) };
    assert_eq!(queued, "rate limit: others are first 60");
    assert_eq!(first, "rate limit: requests a minute 60");
}

#[tokio::test(start_paused = true)]
async fn no_minute_has_more_requests_than_it_may() {
    let limits = Limits { rpm: 7, ..Limits::default() };
    let model = limited(Slow::new(3, usage(1, 1)), limits);
    let start = Instant::now();
    let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
    let agents = (0..10).map(|agent| {
        let (model, begun) = (&model, Arc::clone(&begun));
        async move {
            sleep(Duration::from_secs(agent * 5)).await;
            for _ in 0..5 {
                ask(model, request(10)).await;
                begun.lock().unwrap().push(start.elapsed().as_secs() - 3);
            }
        }
    });
    future::join_all(agents).await;
    let begun = begun.lock().unwrap();
    assert_eq!(begun.len(), 50);
    assert!(begun.windows(8).all(|of| of[7] - of[0] >= 60), "{begun:?}");
}

// D16
#[tokio::test(start_paused = true)]
async fn input_is_reserved_before_the_answer_and_corrected_by_it() {
    let limits = Limits { input_tpm: 1_000, ..Limits::default() };
    // All are estimated at 400 tokens and have 100.
    let model = limited(Slow::new(5, usage(100, 1)), limits);
    let all = future::join_all((0..3).map(|_| ask(&model, request(400)))).await;
    let ends: Vec<_> = all.iter().map(|(end, _)| *end).collect();
    assert_eq!(ends, [5, 5, 10], "the third has room when the first has told what it took");
    assert_eq!(all[2].1, ["rate limit: input tokens a minute 60"]);
    // Experience says that the estimates are four times too high.
    let all = future::join_all((0..6).map(|_| ask(&model, request(400)))).await;
    assert_eq!(all, vec![(5, Vec::new()); 6]);
}

#[tokio::test(start_paused = true)]
async fn output_is_reserved_as_answers_are_long() {
    let limits = Limits { output_tpm: 2_500, ..Limits::default() };
    let model = limited(Slow::new(5, usage(1, 100)), limits);
    let all = future::join_all((0..3).map(|_| ask(&model, request(10)))).await;
    let ends: Vec<_> = all.iter().map(|(end, _)| *end).collect();
    assert_eq!(ends, [5, 5, 10]);
    assert_eq!(all[2].1, ["rate limit: output tokens a minute 60"]);
    let all = future::join_all((0..22).map(|_| ask(&model, request(10)))).await;
    assert_eq!(all, vec![(5, Vec::new()); 22]);
    let (end, reasons) = ask(&model, request(10)).await;
    assert_eq!((end, &*reasons), (55, &["rate limit: output tokens a minute 50".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_longer_than_was_asked_for() {
    let limits = Limits { output_tpm: 100, ..Limits::default() };
    let model = limited(Slow::new(5, usage(1, 1)), limits);
    let request = Request { max_output_tokens: Some(10), ..request(10) };
    let all = future::join_all((0..10).map(|_| ask(&model, request.clone()))).await;
    assert_eq!(all, vec![(5, Vec::new()); 10]);
}

#[tokio::test(start_paused = true)]
async fn what_is_larger_than_a_limit_goes_alone() {
    let limits = Limits { input_tpm: 100, output_tpm: 100, ..Limits::default() };
    let model = limited(Slow::new(1, usage(500, 500)), limits);
    let all = future::join_all((0..2).map(|_| ask(&model, request(500)))).await;
    let ends: Vec<_> = all.iter().map(|(end, _)| *end).collect();
    assert_eq!(ends, [1, 62]);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_queue_has_reserved_nothing() {
    let limits = Limits { rpm: 1, ..Limits::default() };
    let slow = Slow::new(1, usage(1, 1));
    let model = limited(slow.clone(), limits);
    ask(&model, request(10)).await;
    let mut first = model.stream(request(10));
    let mut second = model.stream(request(10));
    assert!(matches!(first.next().await, Some(Ok(StreamEvent::Waiting { .. }))));
    assert!(matches!(second.next().await, Some(Ok(StreamEvent::Waiting { .. }))));
    assert!(first.next().now_or_never().is_none());
    drop(first);
    drop(second);
    assert_eq!(ask(&model, request(10)).await.0, 60);
    assert_eq!(slow.model.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_drops_a_running_request_has_used_its_input() {
    let limits = Limits { input_tpm: 1_000, output_tpm: 1_500, ..Limits::default() };
    let model = limited(Slow::new(5, usage(600, 1)), limits);
    let mut stream = model.stream(request(600));
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::TextDelta(_)))));
    drop(stream);
    let (end, reasons) = ask(&model, request(600)).await;
    assert_eq!((end, &*reasons), (65, &["rate limit: input tokens a minute 60".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn what_was_turned_away_took_no_tokens() {
    let busy = || Reply::error(ModelError::new(ErrorKind::Overloaded, "busy"));
    let model = ScriptedModel::new([busy(), Reply::text("a")]);
    let limits = Limits { input_tpm: 1_000, ..Limits::default() };
    let model = RateLimited::new(model, RateLimiter::new(limits));
    let model = Retry::new(model, Policy { base_delay: Duration::ZERO, ..Policy::default() });
    assert_eq!(ask(&model, request(900)).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_says_which_attempt_it_is_before() {
    let busy = || Reply::error(ModelError::new(ErrorKind::Overloaded, "busy"));
    let model = ScriptedModel::new([busy(), Reply::text("a")]);
    let model = RateLimited::new(model, RateLimiter::new(Limits { rpm: 1, ..Limits::default() }));
    let model = Retry::new(model, Policy { base_delay: Duration::ZERO, ..Policy::default() });
    let events: Vec<_> = model.stream(request(10)).map(Result::unwrap).collect().await;
    let attempts: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Waiting { attempt, reason, .. } => Some((*attempt, reason.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [(2, "provider unavailable: busy"), (2, "rate limit: requests a minute")]);
}

#[tokio::test(start_paused = true)]
async fn without_limits_everything_passes() {
    let model = limited(Slow::new(1, usage(1 << 40, 1 << 40)), Limits::default());
    let all: Vec<_> =
        stream::iter(0..200).map(|_| ask(&model, request(10))).buffered(200).collect().await;
    assert!(all.iter().all(|end| *end == (1, Vec::new())));
}
