//! How one agent takes part in a crew.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::prompt::{AgentCard, PromptParts};
use crate::tool::{DynTool, ToolContext, Toolbox};

use super::ask::{AnswerQuestions, RequestInput};
use super::board::TaskBoard;
use super::compat::{DelegateToAgent, Placed, SpawnAgents, TaskTool};
use super::complete::TaskComplete;
use super::delegate::Delegate;
use super::delegation::Delegations;
use super::handoff::HandOff;
use super::hire::unknown;
use super::kit::Allowed;
use super::look::{DelegationResult, ListAgents};
use super::message::SendMessage;
use super::reflections::Reflections;
use super::registry::{Card, Registry};
use super::spawn::Spawn;

/// How one agent takes part in a crew: whom it may delegate to, how deep, and what its sub-agents
/// get from it.
#[derive(Clone)]
pub struct Member {
    /// The name of its configuration.
    pub name: String,
    /// The names of those of the agents above it, nearest first.
    pub above: Vec<String>,
    /// What it is good for.
    pub description: String,
    /// Who there is to delegate to.
    pub registry: Arc<Registry>,
    /// The deepest level at which an agent may be made below it, counted from the session's first
    /// agent; 0 for none. What its parent allows is never exceeded.
    pub max_depth: u32,
    /// How many times a task that it delegated may be handed on, and whether it may hand on its own
    /// as far as its parent lets it; 0 for never.
    pub max_handoffs: u32,
    /// Who answers the questions of its sub-agents.
    pub interaction: Interaction,
    /// How long a sub-agent waits for an answer before it is stopped; `None` for ever.
    pub question_timeout: Option<Duration>,
    /// How long a task may take; `None` for as long as the sub-agent's own limits allow. It begins
    /// anew in a process that goes on with a session.
    pub task_timeout: Option<Duration>,
    /// The tools of its sub-agents.
    pub child_tools: ChildTools,
    /// The configurations it may delegate to; `None` for all.
    pub delegates: Option<Vec<String>>,
    /// Whether it may delegate to agents of its own configuration.
    pub allow_self: bool,
    /// Whether it may make agents of a system text of its own, with tools that it has itself.
    pub ad_hoc: bool,
    /// What becomes of the other tasks of a call when one fails.
    pub on_error: OnError,
    /// The board on which its tasks stand.
    pub board: Option<Boards>,
    /// Where failures are remembered.
    pub reflections: Option<Arc<dyn Reflections>>,
    /// When the model is told what a sub-agent did, step by step.
    pub trace: Trace,
    /// Whether it may say that its task is over although it is nobody's sub-agent.
    pub completes: bool,
    /// What it can do besides, asked for by name.
    pub extras: Vec<Extra>,
    /// Tools that are each a task for one agent, offered where it may delegate to that.
    pub task_tools: Vec<TaskTool>,
}

/// Makes the board of a call's session.
pub type Boards = Arc<dyn Fn(&ToolContext) -> Arc<dyn TaskBoard> + Send + Sync>;

/// Who answers the questions of sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interaction {
    /// Nobody's time is taken: a question is answered with the context of the task, once; then the
    /// sub-agent is to decide itself. Also known as `blocking`.
    #[default]
    Auto,
    /// The delegating model, for tasks that it gives with `mode: "interactive"`.
    Interactive,
}

impl FromStr for Interaction {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "auto" | "blocking" => Ok(Self::Auto),
            "interactive" => Ok(Self::Interactive),
            _ => Err(UnknownWord { word: word.to_owned(), known: "auto, blocking, interactive" }),
        }
    }
}

/// A word that stands for nothing here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {known}")]
pub struct UnknownWord {
    word: String,
    known: &'static str,
}

/// The tools of sub-agents. All but [`ChildTools::Configured`] and [`ChildTools::Union`] hold for
/// the agents below those too, whatever their configurations say. What they need to take part in a crew they have in any case.
#[derive(Debug, Clone, Default)]
pub enum ChildTools {
    /// Those of their own configuration.
    #[default]
    Configured,
    /// Those of their own configuration and their parent's; of a name that both have, their own.
    Union,
    /// Those of their own configuration that their parent has too.
    Common,
    /// Those of their parent with these names.
    Subset(Vec<String>),
    /// These.
    Explicit(Toolbox),
    /// These, and of those that come and go, their own and their parent's, the ones that are allowed.
    Listed(Toolbox, Allowed),
}

/// What becomes of the other tasks of a call when one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// They go on.
    #[default]
    Collect,
    /// They are canceled.
    CancelSiblings,
}

/// When a model is told what a sub-agent did, step by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trace {
    /// When it failed.
    #[default]
    OnError,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a member can do when asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// `delegate_to_agent`: one task, answered with a text (seed 001).
    DelegateToAgent,
    /// `spawn_agents`: several tasks, all canceled when one fails (seed 001).
    SpawnAgents,
    /// `send_message`: to a sub-agent of its own, or another one of its parent's.
    SendMessage,
}

impl FromStr for Extra {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "delegate_to_agent" => Ok(Self::DelegateToAgent),
            "spawn_agents" => Ok(Self::SpawnAgents),
            "send_message" => Ok(Self::SendMessage),
            _ => {
                let known = "delegate_to_agent, spawn_agents, send_message";
                Err(UnknownWord { word: word.to_owned(), known })
            }
        }
    }
}

/// A member at its place, as its tools see it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) member: Arc<Member>,
    pub(super) max_depth: u32,
    // Which tools agents below it may have.
    pub(super) allowed: Allowed,
    pub(super) delegations: Delegations,
}

impl Member {
    /// Makes a member that can delegate three levels deep, to anybody but itself.
    pub fn new(name: impl Into<String>, registry: Arc<Registry>) -> Self {
        Self {
            name: name.into(),
            above: Vec::new(),
            description: String::new(),
            registry,
            max_depth: 3,
            max_handoffs: 0,
            interaction: Interaction::Auto,
            question_timeout: None,
            task_timeout: None,
            child_tools: ChildTools::Configured,
            delegates: None,
            allow_self: false,
            ad_hoc: false,
            on_error: OnError::Collect,
            board: None,
            reflections: None,
            trace: Trace::OnError,
            completes: false,
            extras: Vec::new(),
            task_tools: Vec::new(),
        }
    }

    /// Returns what the system text should explain of its place: what of it has to do with the crew
    /// is filled in, with its name and description.
    pub fn prompt(&self, spawn: &Spawn) -> PromptParts {
        let can_delegate = self.can_delegate(spawn);
        let colleagues = if can_delegate { self.colleagues() } else { Vec::new() };
        PromptParts {
            name: self.name.clone(),
            description: self.description.clone(),
            depth: spawn.depth,
            max_depth: if can_delegate { self.max_depth.min(spawn.max_depth) } else { 0 },
            can_hand_off: self.can_hand_off(spawn),
            can_ask: spawn.depth > 0,
            interactive: can_delegate && self.interaction == Interaction::Interactive,
            agents: colleagues.iter().map(AgentCard::from).collect(),
            ..PromptParts::default()
        }
    }

    /// Returns the tools with which the agent takes part: those, and only those, that it can use at
    /// its place.
    pub fn tools(&self, spawn: &Spawn) -> Toolbox {
        let seat = Arc::new(Seat {
            member: Arc::new(self.clone()),
            max_depth: self.max_depth.min(spawn.max_depth),
            allowed: spawn.allowed.clone(),
            delegations: Delegations::default(),
        });
        let is_child = spawn.depth > 0;
        let mut tools: Vec<Arc<dyn DynTool>> = Vec::new();
        if self.can_delegate(spawn) {
            tools.push(Arc::new(ListAgents(Arc::clone(&seat))));
            tools.push(Arc::new(Delegate(Arc::clone(&seat))));
            tools.push(Arc::new(DelegationResult));
            if self.interaction == Interaction::Interactive {
                tools.push(Arc::new(AnswerQuestions(Arc::clone(&seat))));
            }
            if self.has(Extra::DelegateToAgent) {
                tools.push(Arc::new(DelegateToAgent(Arc::clone(&seat))));
            }
            if self.has(Extra::SpawnAgents) {
                tools.push(Arc::new(SpawnAgents(Arc::clone(&seat))));
            }
            for tool in &self.task_tools {
                if self.may_delegate_to(&tool.agent) && self.registry.card(&tool.agent).is_some() {
                    tools.push(Arc::new(Placed(Arc::clone(&seat), tool.clone())));
                }
            }
        }
        if self.has(Extra::SendMessage) {
            tools.push(Arc::new(SendMessage(Arc::clone(&self.registry))));
        }
        if is_child || self.completes {
            tools.push(Arc::new(TaskComplete));
        }
        if self.can_hand_off(spawn) {
            let (own, parent) = (spawn.name.clone(), spawn.parent.clone());
            tools.push(Arc::new(HandOff { own, parent }));
        }
        if is_child {
            tools.push(Arc::new(RequestInput));
        }
        let mut toolbox = Toolbox::default();
        for tool in tools {
            // Their names differ.
            let _ = toolbox.add(tool);
        }
        toolbox
    }

    /// Returns the cards of those it may delegate to, by name.
    pub(super) fn colleagues(&self) -> Vec<Card> {
        let mut cards = self.registry.list();
        cards.retain(|card| self.may_delegate_to(&card.name));
        cards
    }

    /// Tells whether a name is its own.
    pub(super) fn is_self(&self, name: &str) -> bool {
        is_same(name, &self.name)
    }

    pub(super) fn may_delegate_to(&self, name: &str) -> bool {
        let is_meant = |names: &Vec<String>| names.iter().any(|known| known == name);
        (self.allow_self || !self.is_self(name)) && self.delegates.as_ref().is_none_or(is_meant)
    }

    fn can_delegate(&self, spawn: &Spawn) -> bool {
        let is_deep = spawn.depth >= self.max_depth.min(spawn.max_depth);
        !is_deep && (self.ad_hoc || !self.colleagues().is_empty())
    }

    fn can_hand_off(&self, spawn: &Spawn) -> bool {
        let limit = self.max_handoffs.min(spawn.max_handoffs);
        let has_peers = match &spawn.parent {
            Some(parent) => !parent.peers_of(&spawn.name).is_empty(),
            None => !self.registry.list().is_empty(),
        };
        spawn.depth > 0 && limit > 0 && has_peers
    }

    /// Returns the cards of those to whom an agent may hand on a task that this one gave it.
    pub(super) fn peers_of(&self, config: &str) -> Vec<Card> {
        let mut cards = self.colleagues();
        cards.retain(|card| !is_same(&card.name, config));
        cards
    }

    /// Fails unless a task that this one gave may be handed on from one agent to another.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn admits_handoff(&self, from: &str, to: &str) -> Result<(), String> {
        if is_same(from, to) {
            return Err(format!("{to} cannot hand on to itself"));
        }
        if self.is_self(to) && !self.allow_self {
            return Err(format!("{to} delegated the task, it is not to be handed back"));
        }
        if !self.may_delegate_to(to) || self.registry.card(to).is_none() {
            return Err(unknown(to, &self.peers_of(from)));
        }
        Ok(())
    }

    fn has(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }
}

/// Tells whether two names mean one agent.
fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .field("registry", &self.registry)
            .field("max_depth", &self.max_depth)
            .finish_non_exhaustive()
    }
}
