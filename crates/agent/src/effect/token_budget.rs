//! Tokens that a run may use.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::entry::{Act, Acted};
use crate::limits::LimitKind;

use super::budget::{Budget, WARN_THRESHOLD, Warned, check_threshold};
use super::{Class, Effect, EffectError, Step};

/// Limits the tokens of a run, in and out, those of sub-agents and tools included.
///
/// The model is told once when they run low. When they are gone the run ends at the limit
/// `token_budget`; a final answer is returned all the same.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBudget {
    /// How many tokens; 0 for any number.
    pub max_tokens: u64,
    /// The share of them at which the model is told, between 0 and 1.
    pub warn_threshold: f64,
}

impl Default for TokenBudget {
    fn default() -> Self {
        Self { max_tokens: 0, warn_threshold: WARN_THRESHOLD }
    }
}

impl TokenBudget {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        check_threshold(self.warn_threshold).map(|()| self)
    }

    fn acts(&self, step: &Step, warned: Warned) -> Vec<Act> {
        let used = step.spent.usage.total();
        let budget = Budget {
            limit: LimitKind::TokenBudget,
            used: used as f64,
            max: self.max_tokens as f64,
            warn_threshold: self.warn_threshold,
            amounts: format!("{used} of {} tokens", self.max_tokens),
        };
        budget.acts(step.phase, warned)
    }
}

impl Effect for TokenBudget {
    type State = Warned;

    fn kind(&self) -> &'static str {
        "token_budget"
    }

    fn class(&self) -> Class {
        Class::Budget
    }

    fn acted(&self, state: &mut Warned, acted: &Acted) {
        state.fold(acted);
    }

    async fn before(&self, step: &Step, state: &Warned) -> Result<Vec<Act>, EffectError> {
        Ok(self.acts(step, *state))
    }

    async fn after(&self, step: &Step, state: &Warned) -> Result<Vec<Act>, EffectError> {
        Ok(self.acts(step, *state))
    }
}
