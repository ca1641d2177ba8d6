//! Making the sub-agent for a task.

use std::sync::Arc;

use crate::agent::Agent;
use crate::children::Child;
use crate::handle::SessionHandle;
use crate::op::Input;
use crate::tool::{ToolContext, Toolbox};

use super::TOOLS;
use super::delegate::Task;
use super::kit::{Allowed, Kit, by_name};
use super::member::{ChildTools, Member, Seat};
use super::registry::Card;
use super::slug::slug;
use super::spawn::Spawn;
use super::text::cut;
use crate::tags::tagged;

/// What agents are called that are made of a system text.
pub(super) const AD_HOC: &str = "ad-hoc";

/// How many characters of the context of a task its agent is told.
const LONGEST_CONTEXT: usize = 16_000;

/// An agent made for a task.
pub(super) struct Hired {
    pub(super) handle: SessionHandle,
    /// The configuration it was made from.
    pub(super) config: String,
    /// What it can do, as far as that is known now.
    pub(super) tools: Toolbox,
    /// Whether an earlier process made it, for the same call.
    pub(super) is_known: bool,
}

/// How far a task has been handed on, and what its next agent must know.
pub(super) struct Stage<'a> {
    /// Tells the agents of a call apart.
    pub(super) key: String,
    /// The configuration; `None` for one made of the task's system text.
    pub(super) config: Option<&'a str>,
    /// How many agents had the task before.
    pub(super) handoffs: u32,
    /// What comes before the reflections and the task.
    pub(super) context: Option<String>,
}

impl Seat {
    /// Makes the agent for a task, or finds the one that an earlier process made.
    ///
    /// # Errors
    /// What the delegating model is told.
    pub(super) async fn hire(
        &self,
        cx: &ToolContext,
        task: &Task,
        stage: Stage<'_>,
    ) -> Result<Hired, String> {
        let agent = self.agent(cx, task, &stage).await?;
        let theirs: Vec<_> = agent.effects.iter().map(|effect| effect.tools()).collect();
        let tools = Toolbox::layered(std::iter::once(&agent.toolbox()).chain(&theirs));
        let config = agent.name.clone();
        let mut briefing: Vec<Input> = stage.context.into_iter().map(Input::from).collect();
        if let Some(prior) = self.prior(&task.task).await {
            briefing.push(prior.into());
        }
        let child = Child {
            key: Some(stage.key),
            slug: Some(slug(&task.task)),
            label: self.member.registry.card(&config).and_then(|card| card.prefix),
            briefing,
            ..Child::new(agent)
        };
        let handle = cx.children.create(child).await.map_err(|error| error.to_string())?;
        let is_known = handle.state().head.is_some();
        Ok(Hired { handle, config, tools, is_known })
    }

    async fn prior(&self, task: &str) -> Option<String> {
        let prior = self.member.reflections.as_ref()?.prior(task).await?;
        let text = format!("What went wrong at tasks like this one before:\n{prior}");
        Some(tagged("prior_reflections", &text))
    }

    async fn agent(
        &self,
        cx: &ToolContext,
        task: &Task,
        stage: &Stage<'_>,
    ) -> Result<Agent, String> {
        let parent = cx.children.parent().ok_or("the call has ended")?;
        let parents = self.to_hand_down(parent);
        let allowed = self.allowed_for(task, &parents);
        let (agent, kit) = match (stage.config, &task.system_prompt) {
            (Some(config), _) => {
                let agent = self.registered(cx, config, stage.handoffs, &allowed)?;
                let kit = Kit::of(&agent).only(&not_of_crews());
                (agent, kit)
            }
            (None, Some(system)) => (self.ad_hoc(cx, parent, system)?, parents.clone()),
            (None, None) => return Err("name an agent for the task".to_owned()),
        };
        let kit = self.child_tools(kit, &parents).await?;
        // A peer has of them what it has.
        let names = task.tools.as_ref().filter(|_| stage.handoffs == 0);
        let kit = match names {
            Some(names) => kit.named(names).await.map_err(|error| error.to_string())?,
            None => kit,
        };
        let Kit { tools, more } = kit.only(&allowed);
        let crew = agent.tools.filter(|name| TOOLS.contains(&name));
        let tools = Toolbox::layered([&tools, &crew]);
        Ok(Agent { tools, more_tools: more, ..agent })
    }

    /// Returns what an agent has that its sub-agents can have too: not what is bound to its place.
    fn to_hand_down(&self, parent: &Agent) -> Kit {
        let bound: Vec<String> =
            self.member.task_tools.iter().map(|tool| tool.spec.name.clone()).collect();
        let is_free = move |name: &str| !bound.iter().any(|known| known == name);
        Kit::of(parent).only(&not_of_crews().and(&Allowed::only(is_free)))
    }

    /// Returns which tools the agent of a task may have, and all agents below it: what its parent was
    /// kept from it is kept from too.
    fn allowed_for(&self, task: &Task, parents: &Kit) -> Allowed {
        let parents_own = || {
            let parents = parents.clone();
            Allowed::only(move |name| parents.now().get(name).is_some())
        };
        let by_parent = match &self.member.child_tools {
            ChildTools::Configured | ChildTools::Union => Allowed::default(),
            ChildTools::Common => parents_own(),
            ChildTools::Subset(names) => by_name(names).and(&parents_own()),
            ChildTools::Explicit(tools) => {
                let tools = tools.clone();
                Allowed::only(move |name| tools.get(name).is_some())
            }
            ChildTools::Listed(tools, more) => {
                let (tools, more) = (tools.clone(), more.clone());
                Allowed::only(move |name| tools.get(name).is_some() || more.allows(name))
            }
        };
        let by_task = task.tools.as_deref().map(by_name).unwrap_or_default();
        self.allowed.clone().and(&by_parent).and(&by_task)
    }

    fn registered(
        &self,
        cx: &ToolContext,
        config: &str,
        handoffs: u32,
        allowed: &Allowed,
    ) -> Result<Agent, String> {
        let spawn = Spawn {
            max_handoffs: self.member.max_handoffs.saturating_sub(handoffs),
            allowed: allowed.clone(),
            ..self.spawn(cx, config)
        };
        let made = self.member.registry.spawn(&spawn);
        let made = made.ok_or_else(|| unknown(config, &self.member.colleagues()))?;
        made.map_err(|error| format!("{config} cannot be made: {error}"))
    }

    fn spawn(&self, cx: &ToolContext, config: &str) -> Spawn {
        Spawn {
            name: config.to_owned(),
            depth: cx.agent.depth + 1,
            max_depth: self.max_depth,
            max_handoffs: 0,
            allowed: Allowed::default(),
            parent: Some(Arc::clone(&self.member)),
        }
    }

    /// Makes an agent of a system text: it can do what its parent can, and does not delegate.
    fn ad_hoc(&self, cx: &ToolContext, parent: &Agent, system: &str) -> Result<Agent, String> {
        if !self.member.ad_hoc {
            return Err("agents cannot be made of a system_prompt here; name one".to_owned());
        }
        let spawn = self.spawn(cx, AD_HOC);
        let member = Member { max_depth: 0, ..spawn.member() };
        Ok(Agent {
            name: AD_HOC.to_owned(),
            instructions: system.into(),
            tools: member.tools(&spawn),
            // What is around the parent's runs, what they must come to, and who keeps them going,
            // is there for those.
            middleware: Vec::new(),
            on_stop: None,
            prompt_gate: None,
            output_schema: None,
            tells_with: None,
            ..parent.clone()
        })
    }

    async fn child_tools(&self, own: Kit, parents: &Kit) -> Result<Kit, String> {
        Ok(match &self.member.child_tools {
            ChildTools::Configured | ChildTools::Common => own,
            ChildTools::Union => own.over(parents),
            ChildTools::Subset(names) => {
                parents.named(names).await.map_err(|error| error.to_string())?
            }
            ChildTools::Explicit(tools) => Kit { tools: tools.clone(), more: None },
            ChildTools::Listed(tools, more) => {
                let theirs = own.over(parents).only(more);
                Kit { tools: tools.clone(), more: theirs.more }
            }
        })
    }
}

/// Says that there is no such agent, and which one may be meant.
pub(super) fn unknown(config: &str, known: &[Card]) -> String {
    let names: Vec<String> = known.iter().map(|card| card.name.clone()).collect();
    match nearest(config, &names) {
        Some(near) => format!("there is no agent {config:?}; did you mean {near:?}?"),
        None if names.is_empty() => format!("there is no agent {config:?}"),
        None => format!("there is no agent {config:?}; there are {}", names.join(", ")),
    }
}

/// Leaves out the tools of crews: they are bound to a place.
fn not_of_crews() -> Allowed {
    Allowed::only(|name| !TOOLS.contains(&name))
}

/// Returns what the agent of a task is told of what its parent knows.
pub(super) fn delegation_context(context: Option<&str>) -> Option<String> {
    let context = context.filter(|context| !context.trim().is_empty())?;
    let (shown, left) = cut(context, LONGEST_CONTEXT);
    Some(match left {
        0 => tagged("delegation_context", &shown),
        left => {
            let text = format!("{shown}\n[cut here: {left} more characters are left out]");
            tagged("delegation_context", &text)
        }
    })
}

/// Returns the name that is most like another one, if any is.
fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distances = names.iter().map(|known| (distance(&name, &known.to_lowercase()), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    let is_near = distance * 3 <= name.chars().count().max(3);
    is_near.then_some(nearest.as_str())
}

/// Returns how many characters must be changed, added or left out to make one word of another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut next = vec![line + 1];
        for (column, b) in to.iter().enumerate() {
            let kept = row[column] + usize::from(a != *b);
            next.push(kept.min(row[column + 1] + 1).min(next[column] + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
