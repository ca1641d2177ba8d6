//! Patience: trying again what may succeed later.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::{ErrorKind, Model, ModelError, ModelInfo, ModelStream, Request, Spent, StreamEvent};

/// A model that repeats a request if its failure is [transient](ErrorKind::is_transient).
///
/// Nothing partial is kept: before an attempt begins, [`StreamEvent::Restarted`] tells readers to
/// drop what they have seen. What failed attempts cost is part of the answer's usage, or of the
/// last error's.
pub struct Retry<M> {
    model: Arc<M>,
    policy: Policy,
    random: Random,
}

/// How long and how often to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many attempts may follow the first.
    pub max_retries: u32,
    /// The upper bound of the first wait; it doubles with each failure.
    pub base_delay: Duration,
    /// Where the doubling ends.
    pub max_delay: Duration,
    /// The longest wait a provider may ask for; if it asks for more, its error is final.
    pub max_retry_after: Duration,
    /// How long after the first failure an attempt may still begin; `None` for no limit.
    pub budget: Option<Duration>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_retries: 8,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(60),
            budget: Some(Duration::from_secs(300)),
        }
    }
}

/// A source of random numbers.
type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

impl<M: Model + 'static> Retry<M> {
    /// Wraps a model.
    pub fn new(model: M, policy: Policy) -> Self {
        Self::with_random(model, policy, || RandomState::new().build_hasher().finish())
    }

    /// Wraps a model, with a source of random numbers for the waits.
    pub fn with_random(
        model: M,
        policy: Policy,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { model: Arc::new(model), policy, random: Arc::new(random) }
    }
}

impl<M: fmt::Debug> fmt::Debug for Retry<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("model", &self.model)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl<M: Model + 'static> Model for Retry<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let attempts = Attempts {
            model: Arc::clone(&self.model),
            policy: self.policy,
            random: Arc::clone(&self.random),
            request,
            begun: 0,
            wasted: Spent::default(),
            first_failure: None,
            stage: Stage::Begin,
        };
        Box::pin(stream::unfold(Box::new(attempts), async |mut attempts| {
            let event = attempts.next().await?;
            Some((event, attempts))
        }))
    }
}

/// All attempts at one request.
struct Attempts<M> {
    model: Arc<M>,
    policy: Policy,
    random: Random,
    request: Request,
    /// How many attempts have begun.
    begun: u32,
    wasted: Spent,
    first_failure: Option<Instant>,
    stage: Stage,
}

enum Stage {
    Begin,
    Attempt(ModelStream),
    Wait { delay: Duration, error: ModelError },
    Over,
}

impl<M: Model> Attempts<M> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Begin => self.begin(),
                Stage::Wait { delay, error } => {
                    sleep(delay).await;
                    self.begin();
                    return Some(Ok(StreamEvent::Restarted { attempt: self.begun, error }));
                }
                Stage::Attempt(mut events) => {
                    let error = match events.next().await {
                        Some(Ok(StreamEvent::Done(mut response))) => {
                            response.charge(self.wasted);
                            return Some(Ok(StreamEvent::Done(response)));
                        }
                        Some(Ok(mut event)) => {
                            self.stage = Stage::Attempt(events);
                            if let StreamEvent::Waiting { attempt, .. }
                            | StreamEvent::Restarted { attempt, .. } = &mut event
                            {
                                // The model within counts its own attempts only.
                                *attempt += self.begun - 1;
                            }
                            return Some(Ok(event));
                        }
                        Some(Err(error)) => error,
                        None => ModelError::new(
                            ErrorKind::Incomplete,
                            "the stream ended with neither an answer nor an error",
                        ),
                    };
                    return Some(self.after(error));
                }
                Stage::Over => return None,
            }
        }
    }

    fn begin(&mut self) {
        self.begun += 1;
        self.stage = Stage::Attempt(self.model.stream(self.request.clone()));
    }

    /// Decides what follows a failed attempt.
    fn after(&mut self, error: ModelError) -> Result<StreamEvent, ModelError> {
        let Some(delay) = self.delay_after(&error) else {
            return Err(error.charged(self.wasted));
        };
        let spent = error.bill(self.model.info().price.as_ref());
        self.wasted += *error.wasted + spent;
        let reason = error.to_string();
        self.stage = Stage::Wait { delay, error: error.without_bill() };
        Ok(StreamEvent::Waiting { attempt: self.begun + 1, reason, delay, spent })
    }

    /// Returns how long to wait before the next attempt; `None` if there is to be none.
    fn delay_after(&mut self, error: &ModelError) -> Option<Duration> {
        let policy = &self.policy;
        let asked = error.retry_after.unwrap_or_default();
        let is_worth_it = error.kind.is_transient()
            && self.begun <= policy.max_retries
            && asked <= policy.max_retry_after;
        if !is_worth_it {
            return None;
        }
        let doublings = self.begun.saturating_sub(1).min(31);
        let bound = policy.base_delay.saturating_mul(1 << doublings).min(policy.max_delay);
        // Full jitter above what the provider asks: many clients must not come back at once.
        let delay = asked.saturating_add(fraction_of(bound, (self.random)()));
        let since = self.first_failure.get_or_insert_with(Instant::now).elapsed();
        let fits = policy.budget.is_none_or(|budget| since.saturating_add(delay) <= budget);
        fits.then_some(delay)
    }
}

/// Scales a random number to a time between zero and `bound`.
fn fraction_of(bound: Duration, random: u64) -> Duration {
    let nanos = (bound.as_nanos() * u128::from(random)) / u128::from(u64::MAX);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
