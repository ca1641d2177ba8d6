//! What effects do at a step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use bowline_llm::{Message, Model, RawJson, Request, ToolBlock};

use crate::conversation::{Last, OpenRun, Said};
use crate::driver::panic_text;
use crate::effect::{Bounds, Class, Demand, DynEffect, EffectError, Mind, Question, Step};
use crate::entry::{Act, Acted, Entry, EntryKind, Phase, Rewrite, RunError, RunErrorKind};
use crate::id::OpId;
use crate::limits::LimitKind;
use crate::op::OpKind;
use crate::orchestrator::{NextStep, Purpose};
use crate::tool::Toolbox;

use super::{Halt, Turn, until};

/// The effects of an agent, each with what it keeps in mind.
pub(super) struct Effects {
    slots: Vec<Slot>,
    bounds: Bounds,
}

struct Slot {
    // Unique in the agent: the log says by it who acted.
    name: String,
    effect: Arc<dyn DynEffect>,
    mind: Mind,
    // Why what it keeps in mind is worth nothing any more.
    broken: Option<String>,
}

/// How many questions on the side there may be for one step: they are no model calls of the run, so
/// that its limit of these does not end them.
const ASIDES: u32 = 10;

/// Why effects are asked before a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Occasion {
    /// It is about to be made.
    Request,
    /// It is about to be made, to go on with an answer: nothing may be said in between.
    Continuation,
    /// It is about to be made, for the last word of a run that has hit a limit.
    LastWord,
    /// It was too long for the model.
    Overflow,
    /// Somebody wants the conversation summarised.
    Demand(OpId, Demand),
}

impl Effects {
    pub(super) fn new(effects: &[Arc<dyn DynEffect>]) -> Self {
        let mut slots: Vec<Slot> = Vec::with_capacity(effects.len());
        for effect in effects {
            let kind = effect.kind();
            let same = slots.iter().filter(|slot| slot.effect.kind() == kind).count();
            let name = if same == 0 { kind.to_owned() } else { format!("{kind}-{}", same + 1) };
            let (effect, mind) = (Arc::clone(effect), effect.begin());
            slots.push(Slot { name, effect, mind, broken: None });
        }
        let named = slots.iter().map(|slot| (slot.name.clone(), Arc::clone(&slot.effect)));
        let bounds = named.collect();
        Self { slots, bounds }
    }

    /// Forgets everything, and takes in the entries of a path.
    pub(super) fn replay<'a>(&mut self, path: impl IntoIterator<Item = &'a Entry>) {
        for slot in &mut self.slots {
            slot.mind = slot.effect.begin();
            slot.broken = None;
        }
        path.into_iter().for_each(|entry| self.fold(entry));
    }

    pub(super) fn fold(&mut self, entry: &Entry) {
        self.slots.iter_mut().for_each(|slot| slot.fold(entry));
    }

    /// Returns the tools that an agent has with its effects: its own, and theirs. Of those with one
    /// name the agent's counts.
    pub(super) fn tools(&self, own: &Toolbox) -> Toolbox {
        let theirs: Vec<_> = self.slots.iter().map(|slot| slot.effect.tools()).collect();
        Toolbox::layered(std::iter::once(own).chain(&theirs))
    }

    /// Returns what the model is told of the tools.
    pub(super) fn block(&self, tools: &Toolbox) -> ToolBlock {
        let all = tools.block();
        let is_shown = |name: &str| !self.bounds.hides(name);
        if all.specs().iter().all(|spec| is_shown(&spec.name)) {
            return all;
        }
        let shown = all.specs().iter().filter(|spec| is_shown(&spec.name));
        ToolBlock::new(shown.cloned().collect())
    }

    /// Returns what they say of tools.
    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }
}

impl Slot {
    fn fold(&mut self, entry: &Entry) {
        if matches!(entry.kind, EntryKind::RunStarted(_)) && !self.effect.outlives_runs() {
            self.mind = self.effect.begin();
        }
        let folded = catch_unwind(AssertUnwindSafe(|| {
            self.effect.fold(&mut self.mind, entry);
            match &entry.kind {
                EntryKind::Effect(acted) if acted.effect == self.name => {
                    self.effect.acted(&mut self.mind, acted);
                }
                _ => {}
            }
        }));
        if let Err(panic) = folded {
            self.broken.get_or_insert_with(|| format!("it panicked: {}", panic_text(&*panic)));
        }
    }

    /// Asks the effect about a step. A panic in it is its error.
    fn ask(&self, step: Step, said: Option<Said>) -> BoxFuture<'static, Result<Vec<Act>, String>> {
        if let Some(why) = self.broken.clone() {
            return std::future::ready(Err(why)).boxed();
        }
        let (effect, mind) = (Arc::clone(&self.effect), Arc::clone(&self.mind));
        let asked = async move {
            match said {
                Some(said) => effect.answered(step, mind, said).await,
                None => effect.act(step, mind).await,
            }
        };
        let asked = AssertUnwindSafe(asked).catch_unwind();
        asked
            .map(|done| match done {
                Ok(done) => done.map_err(|error: EffectError| error.to_string()),
                Err(panic) => Err(format!("it panicked: {}", panic_text(&*panic))),
            })
            .boxed()
    }
}

impl Turn {
    /// Asks the effects about a request that is about to be made. Tells whether one has acted: then
    /// what to do next is asked anew.
    pub(super) async fn act_before(&mut self, purpose: Purpose) -> Result<bool, Halt> {
        match purpose {
            // What an effect asks is its own affair.
            Purpose::Compact => Ok(false),
            Purpose::WrapUp => self.act_on(Occasion::LastWord).await,
            Purpose::Continue => self.act_on(Occasion::Continuation).await,
            Purpose::Turn | Purpose::Repair | Purpose::Plan => self.act_on(Occasion::Request).await,
        }
    }

    /// Asks the effects about a request that was too long for the model. Tells whether one has
    /// acted. One request is mended; if the next one is too long as well, that is the end.
    pub(super) async fn act_on_overflow(&mut self) -> Result<bool, Halt> {
        let is_first = self.conversation.run().is_some_and(|run| run.overflows == 1);
        let is_ending = self.conversation.run().is_none_or(OpenRun::is_ending);
        if !is_first || is_ending || !self.conversation.is_overflown() {
            return Ok(false);
        }
        self.act_on(Occasion::Overflow).await
    }

    /// Has the conversation summarised, if somebody asked for that and no call is open. Tells
    /// whether anything came of it.
    pub(super) async fn act_on_demand(&mut self) -> Result<bool, Halt> {
        let Some(run) = self.conversation.run().filter(|run| !run.is_ending()) else {
            return Ok(false);
        };
        let demand = run.pending.iter().find_map(|op| match &op.kind {
            OpKind::Compact { focus } => Some((op.id, Demand { focus: focus.clone() })),
            _ => None,
        });
        let Some((op, demand)) = demand else { return Ok(false) };
        if self.conversation.has_open_calls() || !run.asked.is_empty() {
            return Ok(false);
        }
        if !self.act_on(Occasion::Demand(op, demand)).await? {
            let message = "there is nothing to summarise, or no effect that does it".to_owned();
            let act = self.acted("compact", Phase::Before, Act::Warn { message }, Some(op));
            self.commit(vec![act]).await?;
        }
        Ok(true)
    }

    async fn act_on(&mut self, occasion: Occasion) -> Result<bool, Halt> {
        let (op, demand) = match &occasion {
            Occasion::Demand(op, demand) => (Some(*op), Some(demand.clone())),
            Occasion::Request
            | Occasion::Continuation
            | Occasion::LastWord
            | Occasion::Overflow => (None, None),
        };
        for at in 0..self.effects.slots.len() {
            let slot = &self.effects.slots[at];
            let shortens = slot.effect.class() == Class::Context;
            let is_due = !self.has_acted(slot, Phase::Before);
            let is_meant = match occasion {
                Occasion::Request => is_due,
                Occasion::Continuation | Occasion::LastWord | Occasion::Overflow => {
                    is_due && shortens
                }
                Occasion::Demand(..) => shortens,
            };
            if !is_meant {
                continue;
            }
            let Some(step) = self.step(Phase::Before) else { return Ok(false) };
            let step = Step { demand: demand.clone(), ..step };
            let asked = slot.ask(step, None);
            let Some(mut acts) = self.consider(at, asked).await? else { return Ok(true) };
            if occasion == Occasion::LastWord {
                acts = acts.into_iter().map(at_the_limit).collect();
            }
            if !acts.is_empty() {
                self.record_acts(at, Phase::Before, acts, op).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Asks the effects about a reply that has just come in, each once.
    pub(super) async fn act_after(&mut self) -> Result<(), Halt> {
        let Some(run) = self.conversation.run() else { return Ok(()) };
        let reply = Some((run.id, run.model_turns));
        // What is said to a reply that goes on would come between its parts.
        let goes_on = self.conversation.last() == Last::Cut;
        let is_asked = self.heeded == reply;
        if !self.conversation.is_fresh() || run.is_ending() || goes_on || is_asked {
            return Ok(());
        }
        for at in 0..self.effects.slots.len() {
            if self.is_ending() {
                return Ok(());
            }
            let slot = &self.effects.slots[at];
            if self.has_acted(slot, Phase::After) {
                continue;
            }
            let Some(step) = self.step(Phase::After) else { return Ok(()) };
            let is_final = step.is_final() || self.conversation.is_void();
            let asked = slot.ask(step, None);
            let Some(acts) = self.consider(at, asked).await? else { return Ok(()) };
            let acts = if is_final { acts.into_iter().map(too_late).collect() } else { acts };
            self.record_acts(at, Phase::After, acts, None).await?;
        }
        self.heeded = reply;
        Ok(())
    }

    /// Hands an effect what a model said to it on the side. Tells whether there was anything to
    /// hand over.
    pub(super) async fn heed(&mut self) -> Result<bool, Halt> {
        let Some(run) = self.conversation.run().filter(|run| !run.is_ending()) else {
            return Ok(false);
        };
        let Some(asked) = run.asked.first().cloned() else { return Ok(false) };
        let Some(said) = asked.said else { return Ok(false) };
        let at = self.effects.slots.iter().position(|slot| slot.name == asked.effect);
        let acts = match (at, self.step(Phase::Before)) {
            (Some(at), Some(step)) => {
                let asked = self.effects.slots[at].ask(step, Some(said));
                match self.consider(at, asked).await? {
                    Some(acts) => acts,
                    None => return Ok(true),
                }
            }
            _ => Vec::new(),
        };
        let is_silent = acts.is_empty();
        let kinds = if is_silent {
            // It is settled all the same.
            let nothing = RawJson::of(&()).map(Act::Note);
            let nothing = nothing.unwrap_or_else(|_| Act::warn("nothing came of it"));
            vec![self.acted(&asked.effect, Phase::Before, nothing, None)]
        } else {
            self.kinds(&asked.effect, Phase::Before, acts, None)
        };
        self.commit(kinds).await?;
        Ok(true)
    }

    /// Returns what an effect asks a model on the side, and who is asked. If there is nothing to ask
    /// after all, that is written down.
    pub(super) async fn question(&mut self) -> Result<Option<(Arc<dyn Model>, Request)>, Halt> {
        let asked = self.conversation.run().and_then(|run| run.asked.first());
        let Some(effect) = asked.map(|asked| asked.effect.clone()) else { return Ok(None) };
        let slot = self.effects.slots.iter().find(|slot| slot.name == effect);
        let question = slot.zip(self.step(Phase::Before)).and_then(|(slot, step)| {
            let ask = || slot.effect.question(&step, &slot.mind);
            catch_unwind(AssertUnwindSafe(ask)).ok().flatten()
        });
        let Some(Question { system, prompt, model, max_output_tokens }) = question else {
            let message = "it asked a model, and had no question".to_owned();
            let kinds = vec![self.acted(&effect, Phase::Before, Act::Warn { message }, None)];
            self.commit(kinds).await?;
            return Ok(None);
        };
        let messages = std::iter::once(Message::User(prompt).into()).collect();
        let tools = ToolBlock::default();
        let request = Request { system, tools, messages, max_output_tokens, ..Request::default() };
        Ok(Some((model.unwrap_or_else(|| Arc::clone(&self.agent.model)), request)))
    }

    /// Tells whether a step asks on the side where the run has come to its answer, or was asked for
    /// none: no limit takes that answer from it.
    pub(super) fn is_aside(&self, step: &NextStep) -> bool {
        *step == NextStep::CallModel(Purpose::Compact) && self.is_settled()
    }

    /// Settles a question that a limit forbids.
    pub(super) async fn leave_unasked(&mut self, limit: LimitKind) -> Result<(), Halt> {
        let asked = self.conversation.run().and_then(|run| run.asked.first());
        let Some(effect) = asked.map(|asked| asked.effect.clone()) else { return Ok(()) };
        let act = Act::warn(format!("not asked: the limit {} is reached", limit.as_str()));
        let kinds = vec![self.acted(&effect, Phase::Before, act, None)];
        self.commit(kinds).await
    }

    fn is_settled(&self) -> bool {
        let is_prompted = self.conversation.run().is_some_and(|run| run.is_prompted);
        let is_answered =
            self.conversation.last() == Last::Answer && !self.conversation.has_open_calls();
        !is_prompted || is_answered
    }

    /// Waits for what an effect says, while mail keeps coming in; `None` if the run is to end.
    async fn consider(
        &mut self,
        at: usize,
        mut asked: BoxFuture<'static, Result<Vec<Act>, String>>,
    ) -> Result<Option<Vec<Act>>, Halt> {
        let deadline = self.time_for_a_reply();
        // Who is heard before the last word of a run is heard although it has hit a limit.
        let is_limited = |run: &OpenRun| run.limit.is_some();
        let was_limited = self.conversation.run().is_some_and(is_limited);
        let done = loop {
            tokio::select! {
                biased;
                done = &mut asked => break done,
                mail = self.mailbox.next() => self.accept(mail).await?,
                () = until(deadline) => {
                    if was_limited || self.is_settled() {
                        let name = &self.effects.slots[at].name;
                        let why = "the time of the run is up";
                        break Ok(vec![Act::warn(format!("the effect {name} is not heard: {why}"))]);
                    }
                    self.hit(LimitKind::RunTime).await?;
                }
            }
            let is_over = |run: &OpenRun| run.is_ending_at_once() || is_limited(run) != was_limited;
            if self.conversation.run().is_none_or(is_over) {
                return Ok(None);
            }
        };
        let slot = &self.effects.slots[at];
        Ok(Some(match done {
            Ok(acts) => acts,
            Err(why) if slot.effect.is_advisory() => {
                vec![Act::warn(format!("the effect {} failed: {why}", slot.name))]
            }
            Err(why) => {
                let message = format!("the effect {} failed: {why}", slot.name);
                vec![Act::Fail(RunError { kind: RunErrorKind::Effect, message })]
            }
        }))
    }

    async fn record_acts(
        &mut self,
        at: usize,
        phase: Phase,
        acts: Vec<Act>,
        op: Option<OpId>,
    ) -> Result<(), Halt> {
        let name = self.effects.slots[at].name.clone();
        let kinds = self.kinds(&name, phase, acts, op);
        self.commit(kinds).await
    }

    /// Makes entries of what an effect does.
    fn kinds(
        &self,
        name: &str,
        phase: Phase,
        acts: Vec<Act>,
        mut op: Option<OpId>,
    ) -> Vec<EntryKind> {
        let mut kinds = Vec::with_capacity(acts.len());
        // What fails ends the run by itself.
        let mut stops = acts.iter().any(|act| matches!(act, Act::Fail(_)))
            || self.conversation.run().is_some_and(OpenRun::is_ending);
        let asides = self.conversation.run().map_or(0, |run| run.asides);
        let mut view = self.conversation.view().clone();
        // What goes on, or is asked for again, is one with what comes next.
        let is_whole = !matches!(self.conversation.last(), Last::Cut | Last::Broken);
        // Whatever else is done settles a question, so that the question comes last.
        let (asks, others): (Vec<Act>, Vec<Act>) =
            acts.into_iter().partition(|act| matches!(act, Act::Ask { .. }));
        for act in others.into_iter().chain(asks) {
            let act = match act {
                Act::Ask { .. } if asides >= ASIDES => {
                    Act::warn(format!("not asked: models were asked {asides} times for this step"))
                }
                Act::Say { message } if !is_whole => {
                    let text = bowline_llm::text_of(&message.content);
                    Act::warn(format!("not said, because the reply is not whole: {text}"))
                }
                Act::Rewrite(rewrite) => {
                    let before = view.estimate();
                    view = view.rewritten(&rewrite);
                    Act::Rewrite(Rewrite { before, after: view.estimate(), ..rewrite })
                }
                act => act,
            };
            let limit = match &act {
                Act::Stop { limit } if !std::mem::replace(&mut stops, true) => Some(*limit),
                _ => None,
            };
            kinds.push(self.acted(name, phase, act, op.take()));
            kinds.extend(limit.map(|limit| self.limit_hit(limit)));
        }
        kinds
    }

    pub(super) fn acted(
        &self,
        effect: &str,
        phase: Phase,
        act: Act,
        op: Option<OpId>,
    ) -> EntryKind {
        let turn = self.conversation.run().map_or(0, |run| run.model_turns);
        EntryKind::Effect(Acted { effect: effect.to_owned(), phase, turn, act, op })
    }

    /// Returns what can be called: what the model was told of, but for what an effect forbids.
    fn callable(&self) -> Toolbox {
        let offered = self.conversation.tools().0.specs();
        let is_offered = |name: &str| offered.iter().any(|spec| spec.name == name);
        self.tools.filter(|name| is_offered(name) && self.effects.bounds().forbids(name).is_none())
    }

    fn has_acted(&self, slot: &Slot, phase: Phase) -> bool {
        let is_it = |(name, on): &(String, Phase)| *name == slot.name && *on == phase;
        self.conversation.run().is_some_and(|run| run.acted.iter().any(is_it))
    }

    /// Returns where the conversation stands; `None` without an open run.
    pub(super) fn step(&self, phase: Phase) -> Option<Step> {
        let run = self.conversation.run()?;
        let info = self.agent.model.info();
        Some(Step {
            agent: Arc::clone(&self.meta),
            run: run.id,
            turn: run.model_turns,
            phase,
            view: self.conversation.view().clone(),
            last: self.conversation.last(),
            window: info.context_window,
            max_output_tokens: info.max_output_tokens,
            spent: self.session.hub.run(self.meta.id),
            tools: self.callable(),
            is_overflown: self.conversation.is_overflown(),
            demand: None,
            is_prompted: run.is_prompted,
            is_last_word: run.limit.is_some(),
            sent_back: run.sent_back,
            now: self.session.source.now(),
        })
    }
}

/// A run that has hit a limit ends at that, and makes one request more at most.
fn at_the_limit(act: Act) -> Act {
    match act {
        Act::Say { message } => {
            let text = bowline_llm::text_of(&message.content);
            Act::warn(format!("not said, because a limit is reached: {text}"))
        }
        Act::Ask { .. } => Act::warn("not asked, because a limit is reached"),
        Act::Stop { limit } => Act::warn(format!("the limit {} is reached too", limit.as_str())),
        Act::Fail(error) => Act::warn(error.message),
        act @ (Act::Rewrite(_) | Act::Note(_) | Act::Warn { .. }) => act,
    }
}

/// A final answer is returned, whatever an effect says afterwards.
fn too_late(act: Act) -> Act {
    match act {
        Act::Say { message } => {
            let text = bowline_llm::text_of(&message.content);
            Act::warn(format!("not said, because the answer is final: {text}"))
        }
        Act::Ask { .. } => Act::warn("not asked, because the answer is final"),
        Act::Stop { limit } => {
            Act::warn(format!("the limit {} is reached with the final answer", limit.as_str()))
        }
        Act::Fail(error) => Act::warn(error.message),
        act @ (Act::Rewrite(_) | Act::Note(_) | Act::Warn { .. }) => act,
    }
}
