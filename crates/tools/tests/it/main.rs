//! The tools through their door, on real files, with real processes and servers of the test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod commands;
mod configured;
mod confinement;
mod crew;
mod desk;
mod files;
mod git;
mod guarded;
mod jobs;
mod mcp;
#[path = "../support/mcp_server.rs"]
mod mcp_server;
mod notes;
mod patches;
mod search;
mod skills;
mod survivors;
mod talk;
mod undo;
mod web;
