//! Who there is to delegate to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::prompt::AgentCard;

use super::live::Live;
use super::slots::Slots;
use super::spawn::Spawn;

/// A directory of agents by name, from which crews are made. It may be shared by threads and
/// sessions.
#[derive(Default)]
pub struct Registry {
    posts: Mutex<BTreeMap<String, Post>>,
    pub(super) slots: Slots,
    pub(super) live: Live,
}

struct Post {
    card: Card,
    factory: Factory,
}

/// Makes an agent, a fresh one each time.
pub type Factory = Arc<dyn Fn(&Spawn) -> Result<Agent, AgentError> + Send + Sync>;

/// What is told of an agent to those who may delegate to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The name of its configuration.
    pub name: String,
    /// What it is good for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What is shown before what it says; models are not told.
    #[serde(skip)]
    pub prefix: Option<String>,
    /// Words for what it can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How much it is likely to cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_cost: Option<Cost>,
    /// How many of it may work at once, in all sessions that share the registry; 0 for any number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_concurrency: usize,
}

/// How much an agent is likely to cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// Little.
    Cheap,
    /// Neither little nor much.
    Medium,
    /// Much.
    Expensive,
}

impl Cost {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cheap => "cheap",
            Self::Medium => "medium",
            Self::Expensive => "expensive",
        }
    }
}

/// What is told of an agent in a system text.
impl From<&Card> for AgentCard {
    fn from(card: &Card) -> Self {
        Self {
            name: card.name.clone(),
            description: card.description.clone(),
            skills: card.tags.clone(),
            cost: card.estimated_cost.map(Cost::as_str).unwrap_or_default().to_owned(),
        }
    }
}

impl Card {
    /// Makes the card of an agent.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), ..Self::default() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Registry {
    /// Adds an agent; it takes the place of one of the same name.
    pub fn register(
        &self,
        card: Card,
        factory: impl Fn(&Spawn) -> Result<Agent, AgentError> + Send + Sync + 'static,
    ) {
        self.slots.limit(&card.name, card.max_concurrency);
        let post = Post { card, factory: Arc::new(factory) };
        self.posts().insert(post.card.name.clone(), post);
    }

    /// Returns what makes the agent of a name.
    pub fn get(&self, name: &str) -> Option<Factory> {
        self.posts().get(name).map(|post| Arc::clone(&post.factory))
    }

    /// Returns the card of an agent.
    pub fn card(&self, name: &str) -> Option<Card> {
        self.posts().get(name).map(|post| post.card.clone())
    }

    /// Returns the cards of all agents, by name.
    pub fn list(&self) -> Vec<Card> {
        self.posts().values().map(|post| post.card.clone()).collect()
    }

    /// Makes a fresh agent; `None` if there is none of its name. It is called what it is registered
    /// as.
    pub fn spawn(&self, spawn: &Spawn) -> Option<Result<Agent, AgentError>> {
        // A factory is no code of ours: it does not run under the lock.
        let factory = self.get(&spawn.name)?;
        Some(factory(spawn).map(|agent| Agent { name: spawn.name.clone(), ..agent }))
    }

    fn posts(&self) -> MutexGuard<'_, BTreeMap<String, Post>> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.posts().keys()).finish()
    }
}
