//! What agents may do: one set of rules for commands, files, hosts, servers and delegation, and the
//! sandbox that is made of the same rules.
//!
//! - `rule`: the language, with `command`, `path` and `glob`; `places` are those on this
//!   machine that it knows of, and `seen` is what a path really is.
//! - `layers`: where rules come from, and which is right; `approvals`: those of a session.
//! - [`shell`] reads commands, `call` says what a call touches, and `guess` what it may; `harmless`: programs that only look.
//! - `policy`: the rules of one agent; `engine`: those of an agent and of all above it. What they
//!   decide is a `judgement`.
//! - `gate` asks the engine before a call starts, `guard` when it touches something, and
//!   `confinement` is what commands run in; `below` finds the files that it is about.
//! - `suggest`: the rules that a person may be offered, and where they are kept; `explain` says it all.

mod approvals;
mod below;
mod call;
mod command;
mod confinement;
mod engine;
mod explain;
mod gate;
mod glob;
mod guard;
mod guess;
mod harmless;
mod judgement;
mod layers;
mod path;
mod places;
mod policy;
mod rule;
mod seen;
pub mod shell;
mod suggest;

#[cfg(test)]
mod tests;

pub(crate) use below::Standing;
pub use confinement::intersect;
pub use engine::Engine;
pub use explain::{Asked, Explained, explain};
pub use judgement::{Decision, Judgement, Segment, Why};
pub use layers::{Entry, Kind, Managed};
pub(crate) use layers::{check, entries};
pub use places::Places;
pub(crate) use places::holds_settings;
pub(crate) use policy::CanConfine;
pub use policy::Policy;
pub(crate) use rule::ABOUT;
pub use rule::{Host, Rule};
pub use suggest::remember;
