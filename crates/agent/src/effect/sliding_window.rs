//! `sliding_window`: notes on what is old, the beginnings of what is not, and the latest as it is.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::conversation::Said;
use crate::entry::{Act, Acted, Entry, Rewrite, Shown};

use super::attempts::Attempts;
use super::block::{Block, Observed, Replaced, shorten, trimmed};
use super::notes::{self, Passage, Previous, Task};
use super::turns::{kept, last_messages, tokens_of};
use super::{Class, Effect, EffectError, Question, Step, check};

/// Divides the conversation in three zones when the next request takes a share of the window. The
/// recent one stays as it is, of the medium one results of tools are cut to their beginning, and a
/// model summarises what is older.
///
/// What is pinned and the request at hand stay as they were said, and results that are errors stay
/// whole. Without a summary all stays as it is.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlidingWindow {
    /// The share of the window at which it acts.
    pub threshold: f64,
    /// How many of the latest messages stay as they are; a turn among them stays whole.
    pub recent_zone: usize,
    /// How many messages before them are kept with shorter results.
    pub medium_zone: usize,
    /// How many characters of a result are left there.
    pub trim_length: usize,
}

impl Default for SlidingWindow {
    fn default() -> Self {
        Self { threshold: 0.7, recent_zone: 10, medium_zone: 10, trim_length: 200 }
    }
}

/// What `sliding_window` keeps in mind.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    previous: Previous,
    attempts: Attempts,
    replaced: Replaced,
}

/// A conversation in its zones.
struct Zones {
    // The old zone ends here.
    medium: usize,
    // The messages of the old zone that stay.
    kept: Vec<usize>,
    // The tokens of those that do not.
    old: u64,
    // The results of the medium zone as they are to be shown.
    trimmed: Vec<Shown>,
    // The tokens of the next request with them.
    after: u64,
}

impl SlidingWindow {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        check::share("threshold", self.threshold)?;
        check::at_least_one("recent_zone", self.recent_zone)?;
        check::at_least_one("trim_length", self.trim_length)?;
        Ok(self)
    }

    fn zones(&self, step: &Step, memory: &Memory) -> Zones {
        let view = &step.view;
        let recent = last_messages(view, self.recent_zone);
        let medium = view.boundary(recent.saturating_sub(self.medium_zone));
        let kept = kept(view, medium, 0);
        let before = memory.replaced.fresh(view, medium).len();
        let results = memory.replaced.fresh(view, recent).into_iter().skip(before);
        let shorter = |one: &Observed<'_>| trimmed(&one.result.content, self.trim_length);
        let (trimmed, after) = shorten(view, results, 0, shorter);
        Zones { medium, old: tokens_of(view, medium, &kept), kept, trimmed, after }
    }
}

impl Effect for SlidingWindow {
    type State = Memory;

    fn kind(&self) -> &str {
        "sliding_window"
    }

    fn class(&self) -> Class {
        Class::Context
    }

    fn outlives_runs(&self) -> bool {
        true
    }

    fn fold(&self, memory: &mut Memory, entry: &Entry) {
        memory.previous.fold(entry);
        memory.attempts.fold(entry);
        memory.replaced.fold(entry);
    }

    fn acted(&self, memory: &mut Memory, acted: &Acted) {
        memory.attempts.acted(acted);
        memory.replaced.acted(acted);
    }

    async fn before(&self, step: &Step, memory: &Memory) -> Result<Vec<Act>, EffectError> {
        let is_demanded = step.demand.is_some();
        let block = Block::due(step, self.threshold);
        let least = match (is_demanded, block) {
            (true, _) => 1,
            (false, Some(block)) => block.least,
            (false, None) => return Ok(Vec::new()),
        };
        let is_forced = is_demanded || step.is_overflown;
        let zones = self.zones(step, memory);
        let saved = step.tokens().saturating_sub(zones.after);
        let may_ask = zones.old > 0 && !step.is_last_word;
        if !may_ask || zones.old + saved < least {
            let is_worth_it = !is_demanded && !may_ask && saved >= least;
            let rewrite = Rewrite { results: zones.trimmed, ..Rewrite::default() };
            return Ok(is_worth_it.then_some(Act::Rewrite(rewrite)).into_iter().collect());
        }
        if !is_forced && memory.attempts.is_hopeless(step, step.window) {
            return Ok(Vec::new());
        }
        Ok(vec![Act::Ask { tokens: step.tokens() }])
    }

    fn question(&self, step: &Step, memory: &Memory) -> Option<Question> {
        let zones = self.zones(step, memory);
        let passage = Passage { view: &step.view, up_to: zones.medium, kept: &zones.kept };
        let task = Task {
            model: None,
            window: step.window,
            max_output_tokens: step.max_output_tokens,
            goal: Block::goal(step, self.threshold),
            focus: memory.attempts.focus.as_deref(),
        };
        (zones.old > 0).then(|| passage.question(&memory.previous, &task))
    }

    async fn answered(
        &self,
        step: &Step,
        memory: &Memory,
        said: &Said,
    ) -> Result<Vec<Act>, EffectError> {
        let failed = |why: &str| {
            Ok(vec![Act::warn(format!("the conversation could not be summarised: {why}"))])
        };
        let text = match notes::written(said) {
            Ok(text) => text,
            Err(why) => return failed(&why),
        };
        let Zones { medium, kept, trimmed, .. } = self.zones(step, memory);
        let passage = Passage { view: &step.view, up_to: medium, kept: &kept };
        let summary = passage.summary(&text, &memory.previous, &step.tools, &[]);
        let rewrite = Rewrite { summary: Some(summary), results: trimmed, ..Rewrite::default() };
        if step.view.rewritten(&rewrite).estimate() >= step.tokens() {
            return failed("the summary is no shorter than what it stands for");
        }
        Ok(vec![Act::Rewrite(rewrite)])
    }
}
