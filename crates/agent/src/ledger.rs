//! Who has spent what in a session, sub-agents included.

use std::collections::HashMap;

use bowline_llm::Spent;

use crate::entry::{Entry, EntryKind};
use crate::id::AgentId;
use crate::limits::{LimitKind, Limits};

impl EntryKind {
    /// Returns what the entry says was spent.
    pub fn spent(&self) -> Spent {
        let (usage, cost_usd, unpriced) = match self {
            Self::Assistant(said) => match said.usage {
                Some(usage) => (usage, said.cost_usd, said.unpriced),
                None => return Spent::default(),
            },
            Self::ExternalUsage(external) => (external.usage, external.cost_usd, 0),
            _ => return Spent::default(),
        };
        match cost_usd {
            Some(cost_usd) => Spent { usage, cost_usd, unpriced },
            None => Spent::at(None, usage),
        }
    }
}

/// Returns how many of a run's model turns an entry is.
fn turns_of(kind: &EntryKind) -> u64 {
    match kind {
        EntryKind::Assistant(said) if said.purpose.is_turn() => 1,
        _ => 0,
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
    tree: Used,
    // What `tree` was when the open run started.
    run_start: Used,
    // How much the open run may use.
    limits: Option<Limits>,
    // Entries still to come that were copied from another log and paid for there.
    copies: u64,
}

/// What an agent and all agents below it have used.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    spent: Spent,
    turns: u64,
}

/// A limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) limit: LimitKind,
    /// Whether it is that of the agent's own run, and not of one above it.
    pub(crate) is_own: bool,
}

impl Ledger {
    pub(crate) fn apply(&mut self, entry: &Entry) {
        let account = self.accounts.entry(entry.agent).or_default();
        if let EntryKind::Created(created) = &entry.kind {
            account.parent = created.parent.as_ref().map(|parent| parent.agent);
            account.copies = created.from.as_ref().map_or(0, |from| from.entries);
            return;
        }
        if account.copies > 0 {
            account.copies -= 1;
            return;
        }
        match &entry.kind {
            EntryKind::RunStarted(started) => {
                account.run_start = account.tree;
                account.limits = Some(started.limits.clone());
            }
            EntryKind::RunEnded(_) => account.limits = None,
            _ => {}
        }
        let (spent, turns) = (entry.kind.spent(), turns_of(&entry.kind));
        if spent == Spent::default() && turns == 0 {
            return;
        }
        let mut next = Some(entry.agent);
        while let Some(account) = next.and_then(|agent| self.accounts.get_mut(&agent)) {
            account.tree.spent += spent;
            account.tree.turns += turns;
            next = account.parent;
        }
    }

    /// Returns what an agent and all agents below it have spent.
    pub(crate) fn total(&self, agent: AgentId) -> Spent {
        self.accounts.get(&agent).map(|account| account.tree.spent).unwrap_or_default()
    }

    /// Returns what an agent's latest run has spent, with all agents below it.
    pub(crate) fn run(&self, agent: AgentId) -> Spent {
        self.accounts.get(&agent).map(|account| account.run().spent).unwrap_or_default()
    }

    /// Returns a limit of an agent's open run, or of one above it, that is used up. What an agent may
    /// use it shares with all agents below it, as they come: what one leaves is there for the others.
    /// Model turns count where another one is to be made.
    pub(crate) fn reached(&self, agent: AgentId, is_turn: bool) -> Option<Reached> {
        let mut next = Some(agent);
        while let Some(account) = next.and_then(|agent| self.accounts.get(&agent)) {
            if let Some(limit) = account.reached(is_turn) {
                return Some(Reached { limit, is_own: next == Some(agent) });
            }
            next = account.parent;
        }
        None
    }
}

impl Account {
    /// Returns what the latest run has used.
    fn run(&self) -> Used {
        Used {
            spent: self.tree.spent - self.run_start.spent,
            turns: self.tree.turns - self.run_start.turns,
        }
    }

    fn reached(&self, is_turn: bool) -> Option<LimitKind> {
        let (limits, used) = (self.limits.as_ref()?, self.run());
        let reached = |used: u64, limit: u64| limit > 0 && used >= limit;
        if reached(used.spent.usage.total(), limits.total_tokens) {
            Some(LimitKind::TotalTokens)
        } else if limits.cost_usd > 0.0 && used.spent.cost_usd.to_dollars() >= limits.cost_usd {
            Some(LimitKind::CostUsd)
        } else if is_turn && reached(used.turns, limits.model_turns.into()) {
            Some(LimitKind::ModelTurns)
        } else {
            None
        }
    }
}
