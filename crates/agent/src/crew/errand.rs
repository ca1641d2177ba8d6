//! One task, from the agent that is made for it to what its parent is told.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use bowline_llm::CallId;

use crate::entry::{Completion, CompletionStatus, Ending, Entry, EntryKind, Handoff, Wake};
use crate::error::AgentError;
use crate::handle::{SessionHandle, State};
use crate::id::EntryId;
use crate::limits::LimitKind;
use crate::op::{CancelReason, Op, OpKind};
use crate::outcome::Outcome;
use crate::tool::ToolContext;

use super::board::TaskStatus;
use super::deeds::Deeds;
use super::delegate::{Mode, Task};
use super::delegation::Delegation;
use super::hire::{Hired, Stage, delegation_context};
use super::member::{Interaction, Seat, Trace};
use super::reflections::Failure;
use super::report::{PendingQuestion, Report};
use super::slots::Slot;
use super::text::{cut, tagged};
use super::ticket::Ticket;
use super::trace::trace;

/// How many characters of an answer the delegating model is shown.
const LONGEST_RESULT: usize = 2_000;

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
    deeds: Deeds,
}

/// What came of an agent's work.
enum Worked {
    /// It did not begin: another agent has its task, or it is not there.
    Refused(String),
    /// It did not begin: it was stopped while it waited for its turn.
    Unbegun,
    /// It was at work, and perhaps stopped.
    Ran(Result<Outcome, AgentError>, Option<Stop>),
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
        let config = task.config();
        if let Some(name) = config.filter(|name| !seat.member.may_delegate_to(name)) {
            return Err(refused(seat.unknown(name)));
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
        let ticket =
            boards.zip(task.task_id.clone()).map(|(board, id)| Ticket { board: board(cx), id });
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
            deeds: Deeds::default(),
        })
    }

    /// Returns with what its agent asks the delegating model, if it does that.
    pub(super) fn delegation(&self) -> Option<Arc<Delegation>> {
        self.delegation.clone()
    }

    /// Does the task, as far as it can be done; returns what its parent is told, and what was done.
    pub(super) async fn run(mut self) -> (Report, Deeds) {
        let report = loop {
            let worked = self.work().await;
            let handoff = match &worked {
                Worked::Ran(Ok(outcome), _) => outcome.handoff.clone(),
                Worked::Ran(Err(_), _) | Worked::Refused(_) | Worked::Unbegun => None,
            };
            let Some(handoff) = handoff else { break self.judge(worked).await };
            if let Err(why) = self.hand_on(&handoff).await {
                let error = Some(format!("handoff: {why}"));
                let mut report = Report { error, ..self.report() };
                self.settle(&mut report, TaskStatus::Failed).await;
                break report;
            }
        };
        (report, self.deeds)
    }

    /// Lets the agent work.
    async fn work(&self) -> Worked {
        let Hired { handle, config, is_known, .. } = &self.hired;
        let registry = &self.seat.member.registry;
        let slot = tokio::select! {
            biased;
            () = self.siblings.cancelled() => return Worked::Unbegun,
            () = self.cx.cancel.cancelled() => return Worked::Unbegun,
            slot = registry.slots.take(config, handle.agent_id()) => slot,
        };
        // What was handed on was passed on.
        if let Some(ticket) = self.ticket.as_ref().filter(|_| self.handoffs == 0) {
            let claimed = ticket.claim(&handle.meta().name, &self.cx.agent.name);
            // One that was at work before had claimed it, and may have been done with it.
            if let (Err(error), false) = (claimed, is_known) {
                let id = &ticket.id;
                return Worked::Refused(format!("failed to claim task {id:?}: {error}"));
            }
        }
        let _present = registry.live.enter(self.cx.session, handle.meta());
        let mut run = handle.prompt(self.task.task.clone()).into_future();
        let stop = tokio::select! {
            biased;
            outcome = &mut run => return Worked::Ran(outcome, None),
            stop = self.stop() => stop,
            stop = self.attend(&slot) => stop,
        };
        handle.cancel_for(match stop {
            Stop::Late | Stop::Unanswered => CancelReason::Timeout,
            Stop::Board | Stop::Sibling => CancelReason::Parent,
        });
        Worked::Ran(run.await, Some(stop))
    }

    /// Comes when the agent is to be stopped.
    async fn stop(&self) -> Stop {
        let canceled = async {
            match &self.ticket {
                Some(ticket) => ticket.canceled().await,
                None => std::future::pending().await,
            }
        };
        let late = async {
            match self.seat.member.task_timeout {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = canceled => Stop::Board,
            () = late => Stop::Late,
            () = self.siblings.cancelled() => Stop::Sibling,
        }
    }

    /// Answers what the agent asks, or has it answered; comes when nobody does.
    async fn attend(&self, slot: &Slot<'_>) -> Stop {
        let handle = &self.hired.handle;
        let mut seen: HashSet<EntryId> = HashSet::new();
        loop {
            let Some(asked) = asked(handle, &seen).await else {
                return std::future::pending().await;
            };
            seen.insert(asked.waiting);
            let nth = self.questions_before(asked.waiting).await + 1;
            let kind =
                |text| OpKind::Answer { call: asked.call, text, waiting: Some(asked.waiting) };
            let Some(delegation) = &self.delegation else {
                // What it does not wait for any more needs no answer.
                let _ = handle.submit(kind(self.own_answer(nth))).await;
                continue;
            };
            let question = PendingQuestion {
                id: format!("q-{nth}"),
                agent: handle.meta().name.clone(),
                content: asked.question,
            };
            // Whoever waits does not work; and who is to answer may need the slot for somebody else.
            let lent = slot.lend();
            let time = self.seat.member.question_timeout;
            let Some(answer) = delegation.ask(question, self.report(), time).await else {
                return Stop::Unanswered;
            };
            lent.take_back().await;
            let op = Op {
                id: answer.op,
                to: Some(handle.agent_id()),
                at: self.cx.now(),
                kind: kind(answer.text),
            };
            if let Some(log) = self.cx.session_log() {
                // If it cannot be kept, nothing else can.
                let _ = log.inbox().post(op).await;
            }
        }
    }

    /// Answers a question without asking anybody.
    fn own_answer(&self, nth: usize) -> String {
        const DECIDE: &str = "Decide it yourself, and say in your caveats what you assumed.";
        match &self.context {
            Some(context) if nth == 1 => {
                format!(
                    "Nobody can be asked. This is all that is known:\n{context}\nIf that is no \
                     answer: {DECIDE}"
                )
            }
            Some(_) | None => format!("Nobody can be asked. {DECIDE}"),
        }
    }

    /// Returns how often the agent had asked before.
    async fn questions_before(&self, waiting: EntryId) -> usize {
        let (log, _) = self.read().await;
        let before = log.iter().take_while(|entry| entry.id != waiting);
        let asks = |entry: &&Entry| match &entry.kind {
            EntryKind::CallWaiting(waiting) => matches!(waiting.wake, Wake::Parent { .. }),
            _ => false,
        };
        before.filter(asks).count()
    }

    /// Hands the task on to another agent.
    async fn hand_on(&mut self, handoff: &Handoff) -> Result<(), String> {
        let member = &self.seat.member;
        let target = handoff.target.trim();
        let (log, deeds) = self.read().await;
        self.deeds.join(deeds);
        if self.handoffs >= member.max_handoffs {
            return Err(format!("the limit of {} in a chain is reached", member.max_handoffs));
        }
        if target.to_lowercase() == self.hired.config.to_lowercase() {
            return Err(format!("{target} cannot hand on to itself"));
        }
        if member.is_self(target) && !member.allow_self {
            return Err(format!("{target} delegated the task, it is not to be handed back"));
        }
        if !member.may_delegate_to(target) {
            return Err(self.seat.unknown(target));
        }
        self.handoffs += 1;
        let name = &self.hired.handle.meta().name;
        let mut context =
            format!("From: {name}\nReason: {}\n\n{}", handoff.reason, handoff.context);
        if let Some(done) = trace(&log) {
            context.push_str(&format!("\n\nWhat {name} did:\n{done}"));
        }
        let context = tagged("handoff_context", &context);
        let stage = Stage {
            key: format!("{}/{}", self.index, self.handoffs),
            config: Some(target),
            handoffs: self.handoffs,
            context: Some(context.clone()),
        };
        self.hired = self.seat.hire(&self.cx, &self.task, stage).await?;
        self.context = Some(context);
        if let Some(ticket) = &self.ticket {
            // What the board thinks of it is told when the task is over.
            let _ = ticket.board.reassign(&ticket.id, &self.hired.handle.meta().name);
        }
        Ok(())
    }

    /// Says what came of the work.
    async fn judge(&mut self, worked: Worked) -> Report {
        let mut report = self.report();
        let (outcome, stop) = match worked {
            Worked::Refused(error) => return Report { error: Some(error), ..report },
            Worked::Unbegun => {
                let error = Some("canceled before it began".to_owned());
                return Report { error, ..report };
            }
            Worked::Ran(Err(error), _) => {
                report.error = Some(error.to_string());
                // A run that could not be written goes on when the session does.
                if !matches!(error, AgentError::Journal(_)) {
                    self.settle(&mut report, TaskStatus::Failed).await;
                }
                return report;
            }
            Worked::Ran(Ok(outcome), stop) => (outcome, stop),
        };
        let (log, deeds) = self.read().await;
        self.deeds.join(deeds);
        let status = self.classify(&mut report, &outcome, stop);
        if let Some(completion) = &report.completion
            && outcome.completion.is_some()
        {
            let doubts = self.deeds.examine(completion);
            (report.discrepancies, report.unverified) = (doubts.discrepancies, doubts.unverified);
        }
        if outcome.ending != Ending::Done {
            report.partial = last_words(&log).map(|said| self.shortened(&said));
        }
        let is_told = match self.seat.member.trace {
            Trace::OnError => report.is_failure(),
            Trace::Always => true,
            Trace::Never => false,
        };
        report.trace = if is_told { trace(&log) } else { None };
        self.settle(&mut report, status).await;
        report
    }

    /// Says how a run came out, and how far that brought the task.
    fn classify(&self, report: &mut Report, outcome: &Outcome, stop: Option<Stop>) -> TaskStatus {
        match (&outcome.ending, &outcome.completion) {
            (Ending::Done, Some(completion)) => {
                report.result = Some(summary(completion));
                report.completion = Some((**completion).clone());
                match completion.status {
                    CompletionStatus::Completed => TaskStatus::Completed,
                    CompletionStatus::Failed => TaskStatus::Failed,
                }
            }
            (Ending::Done, None) => {
                report.result = Some(self.shortened(&outcome.text()));
                TaskStatus::Completed
            }
            (Ending::Limit(limit), _) => {
                report.completion = Some(exhausted(*limit));
                TaskStatus::Failed
            }
            (Ending::Canceled(_), _) => {
                let (why, status) = self.canceled(stop);
                report.error = Some(why);
                status
            }
            (Ending::Failed(error), _) => {
                report.error = Some(error.to_string());
                TaskStatus::Failed
            }
            (Ending::NeedsApproval, _) => {
                let why = "it needed an approval or an answer that nobody could give";
                report.error = Some(why.to_owned());
                TaskStatus::Failed
            }
        }
    }

    fn canceled(&self, stop: Option<Stop>) -> (String, TaskStatus) {
        match stop {
            Some(Stop::Late) => {
                let time = self.seat.member.task_timeout.unwrap_or(Duration::ZERO);
                (format!("timed out after {} s", time.as_secs_f64()), TaskStatus::Failed)
            }
            Some(Stop::Unanswered) => {
                let time = self.seat.member.question_timeout.unwrap_or(Duration::ZERO);
                let why =
                    format!("timeout: no answer to its question for {} s", time.as_secs_f64());
                (why, TaskStatus::Failed)
            }
            Some(Stop::Sibling) => {
                ("canceled: another task failed".to_owned(), TaskStatus::Canceled)
            }
            None if self.cx.cancel.is_cancelled() => {
                ("canceled with the agent that delegated it".to_owned(), TaskStatus::Failed)
            }
            Some(Stop::Board) | None => ("task canceled".to_owned(), TaskStatus::Canceled),
        }
    }

    /// Tells the board, and remembers a failure.
    async fn settle(&self, report: &mut Report, status: TaskStatus) {
        if let Some(ticket) = &self.ticket {
            report.warning = ticket.settle(status);
        }
        let Some(reflections) = &self.seat.member.reflections else { return };
        if status != TaskStatus::Failed || self.cx.cancel.is_cancelled() {
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

    fn shortened(&self, text: &str) -> String {
        let (shown, left) = cut(text, LONGEST_RESULT);
        if left == 0 {
            return shown;
        }
        let name = &self.hired.handle.meta().name;
        format!(
            "{shown}\n[{left} more characters: read on with delegation_result {{\"name\": {name:?}, \
             \"from\": {LONGEST_RESULT}}}]"
        )
    }
}

/// A question of an agent.
struct Asked {
    call: CallId,
    waiting: EntryId,
    question: String,
}

/// Waits until an agent asks something new; `None` if it is gone.
async fn asked(handle: &SessionHandle, seen: &HashSet<EntryId>) -> Option<Asked> {
    let find = |state: &State| {
        state.waiting_calls.iter().find_map(|(call, waiting)| match &waiting.wake {
            Wake::Parent { question } if !seen.contains(&waiting.entry) => Some(Asked {
                call: call.clone(),
                waiting: waiting.entry,
                question: question.clone(),
            }),
            _ => None,
        })
    };
    let state = handle.wait_for(|state| find(state).is_some()).await.ok()?;
    find(&state)
}

/// Returns what an agent said last.
fn last_words(log: &[Entry]) -> Option<String> {
    log.iter().rev().find_map(|entry| match &entry.kind {
        EntryKind::Assistant(said) => {
            Some(said.message.to_text()).filter(|text| !text.trim().is_empty())
        }
        _ => None,
    })
}

/// Returns what a completion comes to in words.
fn summary(completion: &Completion) -> String {
    match (completion.summary.trim().is_empty(), &completion.caveats) {
        (false, _) => completion.summary.clone(),
        (true, Some(caveats)) => format!("{}: {caveats}", completion.status.as_str()),
        (true, None) => completion.status.as_str().to_owned(),
    }
}

/// Says for an agent what it could not say any more.
fn exhausted(limit: LimitKind) -> Completion {
    let what = match limit {
        LimitKind::ModelTurns => "iteration limit",
        LimitKind::ToolCalls => "limit of tool calls",
        LimitKind::RunTime | LimitKind::TimeBudget => "time budget",
        LimitKind::TotalTokens | LimitKind::TokenBudget => "token budget",
        LimitKind::CostUsd | LimitKind::CostBudget => "cost budget",
        LimitKind::Stall => "attempts without progress",
    };
    Completion {
        status: CompletionStatus::Failed,
        summary: format!("exhausted its {what}"),
        files_modified: Vec::new(),
        tests_run: Vec::new(),
        caveats: Some("It may have left work half done; look at its notes and files.".to_owned()),
    }
}
