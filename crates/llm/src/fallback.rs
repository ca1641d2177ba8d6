//! Asking another model when one cannot answer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::{
    Effort, ErrorKind, Model, ModelError, ModelInfo, ModelStream, Request, Response, Spent,
    StreamEvent,
};

/// How long a model that failed is passed over.
pub const REST: Duration = Duration::from_secs(300);

/// How long a model that failed is passed over at most, whatever its provider asks for.
const LONGEST_REST: Duration = Duration::from_secs(24 * 60 * 60);

/// Several models in order of preference: when one cannot answer, the next is asked.
///
/// Each should be patient by itself ([`Retry`](crate::Retry)); this turns to the next when that
/// patience is at its end. A request goes on to another model when the first one asked is
/// unavailable, silent, broken, unknown or unpaid, or does not take the key. It does not when the
/// request is at fault: what is not accepted or exceeds the context window must be mended, and a
/// refusal is not shopped around. Once a request has gone on, everything but a refusal makes it go
/// on, since another model has another window and other abilities.
///
/// A model that failed is passed over for five minutes ([`REST`]), or for as long as its provider
/// asks up to a day, so that not every turn waits for it anew and caches stay warm where they are; then the
/// more preferred is tried again. If none is left, those that rest are asked all the same. The
/// memory of that lies in the process and is shared by all who share the model.
///
/// Readers are told to drop what they have seen with [`StreamEvent::Restarted`]; the
/// [`Waiting`](StreamEvent::Waiting) before it says why and who is asked instead.
/// [`Response::by`] tells who answered. If nobody does, the error is that of the model asked first,
/// and its message says what came of the others. What they billed counts.
pub struct Fallback {
    chain: Arc<[Link]>,
    info: ModelInfo,
}

/// A model of a [`Fallback`].
#[derive(Clone)]
pub struct Candidate {
    /// The model.
    pub model: Arc<dyn Model>,
    /// How hard it should think; `None` for as hard as the request says.
    pub effort: Option<Effort>,
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("model", &self.model.info().id())
            .field("effort", &self.effort)
            .finish()
    }
}

impl From<Arc<dyn Model>> for Candidate {
    fn from(model: Arc<dyn Model>) -> Self {
        Self { model, effort: None }
    }
}

struct Link {
    candidate: Candidate,
    rests_until: Mutex<Option<Instant>>,
}

impl Fallback {
    /// Puts models behind `first`, which gives the whole its name and its limits.
    pub fn new(first: Arc<dyn Model>, others: impl IntoIterator<Item = Candidate>) -> Self {
        let info = first.info().clone();
        let all = [Candidate::from(first)].into_iter().chain(others);
        let link = |candidate| Link { candidate, rests_until: Mutex::new(None) };
        Self { chain: all.map(link).collect(), info }
    }

    /// Returns the places of all models, those that rest last.
    fn order(&self) -> Vec<usize> {
        let now = Instant::now();
        let mut order: Vec<usize> = (0..self.chain.len()).collect();
        order.sort_by_key(|place| self.chain.get(*place).is_some_and(|link| link.rests(now)));
        order
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.chain.iter().map(|link| &link.candidate)).finish()
    }
}

impl Model for Fallback {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request) -> ModelStream {
        let mut order = self.order();
        order.reverse();
        let search = Search {
            chain: Arc::clone(&self.chain),
            left: order,
            request,
            attempt: 0,
            wasted: Spent::default(),
            first_error: None,
            stage: Stage::Next,
        };
        Box::pin(stream::unfold(Box::new(search), async |mut search| {
            let event = search.next().await?;
            Some((event, search))
        }))
    }
}

impl Link {
    fn info(&self) -> &ModelInfo {
        self.candidate.model.info()
    }

    fn rests(&self, now: Instant) -> bool {
        let until = self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| now < until)
    }

    fn rest_until(&self, until: Option<Instant>) {
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// One request on its way through the models.
struct Search {
    chain: Arc<[Link]>,
    /// The places of the models that were not asked yet, the next one last.
    left: Vec<usize>,
    request: Request,
    /// How many attempts have begun, those of the models themselves included.
    attempt: u32,
    /// What the models that failed have billed.
    wasted: Spent,
    first_error: Option<ModelError>,
    stage: Stage,
}

enum Stage {
    Next,
    Restart(ModelError),
    Asking(Asking),
    Over,
}

/// A model that is being asked.
struct Asking {
    place: usize,
    events: ModelStream,
    /// How many attempts others have made before.
    before: u32,
}

impl Search {
    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Next => self.ask(),
                Stage::Restart(error) => {
                    self.ask();
                    return Some(Ok(StreamEvent::Restarted { attempt: self.attempt, error }));
                }
                Stage::Asking(mut asking) => {
                    let error = match asking.events.next().await {
                        Some(Ok(StreamEvent::Done(response))) => {
                            return Some(Ok(self.answered(asking.place, response)));
                        }
                        Some(Ok(mut event)) => {
                            self.hear(&mut event, &asking);
                            self.stage = Stage::Asking(asking);
                            return Some(Ok(event));
                        }
                        Some(Err(error)) => error,
                        None => ModelError::new(
                            ErrorKind::Incomplete,
                            "the stream ended with neither an answer nor an error",
                        ),
                    };
                    return Some(self.failed(&asking, error));
                }
                Stage::Over => return None,
            }
        }
    }

    /// Asks the next model; without one it is over.
    fn ask(&mut self) {
        let Some(place) = self.left.pop() else { return };
        let Some(link) = self.chain.get(place) else { return };
        let Candidate { model, effort } = &link.candidate;
        let request = Request { effort: effort.or(self.request.effort), ..self.request.clone() };
        let (events, before) = (model.stream(request), self.attempt);
        self.attempt += 1;
        self.stage = Stage::Asking(Asking { place, events, before });
    }

    /// Counts the attempts of a model on from those before.
    fn hear(&mut self, event: &mut StreamEvent, asking: &Asking) {
        match event {
            StreamEvent::Waiting { attempt, .. } => *attempt += asking.before,
            StreamEvent::Restarted { attempt, .. } => {
                *attempt += asking.before;
                self.attempt = *attempt;
            }
            StreamEvent::TextDelta(_)
            | StreamEvent::ReasoningDelta(_)
            | StreamEvent::ToolCallDelta { .. }
            | StreamEvent::Done(_) => {}
        }
    }

    fn answered(&self, place: usize, mut response: Box<Response>) -> StreamEvent {
        if let Some(link) = self.chain.get(place) {
            link.rest_until(None);
            if place > 0 && response.by.is_none() {
                response.by = Some(Arc::new(link.info().clone()));
            }
        }
        response.charge(self.wasted);
        StreamEvent::Done(response)
    }

    /// Decides what follows the failure of a model.
    fn failed(&mut self, asking: &Asking, error: ModelError) -> Result<StreamEvent, ModelError> {
        let link = self.chain.get(asking.place);
        let spent = error.bill(link.and_then(|link| link.info().price.as_ref()));
        self.wasted += *error.wasted + spent;
        let leads_on = match self.first_error {
            None => may_be_answered_by_another(error.kind),
            Some(_) => error.kind != ErrorKind::Refused,
        };
        if !leads_on {
            return Err(error.without_bill().charged(self.wasted));
        }
        if may_be_answered_by_another(error.kind)
            && let Some(link) = link
        {
            let rest = error.retry_after.unwrap_or_default().clamp(REST, LONGEST_REST);
            link.rest_until(Some(Instant::now() + rest));
        }
        let mut reason = error.to_string();
        let error = error.without_bill();
        match (&mut self.first_error, link) {
            (Some(first), Some(link)) => {
                first.message += &format!("; {}: {reason}", link.info().id());
            }
            (first, _) => *first = Some(error.clone()),
        }
        match self.left.last().and_then(|place| self.chain.get(*place)) {
            Some(next) => {
                reason += &format!("; {} is asked instead", next.info().id());
                self.stage = Stage::Restart(error);
                let (attempt, delay) = (self.attempt + 1, Duration::ZERO);
                Ok(StreamEvent::Waiting { attempt, reason, delay, spent })
            }
            None => {
                let first = self.first_error.take().unwrap_or(error);
                Err(first.charged(self.wasted))
            }
        }
    }
}

/// Tells whether a failure lies with the model and its provider, and not with the request.
fn may_be_answered_by_another(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::Auth
        | ErrorKind::Quota
        | ErrorKind::RateLimited
        | ErrorKind::Overloaded
        | ErrorKind::NotFound
        | ErrorKind::Timeout
        | ErrorKind::Transport
        | ErrorKind::Decode
        | ErrorKind::Incomplete => true,
        ErrorKind::ContextOverflow | ErrorKind::InvalidRequest | ErrorKind::Refused => false,
    }
}
