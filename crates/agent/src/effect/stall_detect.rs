//! Steps that bring nothing new.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_llm::Part;

use crate::entry::{Act, Acted, CallEnded, Entry};
use crate::limits::LimitKind;

use super::counts::{OpenStep, is_from_user};
use super::{Effect, EffectError, Step};

/// How many bytes of a result tell it from others.
const HEAD: usize = 200;

/// Tells a model that its steps bring nothing new, and stops a run that goes on like that.
///
/// A step is a reply with its results, and it brings nothing new if its results were there before:
/// the same tools, failed or not, with the same beginnings. Results that come in turn are seen as
/// well as one that stays the same. The model is told once; if `window` more steps are no better the
/// run ends at the limit `stall`. A step that does bring something new begins the count anew, and so
/// does what a user says.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StallDetect {
    /// How many of the latest steps are looked at.
    pub window: u32,
    /// What share of these, the first left out, must bring nothing new: more than 0, at most 1.
    pub similarity_threshold: f64,
}

impl Default for StallDetect {
    fn default() -> Self {
        Self { window: 6, similarity_threshold: 0.8 }
    }
}

impl StallDetect {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        if self.window < 2 {
            return Err("window must be at least 2".to_owned());
        }
        if !(self.similarity_threshold > 0.0 && self.similarity_threshold <= 1.0) {
            return Err("similarity_threshold must be more than 0 and at most 1".to_owned());
        }
        Ok(self)
    }

    fn is_stalled(&self, steps: &VecDeque<u64>) -> bool {
        let Some(newest) = steps.back() else { return false };
        let is_new = steps.iter().filter(|step| *step == newest).count() == 1;
        if is_new || steps.len() < self.window as usize {
            return false;
        }
        let distinct = steps.iter().collect::<HashSet<_>>().len();
        let similarity = (steps.len() - distinct) as f64 / (steps.len() - 1) as f64;
        similarity >= self.similarity_threshold
    }
}

impl Effect for StallDetect {
    type State = Steps;

    fn kind(&self) -> &'static str {
        "stall_detect"
    }

    fn fold(&self, state: &mut Steps, entry: &Entry) {
        if is_from_user(&entry.kind) {
            *state = Steps::default();
        }
        let Some(calls) = state.open.fold(&entry.kind) else { return };
        state.recent.push_back(fingerprint(&calls));
        if state.recent.len() > self.window as usize {
            state.recent.pop_front();
        }
        state.is_stalled = self.is_stalled(&state.recent);
        if state.is_stalled {
            state.since = state.since.map(|since| since + 1);
        } else if state.since.take().is_some() {
            // What comes now is another matter, and gets a window of its own.
            state.recent.drain(..state.recent.len().saturating_sub(1));
        }
    }

    fn acted(&self, state: &mut Steps, acted: &Acted) {
        if matches!(acted.act, Act::Say { .. }) {
            state.since = Some(0);
        }
    }

    async fn before(&self, _: &Step, state: &Steps) -> Result<Vec<Act>, EffectError> {
        if !state.is_stalled {
            return Ok(Vec::new());
        }
        Ok(match state.since {
            None => vec![Act::say(format!(
                "The last {} steps brought nothing new: the same results came again. Do not go on \
                 like this. Say what is in the way, and try something different, or give an answer \
                 with what is known.",
                self.window
            ))],
            Some(since) if since >= self.window => vec![Act::Stop { limit: LimitKind::Stall }],
            Some(_) => Vec::new(),
        })
    }
}

/// What the latest steps brought.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    open: OpenStep,
    recent: VecDeque<u64>,
    is_stalled: bool,
    // How many steps are over since the model was told.
    since: Option<u32>,
}

/// Returns what tells the results of a step from those of others.
fn fingerprint(calls: &[(String, CallEnded)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, ended) in calls {
        (name, ended.status.is_error()).hash(&mut hasher);
        let head = ended.content.iter().flat_map(bytes).take(HEAD);
        head.collect::<Vec<_>>().hash(&mut hasher);
    }
    hasher.finish()
}

fn bytes(part: &Part) -> impl Iterator<Item = u8> {
    let text = match part {
        Part::Text(text) => text.as_str(),
        Part::Image(media) | Part::Document(media) => &media.data,
        Part::Stored(stored) => &stored.hash,
    };
    text.bytes()
}
