//! Who has spent what in a session, sub-agents included.

use std::collections::HashMap;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

use bowline_llm::Usage;

use crate::entry::{Entry, EntryKind};
use crate::id::AgentId;

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The tokens.
    pub usage: Usage,
    /// US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// How many of the tokens have no known price, so that `cost_usd` is too low.
    pub unpriced: u64,
}

impl Spent {
    /// Returns what an entry says was spent.
    pub(crate) fn of(kind: &EntryKind) -> Self {
        let (usage, cost) = match kind {
            EntryKind::Assistant(said) => match said.usage {
                Some(usage) => (usage, said.cost_usd),
                None => return Self::default(),
            },
            EntryKind::ExternalUsage(external) => (external.usage, external.cost_usd),
            _ => return Self::default(),
        };
        let unpriced = if cost.is_none() { usage.total() } else { 0 };
        Self { usage, cost_usd: cost.unwrap_or(0.0), unpriced }
    }

    /// Returns the cost if all of it is known.
    pub fn cost(&self) -> Option<f64> {
        (self.unpriced == 0).then_some(self.cost_usd)
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            usage: self.usage + other.usage,
            cost_usd: self.cost_usd + other.cost_usd,
            unpriced: self.unpriced + other.unpriced,
        }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Spent {
    type Output = Self;

    /// Returns what was spent since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        let minus = |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_sub(b.unwrap_or(0)));
        let (now, then) = (self.usage, earlier.usage);
        Self {
            usage: Usage {
                input: now.input.saturating_sub(then.input),
                output: now.output.saturating_sub(then.output),
                cache_read: minus(now.cache_read, then.cache_read),
                cache_write: minus(now.cache_write, then.cache_write),
                reasoning: minus(now.reasoning, then.reasoning),
            },
            cost_usd: self.cost_usd - earlier.cost_usd,
            unpriced: self.unpriced.saturating_sub(earlier.unpriced),
        }
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
        let spent = Spent::of(&entry.kind);
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
