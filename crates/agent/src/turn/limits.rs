//! Limits of a run: which of them forbids a step, and what is written down of it.

use bowline_llm::{Spent, Usage};

use crate::conversation::OpenRun;
use crate::entry::{EntryKind, LimitHit};
use crate::ledger::{Ahead, Reached};
use crate::limits::LimitKind;
use crate::op::Input;
use crate::orchestrator::NextStep;

use super::{Halt, Turn};

impl Turn {
    /// Returns the limit that forbids a step: of the run, or of one above it. If none does, what a model
    /// call is going to use is set aside.
    pub(super) fn limit_for(&self, step: &NextStep) -> Option<Reached> {
        let run = self.conversation.run().filter(|run| run.limit.is_none())?;
        if run.canceled.is_some() || run.fatal.is_some() {
            return None;
        }
        let limits = &run.limits;
        let reached = |used: u32, limit: u32| limit > 0 && used >= limit;
        let own = |limit| Reached { limit, is_own: true };
        if limits.run_time_ms > 0 && run.active_ms >= limits.run_time_ms {
            return Some(own(LimitKind::RunTime));
        }
        let shared = match step {
            NextStep::CallModel(_) => {
                self.session.hub.reserve(self.meta.id, self.ahead(step)).err()
            }
            _ => self.session.hub.reached(self.meta.id),
        };
        if shared.is_some() {
            return shared;
        }
        // A plan that nobody was asked for costs nothing, but there is no end of them.
        let is_plan = matches!(step, NextStep::Plan(_));
        if is_plan && reached(run.planning.plans, limits.model_turns) {
            return Some(own(LimitKind::ModelTurns));
        }
        let starts = matches!(step, NextStep::Step)
            || self.conversation.open_calls().iter().any(|call| !call.started);
        (starts && reached(run.tool_calls, limits.tool_calls)).then(|| own(LimitKind::ToolCalls))
    }

    /// Returns what is known beforehand of what a model call uses.
    fn ahead(&self, step: &NextStep) -> Ahead {
        let tokens = self.conversation.view().estimate();
        let price = self.agent.model.info().price.as_ref();
        let usage = Usage { input: tokens, ..Usage::default() };
        let cost_usd = Spent::at(price, usage).cost_usd;
        Ahead { turns: u64::from(!self.is_aside(step)), tokens, cost_usd }
    }

    /// Commits that a limit of the run, or of one above it, was reached.
    pub(super) async fn reach(&mut self, reached: Reached) -> Result<(), Halt> {
        match reached {
            Reached { limit, is_own: true } => self.hit(limit).await,
            // What is used up above leaves nothing to sum up with.
            Reached { limit, is_own: false } => {
                let hit = LimitHit { limit, wrap_up: None, is_of_others: true };
                self.commit(vec![EntryKind::LimitHit(hit)]).await
            }
        }
    }

    /// Tells whether time ran out during the last model call, and nothing was said of it yet.
    pub(super) fn is_out_of_time(&self) -> bool {
        let run = self.conversation.run();
        self.conversation.was_out_of_time() && !run.is_none_or(OpenRun::is_ending)
    }

    /// Commits that a limit was reached.
    pub(super) async fn hit(&mut self, limit: LimitKind) -> Result<(), Halt> {
        self.commit(vec![self.limit_hit(limit)]).await
    }

    pub(super) fn limit_hit(&self, limit: LimitKind) -> EntryKind {
        let wraps_up = self.conversation.run().is_some_and(|run| run.limits.wrap_up);
        let text = format!(
            "The limit {} of this run is reached. Do not call any more tools. Say what was done, \
             what was found and what is left to do.",
            limit.as_str()
        );
        let wrap_up = wraps_up.then(|| Input::from(text).0);
        EntryKind::LimitHit(LimitHit { limit, wrap_up, is_of_others: false })
    }
}
