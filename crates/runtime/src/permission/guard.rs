//! The guard: what the rules say when a call touches something.
//!
//! Between the gate and that moment links may have changed. So what is touched is judged again, by the
//! path that it really has; what a person allowed is allowed for that path and no other.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use bowline_llm::CallId;
use bowline_tools::guard::{Confinement, Guard, Reach, Want};

use super::call::{Call, Touch};
use super::confinement;
use super::engine::Engine;
use super::judgement::Decision;

/// What the gate let pass, by call.
#[derive(Debug, Default)]
pub(super) struct Passed {
    calls: HashMap<CallId, Pass>,
    order: VecDeque<CallId>,
}

/// What the gate let pass of one call.
#[derive(Debug, Default)]
struct Pass {
    tool: String,
    reads: Vec<PathBuf>,
    writes: Vec<PathBuf>,
    hosts: Vec<String>,
}

/// So many calls are remembered.
const CALLS: usize = 1024;

impl Engine {
    /// Remembers what a call was let pass with.
    pub(super) fn pass(&self, id: &CallId, call: &Call) {
        let mut pass = Pass { tool: call.tool.clone(), ..Pass::default() };
        for touch in &call.touches {
            match touch {
                Touch::Read(seen) => pass.reads.push(seen.real().to_owned()),
                Touch::Write(seen) => pass.writes.push(seen.real().to_owned()),
                Touch::Host(host) => pass.hosts.push(host.clone()),
                Touch::Program { .. }
                | Touch::Doubt(_)
                | Touch::Adrift { .. }
                | Touch::Named(..)
                | Touch::Agent(_)
                | Touch::Survival
                | Touch::Tool { .. } => {}
            }
        }
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if passed.calls.insert(id.clone(), pass).is_none() {
            passed.order.push_back(id.clone());
        }
        if passed.order.len() > CALLS
            && let Some(oldest) = passed.order.pop_front()
        {
            passed.calls.remove(&oldest);
        }
    }

    /// Tells whether all rules let a host be reached, and name it.
    fn names_host(&self, host: &str) -> bool {
        self.policies().all(|policy| policy.names_host(host))
    }

    /// Judges one thing that a call touches; `was_passed` tells whether a person, or the rules, let pass
    /// exactly this. Returns whether it was a person.
    fn check_touch(
        &self,
        call: &CallId,
        touch: Touch,
        was_passed: impl Fn(&Pass) -> bool,
    ) -> Result<bool, String> {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = passed.calls.get(call);
        let tool = pass.map(|pass| pass.tool.clone()).unwrap_or_default();
        let is_passed = pass.is_some_and(was_passed);
        drop(passed);
        let judgement = self.judge_call(&Call { tool, touches: vec![touch] });
        match judgement.decision {
            Decision::Allow => Ok(false),
            Decision::Ask if is_passed => Ok(true),
            Decision::Ask | Decision::Deny => Err(format!("denied: {}", judgement.reason())),
        }
    }
}

impl Guard for Engine {
    fn check(&self, call: &CallId, path: &Path, want: Want) -> Result<(), String> {
        let seen = self.places().see_real(path);
        let touch = match want {
            Want::Read => Touch::Read(seen),
            Want::Write => Touch::Write(seen),
        };
        let is_same = |other: &PathBuf| other == path;
        let checked = self.check_touch(call, touch, |pass| match want {
            // Who may write a file may read it first.
            Want::Read => pass.reads.iter().chain(&pass.writes).any(is_same),
            Want::Write => pass.writes.iter().any(is_same),
        });
        checked.map(drop)
    }

    fn check_host(&self, call: &CallId, host: &str) -> Result<Reach, String> {
        let touch = Touch::Host(host.to_owned());
        let was_passed = |pass: &Pass| pass.hosts.iter().any(|other| other == host);
        let by_person = self.check_touch(call, touch, was_passed)?;
        match by_person || self.names_host(host) {
            true => Ok(Reach::Named),
            false => Ok(Reach::Public),
        }
    }

    fn names(&self, ip: IpAddr) -> bool {
        self.names_host(&ip.to_string())
    }

    fn confinement(&self, _: &CallId, command: &str) -> Result<Option<Confinement>, String> {
        let command = self.read(command);
        let each = self.policies().map(|policy| confinement::of(policy, &command));
        let each = each.collect::<Result<Vec<_>, _>>()?;
        Ok(each
            .into_iter()
            .reduce(|one, other| match (one, other) {
                (Some(one), Some(other)) => Some(confinement::intersect(one, &other)),
                (one, other) => one.or(other),
            })
            .flatten())
    }
}
