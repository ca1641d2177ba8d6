//! Under what conditions an agent is made.

use std::sync::Arc;

use super::kit::Allowed;
use super::member::Member;
use super::registry::Registry;

/// What a [`Factory`](super::Factory) gets to know of the agent it is to make.
#[derive(Debug, Clone)]
pub struct Spawn {
    /// The name under which it is registered.
    pub name: String,
    /// How many agents are above it.
    pub depth: u32,
    /// The deepest level at which an agent may be made below it, whatever its own limit.
    pub max_depth: u32,
    /// How many times its task may still be handed on, whatever its own limit.
    pub max_handoffs: u32,
    /// Which tools it may have, and all agents below it.
    pub allowed: Allowed,
    /// How the agent that delegates to it takes part; `None` for a session's first agent.
    pub parent: Option<Arc<Member>>,
}

impl Spawn {
    /// Returns the conditions of a session's first agent: there are none.
    pub fn root(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            name,
            depth: 0,
            max_depth: u32::MAX,
            max_handoffs: u32::MAX,
            allowed: Allowed::default(),
            parent: None,
        }
    }

    /// Returns how the agent takes part if nothing else is said: with its parent's registry, board
    /// and reflections, and as deep as its parent may delegate.
    ///
    /// A factory that takes the registry from here, and does not hold on to it, makes no circle of
    /// references.
    pub fn member(&self) -> Member {
        let Some(parent) = &self.parent else {
            return Member::new(&self.name, Arc::<Registry>::default());
        };
        let card = parent.registry.card(&self.name).unwrap_or_default();
        Member {
            above: std::iter::once(&parent.name).chain(&parent.above).cloned().collect(),
            description: card.description,
            max_depth: self.max_depth,
            board: parent.board.clone(),
            reflections: parent.reflections.clone(),
            ..Member::new(&self.name, Arc::clone(&parent.registry))
        }
    }
}
