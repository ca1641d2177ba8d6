//! What agents need that work on one job together.
//!
//! - [`board`]: the tasks of a session, and who does them.

pub mod board;
