//! The prompts of a conversation, and what came before each.

use std::collections::HashMap;

use bowline_agent::conversation::Conversation;
use bowline_agent::entry::{Entry, EntryKind, Via};
use bowline_agent::id::{AgentId, EntryId, SessionId};
use bowline_agent::journal::Pos;
use bowline_llm::{CallId, text_of};
use bowline_store::Files;
use jiff::Timestamp;

use crate::exit::Failure;

/// A session's log, as far as going back is about it.
pub(super) struct Log {
    /// The prompts of the conversation as it is now, in order.
    pub(super) prompts: Vec<Prompt>,
    /// The entries of the first agent, those of left branches too.
    entries: Vec<(Pos, EntryId)>,
    calls: HashMap<(AgentId, CallId), Pos>,
}

/// A prompt that started a run.
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) at: Timestamp,
    /// What goes from here goes to before the prompt.
    pub(super) before: Point,
    /// The entries that name it.
    names: Vec<EntryId>,
}

/// A point to which a session can go back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// The entry from which the conversation goes on.
    pub(super) entry: Option<EntryId>,
    /// What has a higher position comes after it.
    pub(super) pos: Pos,
}

impl Log {
    pub(super) fn read(store: &Files, session: SessionId) -> Result<Self, Failure> {
        let (mut own, mut calls) = (Vec::new(), HashMap::new());
        for commit in store.read(session, Pos(0))? {
            let commit = commit?;
            for (pos, entry) in (commit.pos.0..).map(Pos).zip(commit.entries) {
                if let EntryKind::CallStarted(started) = &entry.kind {
                    calls.entry((entry.agent, started.call.clone())).or_insert(pos);
                }
                if entry.agent == session.root() {
                    own.push((pos, entry));
                }
            }
        }
        let entries = own.iter().map(|(pos, entry)| (*pos, entry.id)).collect();
        Ok(Self { prompts: prompts(&own), entries, calls })
    }

    /// Finds what a person calls by a number of the list, or by an entry's id.
    pub(super) fn find(&self, name: &str) -> Result<Point, Failure> {
        let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(prompt) = number.and_then(|index| self.prompts.get(index)) {
            return Ok(prompt.before);
        }
        let is_it = |id: &EntryId| name.len() >= 8 && id.to_string().starts_with(name);
        if let Some(prompt) = self.prompts.iter().find(|prompt| prompt.names.iter().any(is_it)) {
            return Ok(prompt.before);
        }
        let mut meant = self.entries.iter().filter(|(_, id)| is_it(id));
        match (meant.next(), meant.next()) {
            (Some((pos, id)), None) => Ok(Point { entry: Some(*id), pos: *pos }),
            (Some(_), Some(_)) => Err(Failure::Usage(format!("several entries begin with {name}"))),
            (None, _) => {
                let what = "see the prompts with bowline rewind --list";
                Err(Failure::Usage(format!("there is no prompt or entry {name}; {what}")))
            }
        }
    }

    /// Finds what lies so many prompts back.
    pub(super) fn back(&self, prompts: usize) -> Result<Point, Failure> {
        let index = self.prompts.len().checked_sub(prompts.max(1));
        let prompt = index.and_then(|index| self.prompts.get(index));
        let count = self.prompts.len();
        let few = || Failure::Usage(format!("the conversation has {count} prompt(s)"));
        prompt.map(|prompt| prompt.before).ok_or_else(few)
    }

    /// Tells whether a call started after a point.
    pub(super) fn is_after(&self, point: Point, agent: AgentId, call: &CallId) -> bool {
        let started = self.calls.get(&(agent, call.clone()));
        started.is_some_and(|started| *started > point.pos)
    }
}

/// Follows the conversation back from where it is.
fn prompts(own: &[(Pos, Entry)]) -> Vec<Prompt> {
    let by_id: HashMap<EntryId, &(Pos, Entry)> =
        own.iter().map(|known| (known.1.id, known)).collect();
    let mut next = Conversation::replay(own.iter().map(|(_, entry)| entry)).head();
    let (mut prompts, mut said) = (Vec::new(), None);
    while let Some((pos, entry)) = next.and_then(|id| by_id.get(&id)) {
        match &entry.kind {
            EntryKind::User(user) if user.via == Via::Prompt => said = Some((entry, user)),
            EntryKind::RunStarted(_) => {
                if let Some((prompt, user)) = said.take() {
                    prompts.push(Prompt {
                        text: text_of(&user.message.content),
                        at: prompt.at,
                        before: Point { entry: entry.parent, pos: *pos },
                        names: vec![entry.id, prompt.id],
                    });
                }
            }
            _ => {}
        }
        next = entry.parent;
    }
    prompts.reverse();
    prompts
}
