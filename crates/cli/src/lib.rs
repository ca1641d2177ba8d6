//! bowline: the agent loop that holds.
//!
//! This crate is what people embed: it gathers the rooms of the house under one name.
//!
//! - [`agent`]: agents, sessions, tools, events.
//! - [`llm`]: messages, models, the wire; [`llm::ScriptedModel`] to test agents with.
//! - [`store`]: sessions in files or in memory.
//! - [`tools`]: tools that touch the machine; [`tools::helper`] belongs first in `main`.
//! - [`runtime`]: configuration and providers as the command line uses them.
//! - [`server`]: events as other agents tell them.
#![deny(missing_docs)]

pub use bowline_agent as agent;
pub use bowline_llm as llm;
pub use bowline_runtime as runtime;
pub use bowline_server as server;
pub use bowline_store as store;
pub use bowline_tools as tools;
