//! What a session asks about permission: who asks the same, and what was allowed for longer than once.
//!
//! Calls that want the very same (one tool, one set of arguments) ask once, whichever agents they are of:
//! the first one asks, the others wait for what is decided about it. Each has its own entry in its own
//! log, so nothing is held while they wait, and who goes away takes nobody's question along.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_llm::CallId;

use crate::entry::{Entry, EntryKind, Twin};
use crate::id::AgentId;
use crate::journal::Pos;
use crate::op::{Decision, Scope};

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) agent: AgentId,
    pub(crate) call: CallId,
}

/// What is asked: the tool and its arguments.
pub(crate) type Wanted = (String, String);

/// The open questions of a session, and what it was allowed.
pub(crate) struct Questions(Mutex<Known>);

struct Known {
    granted: Arc<[String]>,
    // Who waits, the one first that has asked.
    open: HashMap<Wanted, Vec<Asker>>,
}

impl Questions {
    /// Returns what a session was allowed whose log holds these entries. A rewind takes nothing of it
    /// back: a person said it of the session.
    pub(crate) fn new(log: &[(Pos, Entry)]) -> Self {
        let mut granted: Vec<String> = Vec::new();
        for (_, entry) in log {
            if let EntryKind::Decided(decided) = &entry.kind
                && let Some(rule) = rule_of(&decided.decision)
                && !granted.iter().any(|known| known == rule)
            {
                granted.push(rule.to_owned());
            }
        }
        Self(Mutex::new(Known { granted: granted.into(), open: HashMap::new() }))
    }

    /// Returns the rules that were allowed for the session, in the order in which they were.
    pub(crate) fn granted(&self) -> Arc<[String]> {
        Arc::clone(&self.lock().granted)
    }

    /// Notes that a call waits; returns the call that asks the same already.
    pub(crate) fn ask(&self, wanted: Wanted, asker: Asker) -> Option<Twin> {
        let mut known = self.lock();
        let askers = known.open.entry(wanted).or_default();
        let twin = askers.first().filter(|first| **first != asker).cloned();
        if !askers.contains(&asker) {
            askers.push(asker);
        }
        twin.map(|Asker { agent, call }| Twin { agent, call })
    }

    /// Notes that a call was decided about; returns those that asked the same. If more than the call was
    /// allowed, all others that wait are handed to the second list: they may have been waiting for that.
    pub(crate) fn decided(&self, asker: &Asker, decision: &Decision) -> (Vec<Asker>, Vec<Asker>) {
        let mut known = self.lock();
        let wanted = known.wanted(asker);
        let mut same = wanted.and_then(|wanted| known.open.remove(&wanted)).unwrap_or_default();
        same.retain(|other| other != asker);
        let Some(rule) = rule_of(decision) else { return (same, Vec::new()) };
        if !known.granted.iter().any(|granted| granted == rule) {
            known.granted =
                known.granted.iter().map(String::as_str).chain([rule]).map(str::to_owned).collect();
        }
        (same, known.open.values().flatten().cloned().collect())
    }

    /// Notes that a call waits no more, undecided; returns who has to ask now in its place.
    pub(crate) fn withdraw(&self, asker: &Asker) -> Option<Asker> {
        let mut known = self.lock();
        let wanted = known.wanted(asker)?;
        let askers = known.open.get_mut(&wanted)?;
        let was_first = askers.first() == Some(asker);
        askers.retain(|other| other != asker);
        let next = askers.first().cloned();
        if next.is_none() {
            known.open.remove(&wanted);
        }
        next.filter(|_| was_first)
    }

    /// Notes that an agent is gone with all its questions; returns who has to ask now.
    pub(crate) fn leave(&self, agent: AgentId) -> Vec<Asker> {
        let of_agent: Vec<Asker> = {
            let known = self.lock();
            known.open.values().flatten().filter(|asker| asker.agent == agent).cloned().collect()
        };
        let next = of_agent.iter().filter_map(|asker| self.withdraw(asker));
        next.filter(|next| next.agent != agent).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn wanted(&self, asker: &Asker) -> Option<Wanted> {
        let mut open = self.open.iter();
        open.find(|(_, askers)| askers.contains(asker)).map(|(wanted, _)| wanted.clone())
    }
}

/// Returns the rule that a decision allows for longer than once.
fn rule_of(decision: &Decision) -> Option<&str> {
    match decision {
        Decision::Allow { scope: Scope::Session { rule } | Scope::Always { rule } } => Some(rule),
        Decision::Allow { scope: Scope::Once } | Decision::Deny { .. } => None,
    }
}
