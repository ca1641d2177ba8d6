//! Where bowline is put together.
//!
//! The only crate below the command line that reads the environment. In reading order:
//!
//! - [`environment`]: what the process was started with, and the user's folders.
//! - [`config`]: the configuration and its layers.
//! - [`provider`]: from a model's name to a model.
//! - [`catalog`]: what is known of models.
//! - [`models`]: which models can be used, and why others cannot.
//! - [`local`]: servers on this machine.
//! - [`embedded`]: models in this process.
//! - [`mcp`]: servers that bring tools.
//! - [`project`]: the project around the working directory.
//! - [`instructions`]: what the user and the project tell every model.
//! - [`skills`]: procedures that a model learns when it needs them.
//! - [`reflections`]: what agents remember of tasks that failed.
//! - [`doctor`]: whether everything is there that is needed.
//! - [`prompt`]: what a model is told before the user says anything.
//! - [`agents`]: agents in files and tables, and what makes them.
//! - [`effects`]: the effects of an agent, as they are configured.
//! - [`tools`]: the tools that are configured.
//! - [`telemetry`]: what runs look like to OpenTelemetry.
//! - [`permission`]: the gate of the permission modes.
//! - [`hooks`]: commands of the user that run at moments of a session.
//! - [`trust`]: which folders the user trusts.
//! - [`plain`]: what strangers say, harmless for a terminal; `reading`: files of strangers.
//! - `undo`: what records files before agents change them.
//! - [`Runtime`]: all of it together, which makes agents.
#![deny(missing_docs)]

pub mod agents;
pub mod catalog;
pub mod config;
pub mod doctor;
pub mod effects;
pub mod embedded;
pub mod environment;
mod error;
mod front_matter;
pub mod hooks;
pub mod instructions;
pub mod local;
pub mod mcp;
pub mod models;
pub mod permission;
pub mod plain;
pub mod project;
pub mod prompt;
pub mod provider;
mod reading;
pub mod reflections;
mod runtime;
mod secrets;
pub mod skills;
pub mod telemetry;
#[cfg(test)]
mod test_machine;
pub mod tools;
pub mod trust;
mod undo;

pub use agents::{AgentFactory, Told};
pub use error::ConfigError;
pub use runtime::{Choice, Runtime};
