//! Who has spent what in a session, sub-agents included.

use std::collections::HashMap;

use bowline_llm::Spent;

use crate::entry::{Entry, EntryKind};
use crate::id::AgentId;

/// Returns what an entry says was spent.
pub(crate) fn spent_by(kind: &EntryKind) -> Spent {
    let (usage, cost_usd, unpriced) = match kind {
        EntryKind::Assistant(said) => match said.usage {
            Some(usage) => (usage, said.cost_usd, said.unpriced),
            None => return Spent::default(),
        },
        EntryKind::ExternalUsage(external) => (external.usage, external.cost_usd, 0),
        _ => return Spent::default(),
    };
    match cost_usd {
        Some(cost_usd) => Spent { usage, cost_usd, unpriced },
        None => Spent::at(None, usage),
    }
}

/// The books of a session: a fold of the logs of all its agents.
///
/// An agent's account holds what it and all agents below it have spent, so usage rolls up while
/// the entries are read, in the order of their positions.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: HashMap<AgentId, Account>,
}

#[derive(Debug, Default)]
struct Account {
    parent: Option<AgentId>,
    tree: Spent,
    // What `tree` was when the open run started.
    run_start: Spent,
    // Entries still to come that were copied from another log and paid for there.
    copies: u64,
}

impl Ledger {
    pub(crate) fn apply(&mut self, entry: &Entry) {
        let account = self.accounts.entry(entry.agent).or_default();
        match &entry.kind {
            EntryKind::Created(created) => {
                account.parent = created.parent.as_ref().map(|parent| parent.agent);
                account.copies = created.from.as_ref().map_or(0, |from| from.entries);
                return;
            }
            EntryKind::RunStarted(_) => account.run_start = account.tree,
            _ => {}
        }
        if account.copies > 0 {
            account.copies -= 1;
            return;
        }
        let spent = spent_by(&entry.kind);
        if spent == Spent::default() {
            return;
        }
        let mut next = Some(entry.agent);
        while let Some(account) = next.and_then(|agent| self.accounts.get_mut(&agent)) {
            account.tree += spent;
            next = account.parent;
        }
    }

    /// Returns what an agent and all agents below it have spent.
    pub(crate) fn total(&self, agent: AgentId) -> Spent {
        self.accounts.get(&agent).map(|account| account.tree).unwrap_or_default()
    }

    /// Returns what an agent's latest run has spent, with all agents below it.
    pub(crate) fn run(&self, agent: AgentId) -> Spent {
        self.accounts
            .get(&agent)
            .map(|account| account.tree - account.run_start)
            .unwrap_or_default()
    }
}
