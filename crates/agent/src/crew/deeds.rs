//! What an agent did, by its log, held against what it says it did.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use bowline_llm::{CallId, text_of};

use crate::entry::{CallEnded, CallStatus, Completion, CompletionStatus, Entry, EntryKind};
use crate::tool::{Access, Toolbox};

/// The tools with which agents tell each other something: what those write is no change of the work.
const ASIDE: [&str; 2] = ["write_note", "shared_state_set"];

/// The name under which a call of `delegate` records what its sub-agents did.
pub(super) const RECORD: &str = "crew.deeds";

/// What an agent did, its own sub-agents included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deeds {
    /// What was written by calls that ended well: the paths that they declared.
    written: Vec<String>,
    /// The commands that were run, in the order in which they ended.
    commands: Vec<Ran>,
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ran {
    command: String,
    end: End,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Well,
    Badly(String),
    /// It went on when its call was over.
    Unknown,
}

/// What is wrong with what an agent says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Doubts {
    pub(super) discrepancies: Vec<String>,
    pub(super) unverified: Vec<String>,
}

impl Deeds {
    /// Reads a log; what its calls touch, their tools say.
    pub(super) fn of(log: &[Entry], tools: &Toolbox) -> Self {
        let mut deeds = Self::default();
        let mut calls: HashMap<&CallId, (&str, &str)> = HashMap::new();
        for entry in log {
            match &entry.kind {
                EntryKind::Assistant(said) => {
                    let said = said.message.tool_calls();
                    calls.extend(said.map(|call| (&call.id, (&*call.name, &*call.arguments))));
                }
                EntryKind::CallStarted(started) => {
                    let call = calls.get_mut(&started.call);
                    if let (Some(call), Some(arguments)) = (call, &started.arguments) {
                        call.1 = arguments;
                    }
                }
                EntryKind::CallEnded(ended) => {
                    if ended.behind.is_some() {
                        // What was done behind it is not known here.
                        let command = "work behind a call".to_owned();
                        deeds.commands.push(Ran { command, end: End::Unknown });
                    }
                    let call = calls.get(&ended.call).filter(|(name, _)| !ASIDE.contains(name));
                    if let Some((name, arguments)) = call {
                        deeds.add(ended, &access(tools, name, arguments));
                    }
                }
                EntryKind::Custom(custom) if custom.name == RECORD => {
                    if let Ok(below) = serde_json::from_str(custom.data.as_str()) {
                        deeds.join(below);
                    }
                }
                _ => {}
            }
        }
        deeds
    }

    /// Adds what others did.
    pub(super) fn join(&mut self, others: Self) {
        for path in others.written {
            self.wrote(path);
        }
        self.commands.extend(others.commands);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.commands.is_empty()
    }

    /// Holds what an agent says against what it did.
    pub(super) fn examine(&self, completion: &Completion) -> Doubts {
        let mut doubts = Doubts::default();
        for file in &completion.files_modified {
            if self.written.iter().any(|path| is_meant(file, path)) {
                continue;
            }
            if self.commands.is_empty() {
                doubts.discrepancies.push(format!("{file}: nothing wrote it"));
            } else {
                doubts.unverified.push(format!("{file}: only a command may have written it"));
            }
        }
        for path in &self.written {
            if !completion.files_modified.iter().any(|file| is_meant(file, path)) {
                doubts.discrepancies.push(format!("{path}: written, and not said to be"));
            }
        }
        for test in &completion.tests_run {
            self.examine_test(test, completion.status, &mut doubts);
        }
        doubts
    }

    fn examine_test(&self, test: &str, status: CompletionStatus, doubts: &mut Doubts) {
        let wanted = words(test);
        let is_it = |ran: &&Ran| {
            let command = words(&ran.command);
            command.contains(&wanted) || wanted.contains(&command)
        };
        match self.commands.iter().rev().find(is_it).map(|ran| &ran.end) {
            Some(End::Well) => {}
            Some(End::Badly(why)) if status == CompletionStatus::Completed => {
                doubts.discrepancies.push(format!("{test}: it ended with {why}"));
            }
            Some(End::Badly(_)) => {}
            Some(End::Unknown) => doubts.unverified.push(format!("{test}: its end was not seen")),
            None if self.commands.is_empty() => {
                doubts.discrepancies.push(format!("{test}: no command was run"));
            }
            None => {
                doubts.unverified.push(format!("{test}: no command that was run looks like it"));
            }
        }
    }

    fn add(&mut self, ended: &CallEnded, access: &Access) {
        if ended.status == CallStatus::Ok {
            for path in access.writes.paths() {
                self.wrote(path.to_string_lossy().into_owned());
            }
        }
        // What never started was not run.
        if let (Some(command), Some(_)) = (&access.execute, ended.ms) {
            self.commands.push(Ran { command: command.clone(), end: end_of(ended) });
        }
    }

    fn wrote(&mut self, path: String) {
        if !self.written.contains(&path) {
            self.written.push(path);
        }
    }
}

fn access(tools: &Toolbox, name: &str, arguments: &str) -> Access {
    let prepared = tools.get(name).and_then(|tool| tool.prepare(arguments).ok());
    prepared.map(|prepared| prepared.access).unwrap_or_default()
}

/// Returns how a command ended: tools that run commands say so in their last lines.
fn end_of(ended: &CallEnded) -> End {
    if ended.status != CallStatus::Ok {
        return End::Badly(ended.status.as_str().to_owned());
    }
    let text = text_of(&ended.content);
    let notes = text.lines().rev().take(3).filter_map(|line| {
        let note = line.strip_prefix('[')?;
        Some(note.strip_suffix(']').unwrap_or(note))
    });
    for note in notes {
        if note.starts_with("running for ") {
            return End::Unknown;
        }
        if note.starts_with("exit code ") || note.starts_with("killed") {
            return End::Badly(note.to_owned());
        }
    }
    End::Well
}

/// Tells whether an agent means this file: it may name it from anywhere.
fn is_meant(said: &str, path: &str) -> bool {
    let said = Path::new(said.trim().trim_start_matches("./"));
    !said.as_os_str().is_empty() && Path::new(path).ends_with(said)
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
