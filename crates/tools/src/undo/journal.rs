//! Which states there are: a line for each, in the order of time.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bowline_agent::id::AgentId;
use bowline_llm::CallId;
use serde::{Deserialize, Serialize};

use super::{LeftOut, Turned, UndoError};

/// What is noted. A line is written whole or not at all: what cannot be read was cut off by a crash.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    /// The first state is recorded.
    Opened { root: PathBuf },
    /// The state before a call.
    Before { agent: AgentId, call: CallId, tree: String },
    /// The state after all calls of an agent that ran at the same time.
    After { agent: AgentId, tree: String },
    /// Files are brought back.
    Restored { before: String, after: String, turned: Option<Turned> },
    /// A call names a file that is ignored.
    Named { path: String },
    /// A file is not recorded.
    LeftOut(LeftOut),
    /// Files are recorded that were there before, and were not. Of their names all that is not ASCII is
    /// escaped.
    Found { paths: BTreeSet<String> },
}

/// What lies between two states: what a call did, or what bringing files back did.
#[derive(Debug, Clone)]
pub(super) struct Span {
    /// The call; `None` if files were brought back.
    pub(super) call: Option<(AgentId, CallId)>,
    pub(super) before: String,
    /// `None` if that was the last thing that happened, and nobody saw its end.
    pub(super) after: Option<String>,
    pub(super) turned: Option<Turned>,
    /// Where it begins among what is noted, and where it ends.
    pub(super) begun: usize,
    pub(super) ended: usize,
    /// What is new to the record in it, and was there before.
    found: BTreeSet<String>,
}

impl Span {
    fn begin(call: Option<(AgentId, CallId)>, before: &str, begun: usize) -> Self {
        Self {
            call,
            before: before.to_owned(),
            after: None,
            turned: None,
            begun,
            ended: usize::MAX,
            found: BTreeSet::new(),
        }
    }

    fn end(&mut self, after: &str, ended: usize) {
        (self.after, self.ended) = (Some(after.to_owned()), ended);
    }

    /// Tells whether a file that is new to the record was there before.
    pub(super) fn has_found(&self, path: &[u8]) -> bool {
        self.found.contains(&path.escape_ascii().to_string())
    }
}

#[derive(Debug, Clone)]
pub(super) struct Journal {
    path: PathBuf,
    lines: Vec<Line>,
}

impl Journal {
    /// Reads what is noted in a folder; nothing if there is none.
    pub(super) fn open(folder: &Path) -> Result<Self, UndoError> {
        let path = folder.join("journal.jsonl");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(UndoError::file(&path)(error)),
        };
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok(Self { path, lines })
    }

    pub(super) fn append(&mut self, line: Line) -> Result<(), UndoError> {
        let failed = || UndoError::file(&self.path);
        let json = serde_json::to_string(&line).map_err(|error| failed()(error.into()))?;
        let mut file =
            OpenOptions::new().create(true).append(true).open(&self.path).map_err(failed())?;
        // The break before it ends a line that a crash has cut off.
        file.write_all(format!("\n{json}\n").as_bytes()).map_err(failed())?;
        self.lines.push(line);
        Ok(())
    }

    pub(super) fn root(&self) -> Option<&Path> {
        self.lines.iter().find_map(|line| match line {
            Line::Opened { root } => Some(root.as_path()),
            _ => None,
        })
    }

    pub(super) fn named(&self) -> BTreeSet<Vec<u8>> {
        let named = self.lines.iter().filter_map(|line| match line {
            Line::Named { path } => Some(path.clone().into_bytes()),
            _ => None,
        });
        named.collect()
    }

    pub(super) fn left_out(&self) -> BTreeSet<LeftOut> {
        let left_out = self.lines.iter().filter_map(|line| match line {
            Line::LeftOut(left_out) => Some(left_out.clone()),
            _ => None,
        });
        left_out.collect()
    }

    /// Returns the state before what an agent does now, if it does something.
    pub(super) fn open_tree(&self, agent: AgentId) -> Option<String> {
        self.lines.iter().rev().find_map(|line| match line {
            Line::Before { agent: own, tree, .. } if *own == agent => Some(Some(tree.clone())),
            Line::After { agent: own, .. } if *own == agent => Some(None),
            _ => None,
        })?
    }

    /// Returns what lies between the states, in the order in which it began.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut open: HashMap<AgentId, usize> = HashMap::new();
        let close = |spans: &mut Vec<Span>, index: Option<usize>, tree: &str, at: usize| {
            if let Some(span) = index.and_then(|index| spans.get_mut(index)) {
                span.end(tree, at);
            }
        };
        for (at, line) in self.lines.iter().enumerate() {
            match line {
                Line::Before { agent, call, tree } => {
                    // Of what was cut off only the next state is known.
                    let before = open.insert(*agent, spans.len());
                    close(&mut spans, before, tree, at);
                    let call = Some((*agent, call.clone()));
                    spans.push(Span::begin(call, tree, at));
                }
                Line::After { agent, tree } => close(&mut spans, open.remove(agent), tree, at),
                Line::Restored { before, after, turned } => {
                    for (_, index) in open.drain() {
                        close(&mut spans, Some(index), before, at);
                    }
                    let mut span = Span { turned: *turned, ..Span::begin(None, before, at) };
                    span.end(after, at);
                    spans.push(span);
                }
                Line::Found { paths } => {
                    for span in spans.iter_mut().filter(|span| span.after.is_none()) {
                        span.found.extend(paths.iter().cloned());
                    }
                }
                Line::Opened { .. } | Line::Named { .. } | Line::LeftOut(_) => {}
            }
        }
        spans
    }
}
