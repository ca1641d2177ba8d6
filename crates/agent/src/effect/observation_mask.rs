//! `observation_mask`: shows old results of tools by how they began.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::entry::{Act, Acted, Entry};

use super::block::{Block, Replaced, placeholder};
use super::turns::last_messages;
use super::{Class, Effect, EffectError, Step, check};

/// Shows old results of tools by a line that says how they began, when the next request takes a
/// share of the window. No model is asked.
///
/// What the model said and called stays, and so do results that are errors.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ObservationMask {
    /// The share of the window at which it acts.
    pub threshold: f64,
    /// How many of the latest messages stay as they are; a turn among them stays whole.
    pub recent_window: usize,
}

/// How many characters of a result are left.
const PREVIEW: usize = 80;

impl Default for ObservationMask {
    fn default() -> Self {
        Self { threshold: 0.6, recent_window: 10 }
    }
}

impl ObservationMask {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        check::share("threshold", self.threshold)?;
        check::at_least_one("recent_window", self.recent_window)?;
        Ok(self)
    }
}

impl Effect for ObservationMask {
    type State = Replaced;

    fn kind(&self) -> &str {
        "observation_mask"
    }

    fn class(&self) -> Class {
        Class::Context
    }

    fn outlives_runs(&self) -> bool {
        true
    }

    fn fold(&self, replaced: &mut Replaced, entry: &Entry) {
        replaced.fold(entry);
    }

    fn acted(&self, replaced: &mut Replaced, acted: &Acted) {
        replaced.acted(acted);
    }

    async fn before(&self, step: &Step, replaced: &Replaced) -> Result<Vec<Act>, EffectError> {
        let Some(block) = Block::due(step, self.threshold) else { return Ok(Vec::new()) };
        let old = replaced.fresh(&step.view, last_messages(&step.view, self.recent_window));
        Ok(block.cut(&step.view, old, |one| Some(placeholder(one, PREVIEW))))
    }
}
