//! Steps that fail, one after the other.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::entry::{Act, Acted, CallEnded, CallStatus, Entry};

use super::counts::{OpenStep, Spoken, is_from_user};
use super::{Effect, EffectError, Step};

/// Asks a model to think about what goes wrong, when steps fail one after the other.
///
/// A step has failed if calls of it failed and none did what it should. The model is asked when
/// their count reaches `failure_threshold`, and then only when it has doubled. A step that has not
/// failed ends the count, and so does what a user says.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Reflection {
    /// How many steps in a row must have failed.
    pub failure_threshold: u32,
}

impl Default for Reflection {
    fn default() -> Self {
        Self { failure_threshold: 2 }
    }
}

impl Reflection {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        if self.failure_threshold == 0 {
            return Err("failure_threshold must be at least 1".to_owned());
        }
        Ok(self)
    }
}

impl Effect for Reflection {
    type State = Failures;

    fn kind(&self) -> &'static str {
        "reflection"
    }

    fn fold(&self, state: &mut Failures, entry: &Entry) {
        if is_from_user(&entry.kind) {
            *state = Failures::default();
        }
        let Some(calls) = state.open.fold(&entry.kind) else { return };
        if has_failed(&calls) {
            state.count += 1;
        } else {
            *state = Failures::default();
        }
    }

    fn acted(&self, state: &mut Failures, acted: &Acted) {
        if matches!(acted.act, Act::Say { .. }) {
            state.spoken = Spoken(state.count);
        }
    }

    async fn before(&self, _: &Step, state: &Failures) -> Result<Vec<Act>, EffectError> {
        if !state.spoken.is_due(state.count, self.failure_threshold) {
            return Ok(Vec::new());
        }
        let steps = match state.count {
            1 => "The last step has failed".to_owned(),
            count => format!("The last {count} steps have failed"),
        };
        Ok(vec![Act::say(format!(
            "{steps}. Before you go on, look at each failure: what was tried, and what the error \
             says. Name the one cause that explains them, then choose another way that does not \
             depend on it."
        ))])
    }
}

/// How many steps in a row have failed.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    open: OpenStep,
    count: u32,
    spoken: Spoken,
}

fn has_failed(calls: &[(String, CallEnded)]) -> bool {
    let failed = |status: CallStatus| match status {
        CallStatus::Error | CallStatus::Denied | CallStatus::Timeout | CallStatus::Interrupted => {
            true
        }
        // These were not even tried, or not to their end.
        CallStatus::Ok | CallStatus::Skipped | CallStatus::Canceled => false,
    };
    let mut ends = calls.iter().map(|(_, ended)| ended.status);
    ends.clone().any(failed) && ends.all(|status| status != CallStatus::Ok)
}
