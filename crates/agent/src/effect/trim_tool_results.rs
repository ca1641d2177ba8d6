//! `trim_tool_results`: cuts old results of tools to their beginning.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::entry::{Act, Acted, Entry};

use super::block::{Block, Replaced, trimmed};
use super::turns::last_results;
use super::{Class, Effect, EffectError, Step, check};

/// Cuts old results of tools to their beginning, when the next request takes a share of the window.
/// No model is asked.
///
/// Results that are errors stay whole.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrimToolResults {
    /// The share of the window at which it acts.
    pub threshold: f64,
    /// How many characters of a result are left.
    pub max_result_length: usize,
    /// How many of the latest results stay as they are; those of one turn stay together.
    pub preserve_recent: usize,
}

impl Default for TrimToolResults {
    fn default() -> Self {
        Self { threshold: 0.5, max_result_length: 500, preserve_recent: 4 }
    }
}

impl TrimToolResults {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        check::share("threshold", self.threshold)?;
        check::at_least_one("max_result_length", self.max_result_length)?;
        check::at_least_one("preserve_recent", self.preserve_recent)?;
        Ok(self)
    }
}

impl Effect for TrimToolResults {
    type State = Replaced;

    fn kind(&self) -> &str {
        "trim_tool_results"
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
        let old = replaced.fresh(&step.view, last_results(&step.view, self.preserve_recent));
        Ok(block.cut(&step.view, old, |one| trimmed(&one.result.content, self.max_result_length)))
    }
}
