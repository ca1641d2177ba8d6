//! A note now and then on how far the work is.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::entry::{Act, Acted};

use super::{Effect, EffectError, Step};

/// Reminds a model now and then to write down how far it is, if it has a tool for that.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Progress {
    /// How many steps lie between two reminders.
    pub interval: u32,
    /// The name of the tool that writes notes. Without such a tool nothing is said.
    pub note_tool: String,
}

impl Default for Progress {
    fn default() -> Self {
        Self { interval: 5, note_tool: "write_note".to_owned() }
    }
}

impl Progress {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        if self.interval == 0 {
            return Err("interval must be at least 1".to_owned());
        }
        if self.note_tool.is_empty() {
            return Err("note_tool must not be empty".to_owned());
        }
        Ok(self)
    }

    /// Returns how many reminders are due by a step.
    fn due_by(&self, turn: u32) -> u32 {
        turn.checked_div(self.interval).unwrap_or(0)
    }
}

impl Effect for Progress {
    type State = Reminded;

    fn kind(&self) -> &'static str {
        "progress"
    }

    fn acted(&self, state: &mut Reminded, acted: &Acted) {
        state.turn = acted.turn;
    }

    async fn before(&self, step: &Step, state: &Reminded) -> Result<Vec<Act>, EffectError> {
        let is_due = self.due_by(step.turn) > self.due_by(state.turn);
        if !is_due || step.tools.get(&self.note_tool).is_none() {
            return Ok(Vec::new());
        }
        Ok(vec![Act::say(format!(
            "{} steps are done. Write a progress note with {} now: what is finished, what was found \
             and decided, and what comes next. Then go on.",
            step.turn, self.note_tool
        ))])
    }
}

/// The step of the latest reminder.
#[derive(Debug, Clone, Default)]
pub struct Reminded {
    turn: u32,
}
