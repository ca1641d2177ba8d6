//! The agent loop that holds.
//!
//! An agent's log is its state: the conversation is a view of it, and what to do next is a pure
//! function of it. [`Agent::start`] brings an agent to life in a task of its own, which alone
//! writes the log; everybody else holds a [`SessionHandle`].
//!
//! In reading order:
//!
//! - [`id`], [`op`], [`entry`]: what is written down.
//! - [`journal`]: the doors to whatever keeps it; [`Memory`] keeps nothing.
//! - [`conversation`]: the fold; [`orchestrator`]: from the fold to the next step.
//! - [`tool`], [`gate`], [`prompt_gate`], [`children`], [`limits`]: what an agent may do; [`output`]: what it must
//!   answer with.
//! - [`crew`]: agents that give each other tasks; [`shared`]: what the agents of a session have in common.
//! - [`effect`]: what changes the conversation at a step; [`transform`]: what changes only what the
//!   model gets to see of it; [`middleware`]: what wraps a run; [`on_stop`] and [`feed`]: who keeps
//!   it going; [`on_end`]: what is done when it is down.
//! - [`prompt`]: the system text, from plain facts; [`visible`]: texts and names of strangers, so that all of
//!   them is seen.
//! - [`agent`], [`handle`], [`run`], [`event`]: the face for those who embed it.
//! - `turn` owns one agent's log and does one step; `driver` does step after step.
#![deny(missing_docs)]

pub mod agent;
pub mod children;
pub mod conversation;
pub mod crew;
mod driver;
pub mod effect;
pub mod entry;
pub mod error;
pub mod event;
pub mod feed;
mod fork;
pub mod gate;
pub mod handle;
mod hub;
pub mod id;
pub mod journal;
mod ledger;
pub mod limits;
mod mailbox;
mod memory;
pub mod middleware;
pub mod on_end;
pub mod on_stop;
pub mod op;
pub mod orchestrator;
mod outcome;
pub mod output;
mod projection;
pub mod prompt;
pub mod prompt_gate;
mod questions;
mod redact;
pub mod run;
mod session;
pub mod shared;
mod tags;
pub mod tool;
pub mod transform;
mod turn;
pub mod visible;

pub use agent::{Agent, Busy, ForkPoint, ToolExecution};
pub use bowline_llm::Spent;
pub use children::{AgentCreator, Child, Children};
pub use error::AgentError;
pub use handle::{SessionHandle, State};
pub use memory::Memory;
pub use outcome::Outcome;
pub use output::OutputSchema;
pub use projection::Projection;
pub use redact::{Redaction, looks_secret, names_secret};
pub use run::{Run, RunFailure, collect_final_text};

/// With which gates, transforms, middleware and feeds are implemented.
pub use async_trait::async_trait;

/// With which the arguments of tools are described; with `use bowline::agent::schemars;` its derive
/// needs no dependency of one's own.
pub use schemars;
