//! `compact`: keeps a conversation within the model's window, without forgetting what counts.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;

use bowline_llm::{Model, Part, text_of};

use crate::conversation::{Last, Said, View};
use crate::entry::{Act, Acted, Entry, Rewrite, RunError, RunErrorKind, Shown};

use super::attempts::Attempts;
use super::block::{
    Observed, Replaced, middle_out, placeholder, preview_of, results, shorten, stored_text,
};
use super::notes::{self, Passage, Previous, Task};
use super::turns::{keep_pins, kept, last_turn, recent, tokens_of, unanswered, unkept_pins};
use super::{Class, Effect, EffectError, Question, Step, check, share_of};

/// Shortens the conversation when the next request takes a share of the window.
///
/// First old results of tools are shortened, without a model. If that is not enough, a model
/// summarises the beginning of the conversation. What the user said stays as it was said, as far as
/// it fits, and so do the request at hand, the latest turns and what is pinned. The log keeps
/// everything.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compact {
    /// The share of the window at which it acts.
    pub threshold: f64,
    /// The share of that which is to be left of the conversation.
    pub target: f64,
    /// The window in tokens; 0 for the one of the model.
    pub context_window: u64,
    /// How many of the latest turns stay as they are.
    pub keep_turns: usize,
    /// How many tokens of the latest turns stay as they are.
    pub keep_recent_tokens: u64,
    /// How many tokens of what the user said before stay as they are.
    pub keep_user_tokens: u64,
    /// Facts that every summary repeats.
    pub pinned: Vec<String>,
    /// Who summarises, as `provider/model`; empty for the agent's own model.
    pub model: String,
    /// Who summarises.
    #[serde(skip)]
    pub summariser: Option<Arc<dyn Model>>,
    /// Who is asked what to do when there is no summary; without anybody the run goes on.
    #[serde(skip)]
    pub on_failure: Option<OnFailure>,
}

/// Decides what to do when there is no summary; it is told why.
pub type OnFailure = Arc<dyn Fn(String) -> BoxFuture<'static, Choice> + Send + Sync>;

/// What to do when there is no summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Ask the model once more, unless that was the second time.
    Retry,
    /// Go on with the conversation as it is.
    Continue,
}

/// How often in one turn a model may be asked for a summary.
const ATTEMPTS: u32 = 2;

/// Shares of the limit: of the latest turns, of what the user said, of the least that is worth it.
const RECENT: f64 = 0.25;
const USER: f64 = 0.2;
const LEAST: f64 = 0.1;

/// How many characters of a result are left when it is shortened.
const PREVIEW: usize = 80;

impl Default for Compact {
    fn default() -> Self {
        Self {
            threshold: 0.8,
            target: 0.6,
            context_window: 0,
            keep_turns: 2,
            keep_recent_tokens: 20_000,
            keep_user_tokens: 20_000,
            pinned: Vec::new(),
            model: String::new(),
            summariser: None,
            on_failure: None,
        }
    }
}

/// What `compact` keeps in mind.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    previous: Previous,
    attempts: Attempts,
    replaced: Replaced,
}

/// What is to be cut.
struct Cut {
    up_to: usize,
    kept: Vec<usize>,
}

impl Compact {
    /// Returns the effect if it can do what it says.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it must be.
    pub fn checked(self) -> Result<Self, String> {
        check::share("threshold", self.threshold)?;
        check::share("target", self.target)?;
        check::at_least_one("keep_turns", self.keep_turns)?;
        Ok(self)
    }

    fn window(&self, step: &Step) -> Option<u64> {
        match self.context_window {
            0 => step.window.filter(|window| *window > 0),
            window => Some(window),
        }
    }

    /// Returns from how many tokens on it acts; `None` if nobody knows the window.
    fn limit(&self, step: &Step) -> Option<u64> {
        self.window(step).map(|window| share_of(window, self.threshold)).filter(|limit| *limit > 0)
    }

    /// Returns how many tokens are to be left.
    fn goal(&self, step: &Step) -> u64 {
        let limit = self.limit(step).unwrap_or_else(|| step.tokens());
        // A request that was too long says that the limit is lower than it is thought to be.
        let limit = if step.is_overflown { limit.min(step.tokens()) } else { limit };
        share_of(limit, self.target)
    }

    /// Returns what to cut, at the first attempt or more at the second; `None` if there is nothing
    /// worth cutting.
    fn cut(&self, step: &Step, attempt: u32, is_demanded: bool) -> Option<Cut> {
        let limit = share_of(self.goal(step), 1.0 / self.target.max(0.1));
        let least = if is_demanded { 1 } else { share_of(limit, LEAST).max(1) };
        let is_worth_it = |cut: &Cut| tokens_of(&step.view, cut.up_to, &cut.kept) >= least;
        let gentle = Some(self.passage(step, attempt, is_demanded)).filter(is_worth_it);
        if gentle.is_some() && attempt == 1 || !self.is_too_long(step) {
            return gentle;
        }
        Some(self.all_that_goes(step, attempt, is_demanded)).filter(is_worth_it).or(gentle)
    }

    /// Returns what to cut of a conversation that is to be shortened.
    fn passage(&self, step: &Step, attempt: u32, is_demanded: bool) -> Cut {
        let goal = self.goal(step);
        let limit = share_of(goal, 1.0 / self.target.max(0.1));
        let harder = u64::from(attempt > 1) + 1;
        let tokens = self.keep_recent_tokens.min(share_of(limit, RECENT)) / harder;
        let replies = if harder > 1 { 1 } else { self.keep_turns };
        let start = match (is_demanded, step.last) {
            (false, _) => recent(&step.view, replies, tokens, goal / 2),
            // What somebody wants summarised is all there is, but for what the model has not seen.
            (true, Last::Answer) => step.view.messages().len(),
            (true, _) => last_turn(&step.view),
        };
        let up_to = step.view.boundary(start);
        let said = self.keep_user_tokens.min(share_of(limit, USER)) / harder;
        Cut { up_to, kept: kept(&step.view, up_to, said) }
    }

    /// Returns what to cut of a conversation that cannot be sent otherwise: what was said before the
    /// request at hand goes too although the model has not seen it, and what is pinned as far as
    /// there is no room for it.
    fn all_that_goes(&self, step: &Step, attempt: u32, is_demanded: bool) -> Cut {
        let Cut { up_to, .. } = self.passage(step, attempt, is_demanded);
        let up_to = unanswered(&step.view, up_to);
        let goal = self.goal(step);
        let said = self.keep_user_tokens.min(share_of(goal, USER)) / 2;
        let mut kept = kept(&step.view, up_to, said);
        keep_pins(&step.view, &mut kept, goal / 2);
        Cut { up_to, kept }
    }

    /// Tells whether the conversation cannot be sent as it is.
    fn is_too_long(&self, step: &Step) -> bool {
        step.is_overflown || self.window(step).is_some_and(|window| step.tokens() > window)
    }

    /// Returns how results may be shown shorter, but for those behind a place, and how long the next
    /// request is then.
    fn shortened(view: &View, replaced: &Replaced, before: usize, goal: u64) -> (Vec<Shown>, u64) {
        shorten(view, replaced.open(view, before), goal, |one| Some(placeholder(one, PREVIEW)))
    }

    /// Returns how results may be shown shorter, those of the last turn too if there is no other way
    /// to stay below `most`. The model has not seen these yet: they keep their beginning and end.
    fn squeezed(view: &View, replaced: &Replaced, goal: u64, most: u64) -> (Vec<Shown>, u64) {
        let last = last_turn(view);
        let (mut shown, after) = Self::shortened(view, replaced, last, goal);
        if after < most {
            return (shown, after);
        }
        let unseen = results(view, view.messages().len());
        let unseen = unseen.into_iter().skip(results(view, last).len()).collect::<Vec<_>>();
        // Half of what is to be left, at three characters a token.
        let each = goal / 2 * 3 / (unseen.len() as u64).max(1);
        let each = usize::try_from(each).unwrap_or(usize::MAX);
        let (more, _) = shorten(view, unseen, 0, |one| ends_of(one, each));
        shown.extend(more);
        let rewrite = Rewrite { results: shown, ..Rewrite::default() };
        let after = view.rewritten(&rewrite).estimate();
        (rewrite.results, after)
    }

    /// Returns what to do when there is no way to summarise: shorten what can be shortened, and say
    /// when the next request cannot fit.
    fn last_resort(&self, step: &Step, memory: &Memory) -> Vec<Act> {
        let window = self.window(step).unwrap_or(u64::MAX);
        let (results, after) =
            Self::squeezed(&step.view, &memory.replaced, self.goal(step), window);
        let least = share_of(self.limit(step).unwrap_or(0), LEAST);
        // What makes the request fit is worth it, however little it is.
        let is_due = step.tokens() > window || step.is_overflown;
        let mut acts = Vec::new();
        if !results.is_empty() && (is_due || step.tokens().saturating_sub(after) >= least) {
            acts.push(Act::Rewrite(Rewrite { results, ..Rewrite::default() }));
        }
        let left = if acts.is_empty() { step.tokens() } else { after };
        acts.extend(exhausted(step, left, window));
        acts
    }

    /// Returns what to do because there is no summary.
    async fn fail(&self, step: &Step, memory: &Memory, why: String) -> Vec<Act> {
        let choice = match &self.on_failure {
            Some(ask) => ask(why.clone()).await,
            None => Choice::Continue,
        };
        let mut acts = vec![Act::warn(format!("the conversation could not be summarised: {why}"))];
        if choice == Choice::Retry && memory.attempts.asked < ATTEMPTS {
            acts.push(Act::Ask { tokens: step.tokens() });
        } else {
            acts.extend(self.last_resort(step, memory));
        }
        acts
    }
}

impl Effect for Compact {
    type State = Memory;

    fn kind(&self) -> &str {
        "compact"
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
        let (limit, goal) = (self.limit(step).unwrap_or(u64::MAX), self.goal(step));
        if !is_demanded && !step.is_overflown && step.tokens() < limit {
            return Ok(Vec::new());
        }
        if !is_demanded {
            let tokens = self.keep_recent_tokens.min(share_of(limit, RECENT));
            let start = recent(&step.view, self.keep_turns, tokens, goal / 2);
            let start = step.view.boundary(start);
            let (results, after) = Self::shortened(&step.view, &memory.replaced, start, goal);
            if after <= goal && !results.is_empty() {
                return Ok(vec![Act::Rewrite(Rewrite { results, ..Rewrite::default() })]);
            }
        }
        let window = self.window(step);
        // What cannot be sent as it is leaves no choice.
        let is_forced = is_demanded || self.is_too_long(step);
        let is_hopeless = !is_forced && memory.attempts.is_hopeless(step, window);
        if is_hopeless || step.is_last_word || self.cut(step, 1, is_demanded).is_none() {
            return Ok(self.last_resort(step, memory));
        }
        Ok(vec![Act::Ask { tokens: step.tokens() }])
    }

    fn question(&self, step: &Step, memory: &Memory) -> Option<Question> {
        let Attempts { asked, is_demanded, focus, .. } = &memory.attempts;
        let cut = self.cut(step, *asked, *is_demanded)?;
        let passage = Passage { view: &step.view, up_to: cut.up_to, kept: &cut.kept };
        let info = self.summariser.as_ref().map(|model| model.info());
        let task = Task {
            model: self.summariser.clone(),
            window: info.map_or_else(|| self.window(step), |info| info.context_window),
            max_output_tokens: info.map_or(step.max_output_tokens, |info| info.max_output_tokens),
            goal: self.goal(step),
            focus: focus.as_deref(),
        };
        Some(passage.question(&memory.previous, &task))
    }

    async fn answered(
        &self,
        step: &Step,
        memory: &Memory,
        said: &Said,
    ) -> Result<Vec<Act>, EffectError> {
        let text = match notes::written(said) {
            Ok(text) => text,
            Err(why) => return Ok(self.fail(step, memory, why).await),
        };
        let Attempts { asked, is_demanded, .. } = memory.attempts;
        let Some(cut) = self.cut(step, asked, is_demanded) else {
            return Ok(self.fail(step, memory, "there is nothing to summarise".to_owned()).await);
        };
        let passage = Passage { view: &step.view, up_to: cut.up_to, kept: &cut.kept };
        let summary = passage.summary(&text, &memory.previous, &step.tools, &self.pinned);
        let mut rewrite = Rewrite { summary: Some(summary), ..Rewrite::default() };
        let goal = self.goal(step);
        let limit = self.limit(step).unwrap_or(u64::MAX);
        let view = step.view.rewritten(&rewrite);
        let mut after = view.estimate();
        if after > goal {
            // The latest turns are long themselves.
            (rewrite.results, after) = Self::squeezed(&view, &memory.replaced, goal, limit);
        }
        if after >= step.tokens() {
            let why = "the summary is no shorter than what it stands for".to_owned();
            return Ok(self.fail(step, memory, why).await);
        }
        let next = Step { view: step.view.rewritten(&rewrite), ..step.clone() };
        let mut acts = vec![Act::Rewrite(rewrite)];
        let forgotten = unkept_pins(&step.view, cut.up_to, &cut.kept);
        if forgotten > 0 {
            acts.push(Act::warn(format!(
                "what is pinned is too long to be kept: about {forgotten} tokens of it are left in \
                 the notes only"
            )));
        }
        if after >= limit && asked < ATTEMPTS && self.cut(&next, asked + 1, is_demanded).is_some() {
            acts.push(Act::Ask { tokens: after });
        } else {
            acts.extend(exhausted(step, after, self.window(step).unwrap_or(u64::MAX)));
        }
        Ok(acts)
    }
}

/// Returns what to do about the next request, which cannot get any shorter, if it does not fit.
fn exhausted(step: &Step, tokens: u64, window: u64) -> Option<Act> {
    if step.is_final() {
        // There is no next request yet.
        return None;
    }
    let message = format!(
        "the next request would take about {tokens} of {window} tokens, and nothing more of the \
         conversation can be shortened"
    );
    // An estimate alone is no reason to end a run.
    let doubt = step.tokens().saturating_sub(step.view.least());
    (tokens.saturating_sub(doubt) > window).then(|| match step.is_prompted {
        true => Act::Fail(RunError { kind: RunErrorKind::ContextExhausted, message }),
        // Nothing is asked in this run, so that nothing fails.
        false => Act::warn(message),
    })
}

/// Cuts a result to its beginning and its end. What is kept elsewhere can only be named here.
fn ends_of(observed: &Observed<'_>, length: usize) -> Option<Arc<[Part]>> {
    let content = &observed.result.content;
    if stored_text(content) > 0 {
        return Some([Part::Text(format!("[{}]", preview_of(content, length)))].into());
    }
    let text = text_of(content);
    (text.len() > length).then(|| [Part::Text(middle_out(&text, length))].into())
}

impl fmt::Debug for Compact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compact")
            .field("threshold", &self.threshold)
            .field("target", &self.target)
            .field("context_window", &self.context_window)
            .finish_non_exhaustive()
    }
}
