//! Agents: where they are described, what they may name, and how they are made.
//!
//! An agent is a table `[agents.NAME]` of the configuration, or a Markdown file of its own: front
//! matter with the same keys, and below it the instructions. In reading order:
//!
//! - `files`: the files of agents, ours and those of other programs, which `foreign` brings into our
//!   shape.
//! - `names`: whether what an agent names is there.
//! - `toolboxes`: the names of tools, and the one place where an agent's tools are put together.
//! - [`AgentFactory`]: from a name to an agent; `crew`: how agents work together.
//! - [`overview`]: what there is, for a person.
//! - [`templates`]: agents to begin with.

mod crew;
mod factory;
pub(crate) mod files;
mod foreign;
pub(crate) mod names;
pub mod overview;
pub mod templates;
pub(crate) mod toolboxes;

pub use factory::{AgentFactory, Told};

#[cfg(test)]
mod tests;
