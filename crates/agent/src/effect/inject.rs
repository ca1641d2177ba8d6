//! A text at certain steps.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::entry::{Act, Acted};

use super::{Effect, EffectError, Step};

/// Says a text to the model at certain steps.
///
/// A step is named by how many replies there are in the run: 0 is before its first request. Where
/// nothing can be said, because an answer that was cut goes on, the text comes at the next step.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Inject {
    /// What is said.
    pub text: String,
    /// At which steps.
    pub at: Vec<u32>,
    /// How many steps lie between two times that it is said again and again, the first one after so
    /// many; 0 for only at the steps in `at`.
    pub every: u32,
}

impl Inject {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        if self.text.trim().is_empty() {
            return Err("text must not be empty".to_owned());
        }
        if self.at.is_empty() && self.every == 0 {
            return Err("at must name a step, or every must be at least 1".to_owned());
        }
        Ok(self)
    }

    fn is_meant(&self, turn: u32) -> bool {
        let repeats = self.every > 0 && turn > 0 && turn.is_multiple_of(self.every);
        repeats || self.at.contains(&turn)
    }
}

impl Effect for Inject {
    type State = Said;

    fn kind(&self) -> &'static str {
        "inject"
    }

    fn acted(&self, state: &mut Said, acted: &Acted) {
        state.next = acted.turn + 1;
    }

    async fn before(&self, step: &Step, state: &Said) -> Result<Vec<Act>, EffectError> {
        let is_due = (state.next..=step.turn).any(|turn| self.is_meant(turn));
        Ok(if is_due { vec![Act::say(self.text.as_str())] } else { Vec::new() })
    }
}

/// The first step for which nothing was said yet.
#[derive(Debug, Clone, Default)]
pub struct Said {
    next: u32,
}
