//! The store through its door.

mod conformance;
