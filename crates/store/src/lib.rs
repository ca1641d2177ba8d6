//! Where bowline keeps its sessions.
//!
//! An agent writes what happens to a log and reads it back to go on; `bowline-agent` says what it
//! needs for that ([`Store`](bowline_agent::journal::Store)), this crate is where it is done:
//!
//! - [`Files`] keeps sessions in a folder: a line of JSON for each commit, chained by hashes, with
//!   one writer at a time and an inbox for everybody else. `docs/log.md` is the law of its files.
//! - [`Memory`] forgets them with the process.
//! - [`conformance`] is what both must hold to, and every store that comes after them.
//!
//! In reading order: [`conformance`] (the laws), [`files`] (the store, and within it the form of a
//! line, reading, writing, syncing, the lock, the inbox, large bodies, then what people ask of
//! their sessions: lists, deletion, verification).

#![deny(missing_docs)]

pub mod conformance;
pub mod files;

pub use bowline_agent::Memory;
pub use files::{Durability, Files};
