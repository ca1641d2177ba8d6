//! The store through its door.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod conformance;
mod fixture;
mod inbox;
mod integrity;
mod list;
mod lock;
mod log;
mod processes;
mod properties;
mod upkeep;
