//! Tasks whose agents ask the delegating model, and are answered in later calls.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use bowline_llm::CallId;

use crate::entry::EntryKind;
use crate::id::{AgentId, OpId};
use crate::journal::Pos;
use crate::tool::{ToolContext, ToolError};

use super::deeds::Deeds;
use super::report::{PendingQuestion, Report};

/// The name under which it is recorded that a delegation stays open behind its call, or is over.
const RECORD: &str = "crew.delegations";

/// The delegations that a member can be asked about.
#[derive(Debug, Default)]
pub(super) struct Delegations {
    open: Mutex<HashMap<(AgentId, String), Arc<Delegation>>>,
    // The calls that have opened all of theirs, for those who wait for one.
    opened: watch::Sender<HashSet<(AgentId, CallId)>>,
}

/// A delegation that is open, and what tells that nobody works for it any more.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) delegation: Arc<Delegation>,
    ended: CancellationToken,
}

/// A task whose agent may ask.
#[derive(Debug)]
pub(super) struct Delegation {
    pub(super) id: String,
    standing: watch::Sender<Standing>,
}

/// How a task stands.
#[derive(Debug, Clone)]
enum Standing {
    Working,
    Asks(Report),
    Answered(Answer),
    Over(Report, Deeds),
    /// The delegating model knows what came of it.
    Told,
}

/// An answer, and the operation that brings it.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) op: OpId,
    pub(super) text: String,
}

/// What is recorded of a delegation.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    id: String,
    call: CallId,
    key: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_over: bool,
}

impl Delegations {
    /// Opens a delegation of a call. One that was open when a process died has its old id.
    pub(super) fn open(&self, cx: &ToolContext, key: &str) -> Arc<Delegation> {
        let noted = noted(cx);
        let mut open = self.lock();
        let id = noted.iter().find(|noted| noted.call == cx.call && noted.key == key);
        let id = id.map(|noted| noted.id.clone()).unwrap_or_else(|| {
            let own = open.keys().filter(|(of, _)| *of == cx.agent.id).map(|(_, id)| id);
            let known = noted.iter().map(|noted| &noted.id).chain(own);
            let numbers = known.filter_map(|id| id.strip_prefix("d-")?.parse::<u64>().ok());
            format!("d-{}", numbers.max().unwrap_or_default() + 1)
        });
        // Its call may run again only because of others that it left open.
        let is_told = noted.iter().any(|noted| noted.id == id && noted.is_over);
        let standing = if is_told { Standing::Told } else { Standing::Working };
        let standing = watch::Sender::new(standing);
        let delegation = Arc::new(Delegation { id: id.clone(), standing });
        if !is_told {
            open.insert((cx.agent.id, id), Arc::clone(&delegation));
        }
        delegation
    }

    /// Notes that a call has opened all that it opens.
    pub(super) fn opened(&self, cx: &ToolContext) {
        self.opened.send_if_modified(|opened| opened.insert((cx.agent.id, cx.call.clone())));
    }

    /// Records that a delegation stays open behind its call.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if it cannot be recorded.
    pub(super) fn keep(&self, cx: &ToolContext, id: &str, key: &str) -> Result<(), ToolError> {
        let (id, key) = (id.to_owned(), key.to_owned());
        cx.record(RECORD, &Noted { id, call: cx.call.clone(), key, is_over: false })
    }

    /// Tells whether a delegation of the call was left open behind it, by an earlier process.
    pub(super) fn is_kept(&self, cx: &ToolContext, id: &str) -> bool {
        noted(cx).iter().any(|noted| noted.id == id && noted.call == cx.call)
    }

    /// Forgets a delegation that ended within its call.
    pub(super) fn forget(&self, cx: &ToolContext, id: &str) {
        self.lock().remove(&(cx.agent.id, id.to_owned()));
    }

    /// Closes a delegation: the model is told what came of it.
    ///
    /// # Errors
    /// As [`Delegations::keep`].
    pub(super) fn close(&self, cx: &ToolContext, delegation: &Delegation) -> Result<(), ToolError> {
        let (id, key) = (delegation.id.clone(), String::new());
        cx.record(RECORD, &Noted { id, call: cx.call.clone(), key, is_over: true })?;
        self.forget(cx, &delegation.id);
        delegation.standing.send_replace(Standing::Told);
        Ok(())
    }

    /// Returns a delegation. In a process that goes on with a session it may take a moment until it
    /// is open again.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if there is none of the id, or none any more: it ends with the run that
    /// opened it.
    pub(super) async fn find(&self, cx: &ToolContext, id: &str) -> Result<Open, ToolError> {
        let (noted, mut opened) = (noted(cx), self.opened.subscribe());
        let goes_on = |id: &str| {
            let last = noted.iter().rev().find(|noted| noted.id == id)?;
            let ended = cx.behind.get(&last.call).filter(|_| !last.is_over)?;
            Some((&last.call, ended.clone()))
        };
        let gone = || {
            let mut ids: Vec<&str> = noted.iter().map(|noted| &*noted.id).collect();
            ids.retain(|id| goes_on(id).is_some_and(|(_, ended)| !ended.is_cancelled()));
            ids.dedup();
            let known = if ids.is_empty() { "none is open".to_owned() } else { ids.join(", ") };
            ToolError::Failed(format!("there is no delegation {id:?}: {known}"))
        };
        let (call, ended) = goes_on(id).ok_or_else(gone)?;
        let by = (cx.agent.id, call.clone());
        tokio::select! {
            () = cx.cancel.cancelled() => return Err(ToolError::failed("canceled")),
            () = ended.cancelled() => return Err(gone()),
            _ = opened.wait_for(|opened| opened.contains(&by)) => {}
        }
        let delegation = self.lock().get(&(cx.agent.id, id.to_owned())).cloned();
        Ok(Open { delegation: delegation.ok_or_else(gone)?, ended })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(AgentId, String), Arc<Delegation>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn noted(cx: &ToolContext) -> Vec<Noted> {
    let recorded = cx.recorded(RECORD);
    recorded.iter().filter_map(|data| serde_json::from_str(data.as_str()).ok()).collect()
}

impl Open {
    /// Answers the agent, and waits until it has finished or asks again.
    ///
    /// # Errors
    /// [`ToolError::Failed`] if nobody works for it any more.
    pub(super) async fn answer(
        &self,
        cx: &ToolContext,
        answer: Answer,
    ) -> Result<(Report, Deeds), ToolError> {
        tokio::select! {
            biased;
            standing = self.delegation.answer(cx, answer) => Ok(standing),
            () = self.ended.cancelled() => {
                let id = &self.delegation.id;
                Err(ToolError::Failed(format!("nobody works for {id:?} any more")))
            }
        }
    }
}

impl Delegation {
    /// Asks the delegating model; `None` if it does not answer in time.
    pub(super) async fn ask(
        &self,
        question: PendingQuestion,
        report: Report,
        time: Option<Duration>,
    ) -> Option<Answer> {
        let delegation_id = Some(self.id.clone());
        let report = Report { delegation_id, pending_question: Some(question), ..report };
        self.standing.send_replace(Standing::Asks(report));
        let mut standing = self.standing.subscribe();
        let answered = standing.wait_for(|now| matches!(now, Standing::Answered(_)));
        let answered = match time {
            Some(time) => tokio::time::timeout(time, answered).await.ok()?,
            None => answered.await,
        };
        let answer = match &*answered.ok()? {
            Standing::Answered(answer) => Some(answer.clone()),
            Standing::Working | Standing::Asks(_) | Standing::Over(..) | Standing::Told => None,
        };
        self.standing.send_replace(Standing::Working);
        answer
    }

    /// Answers the agent, and waits until it has finished or asks again.
    async fn answer(&self, cx: &ToolContext, answer: Answer) -> (Report, Deeds) {
        let mut standing = self.standing.subscribe();
        let stands = |now: &Standing| matches!(now, Standing::Asks(_) | Standing::Over(..));
        // It may be about to ask, in a process that goes on with a session.
        let is_there = standing.wait_for(stands).await.is_ok();
        if is_there && !self.was_given(cx, &answer).await {
            self.standing.send_if_modified(|now| {
                let asks = matches!(now, Standing::Asks(_));
                if asks {
                    *now = Standing::Answered(answer);
                }
                asks
            });
        }
        let now = standing.wait_for(stands).await;
        match now.as_deref() {
            Ok(Standing::Asks(report)) => (report.clone(), Deeds::default()),
            Ok(Standing::Over(report, deeds)) => (report.clone(), deeds.clone()),
            Ok(Standing::Working | Standing::Answered(_) | Standing::Told) | Err(_) => {
                Default::default()
            }
        }
    }

    /// Says what came of the task.
    pub(super) fn is_over(&self, report: Report, deeds: Deeds) {
        self.standing.send_if_modified(|now| {
            let is_news = !matches!(now, Standing::Told);
            if is_news {
                *now = Standing::Over(report, deeds);
            }
            is_news
        });
    }

    /// Returns what the agent asks, if it does.
    pub(super) fn asks(&self) -> Option<Report> {
        match &*self.standing.borrow() {
            Standing::Asks(report) => Some(report.clone()),
            Standing::Working | Standing::Answered(_) | Standing::Over(..) | Standing::Told => None,
        }
    }

    /// Tells whether the delegating model knows what came of the task.
    pub(super) fn is_told(&self) -> bool {
        matches!(&*self.standing.borrow(), Standing::Told)
    }

    /// Comes when the delegating model knows what came of the task.
    pub(super) async fn told(&self) {
        let mut standing = self.standing.subscribe();
        let _ = standing.wait_for(|now| matches!(now, Standing::Told)).await;
    }

    /// Tells whether an answer was given by an earlier process.
    async fn was_given(&self, cx: &ToolContext, answer: &Answer) -> bool {
        let Some(log) = cx.session_log() else { return false };
        let entries = log.read(Pos(0)).await.unwrap_or_default();
        entries.iter().any(|(_, entry)| match &entry.kind {
            EntryKind::Answered(answered) => answered.op == Some(answer.op),
            _ => false,
        })
    }
}
