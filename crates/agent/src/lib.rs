//! bowline-agent

pub mod children;
pub mod conversation;
pub mod entry;
pub mod event;
pub mod gate;
pub mod id;
pub mod journal;
pub mod limits;
mod memory;
pub mod op;
pub mod orchestrator;
pub mod tool;

pub use memory::Memory;
