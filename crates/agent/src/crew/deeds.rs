//! What an agent did, by its log, held against what it says it did.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use bowline_llm::{CallId, text_of};

use crate::entry::{CallEnded, CallStatus, Completion, CompletionStatus, Entry, EntryKind};
use crate::tool::{Access, Toolbox};

use super::text::line;
use super::{TOOLS, command};

/// The tools with which agents tell each other something: what those write is no change of the work.
const ASIDE: [&str; 2] = ["write_note", "shared_state_set"];

/// How many characters of a command are told.
const LONGEST: usize = 80;

/// The name under which a call of `delegate` records what its sub-agents did.
pub(super) const RECORD: &str = "crew.deeds";

/// What an agent did, its own sub-agents included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deeds {
    /// What was written by calls that ended well: the paths that they declared.
    written: Vec<String>,
    /// The commands that were run, in the order in which they ended.
    commands: Vec<Ran>,
    /// The tools that may have changed anything, and do not say what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ran {
    command: String,
    end: End,
    /// Whether something was written since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_stale: bool,
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
        let mut begun: HashSet<&CallId> = HashSet::new();
        for entry in log {
            match &entry.kind {
                EntryKind::Assistant(said) => {
                    let said = said.message.tool_calls();
                    calls.extend(said.map(|call| (&call.id, (&*call.name, &*call.arguments))));
                }
                EntryKind::CallStarted(started) => {
                    begun.insert(&started.call);
                    let call = calls.get_mut(&started.call);
                    if let (Some(call), Some(arguments)) = (call, &started.arguments) {
                        call.1 = arguments;
                    }
                }
                EntryKind::CallEnded(ended) => {
                    let call = calls.get(&ended.call).filter(|(name, _)| !ASIDE.contains(name));
                    if let Some((name, arguments)) = call {
                        if ended.behind.is_some() {
                            // What was done behind it is not known here, but of our own.
                            deeds.note_other(name);
                        }
                        let access = access(tools, name, arguments);
                        // However it ended, and whatever that did, nobody says.
                        if begun.contains(&ended.call) && access.as_ref().is_none_or(is_open) {
                            deeds.note_other(name);
                        }
                        deeds.add(ended, access.unwrap_or_default());
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
        if !others.written.is_empty() {
            self.outdate();
        }
        for path in others.written {
            self.note_path(path);
        }
        self.commands.extend(others.commands);
        for tool in others.others {
            self.note_other(&tool);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.commands.is_empty() && self.others.is_empty()
    }

    /// Holds what an agent says against what it did.
    pub(super) fn examine(&self, completion: &Completion) -> Doubts {
        let mut doubts = Doubts::default();
        for file in &completion.files_modified {
            if self.written.iter().any(|path| is_meant(file, path)) {
                continue;
            }
            match self.others.as_slice() {
                _ if !self.commands.is_empty() => {
                    doubts.unverified.push(format!("{file}: only a command may have written it"));
                }
                [] => doubts.discrepancies.push(format!("{file}: nothing wrote it")),
                others => {
                    let others = others.join(" or ");
                    doubts.unverified.push(format!("{file}: only {others} may have written it"));
                }
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

    /// Holds what an agent says it has tested against the commands that were run. Of those that run
    /// what it says, the last one counts.
    fn examine_test(&self, test: &str, status: CompletionStatus, doubts: &mut Doubts) {
        let said = command::runs(test);
        let found = self.commands.iter().rev().find_map(|ran| Some((ran, ran.tells_of(&said)?)));
        let Some((ran, is_told)) = found else {
            if self.commands.is_empty() && self.others.is_empty() {
                doubts.discrepancies.push(format!("{test}: no command was run"));
            } else {
                doubts.unverified.push(format!("{test}: no command that was run is it"));
            }
            return;
        };
        match &ran.end {
            End::Badly(why) if status == CompletionStatus::Completed => {
                doubts.discrepancies.push(format!("{test}: it ended with {why}"));
            }
            End::Badly(_) => {}
            End::Unknown => doubts.unverified.push(format!("{test}: its end was not seen")),
            End::Well if !is_told => {
                let line = line(&ran.command, LONGEST);
                doubts.unverified.push(format!("{test}: how it ended does not show in {line:?}"));
            }
            End::Well if ran.is_stale => {
                let what = "files were written after it was run, and it was not run again";
                doubts.unverified.push(format!("{test}: {what}"));
            }
            End::Well => {}
        }
    }

    fn add(&mut self, ended: &CallEnded, access: Access) {
        if ended.status == CallStatus::Ok {
            let paths = access.writes.paths();
            if !paths.is_empty() {
                self.outdate();
            }
            for path in paths {
                self.note_path(path.to_string_lossy().into_owned());
            }
        }
        // What never started was not run.
        if let (Some(command), Some(_)) = (access.execute, ended.ms) {
            self.commands.push(Ran { command, end: end_of(ended), is_stale: false });
        }
    }

    /// Notes that what was run before does not tell of what is there now.
    fn outdate(&mut self) {
        self.commands.iter_mut().for_each(|ran| ran.is_stale = true);
    }

    fn note_path(&mut self, path: String) {
        if !self.written.contains(&path) {
            self.written.push(path);
        }
    }

    fn note_other(&mut self, tool: &str) {
        if !TOOLS.contains(&tool) && !self.others.iter().any(|known| known == tool) {
            self.others.push(tool.to_owned());
        }
    }
}

impl Ran {
    /// Tells whether the end of the command tells how all that was run ended which somebody says was;
    /// `None` if it did not run all of that.
    fn tells_of(&self, said: &[command::Run]) -> Option<bool> {
        let runs = command::runs(&self.command);
        let mut from = runs.iter();
        let mut all = true;
        for said in said {
            all &= from.find(|run| run.is(said))?.is_told;
        }
        (!said.is_empty()).then_some(all)
    }
}

/// Tells whether a call may have changed anything, and does not say what.
fn is_open(access: &Access) -> bool {
    access.exclusive && access.writes.is_empty() && access.execute.is_none()
}

fn access(tools: &Toolbox, name: &str, arguments: &str) -> Option<Access> {
    let prepared = tools.get(name)?.prepare(arguments);
    Some(prepared.map(|prepared| prepared.access).unwrap_or_default())
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
