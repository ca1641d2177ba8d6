//! Money that a run may cost.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::entry::{Act, Acted};
use crate::limits::LimitKind;

use super::budget::{Budget, WARN_THRESHOLD, Warned, check_threshold};
use super::{Class, Effect, EffectError, Step};

/// Limits what a run costs, with its sub-agents and tools.
///
/// The model is told once when the money runs low. When it is gone the run ends at the limit
/// `cost_budget`; a final answer is returned all the same. Tokens without a known price cost nothing
/// here: a warning says so once in a run.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CostBudget {
    /// How many US dollars; 0 for any number.
    pub max_cost_usd: f64,
    /// The share of them at which the model is told, between 0 and 1.
    pub warn_threshold: f64,
}

impl Default for CostBudget {
    fn default() -> Self {
        Self { max_cost_usd: 0.0, warn_threshold: WARN_THRESHOLD }
    }
}

impl CostBudget {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        if !(self.max_cost_usd.is_finite() && self.max_cost_usd >= 0.0) {
            return Err("max_cost_usd must be 0 or more".to_owned());
        }
        check_threshold(self.warn_threshold).map(|()| self)
    }

    fn acts(&self, step: &Step, state: State) -> Vec<Act> {
        let (cost, unpriced) = (step.spent.cost_usd.to_dollars(), step.spent.unpriced);
        let budget = Budget {
            limit: LimitKind::CostBudget,
            used: cost,
            max: self.max_cost_usd,
            warn_threshold: self.warn_threshold,
            amounts: format!("{cost:.4} of {:.4} US dollars", self.max_cost_usd),
        };
        let is_blind = self.max_cost_usd > 0.0 && unpriced > 0 && !state.has_told;
        let blind = is_blind.then(|| {
            Act::warn(format!(
                "the price of {unpriced} tokens is not known, so the cost_budget of {} US dollars \
                 does not count them",
                self.max_cost_usd
            ))
        });
        blind.into_iter().chain(budget.acts(step.phase, state.warned)).collect()
    }
}

impl Effect for CostBudget {
    type State = State;

    fn kind(&self) -> &'static str {
        "cost_budget"
    }

    fn class(&self) -> Class {
        Class::Budget
    }

    fn acted(&self, state: &mut State, acted: &Acted) {
        state.warned.fold(acted);
        state.has_told |= matches!(acted.act, Act::Warn { .. });
    }

    async fn before(&self, step: &Step, state: &State) -> Result<Vec<Act>, EffectError> {
        Ok(self.acts(step, *state))
    }

    async fn after(&self, step: &Step, state: &State) -> Result<Vec<Act>, EffectError> {
        Ok(self.acts(step, *state))
    }
}

/// Who was told what.
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    warned: Warned,
    // Whether those who watch were told that not everything is counted.
    has_told: bool,
}
