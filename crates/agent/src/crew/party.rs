//! The tasks of one call.

use std::sync::Arc;
use std::task::Poll;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, poll_fn};
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::entry::Behind;
use crate::op::Input;
use crate::tool::{ToolContext, ToolError};

use super::deeds::{self, Deeds};
use super::delegate::Task;
use super::delegation::Delegation;
use super::errand::Errand;
use super::member::{OnError, Seat};
use super::report::Report;
use super::slots::Lent;
use crate::tags::tagged;

/// The tasks of one call, and those who do them.
pub(super) struct Party {
    seat: Arc<Seat>,
    cx: ToolContext,
    siblings: CancellationToken,
    on_error: OnError,
    places: Vec<Place>,
    // The agent's slot, given back as long as it waits for them.
    slot: Option<Lent>,
    // They do their work when they are polled, and only then.
    errands: FuturesUnordered<BoxFuture<'static, (usize, Report, Deeds)>>,
}

/// One of the tasks.
struct Place {
    /// What the model is told while it is not over.
    begun: Report,
    is_background: bool,
    delegation: Option<Arc<Delegation>>,
    over: Option<(Report, Deeds)>,
    /// Whether nobody works on it, because no agent could be made.
    is_refused: bool,
}

impl Party {
    /// Makes the agents for the tasks.
    pub(super) async fn begin(
        seat: &Arc<Seat>,
        cx: &ToolContext,
        tasks: &[Task],
        on_error: OnError,
    ) -> Self {
        let siblings = CancellationToken::new();
        let mut places = Vec::new();
        let errands = FuturesUnordered::new();
        // One after the other, so that they are named and numbered in their order.
        for (index, task) in tasks.iter().enumerate() {
            let errand = Errand::begin(seat, cx, &siblings, (index, task)).await;
            let mut place = Place {
                begun: Report::default(),
                is_background: task.background,
                delegation: None,
                over: None,
                is_refused: false,
            };
            match errand {
                Ok(errand) => {
                    place.begun = Report { status: Some("running"), ..errand.report() };
                    place.delegation = errand.delegation();
                    let done = errand.run().map(move |(report, deeds)| (index, report, deeds));
                    errands.push(done.boxed());
                }
                Err(report) => {
                    place.over = Some((report, Deeds::default()));
                    place.is_refused = true;
                }
            }
            places.push(place);
        }
        seat.delegations.opened(cx);
        let is_refused = |place: &Place| place.is_refused;
        if on_error == OnError::CancelSiblings && places.iter().any(is_refused) {
            siblings.cancel();
        }
        let (seat, cx) = (Arc::clone(seat), cx.clone());
        Self { seat, cx, siblings, on_error, places, slot: None, errands }
    }

    /// Works until each task is over, asks, or is one for the background.
    pub(super) async fn work(&mut self) {
        self.slot = Some(self.cx.step_aside());
        self.work_until(|place| {
            let asks = |asking: &Arc<Delegation>| asking.asks().is_some();
            place.is_background || place.delegation.as_ref().is_some_and(asks)
        })
        .await;
        // In the end the agent's run waits for what is in the background, so it holds no slot as
        // long as that goes on.
        if !self.has_background() {
            self.take_back().await;
        }
    }

    fn has_background(&self) -> bool {
        self.places.iter().any(|place| place.is_background && !place.is_refused)
    }

    /// Waits until the agent has its slot again.
    async fn take_back(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        tokio::select! {
            () = slot.take_back() => {}
            () = self.cx.cancel.cancelled() => {}
        }
    }

    async fn work_until(&mut self, may_wait: impl Fn(&Place) -> bool) {
        poll_fn(|task| {
            while let Poll::Ready(Some((index, report, deeds))) = self.errands.poll_next_unpin(task)
            {
                if self.on_error == OnError::CancelSiblings && report.is_failure() {
                    self.siblings.cancel();
                }
                if let Some(place) = self.places.get_mut(index) {
                    if let Some(delegation) = &place.delegation {
                        delegation.is_over(report.clone(), deeds.clone());
                    }
                    place.over = Some((report, deeds));
                }
            }
            let settled = |place: &Place| place.over.is_some() || may_wait(place);
            if self.places.iter().all(settled) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns what was done for the tasks that are over.
    pub(super) fn deeds(&self) -> Deeds {
        let mut all = Deeds::default();
        let told = self.places.iter().filter(|place| !place.is_background);
        for (_, deeds) in told.filter_map(|place| place.over.as_ref()) {
            all.join(deeds.clone());
        }
        all
    }

    /// Returns what the model is told now, and lets the rest go on behind the call.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if it cannot be recorded that something does.
    pub(super) fn leave(mut self) -> Result<Vec<Report>, ToolError> {
        let mut reports = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            let is_over = place.over.is_some();
            let asks = place.delegation.as_ref().and_then(|delegation| delegation.asks());
            let delegations = &self.seat.delegations;
            match (&place.delegation, is_over) {
                (Some(delegation), false) => {
                    delegations.keep(&self.cx, &delegation.id, &index.to_string())?;
                }
                (Some(delegation), true) if !delegations.is_kept(&self.cx, &delegation.id) => {
                    delegations.forget(&self.cx, &delegation.id);
                    place.delegation = None;
                }
                (Some(_), true) | (None, _) => {}
            }
            // What comes of the others is told later in any case, or else it might be told twice,
            // or never, when the call runs again.
            let is_told = !place.is_background || place.is_refused;
            let over = place.over.as_ref().filter(|_| is_told).map(|(report, _)| report.clone());
            reports.push(over.or(asks).unwrap_or_else(|| place.begun.clone()));
        }
        let asks = |place: &Place| place.delegation.is_some();
        let cx = self.cx.clone();
        if self.has_background() {
            cx.leave_behind(Behind::Awaited, self.report_later());
        } else if self.places.iter().any(asks) {
            cx.leave_behind(Behind::Dismissed, self.answer_later());
        }
        Ok(reports)
    }

    /// Does the tasks of the background, and says what came of them.
    async fn report_later(mut self) -> Option<Input> {
        self.work_until(|_| false).await;
        self.take_back().await;
        self.note_deeds(|place| place.is_background);
        let later =
            self.places.into_iter().filter(|place| place.is_background && !place.is_refused);
        let reports: Vec<Report> = later.filter_map(|place| Some(place.over?.0)).collect();
        let json = serde_json::to_string(&reports).ok()?;
        Some(tagged("delegation_results", &json).into())
    }

    /// Goes on with the tasks whose agents ask, until the model knows what came of all of them.
    async fn answer_later(mut self) -> Option<Input> {
        self.work_until(|_| false).await;
        for delegation in self.places.iter().filter_map(|place| place.delegation.as_ref()) {
            tokio::select! {
                () = delegation.told() => {}
                // Nobody will ask for it any more.
                () = self.cx.cancel.cancelled() => {
                    self.seat.delegations.forget(&self.cx, &delegation.id);
                }
            }
        }
        // What was done for answers was told with those.
        if self.cx.cancel.is_cancelled() {
            self.note_deeds(|place| {
                place.delegation.as_ref().is_some_and(|delegation| !delegation.is_told())
            });
        }
        None
    }

    /// Records what was done for some of the tasks, for whoever delegated to this agent.
    fn note_deeds(&self, is_noted: impl Fn(&Place) -> bool) {
        let mut all = Deeds::default();
        let noted = self.places.iter().filter(|place| is_noted(place));
        for (_, deeds) in noted.filter_map(|place| place.over.as_ref()) {
            all.join(deeds.clone());
        }
        if self.cx.agent.depth > 0 && !all.is_empty() {
            // It is a list of texts.
            let _ = self.cx.record(deeds::RECORD, &all);
        }
    }
}
