//! Tools of MCP servers: programs and addresses that speak the Model Context Protocol.
//!
//! [`Servers`] starts them side by side and keeps them: one that is gone is started again when it is
//! needed. What they offer comes to an agent as a [`ToolSource`](bowline_agent::tool::ToolSource), which
//! is asked when a run starts: what a server changes meanwhile counts from the next run on.
//!
//! In reading order: `config`; `stdio` and `http` (how to reach a server), `client` (what a server may
//! ask of us), `lines`, `listing` and `schema` (what is taken of what it says), `connection`, `server`
//! (who keeps one); `call` (a call that is under way), `question`
//! (what a server asks a person), `content`; `names`, `tool`, `resources`, `search` and `offer` (what
//! the model gets).

mod call;
mod client;
mod config;
mod connection;
mod content;
mod http;
mod lines;
mod listing;
mod names;
mod offer;
mod question;
mod resources;
mod schema;
mod search;
mod server;
mod stdio;
mod tool;

pub use config::{Host, Http, Program, Reach, ServerConfig};
pub use names::{Only, Pattern, Scope};
pub use offer::{Missing, Servers};
pub use server::{Report, ReportedTool, State};
