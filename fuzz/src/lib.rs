//! Laws of what reads texts that others wrote: each takes any bytes, and panics if it is broken.
//!
//! Fuzzing looks for bytes that do (`just fuzz`); the tests hold the laws against the inputs that are
//! kept in `corpus`, among them all that ever did.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a broken law is a panic; so is a machine on which no temporary file can be written"
)]

mod config;
mod desk;
mod edit;
mod log;
mod patch;
mod shell;
mod sse;

pub use config::config;
pub use edit::edit;
pub use log::log;
pub use patch::patch;
pub use shell::shell;
pub use sse::sse;

/// A law.
pub type Law = fn(&[u8]);

/// All laws, by the names of their folders in the corpus.
pub const LAWS: [(&str, Law); 6] = [
    ("config", config),
    ("edit", edit),
    ("log", log),
    ("patch", patch),
    ("shell", shell),
    ("sse", sse),
];

/// What separates the parts of an input that has several.
const CUT: &str = "\n--8<--\n";
