//! One task, from the agent that is made for it to what its parent is told.

mod attend;
mod verdict;

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::entry::{Entry, Handoff};
use crate::error::AgentError;
use crate::op::CancelReason;
use crate::outcome::Outcome;
use crate::tool::ToolContext;

use super::board::TaskStatus;
use super::deeds::Deeds;
use super::delegate::{Mode, Task};
use super::delegation::Delegation;
use super::hire::{Hired, Stage, delegation_context, unknown};
use super::member::{Interaction, Seat};
use super::reflections::Failure;
use super::report::Report;
use super::ticket::Ticket;
use super::trace::trace;
use crate::tags::tagged;

/// A task, and the agent that has it now. It may outlive its call, behind it.
pub(super) struct Errand {
    seat: Arc<Seat>,
    cx: ToolContext,
    // Fires when another task of the call has failed, and this one is not to go on.
    siblings: CancellationToken,
    index: usize,
    task: Task,
    // With which its agent asks the delegating model; without it nobody is asked.
    delegation: Option<Arc<Delegation>>,
    // What its agent was told beforehand: the answer to its first question, if nobody is asked.
    context: Option<String>,
    ticket: Option<Ticket>,
    hired: Hired,
    handoffs: u32,
    // When its time is up; it begins with the first agent at work.
    until: OnceLock<Option<Instant>>,
    deeds: Deeds,
    // What the board did not take of a handoff.
    warning: Option<String>,
}

/// Why an agent's work came to nothing.
enum Unworked {
    /// It did not begin: another agent has its task, or it is not there.
    Refused(String),
    /// It did not begin: it was stopped while it waited for its turn.
    Unbegun,
    /// Its run could not begin, or not go on.
    Lost(AgentError),
}

/// Why an agent was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Its task was canceled on the board.
    Board,
    /// It took too long.
    Late,
    /// Another task failed.
    Sibling,
    /// It asked, and nobody answered in time.
    Unanswered,
}

impl Errand {
    /// Makes the agent for a task.
    ///
    /// # Errors
    /// What the delegating model is told if that cannot be.
    pub(super) async fn begin(
        seat: &Arc<Seat>,
        cx: &ToolContext,
        siblings: &CancellationToken,
        (index, task): (usize, &Task),
    ) -> Result<Self, Report> {
        let refused = |error| Report {
            agent: task.asked().to_owned(),
            error: Some(error),
            ..Report::default()
        };
        if task.task.trim().is_empty() {
            return Err(refused("say what is to be done".to_owned()));
        }
        let config = task.config();
        if let Some(name) = config.filter(|name| !seat.member.may_delegate_to(name)) {
            return Err(refused(unknown(name, &seat.member.colleagues())));
        }
        let is_asked = task.mode == Some(Mode::Interactive);
        if is_asked && seat.member.interaction != Interaction::Interactive {
            return Err(refused("you cannot be asked: give the task without a mode".to_owned()));
        }
        let context = delegation_context(task.context.as_deref());
        let key = index.to_string();
        let stage = Stage { key: key.clone(), config, handoffs: 0, context: context.clone() };
        let hired = seat.hire(cx, task, stage).await.map_err(refused)?;
        let boards = seat.member.board.as_ref();
        let ticket = boards.zip(task.task_id.clone());
        let name = &hired.handle.meta().name;
        let ticket = ticket.map(|(board, id)| Ticket::new(board(cx), id, name));
        let open = || seat.delegations.open(cx, &key);
        Ok(Self {
            delegation: is_asked.then(open),
            seat: Arc::clone(seat),
            cx: cx.clone(),
            siblings: siblings.clone(),
            index,
            task: task.clone(),
            context,
            ticket,
            hired,
            handoffs: 0,
            until: OnceLock::new(),
            deeds: Deeds::default(),
            warning: None,
        })
    }

    /// Returns with what its agent asks the delegating model, if it does that.
    pub(super) fn delegation(&self) -> Option<Arc<Delegation>> {
        self.delegation.clone()
    }

    /// Does the task, as far as it can be done; returns what its parent is told, and what was done.
    pub(super) async fn run(mut self) -> (Report, Deeds) {
        let report = loop {
            let (outcome, stop) = match self.work().await {
                Ok(worked) => worked,
                Err(unworked) => break self.excuse(unworked).await,
            };
            let Some(handoff) = &outcome.handoff else { break self.judge(&outcome, stop).await };
            if let Err(why) = self.hand_on(handoff).await {
                break self.fail(&format!("handoff: {why}")).await;
            }
        };
        // The call may go on for long, and has no more use for it.
        self.hired.handle.close().await;
        (report, self.deeds)
    }

    /// Lets the agent work.
    async fn work(&self) -> Result<(Outcome, Option<Stop>), Unworked> {
        let Hired { handle, config, is_known, .. } = &self.hired;
        let registry = &self.seat.member.registry;
        let slot = tokio::select! {
            biased;
            () = self.siblings.cancelled() => return self.call_off().await,
            () = self.cx.cancel.cancelled() => return self.call_off().await,
            slot = registry.slots.take(config, &self.cx.desks, handle.agent_id()) => slot,
        };
        // What was handed on was passed on.
        if let Some(ticket) = self.ticket.as_ref().filter(|_| self.handoffs == 0) {
            let claimed = ticket.claim(&handle.meta().name, &self.cx.agent.name);
            // One that was at work before had claimed it, and may have been done with it.
            if let (Err(error), false) = (claimed, is_known) {
                let id = &ticket.id;
                let why = format!("failed to claim task {id:?}: {error}");
                return Err(Unworked::Refused(why));
            }
        }
        let _present = registry.live.enter(self.cx.session, handle.meta());
        let mut run = handle.prompt(self.task.task.clone()).into_future();
        let stop = tokio::select! {
            biased;
            outcome = &mut run => {
                return outcome.map(|outcome| (outcome, None)).map_err(Unworked::Lost);
            }
            stop = self.stop() => stop,
            stop = self.attend(&slot) => stop,
        };
        handle.cancel_for(match stop {
            Stop::Late | Stop::Unanswered => CancelReason::Timeout,
            Stop::Board | Stop::Sibling => CancelReason::Parent,
        });
        run.await.map(|outcome| (outcome, Some(stop))).map_err(Unworked::Lost)
    }

    /// Ends the work of an agent that is not to have its turn. One that was at work in an earlier process
    /// has the task on the board, and may have been done with it.
    async fn call_off(&self) -> Result<(Outcome, Option<Stop>), Unworked> {
        let Hired { handle, is_known, .. } = &self.hired;
        if !is_known {
            return Err(Unworked::Unbegun);
        }
        let run = handle.prompt(self.task.task.clone()).into_future();
        handle.cancel_for(CancelReason::Parent);
        let stop = self.siblings.is_cancelled().then_some(Stop::Sibling);
        run.await.map(|outcome| (outcome, stop)).map_err(Unworked::Lost)
    }

    /// Comes when the agent is to be stopped.
    async fn stop(&self) -> Stop {
        let canceled = async {
            match &self.ticket {
                Some(ticket) => ticket.canceled().await,
                None => std::future::pending().await,
            }
        };
        let time = self.seat.member.task_timeout;
        let until = *self.until.get_or_init(|| Instant::now().checked_add(time?));
        let late = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = canceled => Stop::Board,
            () = late => Stop::Late,
            () = self.siblings.cancelled() => Stop::Sibling,
        }
    }

    /// Hands the task on to another agent.
    async fn hand_on(&mut self, handoff: &Handoff) -> Result<(), String> {
        let member = &self.seat.member;
        if self.handoffs >= member.max_handoffs {
            return Err(format!("the limit of {} in a chain is reached", member.max_handoffs));
        }
        let target = handoff.target.trim();
        member.admits_handoff(&self.hired.config, target)?;
        let (log, deeds) = self.read().await;
        let handoffs = self.handoffs + 1;
        let name = &self.hired.handle.meta().name;
        let mut context =
            format!("From: {name}\nReason: {}\n\n{}", handoff.reason, handoff.context);
        if let Some(done) = trace(&log) {
            context.push_str(&format!("\n\nWhat {name} did:\n{done}"));
        }
        let context = tagged("handoff_context", &context);
        let stage = Stage {
            key: format!("{}/{handoffs}", self.index),
            config: Some(target),
            handoffs,
            context: Some(context.clone()),
        };
        let next = self.seat.hire(&self.cx, &self.task, stage).await?;
        // From here on it is the task of the other one.
        std::mem::replace(&mut self.hired, next).handle.close().await;
        self.deeds.join(deeds);
        self.handoffs = handoffs;
        self.context = Some(context);
        if let Some(ticket) = &self.ticket {
            self.warning = ticket.pass_on(&self.hired.handle.meta().name);
        }
        Ok(())
    }

    /// Says why nothing came of the work.
    async fn excuse(&self, unworked: Unworked) -> Report {
        let mut report = self.report();
        match unworked {
            Unworked::Refused(why) => report.error = Some(why),
            Unworked::Unbegun => report.error = Some("canceled before it began".to_owned()),
            Unworked::Lost(error) => {
                report.error = Some(error.to_string());
                if matches!(error, AgentError::Journal(_)) {
                    // A run that could not be written goes on when the session does.
                    self.ticket.iter().for_each(Ticket::leave);
                } else {
                    self.settle(&mut report, TaskStatus::Failed);
                    let (log, _) = self.read().await;
                    self.remember(&report, &log).await;
                }
            }
        }
        report
    }

    /// Tells the board how the task ended.
    fn settle(&self, report: &mut Report, status: TaskStatus) {
        if let Some(ticket) = &self.ticket {
            report.warning = ticket.settle(status).or_else(|| self.warning.clone());
        }
    }

    /// Remembers that the task failed, unless it was canceled.
    async fn remember(&self, report: &Report, log: &[Entry]) {
        let Some(reflections) = &self.seat.member.reflections else { return };
        if self.cx.cancel.is_cancelled() {
            return;
        }
        let completion = report.completion.as_ref();
        let meta = self.hired.handle.meta();
        let summary = completion.map(|completion| completion.summary.clone());
        let failure = Failure {
            id: meta.id,
            agent: meta.name.clone(),
            at: self.cx.now(),
            task: self.task.task.clone(),
            approach: trace(log),
            summary: summary.or_else(|| report.error.clone()).unwrap_or_default(),
            caveats: completion.and_then(|completion| completion.caveats.clone()),
            files_modified: completion
                .map(|completion| completion.files_modified.clone())
                .unwrap_or_default(),
        };
        reflections.note(failure).await;
    }

    /// Returns what is told of it as long as nothing has come of it.
    pub(super) fn report(&self) -> Report {
        Report {
            agent: self.task.asked().to_owned(),
            name: Some(self.hired.handle.meta().name.clone()),
            ..Report::default()
        }
    }

    /// Reads what the agent did; nothing where there is no log any more.
    async fn read(&self) -> (Vec<Entry>, Deeds) {
        let Some(log) = self.cx.session_log() else { return Default::default() };
        let entries = log.journal(self.hired.handle.agent_id()).read().await.unwrap_or_default();
        let entries: Vec<Entry> = entries.into_iter().map(|(_, entry)| entry).collect();
        let deeds = Deeds::of(&entries, &self.hired.tools);
        (entries, deeds)
    }
}
