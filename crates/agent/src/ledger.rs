//! Who has spent what in a session, sub-agents included.

use std::collections::HashMap;

use bowline_llm::{Spent, Usd};

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
    // What model calls in flight are going to use, of the agent and of all below it.
    ahead: Ahead,
    // What its own is going to use.
    own_ahead: Ahead,
    // Entries still to come that were copied from another log and paid for there.
    copies: u64,
}

/// What an agent and all agents below it have used.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    spent: Spent,
    turns: u64,
}

/// What a model call in flight is going to use, as far as that is known before: one turn or none, and
/// what goes into it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) turns: u64,
    pub(crate) tokens: u64,
    pub(crate) cost_usd: Usd,
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
        if matches!(entry.kind, EntryKind::Assistant(_)) {
            // What it has really used is known now.
            self.release(entry.agent);
        }
        let (spent, turns) = (entry.kind.spent(), turns_of(&entry.kind));
        if spent == Spent::default() && turns == 0 {
            return;
        }
        self.each_above(entry.agent, |account| {
            account.tree.spent += spent;
            account.tree.turns += turns;
        });
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
    pub(crate) fn reached(&self, agent: AgentId) -> Option<Reached> {
        self.first_reached(agent, |account| account.reached(account.run()))
    }

    /// Sets aside what a model call of an agent is going to use, until its reply is there or it is
    /// [released](Ledger::release): of many agents that would call at once, those that come too late for
    /// what is left are told so.
    ///
    /// # Errors
    /// The limit that forbids the call: what is used and what is set aside come to it already.
    pub(crate) fn reserve(&mut self, agent: AgentId, ahead: Ahead) -> Result<(), Reached> {
        self.release(agent);
        let reached = self.first_reached(agent, |account| {
            let used = account.with_ahead();
            account.reached(used).or_else(|| account.has_no_turn(used, ahead.turns))
        });
        if let Some(reached) = reached {
            return Err(reached);
        }
        self.accounts.entry(agent).or_default().own_ahead = ahead;
        self.each_above(agent, |account| account.ahead.add(ahead));
        Ok(())
    }

    /// Gives back what is set aside for an agent's model call, if anything is.
    pub(crate) fn release(&mut self, agent: AgentId) {
        let own = self.accounts.get_mut(&agent).map(|account| &mut account.own_ahead);
        let ahead = own.map(std::mem::take).unwrap_or_default();
        if ahead != Ahead::default() {
            self.each_above(agent, |account| account.ahead.take(ahead));
        }
    }

    fn first_reached(
        &self,
        agent: AgentId,
        reached: impl Fn(&Account) -> Option<LimitKind>,
    ) -> Option<Reached> {
        let mut next = Some(agent);
        while let Some(account) = next.and_then(|agent| self.accounts.get(&agent)) {
            if let Some(limit) = reached(account) {
                return Some(Reached { limit, is_own: next == Some(agent) });
            }
            next = account.parent;
        }
        None
    }

    /// Changes the accounts of an agent and of all above it.
    fn each_above(&mut self, agent: AgentId, change: impl Fn(&mut Account)) {
        let mut next = Some(agent);
        while let Some(account) = next.and_then(|agent| self.accounts.get_mut(&agent)) {
            change(account);
            next = account.parent;
        }
    }
}

impl Ahead {
    fn add(&mut self, other: Self) {
        self.turns += other.turns;
        self.tokens += other.tokens;
        self.cost_usd = self.cost_usd + other.cost_usd;
    }

    fn take(&mut self, other: Self) {
        self.turns -= other.turns;
        self.tokens -= other.tokens;
        self.cost_usd = self.cost_usd - other.cost_usd;
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

    /// Returns what the latest run has used, and what calls in flight are going to use.
    fn with_ahead(&self) -> Used {
        let Used { mut spent, turns } = self.run();
        spent.usage.input += self.ahead.tokens;
        spent.cost_usd = spent.cost_usd + self.ahead.cost_usd;
        Used { spent, turns: turns + self.ahead.turns }
    }

    /// Returns the limit that is used up whatever is to be done, with so much used.
    fn reached(&self, used: Used) -> Option<LimitKind> {
        let limits = self.limits.as_ref()?;
        if limits.total_tokens > 0 && used.spent.usage.total() >= limits.total_tokens {
            Some(LimitKind::TotalTokens)
        } else if limits.cost_usd > 0.0 && used.spent.cost_usd.to_dollars() >= limits.cost_usd {
            Some(LimitKind::CostUsd)
        } else {
            None
        }
    }

    /// Returns the limit of model turns if so many more do not fit.
    fn has_no_turn(&self, used: Used, turns: u64) -> Option<LimitKind> {
        let limit: u64 = self.limits.as_ref()?.model_turns.into();
        (limit > 0 && turns > 0 && used.turns >= limit).then_some(LimitKind::ModelTurns)
    }
}
