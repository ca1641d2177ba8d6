//! The same calls over and over.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_llm::ToolCall;

use crate::entry::{Act, Acted, Entry};
use crate::limits::LimitKind;

use super::counts::{Spoken, is_from_user, reply};
use super::{Effect, EffectError, Step};

/// Tells a model that it makes the same calls over and over.
///
/// Calls are the same if their tool and their arguments are. A few calls that are made in turn are
/// seen as well as one call. The model is told when the count reaches `threshold`, and then only
/// when it has doubled. What a user says begins the count anew.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoopDetect {
    /// How often in a row the same calls are made before the model is told.
    pub threshold: u32,
    /// How many calls are looked at: calls made in turn are seen if `threshold` rounds of them are
    /// no more than this. A repetition that is longer is still counted in full.
    pub window_size: u32,
    /// How often the same calls are made before the run is stopped, if the model goes on after it
    /// was told; 0 for never.
    pub stop_after: u32,
}

impl Default for LoopDetect {
    fn default() -> Self {
        Self { threshold: 3, window_size: 10, stop_after: 0 }
    }
}

impl LoopDetect {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        let Self { threshold, window_size, stop_after } = self;
        if threshold == 0 {
            return Err("threshold must be at least 1".to_owned());
        }
        if window_size < threshold {
            return Err(format!("window_size must be at least the threshold, {threshold}"));
        }
        if stop_after > 0 && stop_after <= threshold {
            return Err(format!("stop_after must be 0 or more than the threshold, {threshold}"));
        }
        Ok(self)
    }

    /// Returns how many calls made in turn can be seen to repeat.
    fn longest(&self) -> usize {
        self.window_size.checked_div(self.threshold).unwrap_or(0) as usize
    }
}

impl Effect for LoopDetect {
    type State = Repeats;

    fn kind(&self) -> &'static str {
        "loop_detect"
    }

    fn fold(&self, state: &mut Repeats, entry: &Entry) {
        if is_from_user(&entry.kind) {
            *state = Repeats::default();
        }
        let calls = reply(&entry.kind).into_iter().flat_map(|reply| reply.tool_calls());
        for call in calls {
            state.push(call, self.longest());
            if state.round(self.threshold).is_none() {
                state.spoken = Spoken::default();
            }
        }
    }

    fn acted(&self, state: &mut Repeats, acted: &Acted) {
        if let (Act::Say { .. }, Some((_, times))) = (&acted.act, state.round(self.threshold)) {
            state.spoken = Spoken(times);
        }
    }

    async fn before(&self, _: &Step, state: &Repeats) -> Result<Vec<Act>, EffectError> {
        let Some((length, times)) = state.round(self.threshold) else { return Ok(Vec::new()) };
        let Spoken(spoken) = state.spoken;
        let goes_on = spoken > 0 && times > spoken;
        if goes_on && self.stop_after > 0 && times >= self.stop_after {
            return Ok(vec![Act::Stop { limit: LimitKind::Stall }]);
        }
        if !state.spoken.is_due(times, self.threshold) {
            return Ok(Vec::new());
        }
        let what = match &state.names(length)[..] {
            [name] => format!("{name} {times} times in a row with the same arguments"),
            names => format!("{} in turn, {times} times with the same arguments", names.join(", ")),
        };
        let text = format!(
            "You have called {what}. The same call will most likely give the same result. Look at \
             what the results say, and do something else: other arguments, another tool, or an \
             answer that says what is in the way."
        );
        Ok(vec![Act::say(text)])
    }
}

/// How the latest calls repeat.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    // The latest calls, the newest last: what they are, and the names of their tools.
    recent: VecDeque<(u64, String)>,
    // For rounds of one call, of two and so on: how many calls up to the newest are each the same as
    // the one a round before.
    same: Vec<u32>,
    spoken: Spoken,
}

impl Repeats {
    fn push(&mut self, call: &ToolCall, longest: usize) {
        let mut hasher = DefaultHasher::new();
        (&call.name, &call.arguments).hash(&mut hasher);
        let key = hasher.finish();
        self.same.resize(longest, 0);
        for (same, (before, _)) in self.same.iter_mut().zip(self.recent.iter().rev()) {
            *same = if *before == key { *same + 1 } else { 0 };
        }
        self.recent.push_back((key, call.name.clone()));
        if self.recent.len() > longest {
            self.recent.pop_front();
        }
    }

    /// Returns how many calls there are in the shortest round that was made so often or more, and
    /// how often it was.
    fn round(&self, threshold: u32) -> Option<(u32, u32)> {
        let mut rounds = (1..).zip(&self.same).map(|(length, same)| (length, same / length + 1));
        rounds.find(|(_, times)| *times >= threshold)
    }

    /// Returns the tools of the latest calls, in order.
    fn names(&self, calls: u32) -> Vec<&str> {
        let earlier = self.recent.len().saturating_sub(calls as usize);
        self.recent.iter().skip(earlier).map(|(_, name)| name.as_str()).collect()
    }
}
