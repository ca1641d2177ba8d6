//! What bowline says to strangers.
//!
//! A program that reads the events of another agent can read bowline's: the room knows the shapes
//! that others have given to the same facts, and nothing else does.
//!
//! - [`dialect`]: event streams of others, as pure projections of ours.
//! - [`said`]: what the agent tells the user on purpose.
//! - [`ending`]: how a run ended, in a line.
#![deny(missing_docs)]

pub mod dialect;
pub mod ending;
pub mod said;
