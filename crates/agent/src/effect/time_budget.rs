//! Time that a run may think.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as span;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::entry::{Act, Acted, Entry, EntryKind};
use crate::limits::LimitKind;

use super::budget::{Budget, WARN_THRESHOLD, Warned, check_threshold};
use super::{Class, Effect, EffectError, Step};

/// Limits the time that an agent's model calls take in a run. The time of tools, of people and of
/// sub-agents does not count.
///
/// The model is told once when the time runs low. When it is up the run ends at the limit
/// `time_budget`, after the model call that took the last of it; a final answer is returned all the
/// same.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimeBudget {
    /// How long, like `90s`, `5m` or `1h30m`; `0s` for any length.
    #[serde(deserialize_with = "length", serialize_with = "span::serialize")]
    #[schemars(with = "String")]
    pub max_duration: Duration,
    /// The share of it at which the model is told, between 0 and 1.
    pub warn_threshold: f64,
}

fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = format!("{text:?} is no length of time; write it like 90s, 5m or 1h30m");
    let span: jiff::SignedDuration = text.trim().parse().map_err(|_| D::Error::custom(&wrong))?;
    Duration::try_from(span).map_err(|_| D::Error::custom(&wrong))
}

impl Default for TimeBudget {
    fn default() -> Self {
        Self { max_duration: Duration::ZERO, warn_threshold: WARN_THRESHOLD }
    }
}

impl TimeBudget {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        check_threshold(self.warn_threshold).map(|()| self)
    }

    fn acts(&self, step: &Step, state: State) -> Vec<Act> {
        let (used, max) = (state.thought.as_secs_f64(), self.max_duration.as_secs_f64());
        let budget = Budget {
            limit: LimitKind::TimeBudget,
            used,
            max,
            warn_threshold: self.warn_threshold,
            amounts: format!("{used:.0} of {max:.0} seconds"),
        };
        budget.acts(step.phase, state.warned)
    }
}

impl Effect for TimeBudget {
    type State = State;

    fn kind(&self) -> &'static str {
        "time_budget"
    }

    fn class(&self) -> Class {
        Class::Budget
    }

    fn fold(&self, state: &mut State, entry: &Entry) {
        if let (EntryKind::Assistant(_), Some(ms)) = (&entry.kind, entry.active_ms) {
            state.thought = state.thought.saturating_add(Duration::from_millis(ms));
        }
    }

    fn acted(&self, state: &mut State, acted: &Acted) {
        state.warned.fold(acted);
    }

    async fn before(&self, step: &Step, state: &State) -> Result<Vec<Act>, EffectError> {
        Ok(self.acts(step, *state))
    }

    async fn after(&self, step: &Step, state: &State) -> Result<Vec<Act>, EffectError> {
        Ok(self.acts(step, *state))
    }
}

/// How long the model was asked, and whether it was told.
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    thought: Duration,
    warned: Warned,
}
