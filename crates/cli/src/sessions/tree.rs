//! `bowline sessions show --tree`: who did what, and for whom.
//!
//! The tree is a fold of the log ([`fold`]), told in words ([`words`]) or as nested JSON. It is all
//! there is in the log, whatever conversations were left by a rewind, and of a run that is open as
//! much as there is.

mod fold;
mod words;

use std::io::{self, Write as _};
use std::ops::AddAssign;

use bowline_agent::entry::{Completion, EntryKind, Handoff};
use bowline_agent::event::AgentMeta;
use bowline_agent::id::{RunId, SessionId};
use bowline_agent::journal::Pos;
use bowline_llm::{CallId, Spent, Usage};
use bowline_store::Files;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::exit::Failure;
use crate::screen;

use fold::Fold;

/// Prints a session as a tree. Of a log that is damaged it prints what is before the damage.
pub(super) fn show(store: &Files, id: SessionId, json: bool) -> Result<io::Result<()>, Failure> {
    let mut fold = Fold::default();
    let mut damage = None;
    for commit in store.read(id, Pos(0))? {
        match commit {
            Ok(commit) => commit.entries.iter().for_each(|entry| fold.apply(entry)),
            Err(error) => damage = Some(error),
        }
    }
    let tree = Tree { session: id, agents: fold.finish() };
    let mut out = screen::out();
    let written = match json {
        true => serde_json::to_string(&tree)
            .map_err(io::Error::from)
            .and_then(|json| writeln!(out, "{json}")),
        false => words::write(&mut out, &tree),
    };
    match damage {
        Some(damage) => Err(damage.into()),
        None => Ok(written),
    }
}

/// A session.
#[derive(Debug, Serialize)]
struct Tree {
    session: SessionId,
    /// The session's first agent; none if nothing was ever committed.
    agents: Vec<Agent>,
}

/// An agent and everything below it.
#[derive(Debug, Serialize)]
struct Agent {
    #[serde(flatten)]
    meta: AgentMeta,
    /// Which task of the call that made it: `0`, or `0/1` for the first peer it was handed on to.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The session of which it is a copy up to here, which tells of that part.
    #[serde(skip_serializing_if = "Option::is_none")]
    fork_of: Option<SessionId>,
    /// How its latest run ended; `open` if it has not, absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// What it has used itself.
    used: Used,
    /// What it and all agents below it have spent.
    #[serde(serialize_with = "paid")]
    with_agents: Spent,
    stretches: Vec<Stretch>,
}

/// A run, or what happened before, between and behind runs.
#[derive(Debug, Default, Serialize)]
struct Stretch {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
    steps: Vec<Step>,
}

/// Work and what it cost.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Used {
    turns: u64,
    /// Milliseconds of work.
    active_ms: u64,
    #[serde(serialize_with = "paid")]
    spent: Spent,
}

impl AddAssign for Used {
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.active_ms += other.active_ms;
        self.spent += other.spent;
    }
}

/// Writes the tokens, and the cost if all of it is known.
fn paid<S: Serializer>(spent: &Spent, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Paid {
        usage: Usage,
        cost_usd: Option<f64>,
    }
    Paid { usage: spent.usage, cost_usd: spent.cost() }.serialize(serializer)
}

/// Something that happened to an agent, in the order of the log.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Step {
    /// The model was told something; `via` as in the log.
    Said {
        via: String,
        text: String,
    },
    /// The model said something.
    Text {
        text: String,
    },
    Call(Box<Call>),
    /// A model call gave no whole reply.
    Broken {
        why: String,
    },
    /// There is a plan: the tools of its steps.
    Plan {
        tools: Vec<String>,
    },
    Limit {
        limit: &'static str,
    },
    Canceled {
        reason: String,
    },
    Effect {
        effect: String,
        act: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A change of what the session's agents share: the `number`th of the value, from 0.
    Shared {
        value: String,
        number: u64,
        change: Value,
    },
    /// An operation was accepted that waits for its moment.
    Posted {
        text: String,
    },
    /// What a call had left to go on behind it is over.
    Background {
        call: CallId,
        tool: String,
        text: String,
    },
    /// The conversation goes on from an earlier point.
    Rewound {},
}

/// A run of an agent.
#[derive(Debug, Serialize)]
struct Run {
    id: RunId,
    model: String,
    started: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Timestamp>,
    /// `open`, or how it ended.
    outcome: &'static str,
    /// Why it ended so, if not with an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    used: Used,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<Completion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handoff: Option<Handoff>,
}

/// A call of a tool.
#[derive(Debug, Serialize)]
struct Call {
    id: CallId,
    tool: String,
    /// As the model wrote them.
    arguments: String,
    /// `called`, `running`, `waiting`, or how it ended.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    /// What the model got to see.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// What was asked, and answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asked: Vec<Exchange>,
    /// The agents that it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<Agent>,
}

/// A part of what is said about a call that waits.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Exchange {
    /// A question to a person, or to the agent above.
    Question {
        text: String,
    },
    Answer {
        text: String,
    },
    /// Whether the call may run.
    Permission {
        text: String,
    },
    Allowed {},
    Denied {
        reason: String,
    },
}

/// Returns what an entry says was used.
fn used_by(kind: &EntryKind, active_ms: Option<u64>) -> Used {
    let is_turn = matches!(kind, EntryKind::Assistant(said) if said.purpose.is_turn());
    Used { turns: u64::from(is_turn), active_ms: active_ms.unwrap_or(0), spent: kind.spent() }
}
