//! What confined commands cannot do, tried for real.
//!
//! Every case is a command that tries something, in a working folder it may write. Python stands for a
//! program that an attacker would bring along.

mod cell;
mod files;
mod kernel;
mod network;
mod processes;
mod tool;
mod usual;
