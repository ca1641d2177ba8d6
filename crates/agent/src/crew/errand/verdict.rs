//! What came of an agent's run.

use std::time::Duration;

use crate::crew::board::TaskStatus;
use crate::crew::member::Trace;
use crate::crew::report::Report;
use crate::crew::text::cut;
use crate::crew::trace::trace;
use crate::entry::{Completion, CompletionStatus, Ending, Entry, EntryKind};
use crate::limits::LimitKind;
use crate::outcome::Outcome;

use super::{Errand, Stop};

/// How many characters of an answer the delegating model is shown.
const LONGEST_RESULT: usize = 2_000;

impl Errand {
    /// Says what came of the work.
    pub(super) async fn judge(&mut self, outcome: &Outcome, stop: Option<Stop>) -> Report {
        let mut report = self.report();
        let (log, deeds) = self.read().await;
        self.deeds.join(deeds);
        let status = self.classify(&mut report, outcome, stop);
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
