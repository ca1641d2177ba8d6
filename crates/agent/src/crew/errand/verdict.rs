//! What came of an agent's run.

use std::time::Duration;

use crate::crew::board::TaskStatus;
use crate::crew::member::Trace;
use crate::crew::report::Report;
use crate::crew::text::cut;
use crate::crew::trace::trace;
use crate::entry::{Completion, CompletionStatus, Ending, Entry, EntryKind};
use crate::limits::LimitKind;
use crate::op::CancelReason;
use crate::outcome::Outcome;

use super::{Errand, Stop};

/// How many characters of an answer the delegating model is shown.
const LONGEST_RESULT: usize = 2_000;

impl Errand {
    /// Says what came of the work.
    pub(super) async fn judge(&mut self, outcome: &Outcome, stop: Option<Stop>) -> Report {
        let mut report = self.report();
        let mut log = Vec::new();
        if self.is_looked_at(outcome) {
            let (entries, deeds) = self.read().await;
            self.deeds.join(deeds);
            log = entries;
        }
        let status = self.classify(&mut report, outcome, (stop, &log));
        if let Some(completion) = &report.completion
            && outcome.completion.is_some()
        {
            let doubts = self.deeds.examine(completion);
            (report.discrepancies, report.unverified) = (doubts.discrepancies, doubts.unverified);
        }
        let is_over = outcome.ending == Ending::Done;
        self.tell(&mut report, &log, is_over);
        self.settle(&mut report, status);
        if status == TaskStatus::Failed && !is_of_others(&outcome.ending, &log) {
            self.remember(&report, &log).await;
        }
        report
    }

    /// Says that the work cannot go on although the agent did its part.
    pub(super) async fn fail(&mut self, why: &str) -> Report {
        let mut report = Report { error: Some(why.to_owned()), ..self.report() };
        let (log, deeds) = self.read().await;
        self.deeds.join(deeds);
        self.tell(&mut report, &log, false);
        self.settle(&mut report, TaskStatus::Failed);
        self.remember(&report, &log).await;
        report
    }

    /// Tells whether anybody wants to know what the agent did, and not only what it answered: to read it
    /// costs as much as its log is long, and the agents of a call often end all at once.
    fn is_looked_at(&self, outcome: &Outcome) -> bool {
        let is_told_above = self.cx.agent.depth > 0;
        outcome.ending != Ending::Done
            || outcome.completion.is_some()
            || is_told_above
            || self.seat.member.trace == Trace::Always
    }

    /// Tells what the agent did, where that is to be known.
    fn tell(&self, report: &mut Report, log: &[Entry], is_over: bool) {
        if !is_over {
            report.partial = last_words(log).map(|said| self.shortened(&said));
        }
        let is_told = match self.seat.member.trace {
            Trace::OnError => report.is_failure(),
            Trace::Always => true,
            Trace::Never => false,
        };
        report.trace = if is_told { trace(log) } else { None };
    }

    /// Says how a run came out, and how far that brought the task.
    fn classify(
        &self,
        report: &mut Report,
        outcome: &Outcome,
        (stop, log): (Option<Stop>, &[Entry]),
    ) -> TaskStatus {
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
                report.completion = Some(exhausted(*limit, is_of_others(&outcome.ending, log)));
                TaskStatus::Failed
            }
            (Ending::Canceled(reason), _) => {
                let (why, status) = self.canceled(*reason, stop);
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

    fn canceled(&self, reason: CancelReason, stop: Option<Stop>) -> (String, TaskStatus) {
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
            // What is around its run did that.
            None if reason == CancelReason::Timeout => {
                ("it took longer than its timeout".to_owned(), TaskStatus::Failed)
            }
            Some(Stop::Board) | None => ("task canceled".to_owned(), TaskStatus::Canceled),
        }
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

/// Tells whether a run ended at a limit of an agent above it.
fn is_of_others(ending: &Ending, log: &[Entry]) -> bool {
    let hit = log.iter().rev().find_map(|entry| match &entry.kind {
        EntryKind::LimitHit(hit) => Some(hit.is_of_others),
        _ => None,
    });
    matches!(ending, Ending::Limit(_)) && hit.unwrap_or_default()
}

/// Says for an agent what it could not say any more.
fn exhausted(limit: LimitKind, is_of_others: bool) -> Completion {
    let what = match limit {
        LimitKind::ModelTurns => "iteration limit",
        LimitKind::ToolCalls => "limit of tool calls",
        LimitKind::RunTime | LimitKind::TimeBudget => "time budget",
        LimitKind::TotalTokens | LimitKind::TokenBudget => "token budget",
        LimitKind::CostUsd | LimitKind::CostBudget => "cost budget",
        LimitKind::Stall => "attempts without progress",
    };
    let (summary, caveats) = match is_of_others {
        false => (
            format!("exhausted its {what}"),
            "It may have left work half done; look at its notes and files. Give it less at once, or \
             more of what it ran out of.",
        ),
        true => (
            format!("stopped: the {what} of an agent above it is used up"),
            "It may have left work half done; look at its notes and files.",
        ),
    };
    Completion {
        status: CompletionStatus::Failed,
        summary,
        files_modified: Vec::new(),
        tests_run: Vec::new(),
        caveats: Some(caveats.to_owned()),
    }
}
