//! `compact`: keeps a conversation within the model's window, without forgetting what counts.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;

use bowline_llm::{Model, Part, StopReason};

use crate::conversation::{Last, Said, View, Whose};
use crate::entry::{Act, Acted, Broken, Entry, EntryKind, Rewrite, RunError, RunErrorKind, Shown};
use crate::op::{Op, OpKind};
use crate::orchestrator::Purpose;

use super::notes::{self, Order, Passage, Previous};
use super::turns::{Observed, last_turn, middle_out, placeholder, recent, results, shorten};
use super::{Class, Effect, EffectError, Question, Step, share_of};

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

/// How many tokens notes may have, thoughts included.
const NOTES: u64 = 16_384;

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
    // How often a model was asked since the latest reply.
    asked: u32,
    // How long the conversation was when no way was found to shorten it.
    gave_up: Option<u64>,
    // What the summary should not leave out that somebody asked for last.
    focus: Option<String>,
    // Whether the model is asked because somebody wants it.
    is_demanded: bool,
}

impl Memory {
    fn begin_turn(&mut self) {
        self.asked = 0;
        self.is_demanded = false;
    }
}

/// What is to be cut.
struct Cut {
    up_to: usize,
    kept: Vec<usize>,
}

impl Compact {
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
        let start = step.view.boundary(start);
        let kept =
            self.kept(&step.view, start, self.keep_user_tokens.min(share_of(limit, USER)) / harder);
        let places = step.view.places().iter().enumerate().take(start);
        let cut: u64 = places
            .filter(|(at, place)| place.whose != Whose::Summary && !kept.contains(at))
            .map(|(_, place)| place.tokens)
            .sum();
        let least = if is_demanded { 1 } else { share_of(limit, LEAST) };
        (cut >= least).then_some(Cut { up_to: start, kept })
    }

    /// Returns which messages before a place stay as they are: what is pinned, the request at hand,
    /// what the user said first, and of the rest the latest as long as they fit.
    fn kept(&self, view: &View, before: usize, tokens: u64) -> Vec<usize> {
        let is_whose = |whose: Whose| {
            move |at: &usize| view.places().get(*at).is_some_and(|place| place.whose == whose)
        };
        let said: Vec<usize> = (0..before).filter(is_whose(Whose::User)).collect();
        let mut kept: Vec<usize> = (0..before).filter(is_whose(Whose::Pinned)).collect();
        let at_hand = (0..view.messages().len()).rfind(is_whose(Whose::User));
        kept.extend(at_hand.filter(|at| *at < before));
        let size = |at: usize| view.places().get(at).map_or(0, |place| place.tokens);
        let mut used = 0;
        for at in said.first().into_iter().chain(said.iter().rev()) {
            if kept.contains(at) {
                continue;
            }
            if used + size(*at) <= tokens {
                used += size(*at);
                kept.push(*at);
            }
        }
        kept.sort_unstable();
        kept
    }

    /// Returns how results may be shown shorter, but for those behind a place, and how long the next
    /// request is then.
    fn shortened(&self, view: &View, before: usize, goal: u64) -> (Vec<Shown>, u64) {
        let old = results(view, before).into_iter().filter(|observed| !observed.result.is_error);
        shorten(view, old, goal, |observed| Some(placeholder(observed, PREVIEW)))
    }

    /// Returns how results may be shown shorter, those of the last turn too if there is no other way
    /// to stay below `most`. The model has not seen these yet: they keep their beginning and end.
    fn squeezed(&self, view: &View, goal: u64, most: u64) -> (Vec<Shown>, u64) {
        let last = last_turn(view);
        let (mut shown, after) = self.shortened(view, last, goal);
        if after < most {
            return (shown, after);
        }
        let unseen = results(view, view.messages().len());
        let unseen = unseen.into_iter().skip(results(view, last).len()).collect::<Vec<_>>();
        // Half of what is to be left, at three characters a token.
        let each = goal / 2 * 3 / (unseen.len() as u64).max(1);
        let each = usize::try_from(each).unwrap_or(usize::MAX);
        let cut = |observed: &Observed<'_>| {
            let text = bowline_llm::text_of(&observed.result.content);
            (text.len() > each).then(|| [Part::Text(middle_out(&text, each))].into())
        };
        let (more, _) = shorten(view, unseen, 0, cut);
        shown.extend(more);
        let rewrite = Rewrite { results: shown, ..Rewrite::default() };
        let after = view.rewritten(&rewrite).estimate();
        (rewrite.results, after)
    }

    /// Returns what to do when there is no way to summarise: shorten what can be shortened, and say
    /// when the next request cannot fit.
    fn last_resort(&self, step: &Step) -> Vec<Act> {
        let window = self.window(step).unwrap_or(u64::MAX);
        let (results, after) = self.squeezed(&step.view, self.goal(step), window);
        let least = share_of(self.limit(step).unwrap_or(0), LEAST);
        let mut acts = Vec::new();
        if !results.is_empty() && step.tokens().saturating_sub(after) >= least {
            acts.push(Act::Rewrite(Rewrite { results, ..Rewrite::default() }));
        }
        let left = if acts.is_empty() { step.tokens() } else { after };
        // An estimate alone is no reason to end a run.
        let doubt = step.tokens().saturating_sub(step.view.least());
        if left.saturating_sub(doubt) > window {
            let message = format!(
                "the next request would take about {left} of {window} tokens, and nothing more of \
                 the conversation can be shortened"
            );
            acts.push(Act::Fail(RunError { kind: RunErrorKind::ContextExhausted, message }));
        }
        acts
    }

    /// Returns what to do because there is no summary.
    async fn fail(&self, step: &Step, memory: &Memory, why: String) -> Vec<Act> {
        let choice = match &self.on_failure {
            Some(ask) => ask(why.clone()).await,
            None => Choice::Continue,
        };
        let mut acts = vec![Act::warn(format!("the conversation could not be summarised: {why}"))];
        if choice == Choice::Retry && memory.asked < ATTEMPTS {
            acts.push(Act::Ask { tokens: step.tokens() });
        } else {
            acts.extend(self.last_resort(step));
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
        match &entry.kind {
            EntryKind::RunStarted(_) => memory.begin_turn(),
            EntryKind::Assistant(said) if said.purpose != Purpose::Compact => memory.begin_turn(),
            EntryKind::Posted(Op { kind: OpKind::Compact { focus }, .. }) => {
                memory.focus.clone_from(focus);
            }
            EntryKind::Effect(acted) if is_own(acted) => match &acted.act {
                Act::Ask { tokens } => {
                    memory.asked += 1;
                    memory.is_demanded |= acted.op.is_some();
                    // Until it is known better.
                    memory.gave_up = Some(*tokens);
                }
                Act::Rewrite(_) => {
                    memory.gave_up = None;
                    memory.focus = None;
                }
                Act::Say { .. }
                | Act::Note(_)
                | Act::Warn { .. }
                | Act::Stop { .. }
                | Act::Fail(_) => {}
            },
            _ => {}
        }
    }

    async fn before(&self, step: &Step, memory: &Memory) -> Result<Vec<Act>, EffectError> {
        let is_forced = step.is_overflown || step.demand.is_some();
        let limit = self.limit(step).unwrap_or(u64::MAX);
        if !is_forced && step.tokens() < limit {
            return Ok(Vec::new());
        }
        if step.demand.is_none() {
            let start = step.view.boundary(recent(
                &step.view,
                self.keep_turns,
                self.keep_recent_tokens.min(share_of(limit, RECENT)),
                self.goal(step) / 2,
            ));
            let (results, after) = self.shortened(&step.view, start, self.goal(step));
            if after <= self.goal(step) && !results.is_empty() {
                return Ok(vec![Act::Rewrite(Rewrite { results, ..Rewrite::default() })]);
            }
        }
        // What failed is not tried again at once: it costs as much, and comes to the same.
        let room = share_of(self.window(step).unwrap_or(0), 0.05);
        let is_hopeless = memory.gave_up.is_some_and(|at| step.tokens() < at.saturating_add(room));
        if (is_hopeless && !is_forced) || self.cut(step, 1, step.demand.is_some()).is_none() {
            return Ok(self.last_resort(step));
        }
        Ok(vec![Act::Ask { tokens: step.tokens() }])
    }

    fn question(&self, step: &Step, memory: &Memory) -> Option<Question> {
        let cut = self.cut(step, memory.asked, memory.is_demanded)?;
        let passage = Passage { view: &step.view, up_to: cut.up_to, kept: &cut.kept };
        let model = self.summariser.as_ref().map(|model| model.info());
        let window = match model {
            Some(info) => info.context_window,
            None => self.window(step),
        };
        // Half of the window, at three characters a token: it must not be too long itself.
        let room = window.map_or(400_000, |window| window / 2 * 3);
        let words = (self.goal(step) / 10).clamp(200, 2_000);
        let order = Order {
            words,
            room: usize::try_from(room).unwrap_or(usize::MAX),
            focus: memory.focus.as_deref(),
        };
        let most = model.map_or(step.max_output_tokens, |info| info.max_output_tokens);
        Some(Question {
            system: notes::system(),
            prompt: passage.prompt(&memory.previous, &order),
            model: self.summariser.clone(),
            max_output_tokens: Some(most.map_or(NOTES, |most| most.min(NOTES))),
        })
    }

    async fn answered(
        &self,
        step: &Step,
        memory: &Memory,
        said: &Said,
    ) -> Result<Vec<Act>, EffectError> {
        let text = match notes_of(said) {
            Ok(text) => text,
            Err(why) => return Ok(self.fail(step, memory, why).await),
        };
        let Some(cut) = self.cut(step, memory.asked, memory.is_demanded) else {
            return Ok(self.fail(step, memory, "there is nothing to summarise".to_owned()).await);
        };
        let passage = Passage { view: &step.view, up_to: cut.up_to, kept: &cut.kept };
        let summary = passage.summary(&text, &memory.previous, &step.tools, &self.pinned);
        let mut rewrite = Rewrite { summary: Some(summary), ..Rewrite::default() };
        let goal = self.goal(step);
        let view = step.view.rewritten(&rewrite);
        let mut after = view.estimate();
        if after > goal {
            // The latest turns are long themselves.
            let limit = self.limit(step).unwrap_or(u64::MAX);
            (rewrite.results, after) = self.squeezed(&view, goal, limit);
        }
        if after >= step.tokens() {
            let why = "the summary is no shorter than what it stands for".to_owned();
            return Ok(self.fail(step, memory, why).await);
        }
        let is_enough = self.limit(step).is_none_or(|limit| after < limit);
        let next = Step { view: step.view.rewritten(&rewrite), ..step.clone() };
        let mut acts = vec![Act::Rewrite(rewrite)];
        if !is_enough
            && memory.asked < ATTEMPTS
            && self.cut(&next, memory.asked + 1, memory.is_demanded).is_some()
        {
            acts.push(Act::Ask { tokens: after });
        }
        Ok(acts)
    }
}

/// Returns the notes that a model wrote.
fn notes_of(said: &Said) -> Result<String, String> {
    match &said.broken {
        Some(Broken::Failed { message, .. }) => return Err(message.clone()),
        Some(Broken::Stopped | Broken::OutOfTime) => return Err("it was stopped".to_owned()),
        None => {}
    }
    match &said.stop {
        StopReason::EndTurn | StopReason::MaxTokens => {}
        stop => return Err(format!("the model stopped for another reason: {stop:?}")),
    }
    let text = said.message.to_text();
    let text = text.trim();
    if text.is_empty() { Err("the summary is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// Tells whether an act is one of this effect, which an agent may have several times.
fn is_own(acted: &Acted) -> bool {
    acted.effect.split('-').next() == Some("compact")
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
