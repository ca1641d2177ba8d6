//! Effects: what changes a conversation at a step, and writes down that it did.
//!
//! An [`Effect`] is asked before every request and after every reply. It sees the conversation as it
//! is, and answers with what it does: an [`Act`]. Each act is an entry of the log, so it survives a
//! crash, is seen by those who watch, and is never done twice for one step. There is no other way
//! for an effect to change anything.
//!
//! What an effect keeps in mind is a fold of the log: [`Effect::fold`]. It begins anew with every
//! run, unless [`Effect::outlives_runs`].
//!
//! | to | use |
//! | --- | --- |
//! | change the conversation for good | an effect |
//! | change only what the model gets to see, each time | a [transform](crate::transform) |
//! | decide about a tool call | a [gate](crate::gate) |
//! | wrap a run | a [middleware](crate::middleware) |
//!
//! Some are ready to be used: [`Compact`] keeps a conversation within its window; [`LoopDetect`],
//! [`StallDetect`] and [`Reflection`] see that a model is stuck; [`TokenBudget`], [`TimeBudget`] and
//! [`CostBudget`] watch over what a run uses; [`Progress`] and [`Inject`] say something now and then;
//! [`ToolScope`] forbids tools. An effect of one's own:
//!
//! ```
//! use bowline_agent::effect::{Act, effect_fn, Step};
//! use bowline_agent::entry::Phase;
//!
//! let halfway = effect_fn("halfway", |step: &Step| {
//!     let is_due = step.phase == Phase::Before && step.turn == 10;
//!     Ok(if is_due { vec![Act::say("Ten steps are done. Is the plan still right?")] } else { vec![] })
//! });
//! ```

mod attempts;
mod block;
mod bounds;
mod budget;
mod check;
mod compact;
mod cost_budget;
mod counts;
mod function;
mod inject;
mod loop_detect;
mod notes;
mod observation_mask;
mod offload;
mod progress;
mod reflection;
mod sliding_window;
mod stall_detect;
mod time_budget;
mod token_budget;
mod tool_scope;
mod trim_tool_results;
mod turns;

use std::any::Any;
use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;

use bowline_llm::{Model, Spent, UserMessage};

use crate::conversation::{Last, Said, View};
use crate::entry::{Acted, Entry};
use crate::event::AgentMeta;
use crate::id::RunId;
use crate::tool::Toolbox;

pub use crate::entry::{Act, Phase};
pub(crate) use bounds::Bounds;
pub use compact::{Choice, Compact, OnFailure};
pub use cost_budget::CostBudget;
pub use function::{FunctionEffect, effect_fn};
pub use inject::Inject;
pub use loop_detect::LoopDetect;
pub use observation_mask::ObservationMask;
pub use offload::Offload;
pub use progress::Progress;
pub use reflection::Reflection;
pub use sliding_window::SlidingWindow;
pub use stall_detect::StallDetect;
pub use time_budget::TimeBudget;
pub use token_budget::TokenBudget;
pub use tool_scope::ToolScope;
pub use trim_tool_results::TrimToolResults;

/// Changes a conversation at a step.
pub trait Effect: Send + Sync + 'static {
    /// What it keeps in mind.
    type State: Default + Clone + Send + Sync + 'static;

    /// Returns the name of what it is, such as `compact`.
    fn kind(&self) -> &str;

    /// Returns when it is asked, among those of one agent that are configured and not listed by a
    /// program.
    fn class(&self) -> Class {
        Class::Nudge
    }

    /// Tells whether its errors are no reason to end the run.
    fn is_advisory(&self) -> bool {
        false
    }

    /// Tells whether a new run finds its state as the last one left it.
    fn outlives_runs(&self) -> bool {
        false
    }

    /// Takes in an entry of the conversation.
    fn fold(&self, state: &mut Self::State, entry: &Entry) {
        let _ = (state, entry);
    }

    /// Takes in what it did itself, after [`Effect::fold`] has: of several effects of one kind in an
    /// agent, only the one that did it hears of it here.
    fn acted(&self, state: &mut Self::State, acted: &Acted) {
        let _ = (state, acted);
    }

    /// Says what to do before a request is made. If it does anything, nothing is sent, and what to
    /// do next is asked anew.
    ///
    /// # Errors
    /// What keeps the run from going on, unless the effect is advisory.
    fn before(
        &self,
        step: &Step,
        state: &Self::State,
    ) -> impl Future<Output = Result<Vec<Act>, EffectError>> + Send {
        let _ = (step, state);
        ready(Ok(Vec::new()))
    }

    /// Says what to do about a reply before its calls start. What it says to the model is said
    /// behind their results. After a final answer nothing can be said or stopped any more: that is
    /// turned into a warning. A reply that was cut at its greatest length is asked about when it is
    /// whole.
    ///
    /// # Errors
    /// As [`Effect::before`].
    fn after(
        &self,
        step: &Step,
        state: &Self::State,
    ) -> impl Future<Output = Result<Vec<Act>, EffectError>> + Send {
        let _ = (step, state);
        ready(Ok(Vec::new()))
    }

    /// Returns what to ask a model after [`Act::Ask`]; `None` if there is nothing to ask after all.
    fn question(&self, step: &Step, state: &Self::State) -> Option<Question> {
        let _ = (step, state);
        None
    }

    /// Says what to do with what the model said. Asking again is one of the things it may do.
    ///
    /// # Errors
    /// As [`Effect::before`].
    fn answered(
        &self,
        step: &Step,
        state: &Self::State,
        said: &Said,
    ) -> impl Future<Output = Result<Vec<Act>, EffectError>> + Send {
        let _ = (step, state, said);
        ready(Ok(Vec::new()))
    }

    /// Returns tools that the agent has because of it.
    fn tools(&self) -> Toolbox {
        Toolbox::default()
    }

    /// Tells whether a tool may not be called, and whether the model is told of it at all.
    fn scope(&self, tool: &str) -> Scope {
        let _ = tool;
        Scope::Open
    }
}

/// When an effect is asked, among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// First: it shortens what the model gets to see.
    Context,
    /// Then: it watches over what is used up.
    Budget,
    /// Last: it says something, which must not be summarised away at once.
    Nudge,
}

/// What an effect does about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Nothing.
    Open,
    /// A call is denied.
    Denied,
    /// A call is denied, and the model is not told of the tool.
    Hidden,
}

/// Why an effect could not do its work.
pub type EffectError = Box<dyn std::error::Error + Send + Sync>;

/// What an effect asks a model on the side.
pub struct Question {
    /// The system text.
    pub system: Arc<str>,
    /// What is asked.
    pub prompt: Arc<UserMessage>,
    /// Who is asked; `None` for the agent's own model.
    pub model: Option<Arc<dyn Model>>,
    /// How many tokens the answer may have.
    pub max_output_tokens: Option<u64>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_ref().map(|model| model.info().id());
        f.debug_struct("Question")
            .field("system", &self.system)
            .field("prompt", &self.prompt)
            .field("model", &model)
            .field("max_output_tokens", &self.max_output_tokens)
            .finish()
    }
}

/// A step as an effect sees it: where the conversation stands, before a request or after a reply.
/// It shares what it holds, and stays as it is.
#[derive(Debug, Clone)]
pub struct Step {
    /// Whose conversation it is.
    pub agent: Arc<AgentMeta>,
    /// The run.
    pub run: RunId,
    /// How many replies the run has.
    pub turn: u32,
    /// On which side of the model call this is.
    pub phase: Phase,
    /// The messages that the model would get now.
    pub view: View,
    /// What the conversation ends with.
    pub last: Last,
    /// How many tokens a request and its answer may have together, where it is known.
    pub window: Option<u64>,
    /// How many tokens an answer may have, where it is known.
    pub max_output_tokens: Option<u64>,
    /// What the run has spent so far, its sub-agents and tools included.
    pub spent: Spent,
    /// What the agent can call: what the model was told of, but for what an effect forbids.
    pub tools: Toolbox,
    /// Whether the last request was too long for the model.
    pub is_overflown: bool,
    /// What somebody asked for who wants the conversation summarised now.
    pub demand: Option<Demand>,
    /// Whether anything is to be answered in the run. If not, it only changes the conversation, and
    /// no request follows.
    pub is_prompted: bool,
    /// Whether a limit is reached, and the next request is for the last word of the run. Only what
    /// shortens the conversation is asked then, and no model on the side.
    pub is_last_word: bool,
    /// How often [`OnStop`](crate::on_stop::OnStop) has sent the agent back to work in the run.
    pub sent_back: u32,
    /// The time of day.
    pub now: Timestamp,
}

/// A demand to summarise the conversation now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// What the summary should not leave out.
    pub focus: Option<String>,
}

impl Step {
    /// Returns the tokens of the next request, as far as they can be known.
    pub fn tokens(&self) -> u64 {
        self.view.estimate()
    }

    /// Returns how many tokens a share of the window is; `None` if the window is not known, or the
    /// share is nothing.
    pub fn limit(&self, share: f64) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(share_of(window, share)).filter(|limit| *limit > 0)
    }

    /// Tells whether the next request takes at least a share of the window.
    pub fn is_over(&self, share: f64) -> bool {
        self.limit(share).is_some_and(|limit| self.tokens() >= limit)
    }

    /// Tells whether the model has answered, and calls nothing.
    pub fn is_final(&self) -> bool {
        self.last == Last::Answer && !self.view.ends_with_calls()
    }
}

/// Returns a share of so many tokens.
fn share_of(tokens: u64, share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a count of tokens"
    )]
    let part = (tokens as f64 * share).floor() as u64;
    part
}

/// What an effect keeps in mind, whatever it is.
pub type Mind = Arc<dyn Any + Send + Sync>;

/// What comes of asking an effect.
pub type Acts = BoxFuture<'static, Result<Vec<Act>, EffectError>>;

/// An effect whose state is nobody else's business: what an agent holds.
///
/// Every [`Effect`] is one.
pub trait DynEffect: Send + Sync {
    /// As [`Effect::kind`].
    fn kind(&self) -> &str;
    /// As [`Effect::class`].
    fn class(&self) -> Class;
    /// As [`Effect::is_advisory`].
    fn is_advisory(&self) -> bool;
    /// As [`Effect::outlives_runs`].
    fn outlives_runs(&self) -> bool;
    /// Returns what it keeps in mind at the beginning.
    fn begin(&self) -> Mind;
    /// As [`Effect::fold`].
    fn fold(&self, mind: &mut Mind, entry: &Entry);
    /// As [`Effect::acted`].
    fn acted(&self, mind: &mut Mind, acted: &Acted);
    /// As [`Effect::before`] or [`Effect::after`], as the step says.
    fn act(self: Arc<Self>, step: Step, mind: Mind) -> Acts;
    /// As [`Effect::question`].
    fn question(&self, step: &Step, mind: &Mind) -> Option<Question>;
    /// As [`Effect::answered`].
    fn answered(self: Arc<Self>, step: Step, mind: Mind, said: Said) -> Acts;
    /// As [`Effect::tools`].
    fn tools(&self) -> Toolbox;
    /// As [`Effect::scope`].
    fn scope(&self, tool: &str) -> Scope;
}

impl<E: Effect> DynEffect for E {
    fn kind(&self) -> &str {
        Effect::kind(self)
    }

    fn class(&self) -> Class {
        Effect::class(self)
    }

    fn is_advisory(&self) -> bool {
        Effect::is_advisory(self)
    }

    fn outlives_runs(&self) -> bool {
        Effect::outlives_runs(self)
    }

    fn begin(&self) -> Mind {
        Arc::new(E::State::default())
    }

    fn fold(&self, mind: &mut Mind, entry: &Entry) {
        change::<E>(mind, |state| Effect::fold(self, state, entry));
    }

    fn acted(&self, mind: &mut Mind, acted: &Acted) {
        change::<E>(mind, |state| Effect::acted(self, state, acted));
    }

    fn act(self: Arc<Self>, step: Step, mind: Mind) -> Acts {
        let state = state::<E>(&mind);
        Box::pin(async move {
            match step.phase {
                Phase::Before => self.before(&step, &state).await,
                Phase::After => self.after(&step, &state).await,
            }
        })
    }

    fn question(&self, step: &Step, mind: &Mind) -> Option<Question> {
        Effect::question(self, step, &state::<E>(mind))
    }

    fn answered(self: Arc<Self>, step: Step, mind: Mind, said: Said) -> Acts {
        let state = state::<E>(&mind);
        Box::pin(async move { Effect::answered(&*self, &step, &state, &said).await })
    }

    fn tools(&self) -> Toolbox {
        Effect::tools(self)
    }

    fn scope(&self, tool: &str) -> Scope {
        Effect::scope(self, tool)
    }
}

/// Returns the state of an effect; a new one if the mind is another's.
fn state<E: Effect>(mind: &Mind) -> Arc<E::State> {
    Arc::clone(mind).downcast().unwrap_or_default()
}

fn change<E: Effect>(mind: &mut Mind, change: impl FnOnce(&mut E::State)) {
    let mut state = state::<E>(mind);
    // Nobody else holds it but for moments, so that this copies nothing.
    *mind = Arc::new(());
    change(Arc::make_mut(&mut state));
    *mind = state;
}
