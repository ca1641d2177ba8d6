//! What lies around the effect that summarises the conversation of an agent that has hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use bowline_agent::conversation::Said;
use bowline_agent::effect::{Act, Acts, Class, Compact, DynEffect, Mind, Question, Scope, Step};
use bowline_agent::entry::{Acted, Entry, Phase};
use bowline_agent::tool::Toolbox;

use super::Moment;
use super::answer::Verdict;
use super::around::Hooked;
use super::config::Event;

impl Hooked {
    /// Puts the hooks around what summarises.
    pub(crate) fn around_effects(
        self: &Arc<Self>,
        effects: Vec<Arc<dyn DynEffect>>,
    ) -> Vec<Arc<dyn DynEffect>> {
        let events = [Event::PreCompact, Event::PostCompact, Event::SessionStart];
        if !self.hooks.has_any(&events) {
            return effects;
        }
        let compact = Compact::default();
        let kind = DynEffect::kind(&compact);
        let around = |effect: Arc<dyn DynEffect>| match effect.kind() == kind {
            true => Arc::new(Around {
                effect,
                hooked: Arc::clone(self),
                is_demanded: AtomicBool::default(),
            }) as Arc<dyn DynEffect>,
            false => effect,
        };
        effects.into_iter().map(around).collect()
    }

    /// Asks the hooks of a summary that is about to be made; what is done instead if they do not want it.
    async fn before_summary(&self, step: &Step) -> Vec<Act> {
        let focus = step.demand.as_ref().map(|demand| demand.focus.clone().unwrap_or_default());
        let trigger = trigger(focus.is_some());
        let fields = |_| json!({ "trigger": trigger, "custom_instructions": focus.clone().unwrap_or_default() });
        let moment = Moment { event: Event::PreCompact, about: &[trigger], fields: &fields };
        let said = self.hooks.ask(&self.whose(&step.agent), moment).await;
        self.hooks.warn(&step.agent, said.warnings);
        let refused = said.stop.or(match said.verdict {
            Verdict::Block(reason) => Some(reason),
            Verdict::Silent | Verdict::Allow | Verdict::Ask(_) => None,
        });
        let warning = |why| Act::warn(format!("not summarised, because a hook refuses it: {why}"));
        refused.map(warning).into_iter().collect()
    }

    /// Tells the hooks of a summary, and returns what they say to the model.
    async fn after_summary(&self, step: &Step, summary: &str, is_demanded: bool) -> Option<Act> {
        let whose = self.whose(&step.agent);
        let trigger = trigger(is_demanded);
        let fields = |_| json!({ "trigger": trigger, "compact_summary": summary });
        let moment = Moment { event: Event::PostCompact, about: &[trigger], fields: &fields };
        let said = self.hooks.ask(&whose, moment).await;
        self.hooks.warn(&step.agent, said.warnings);
        if step.agent.parent.is_some() {
            return None;
        }
        let said = self.start(&whose, "compact").await;
        let told = said.told();
        self.hooks.warn(&step.agent, said.warnings);
        told.map(Act::say)
    }
}

fn trigger(is_demanded: bool) -> &'static str {
    if is_demanded { "manual" } else { "auto" }
}

/// The effect, and the hooks around it.
struct Around {
    effect: Arc<dyn DynEffect>,
    hooked: Arc<Hooked>,
    /// Whether somebody wants the summary that is being made, as far as this process knows.
    is_demanded: AtomicBool,
}

impl DynEffect for Around {
    fn kind(&self) -> &str {
        self.effect.kind()
    }

    fn class(&self) -> Class {
        self.effect.class()
    }

    fn is_advisory(&self) -> bool {
        self.effect.is_advisory()
    }

    fn outlives_runs(&self) -> bool {
        self.effect.outlives_runs()
    }

    fn begin(&self) -> Mind {
        self.effect.begin()
    }

    fn fold(&self, mind: &mut Mind, entry: &Entry) {
        self.effect.fold(mind, entry);
    }

    fn acted(&self, mind: &mut Mind, acted: &Acted) {
        self.effect.acted(mind, acted);
    }

    fn act(self: Arc<Self>, step: Step, mind: Mind) -> Acts {
        let acts = Arc::clone(&self.effect).act(step.clone(), mind);
        Box::pin(async move {
            let acts = acts.await?;
            let is_ask = |act: &Act| matches!(act, Act::Ask { .. });
            if step.phase != Phase::Before || !acts.iter().any(is_ask) {
                return Ok(acts);
            }
            self.is_demanded.store(step.demand.is_some(), Ordering::Relaxed);
            let instead = self.hooked.before_summary(&step).await;
            if instead.is_empty() {
                return Ok(acts);
            }
            Ok(acts.into_iter().filter(|act| !is_ask(act)).chain(instead).collect())
        })
    }

    fn question(&self, step: &Step, mind: &Mind) -> Option<Question> {
        self.effect.question(step, mind)
    }

    fn answered(self: Arc<Self>, step: Step, mind: Mind, said: Said) -> Acts {
        let acts = Arc::clone(&self.effect).answered(step.clone(), mind, said);
        Box::pin(async move {
            let mut acts = acts.await?;
            let summary = acts.iter().find_map(|act| match act {
                Act::Rewrite(rewrite) => rewrite.summary.as_ref(),
                _ => None,
            });
            if let Some(summary) = summary {
                let is_demanded = self.is_demanded.load(Ordering::Relaxed);
                let told = self.hooked.after_summary(&step, &summary.text, is_demanded).await;
                acts.extend(told);
            }
            Ok(acts)
        })
    }

    fn tools(&self) -> Toolbox {
        self.effect.tools()
    }

    fn scope(&self, tool: &str) -> Scope {
        self.effect.scope(tool)
    }
}
