//! Crews: agents that give each other tasks.
//!
//! A [`Registry`] is the directory of agents that can be made, each with a [`Card`] and a
//! [`Factory`]. A [`Member`] says how one agent takes part: [`Member::tools`] are the tools it gets
//! for that, [`Member::prompt`] what its system text should explain. The first agent of a session
//! is at [`Spawn::root`]; a factory is told the place of the agent that it makes, and how deep that
//! may delegate in turn.
//!
//! - [`board`]: the tasks of a session, and who does them.
//! - `delegate` gives tasks to agents: each task is an `errand`, done by somebody who is hired
//!   (`hire`), and ends in a `report`.
//! - `complete`, `handoff`: how a sub-agent ends its task, or hands it on; `deeds` holds what it
//!   says of it against its log.
//! - `ask`: how a sub-agent asks its parent; `delegation` is a task whose agent may.
//! - `slots`: how many agents of a configuration may work at once; `kit`: what they get to work with.
//!
//! Nothing of a delegation lives in memory only: a sub-agent is found again by its parent's call
//! and the place of its task in it, with a log of its own.

mod ask;
pub mod board;
mod command;
mod compat;
mod complete;
mod deeds;
mod delegate;
mod delegation;
mod errand;
mod handoff;
mod hire;
mod kit;
mod live;
mod look;
mod member;
mod message;
mod party;
mod reflections;
mod registry;
mod report;
pub(crate) mod slots;
mod slug;
mod spawn;
mod text;
mod ticket;
mod trace;

pub use compat::{MakeTask, TaskTool};
pub use kit::Allowed;
pub use member::{Boards, ChildTools, Extra, Interaction, Member, OnError, Trace, UnknownWord};
pub use reflections::{Failure, Reflections};
pub use registry::{Card, Cost, Factory, Registry};
pub use spawn::Spawn;

/// The names of the tools with which an agent takes part in a crew. A sub-agent never gets its
/// parent's: they are bound to their place.
pub const TOOLS: [&str; 10] = [
    "list_agents",
    "delegate",
    "delegation_result",
    "delegate_to_agent",
    "spawn_agents",
    "send_message",
    "task_complete",
    "handoff",
    "request_input",
    "answer_delegation_questions",
];
