//! Keeping below what a provider allows in a minute.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future, stream};
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::{Model, ModelError, ModelInfo, ModelStream, Request, Spent, StreamEvent, Usage};

mod estimate;
mod window;

use window::{Need, Wait, Window};

/// A model that waits until its provider's limits have room for a request.
///
/// Before a request is sent, room is reserved for it: one request, its input as estimated from its
/// bytes, and its output as answers are long on average. What it really took replaces the estimate
/// when the answer is there. A reservation does not keep others waiting: as long as there is room,
/// any number of requests run at the same time.
///
/// A request that waits says so once with [`StreamEvent::Waiting`], and once more when it is the
/// first in the queue. Requests are sent in the order in which they came. Who drops the stream of a
/// waiting request leaves the queue and has reserved nothing; who drops a running one has used its
/// request, its input and what was said so far. Who neither polls nor drops the stream of a waiting
/// request keeps its place, and all behind it waiting.
///
/// A limiter knows of this process only: other processes with the same key must share out the
/// limits among them.
pub struct RateLimited<M> {
    model: Arc<M>,
    limiter: RateLimiter,
}

/// What a provider allows in any sixty seconds; 0 is no limit.
///
/// A request that alone is larger than a limit is sent when nothing else counts against it. Tokens
/// that were read from a cache count as input, though some providers do not count them: with those,
/// set a higher limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many requests may begin.
    pub rpm: u32,
    /// How many tokens of input may be sent.
    pub input_tpm: u64,
    /// How many tokens of output may be asked for.
    pub output_tpm: u64,
}

/// The account of one provider. Clones share it; all models of the provider should.
#[derive(Clone)]
pub struct RateLimiter(Arc<Shared>);

struct Shared {
    window: Mutex<Window>,
    /// The queue: its one permit belongs to the request that is next.
    turn: Arc<Semaphore>,
    /// Tells the one that is next that there may be more room.
    changed: Notify,
}

impl RateLimiter {
    /// Makes a limiter that has seen no request.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            window: Mutex::new(Window::new(limits)),
            turn: Arc::new(Semaphore::new(1)),
            changed: Notify::new(),
        }))
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, need: Need) -> Result<Reservation, Wait> {
        let id = self.window().reserve(need, Instant::now())?;
        let limiter = self.clone();
        Ok(Reservation { limiter, id, need, said: 0, is_settled: false })
    }

    /// Waits until there may be room.
    async fn wait(&self, wait: Wait) {
        tokio::select! {
            () = sleep_until(wait.until) => {}
            () = self.0.changed.notified() => {}
        }
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimiter").field(&self.window().limits()).finish()
    }
}

/// The wait for one's turn.
type Turn = BoxFuture<'static, Result<OwnedSemaphorePermit, AcquireError>>;

impl<M: Model + 'static> RateLimited<M> {
    /// Puts a model under a limiter.
    pub fn new(model: M, limiter: RateLimiter) -> Self {
        Self { model: Arc::new(model), limiter }
    }
}

impl<M: fmt::Debug> fmt::Debug for RateLimited<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited")
            .field("model", &self.model)
            .field("limiter", &self.limiter)
            .finish()
    }
}

impl<M: Model + 'static> Model for RateLimited<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: Request) -> ModelStream {
        let call = LimitedCall {
            model: Arc::clone(&self.model),
            limiter: self.limiter.clone(),
            stage: Stage::Unsent(request),
        };
        Box::pin(stream::unfold(Box::new(call), async |mut call| {
            let event = call.next().await?;
            Some((event, call))
        }))
    }
}

/// One request, before and while it is answered.
struct LimitedCall<M> {
    model: Arc<M>,
    limiter: RateLimiter,
    stage: Stage,
}

enum Stage {
    Unsent(Request),
    Queued { turn: Turn, unsent: Unsent },
    First { turn: OwnedSemaphorePermit, unsent: Unsent, has_told: bool },
    Running { events: ModelStream, reservation: Reservation },
    Over,
}

struct Unsent {
    request: Request,
    need: Need,
}

impl<M: Model> LimitedCall<M> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Unsent(request) => {
                    if let Some(waiting) = self.queue(request).await {
                        return Some(Ok(waiting));
                    }
                }
                Stage::Queued { turn, unsent } => {
                    // The semaphore is never closed.
                    let turn = turn.await.ok()?;
                    self.stage = Stage::First { turn, unsent, has_told: false };
                }
                Stage::First { turn, unsent, has_told } => {
                    match self.limiter.reserve(unsent.need) {
                        Ok(reservation) => {
                            drop(turn);
                            let events = self.model.stream(unsent.request);
                            self.stage = Stage::Running { events, reservation };
                        }
                        Err(wait) if has_told => {
                            self.limiter.wait(wait).await;
                            self.stage = Stage::First { turn, unsent, has_told };
                        }
                        Err(wait) => {
                            self.stage = Stage::First { turn, unsent, has_told: true };
                            return Some(Ok(waiting(wait)));
                        }
                    }
                }
                Stage::Running { mut events, mut reservation } => {
                    let event = events.next().await?;
                    if !reservation.hear(&event) {
                        self.stage = Stage::Running { events, reservation };
                    }
                    return Some(event);
                }
                Stage::Over => return None,
            }
        }
    }

    /// Gets in the queue, and tells if others are before.
    async fn queue(&mut self, request: Request) -> Option<StreamEvent> {
        let need = self.limiter.window().need_of(&request, self.model.info());
        let unsent = Unsent { request, need };
        let queue = &self.limiter.0.turn;
        if let Ok(turn) = Arc::clone(queue).try_acquire_owned() {
            self.stage = Stage::First { turn, unsent, has_told: false };
            return None;
        }
        let mut turn = Arc::clone(queue).acquire_owned().boxed();
        // Its place is taken now, however long the reader takes to come back.
        let turn = match futures::poll!(&mut turn) {
            Poll::Ready(turn) => future::ready(turn).boxed(),
            Poll::Pending => turn,
        };
        self.stage = Stage::Queued { turn, unsent };
        let until = self.limiter.window().next_at();
        Some(waiting(Wait { until, of: "others are first" }))
    }
}

fn waiting(wait: Wait) -> StreamEvent {
    StreamEvent::Waiting {
        attempt: 1,
        reason: format!("rate limit: {}", wait.of),
        delay: wait.until.saturating_duration_since(Instant::now()),
        spent: Spent::default(),
    }
}

/// Room that is reserved for a running request.
struct Reservation {
    limiter: RateLimiter,
    id: u64,
    need: Need,
    /// How many bytes of the answer came.
    said: u64,
    is_settled: bool,
}

impl Reservation {
    /// Follows the answer; returns whether this is its end.
    fn hear(&mut self, event: &Result<StreamEvent, ModelError>) -> bool {
        match event {
            Ok(StreamEvent::TextDelta(text) | StreamEvent::ReasoningDelta(text)) => {
                self.said += text.len() as u64;
            }
            Ok(StreamEvent::ToolCallDelta { arguments, .. }) => self.said += arguments.len() as u64,
            Ok(StreamEvent::Waiting { .. } | StreamEvent::Restarted { .. }) => {}
            Ok(StreamEvent::Done(response)) => match response.usage {
                Some(usage) => self.settle(usage),
                None => self.settle(self.guessed()),
            },
            // A request that was turned away took no tokens unless it says so.
            Err(error) => self.settle(error.usage),
        }
        self.is_settled
    }

    /// Returns what was used as far as one can tell without being told.
    fn guessed(&self) -> Usage {
        let output = estimate::tokens(self.said);
        Usage { input: self.need.input, output, ..Usage::default() }
    }

    fn settle(&mut self, usage: Usage) {
        self.is_settled = true;
        self.limiter.window().settle(self.id, self.need, usage, Instant::now());
        self.limiter.0.changed.notify_one();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_settled {
            self.settle(self.guessed());
        }
    }
}
