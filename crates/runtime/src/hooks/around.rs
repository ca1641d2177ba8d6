//! What lies around an agent that has hooks: its prompts, its runs and their ends.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;

use bowline_agent::effect::{Act, DynEffect, Effect, EffectError, Step};
use bowline_agent::entry::{RunError, RunErrorKind};
use bowline_agent::event::AgentMeta;
use bowline_agent::middleware::{Activation, Middleware, Next};
use bowline_agent::on_stop::OnStop;
use bowline_agent::op::Input;
use bowline_agent::prompt_gate::{Admission, PromptGate, PromptReview};
use bowline_agent::{Agent, AgentError, Outcome};
use bowline_llm::text_of;

use super::answer::{Answer, Verdict};
use super::config::Event;
use super::{Hooks, Moment, Seat, Whose, lock, root};
use crate::permission::Engine;

/// How often hooks may send an agent back to work in one run.
const SENT_BACK: u32 = 8;

/// The hooks around an agent.
#[derive(Debug)]
pub(crate) struct Hooked {
    pub(super) hooks: Arc<Hooks>,
    pub(super) seat: Arc<Seat>,
    pub(super) is_attended: bool,
    /// What the model is to know before its next request.
    pub(super) pending: Mutex<Option<String>>,
}

impl Hooked {
    /// Puts the hooks around an agent about whose calls an engine decides; its tools have them already.
    pub(crate) fn surround(self: Arc<Self>, agent: Agent, engine: Arc<Engine>) -> Agent {
        let around = Arc::clone(&self) as Arc<dyn Middleware>;
        Agent {
            effects: self.with_reminder(self.around_effects(agent.effects)),
            middleware: std::iter::once(around).chain(agent.middleware).collect(),
            gate: self.gate(engine),
            on_stop: self.hears_of_stops().then(|| Arc::clone(&self) as _),
            prompt_gate: Some(self),
            ..agent
        }
    }

    /// Adds what says what the hooks of a session's start have to say, where no prompt does.
    fn with_reminder(
        self: &Arc<Self>,
        mut effects: Vec<Arc<dyn DynEffect>>,
    ) -> Vec<Arc<dyn DynEffect>> {
        if self.hooks.has_any(&[Event::SessionStart]) {
            effects.push(Arc::new(Reminder(Arc::clone(self))));
        }
        effects
    }

    fn hears_of_stops(&self) -> bool {
        self.hooks.has_any(&[Event::Stop, Event::SubagentStop])
    }

    pub(super) fn whose(&self, agent: &Arc<AgentMeta>) -> Whose {
        Whose { agent: Arc::clone(agent), seat: Arc::clone(&self.seat) }
    }

    /// Takes note that this process has the session, the first time it does; returns what hooks say.
    async fn take_up(&self, agent: &Arc<AgentMeta>, is_new: bool) -> Answer {
        let whose = self.whose(agent);
        if lock(&self.hooks.taken_up).insert(root(agent), whose.clone()).is_some() {
            return Answer::default();
        }
        let source = if is_new { "startup" } else { "resume" };
        self.start(&whose, source).await
    }

    /// Asks the hooks of a session's start.
    pub(super) async fn start(&self, whose: &Whose, source: &str) -> Answer {
        let fields = |_| json!({ "source": source });
        let moment = Moment { event: Event::SessionStart, about: &[source], fields: &fields };
        self.hooks.ask(whose, moment).await
    }

    /// Asks the hooks of a prompt.
    async fn submit(&self, agent: &Arc<AgentMeta>, input: &Input) -> Answer {
        let prompt = text_of(&input.0.content);
        let fields = |_| json!({ "prompt": prompt });
        let moment = Moment { event: Event::UserPromptSubmit, about: &[], fields: &fields };
        self.hooks.ask(&self.whose(agent), moment).await
    }

    /// Asks the hooks of a sub-agent's start. They cannot keep it from beginning.
    async fn begin(&self, agent: &Arc<AgentMeta>) -> Answer {
        let fields = |_| json!({});
        let about = [agent.config.as_str()];
        let moment = Moment { event: Event::SubagentStart, about: &about, fields: &fields };
        self.hooks.ask(&self.whose(agent), moment).await
    }

    /// Says something to the model of an agent as soon as that is possible.
    pub(super) fn say(&self, agent: &AgentMeta, text: String) {
        if let Some(activation) = lock(&self.hooks.driven).get(&agent.id) {
            activation.say(Input::from(text));
        }
    }

    /// Ends the run of an agent because a hook says so.
    pub(super) fn end_run(&self, agent: &AgentMeta, reason: &str) {
        if let Some(activation) = lock(&self.hooks.driven).get(&agent.id) {
            activation.fail(stopped(reason));
        }
    }
}

#[async_trait]
impl PromptGate for Hooked {
    async fn review(&self, prompt: &PromptReview<'_>) -> Admission {
        let PromptReview { agent, is_first, .. } = *prompt;
        if agent.parent.is_some() {
            return match is_first {
                true => admission(Answer { verdict: Verdict::Silent, ..self.begin(agent).await }),
                false => Admission::default(),
            };
        }
        let started = self.take_up(agent, is_first).await;
        // Only with `continue` can it keep the prompt from being run.
        let started = Answer { verdict: Verdict::Silent, ..started };
        let submitted = match started.stop {
            None => self.submit(agent, prompt.input).await,
            Some(_) => Answer::default(),
        };
        admission(started.and(submitted))
    }
}

/// Says what is pending before a request is made. A run that makes none is not made to.
struct Reminder(Arc<Hooked>);

impl Effect for Reminder {
    type State = ();

    fn kind(&self) -> &str {
        "hooks"
    }

    fn is_advisory(&self) -> bool {
        true
    }

    async fn before(&self, _: &Step, (): &()) -> Result<Vec<Act>, EffectError> {
        Ok(lock(&self.0.pending).take().map(Act::say).into_iter().collect())
    }
}

/// Makes of what hooks say what becomes of a prompt.
fn admission(answer: Answer) -> Admission {
    let refused = answer.stop.clone().or(match &answer.verdict {
        Verdict::Block(reason) => Some(reason.clone()),
        Verdict::Silent | Verdict::Allow | Verdict::Ask(_) => None,
    });
    match refused {
        Some(reason) => {
            Admission::Refuse { reason: format!("a hook refused the prompt: {reason}") }
        }
        None => Admission::Admit {
            before: answer.told().map(Input::from).into_iter().collect(),
            warnings: answer.warnings,
        },
    }
}

/// An agent is driven as long as this is there.
struct Driven<'a>(&'a Hooks, &'a AgentMeta);

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        lock(&self.0.driven).remove(&self.1.id);
    }
}

#[async_trait]
impl Middleware for Hooked {
    async fn run(&self, activation: &Activation, next: Next<'_>) -> Result<Outcome, AgentError> {
        let agent = &activation.agent;
        lock(&self.hooks.driven).insert(agent.id, activation.clone());
        let _driven = Driven(&self.hooks, agent);
        if agent.parent.is_none() {
            // A run that was found open goes on without a prompt.
            let answer = self.take_up(agent, false).await;
            if let Some(reason) = &answer.stop {
                activation.fail(stopped(reason));
            }
            *lock(&self.pending) = answer.told();
            self.hooks.warn(agent, answer.warnings);
        }
        next.run().await
    }
}

/// Returns with what a run fails that a hook ends.
fn stopped(reason: &str) -> RunError {
    let message = format!("a hook ended the run: {reason}");
    RunError { kind: RunErrorKind::Effect, message }
}

#[async_trait]
impl OnStop for Hooked {
    async fn on_stop(&self, answer: &str, step: &Step) -> Option<Input> {
        let agent = &step.agent;
        let event = if agent.parent.is_some() { Event::SubagentStop } else { Event::Stop };
        let is_again = step.sent_back > 0;
        let fields = |_| json!({ "stop_hook_active": is_again, "last_assistant_message": answer });
        let about = [agent.config.as_str()];
        let about: &[&str] = if event == Event::Stop { &[] } else { &about };
        let said =
            self.hooks.ask(&self.whose(agent), Moment { event, about, fields: &fields }).await;
        self.hooks.warn(agent, said.warnings);
        let Verdict::Block(reason) = said.verdict else { return None };
        if said.stop.is_some() {
            return None;
        }
        if step.sent_back >= SENT_BACK {
            let warning = format!(
                "the {event} hook is not heard any more: it has said {SENT_BACK} \
                 times in this run that the work is not done"
            );
            self.hooks.warn(agent, [warning]);
            return None;
        }
        self.hooks.warn(agent, [format!("the {event} hook sends {} back: {reason}", agent.name)]);
        Some(Input::from(format!("A {event} hook says that this is not done: {reason}")))
    }
}
