//! One model call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use bowline_llm::{
    AssistantMessage, AssistantPart, ErrorKind, ModelError, ModelInfo, ModelStream, Price,
    Response, Spent, StopReason, StreamEvent, Usage,
};

use crate::conversation::Last;
use crate::driver::panic_text;
use crate::entry::{AssistantSaid, Broken, EntryKind, UserSaid, Via};
use crate::event::{EventBody, Phase};
use crate::hub::Live;
use crate::limits::LimitKind;
use crate::op::Input;
use crate::orchestrator::{NextStep, Purpose};

use super::{Halt, Turn, until};

/// What is said to a model whose answer was cut at its greatest length.
const GO_ON: &str = "Your answer was cut at the output limit. Go on exactly where it stops.";

/// How long the last word of a run that has hit a limit may take.
const WRAP_UP: Duration = Duration::from_secs(60);

/// How a model call came out.
enum End {
    Whole(Box<Response>),
    Failed(ModelError),
    Stopped,
    OutOfTime,
}

/// What has come of a reply so far.
struct Draft {
    // What the agent does meanwhile.
    phase: Phase,
    // What is no part of the conversation is not shown.
    is_shown: bool,
    // The price of the model that is asked.
    price: Option<Price>,
    text: String,
    // What failed attempts have cost.
    wasted: Spent,
    attempt: u32,
    deltas: u64,
}

impl Draft {
    fn new(purpose: Purpose, info: &ModelInfo) -> Self {
        let phase = match purpose {
            Purpose::Compact => Phase::Compacting,
            Purpose::Turn
            | Purpose::WrapUp
            | Purpose::Continue
            | Purpose::Repair
            | Purpose::Plan => Phase::Model,
        };
        let (is_shown, price, wasted) = (purpose.is_said(), info.price, Spent::default());
        Self { phase, is_shown, price, text: String::new(), wasted, attempt: 1, deltas: 0 }
    }
}

impl Turn {
    /// Asks the model and commits what it said.
    pub(super) async fn call_model(&mut self, purpose: Purpose) -> Result<(), Halt> {
        let is_cut = self.conversation.last() == Last::Cut && !self.conversation.is_paused();
        if purpose == Purpose::Continue && is_cut {
            let message = Input::from(GO_ON).0;
            let said = UserSaid { message, via: Via::Continue, op: None };
            self.commit(vec![EntryKind::User(said)]).await?;
        }
        let began = Instant::now();
        let deadline = self.time_for_a_reply();
        let (model, request) = if purpose == Purpose::Compact {
            let Some(question) = self.question().await? else { return Ok(()) };
            question
        } else {
            let Some(request) = self.request(purpose, deadline).await? else { return Ok(()) };
            (Arc::clone(&self.agent.model), request)
        };
        let mut draft = Draft::new(purpose, model.info());
        self.enter(draft.phase);
        self.session.hub.begin_turn(&self.meta, self.session.source.now());
        // A model that panics has failed: its turn ends like any other.
        let end = match catch_unwind(AssertUnwindSafe(|| model.stream(request))) {
            Ok(stream) => self.listen(stream, &mut draft, deadline).await?,
            Err(panic) => End::Failed(panicked(&*panic)),
        };
        let active = began.elapsed();
        let out_of_time = matches!(end, End::OutOfTime);
        let said = self.said(purpose, model.info(), end, draft);
        self.commit_after(vec![EntryKind::Assistant(said)], Some(active)).await?;
        // A run that has hit a limit hits no other.
        let is_limited = self.conversation.run().is_some_and(|run| run.limit.is_some());
        let is_hit = out_of_time && !is_limited && !self.is_aside(&NextStep::CallModel(purpose));
        if is_hit { self.hit(LimitKind::RunTime).await } else { Ok(()) }
    }

    /// Returns when a model call that begins now must be over.
    pub(super) fn time_for_a_reply(&self) -> Option<Instant> {
        let is_limited = self.conversation.run().is_some_and(|run| run.limit.is_some());
        if is_limited { Some(Instant::now() + WRAP_UP) } else { self.deadline() }
    }

    /// Follows the reply to its end, while mail keeps coming in.
    async fn listen(
        &mut self,
        mut stream: ModelStream,
        draft: &mut Draft,
        deadline: Option<Instant>,
    ) -> Result<End, Halt> {
        loop {
            let event = tokio::select! {
                event = AssertUnwindSafe(stream.next()).catch_unwind() => {
                    event.unwrap_or_else(|panic| Some(Err(panicked(&*panic))))
                }
                mail = self.mailbox.next() => {
                    self.accept(mail).await?;
                    if self.conversation.run().is_none_or(|run| run.canceled.is_some() || run.fatal.is_some()) {
                        return Ok(End::Stopped);
                    }
                    continue;
                }
                () = until(deadline) => return Ok(End::OutOfTime),
            };
            match event {
                Some(Ok(StreamEvent::Done(response))) => return Ok(End::Whole(response)),
                Some(Ok(event)) => self.hear(event, draft),
                Some(Err(error)) => return Ok(End::Failed(error)),
                None => {
                    let message = "the stream ended without a completed reply";
                    return Ok(End::Failed(ModelError::new(ErrorKind::Incomplete, message)));
                }
            }
        }
    }

    /// Shows what comes in to those who watch.
    fn hear(&mut self, event: StreamEvent, draft: &mut Draft) {
        let body = match event {
            StreamEvent::TextDelta(text) => {
                draft.text.push_str(&text);
                EventBody::TextDelta { text }
            }
            StreamEvent::ReasoningDelta(text) => EventBody::ReasoningDelta { text },
            StreamEvent::ToolCallDelta { index, name, arguments } => {
                EventBody::ToolCallDelta { index, name, arguments }
            }
            StreamEvent::Waiting { attempt, reason, delay, spent } => {
                draft.wasted += spent;
                self.enter(Phase::Retrying);
                let reason = self.agent.redaction.apply(&reason).into_owned();
                self.say(retry(attempt, delay, reason));
                return;
            }
            StreamEvent::Restarted { attempt, error } => {
                if draft.deltas > 0 {
                    self.say(Live {
                        attempt: Some(draft.attempt),
                        ..EventBody::TextReset {}.into()
                    });
                }
                let wasted = draft.wasted + *error.wasted + error.bill(draft.price.as_ref());
                let Draft { phase, is_shown, price, .. } = *draft;
                let text = String::new();
                *draft = Draft { phase, is_shown, price, text, wasted, attempt, deltas: 0 };
                self.enter(phase);
                return;
            }
            // The one who listens takes the end itself.
            StreamEvent::Done(_) => return,
        };
        // A wait for a rate limit is followed by no new start.
        self.enter(draft.phase);
        if !draft.is_shown {
            return;
        }
        let (attempt, n) = (Some(draft.attempt), Some(draft.deltas));
        draft.deltas += 1;
        self.say(Live { attempt, n, call_id: None, body });
    }

    /// Makes of a model call what the log keeps of it.
    fn said(&self, purpose: Purpose, info: &ModelInfo, end: End, draft: Draft) -> AssistantSaid {
        let said = AssistantSaid {
            message: Arc::default(),
            stop: StopReason::EndTurn,
            purpose,
            model: info.id(),
            usage: None,
            wasted: Usage::default(),
            cost_usd: None,
            unpriced: 0,
            price: info.price,
            broken: None,
        };
        let broken = |stop, wasted: Spent, broken| {
            let content = Some(draft.text).filter(|text| !text.is_empty()).map(AssistantPart::Text);
            let message = Arc::new(AssistantMessage { content: content.into_iter().collect() });
            let spent = Some(wasted).filter(|wasted| *wasted != Spent::default());
            let said = AssistantSaid { message, stop, broken: Some(broken), ..said.clone() };
            paid(said, spent, wasted)
        };
        match end {
            End::Whole(mut response) => {
                self.conversation.unique_ids(&mut response.message);
                let info = response.by.as_deref().unwrap_or(info);
                let (model, price) = (info.id(), info.price);
                let spent = response.spent(price.as_ref());
                let Response { message, stop, wasted, .. } = *response;
                let message = Arc::new(message);
                paid(AssistantSaid { message, stop, model, price, ..said }, spent, wasted)
            }
            End::Stopped => broken(StopReason::Canceled, draft.wasted, Broken::Stopped),
            End::OutOfTime => broken(StopReason::Canceled, draft.wasted, Broken::OutOfTime),
            End::Failed(error) => {
                let wasted = *error.wasted + error.bill(info.price.as_ref());
                // Some servers repeat the key that they do not accept.
                let message = self.agent.redaction.apply(&error.to_string()).into_owned();
                let failed = Broken::Failed { kind: error.kind, message };
                broken(StopReason::Error, wasted, failed)
            }
        }
    }
}

/// Writes down what a model call has spent, and how much of it came to nothing.
fn paid(said: AssistantSaid, spent: Option<Spent>, wasted: Spent) -> AssistantSaid {
    let Some(Spent { usage, cost_usd, unpriced }) = spent else { return said };
    let is_any_priced = unpriced == 0 || unpriced < usage.total();
    AssistantSaid {
        usage: Some(usage),
        wasted: wasted.usage,
        cost_usd: is_any_priced.then_some(cost_usd),
        unpriced: if is_any_priced { unpriced } else { 0 },
        ..said
    }
}

fn panicked(panic: &(dyn Any + Send)) -> ModelError {
    let message = format!("the model panicked: {}", panic_text(panic));
    ModelError::new(ErrorKind::Decode, message)
}

fn retry(attempt: u32, delay: Duration, reason: String) -> Live {
    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    EventBody::Retry { attempt, delay_ms, reason }.into()
}
