//! What all budgets have in common.

use crate::entry::{Act, Acted, Phase};
use crate::limits::LimitKind;

/// The share of a budget at which the model is told, where nothing else is said.
pub(super) const WARN_THRESHOLD: f64 = 0.8;

/// What a run may use, and how much of it is gone.
pub(super) struct Budget {
    pub(super) limit: LimitKind,
    pub(super) used: f64,
    pub(super) max: f64,
    pub(super) warn_threshold: f64,
    /// Both in words.
    pub(super) amounts: String,
}

/// Whether the model was told how much is gone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Warned(pub(super) bool);

impl Budget {
    /// Returns what to do about it. The run is stopped as soon as all is gone; the model is told of
    /// the rest before its next request, when all results are in.
    pub(super) fn acts(&self, phase: Phase, Warned(is_warned): Warned) -> Vec<Act> {
        let is_limited = self.max > 0.0;
        let share = self.used / self.max;
        if is_limited && share >= 1.0 {
            return vec![Act::Stop { limit: self.limit }];
        }
        if !is_limited || is_warned || phase == Phase::After || share < self.warn_threshold {
            return Vec::new();
        }
        vec![Act::say(format!(
            "{:.0} % of what this run may use is gone: {}. When all of it is gone the run is \
             stopped. Finish what matters most, and leave out the rest.",
            (share * 100.0).floor(),
            self.amounts
        ))]
    }
}

impl Warned {
    pub(super) fn fold(&mut self, acted: &Acted) {
        self.0 |= matches!(acted.act, Act::Say { .. });
    }
}

/// Tells what is wrong with the share at which to warn.
pub(super) fn check_threshold(warn_threshold: f64) -> Result<(), String> {
    if warn_threshold > 0.0 && warn_threshold < 1.0 {
        return Ok(());
    }
    Err("warn_threshold must be more than 0 and less than 1".to_owned())
}
