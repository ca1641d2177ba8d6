//! What people have allowed for longer than once.

use std::sync::{Arc, Mutex, PoisonError};

use super::rule::Rule;

/// The rules that people have allowed while an agent was at work.
#[derive(Debug, Default)]
pub(crate) struct Approvals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What the session was granted, as it says it.
    granted: Vec<String>,
    /// What was allowed for good.
    kept: Vec<Rule>,
    rules: Arc<[Rule]>,
}

impl Approvals {
    /// Takes what the session was granted. What is no rule allows nothing.
    pub(super) fn learn(&self, granted: &[String]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.granted != granted {
            state.granted = granted.to_vec();
            state.renew();
        }
    }

    /// Adds a rule that was allowed for good.
    pub(super) fn keep(&self, rule: &Rule) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept.push(rule.clone());
        state.renew();
    }

    /// Returns what is allowed.
    pub(super) fn rules(&self) -> Arc<[Rule]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).rules)
    }
}

impl State {
    fn renew(&mut self) {
        let granted = self.granted.iter().filter_map(|text| Rule::parse(text).ok());
        let rules = granted.filter(|rule| rule.useless().is_none());
        self.rules = rules.chain(self.kept.iter().cloned()).collect();
    }
}
