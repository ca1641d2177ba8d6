//! The acceptance tests of the agent loop, through its public doors only.
//!
//! Comments name the behaviours of the specification (F001 and so on) that a test stands for, and the
//! faults of other systems (B1, D15, M17 and so on) that it would find.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod answers;
mod approvals;
mod behind;
mod boards;
mod busy;
mod canceling;
mod children;
mod compaction;
mod crashes;
mod crew;
mod demands;
mod effects;
mod final_text;
mod gates;
mod invariants;
mod last_words;
mod limits;
mod masking;
mod middleware;
mod narrow;
mod offloading;
mod orchestrators;
mod output;
mod plans;
mod prefix;
mod prompts;
mod schedule;
mod secrets;
mod sessions;
mod shape;
mod sliding;
mod steering;
mod stopping;
mod summaries;
mod support;
mod tools;
mod transforms;
mod waiting;
mod watching;
