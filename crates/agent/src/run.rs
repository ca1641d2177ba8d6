//! A run as its caller sees it: a stream of events and an outcome.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::StreamExt;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use bowline_llm::Message;

use crate::entry::Ending;
use crate::error::AgentError;
use crate::event::{Event, EventBody};
use crate::handle::SessionHandle;
use crate::id::{AgentId, RunId};
use crate::mailbox::{Own, Seat};
use crate::outcome::Outcome;

/// A run: a lossless stream of its events, and a future of its outcome.
///
/// Dropping it detaches: the run goes on in the agent's own task, unless
/// [`Run::cancel_on_drop`] was called.
#[derive(Debug)]
pub struct Run {
    handle: SessionHandle,
    own: Own,
    place: Place,
    cancel_on_drop: bool,
}

#[derive(Debug)]
enum Place {
    Asked(oneshot::Receiver<Result<Seat, AgentError>>),
    Seated(Seat),
    // Why there is no run; the stream tells it once.
    Refused { error: AgentError, told: bool },
    // The seat was handed out.
    Gone,
}

impl Run {
    pub(crate) fn new(
        handle: SessionHandle,
        own: Own,
        seat: oneshot::Receiver<Result<Seat, AgentError>>,
    ) -> Self {
        Self { handle, own, place: Place::Asked(seat), cancel_on_drop: false }
    }

    pub(crate) fn seated(handle: SessionHandle, seat: Seat) -> Self {
        Self { handle, own: Own::Run(seat.run), place: Place::Seated(seat), cancel_on_drop: false }
    }

    /// Returns the agent that runs.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// Makes dropping the run cancel it.
    #[must_use]
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancel_on_drop = true;
        self
    }

    /// Waits until the run has begun and returns its id.
    ///
    /// # Errors
    /// Why there is no run.
    pub async fn id(&mut self) -> Result<RunId, AgentError> {
        std::future::poll_fn(|cx| self.poll_seat(cx).map(|seat| seat.map(|seat| seat.run))).await
    }

    /// Calls `emit` with every event, then returns the outcome.
    ///
    /// # Errors
    /// Why there is no run, or why it could not go on.
    pub async fn run_with_callback(
        mut self,
        mut emit: impl FnMut(&Event),
    ) -> Result<Outcome, AgentError> {
        while let Some(event) = self.next().await {
            emit(&event);
        }
        self.await
    }

    /// Returns the final message.
    ///
    /// # Errors
    /// [`RunFailure`] if the run did not end with an answer.
    pub async fn run_to_message(self) -> Result<Message, RunFailure> {
        let outcome = self.await?;
        match (&outcome.ending, outcome.answer.last()) {
            (Ending::Done, Some(message)) => Ok(Message::Assistant(Arc::clone(message))),
            (Ending::Done, None) => Err(RunFailure::NoAnswer),
            _ => Err(RunFailure::of(outcome.ending)),
        }
    }

    /// Returns the text of the answer.
    ///
    /// # Errors
    /// [`RunFailure`] if the run did not end with an answer.
    pub async fn text(self) -> Result<String, RunFailure> {
        let outcome = self.await?;
        match outcome.ending {
            Ending::Done => Ok(outcome.text()),
            _ => Err(RunFailure::of(outcome.ending)),
        }
    }

    /// Reads the answer as a value, such as of the type whose
    /// [schema](crate::OutputSchema::of) it had to fit.
    ///
    /// # Errors
    /// [`RunFailure`] if the run did not end with an answer, or with no such value.
    pub async fn parse<T: DeserializeOwned>(self) -> Result<T, RunFailure> {
        let outcome = self.await?;
        match outcome.ending {
            Ending::Done => {
                outcome.parse().map_err(|error| RunFailure::NoSuchValue(error.to_string()))
            }
            _ => Err(RunFailure::of(outcome.ending)),
        }
    }

    fn poll_seat(&mut self, cx: &mut Context<'_>) -> Poll<Result<&mut Seat, AgentError>> {
        if let Place::Asked(seat) = &mut self.place {
            let gone = || Err(self.handle.gone());
            self.place = match ready!(Pin::new(seat).poll(cx)).unwrap_or_else(|_| gone()) {
                Ok(seat) => {
                    self.own = Own::Run(seat.run);
                    Place::Seated(seat)
                }
                Err(error) => Place::Refused { error, told: false },
            };
        }
        Poll::Ready(match &mut self.place {
            Place::Seated(seat) => Ok(seat),
            Place::Refused { error, .. } => Err(error.clone()),
            Place::Asked(_) | Place::Gone => Err(AgentError::Closed),
        })
    }

    fn refusal(&self, error: &AgentError) -> Arc<Event> {
        Arc::new(Event {
            session: self.handle.session_id(),
            run: None,
            turn: 0,
            agent: Arc::clone(self.handle.meta()),
            ts: self.handle.now(),
            pos: None,
            after: None,
            attempt: None,
            n: None,
            call_id: None,
            body: EventBody::Rejected { error: error.to_string() },
        })
    }
}

impl Stream for Run {
    type Item = Arc<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        match ready!(self.poll_seat(cx)) {
            Ok(seat) => seat.events.poll_recv(cx),
            Err(error) => {
                if let Place::Refused { told, .. } = &mut self.place
                    && !std::mem::replace(told, true)
                {
                    return Poll::Ready(Some(self.refusal(&error)));
                }
                Poll::Ready(None)
            }
        }
    }
}

impl IntoFuture for Run {
    type Output = Result<Outcome, AgentError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            std::future::poll_fn(|cx| self.poll_seat(cx).map(|seat| seat.map(|_| ()))).await?;
            let Place::Seated(seat) = std::mem::replace(&mut self.place, Place::Gone) else {
                return Err(AgentError::Closed);
            };
            // Nobody reads the events any more; the hub drops the listener.
            drop(seat.events);
            let mut outcome = seat.outcome;
            let result = (&mut outcome).await.unwrap_or_else(|_| Err(self.handle.gone()));
            // It is over: there is nothing left to cancel.
            self.cancel_on_drop = false;
            drop(self);
            result
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.cancel_on_drop && !matches!(self.place, Place::Refused { .. }) {
            self.handle.cancel_own(self.own);
        }
    }
}

/// Why a run gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunFailure {
    /// The run failed.
    #[error("{0}")]
    Failed(crate::entry::RunError),
    /// The run was cancelled.
    #[error("the run was canceled")]
    Canceled,
    /// The run reached a limit.
    #[error("the run reached its limit {}", .0.as_str())]
    Limit(crate::limits::LimitKind),
    /// The run needed a decision or an answer that nobody could give.
    #[error("the run needs an approval")]
    NeedsApproval,
    /// The answer cannot be read as what was asked for.
    #[error("the answer is no such value: {0}")]
    NoSuchValue(String),
    /// The run ended without an answer.
    #[error("the agent did not return an answer")]
    NoAnswer,
    /// There was no run, or it could not go on.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The stream told of no run, or of one that was refused.
    #[error("{0}")]
    Rejected(String),
}

impl RunFailure {
    fn of(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::NoAnswer,
            Ending::Failed(error) => Self::Failed(error),
            Ending::Canceled(_) => Self::Canceled,
            Ending::Limit(limit) => Self::Limit(limit),
            Ending::NeedsApproval => Self::NeedsApproval,
        }
    }
}

/// Follows the first agent that speaks in a stream of events, to the end of its run, and returns
/// the text with which its last turn ended. What its sub-agents say does not count.
///
/// # Errors
/// [`RunFailure`] if the run did not end with an answer, or the last turn had no text.
pub async fn collect_final_text(
    events: impl Stream<Item = Arc<Event>>,
) -> Result<String, RunFailure> {
    let mut events = std::pin::pin!(events);
    let mut agent: Option<AgentId> = None;
    let mut answer = None;
    while let Some(event) = events.next().await {
        if *agent.get_or_insert(event.agent.id) != event.agent.id {
            continue;
        }
        match &event.body {
            EventBody::TurnStart {} => answer = None,
            EventBody::Text { text, finalizing: true } => answer = Some(text.clone()),
            EventBody::RunEnd(end) if end.outcome == Ending::Done => {
                return answer.ok_or(RunFailure::NoAnswer);
            }
            EventBody::RunEnd(end) => return Err(RunFailure::of(end.outcome.clone())),
            EventBody::RunLost { error } | EventBody::Rejected { error } => {
                return Err(RunFailure::Rejected(error.clone()));
            }
            _ => {}
        }
    }
    Err(RunFailure::NoAnswer)
}
