//! Event streams of others, as pure projections of ours.
//!
//! A [`Dialect`] names a stranger's stream; its [`Translator`] is fed bowline's events, as they are
//! lived or as a [`Projection`](bowline_agent::Projection) reads them from the log, and writes the
//! stranger's lines. There is no other source: no clock, no ids, no memory of the process. So the
//! lines that follow from committed events are the same live and from the log, and only what a live
//! event tells (`docs/dialects.md` names it for each dialect) is missing from the latter.
//!
//! ```
//! use bowline_server::dialect::{Dialect, Lines};
//!
//! # fn translate(events: &[bowline_agent::event::Event]) -> Result<(), Box<dyn std::error::Error>> {
//! let mut translator = "codex".parse::<Dialect>()?.translator();
//! let mut lines = Lines::default();
//! for event in events {
//!     translator.event(event, &mut lines);
//!     for line in lines.drain() {
//!         println!("{line}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::str::FromStr;

use bowline_agent::entry::{Entry, EntryKind, Recorded, RunStarted, Tools, ToolsChanged};
use bowline_agent::event::Event;
use bowline_agent::id::SessionId;
use serde::Serialize;

/// The events that only our own dialect tells: drafts that the next commit supersedes, and what
/// nobody else has. A dialect that comes to tell one takes it out of here, and the others name it.
macro_rules! untold {
    () => {
        EventBody::TurnStart {}
            | EventBody::TextDelta { .. }
            | EventBody::TextReset {}
            | EventBody::ReasoningDelta { .. }
            | EventBody::ToolCallDelta { .. }
            | EventBody::Status { .. }
            | EventBody::CacheBreak { .. }
            | EventBody::Effect { .. }
    };
}

mod agent_core;
mod answer;
mod bowline;
mod calls;
mod claude;
mod codalotl;
mod codex;
mod headless;
mod pingu;
pub mod shelly;
mod side;

/// What Claude Code calls its stream.
pub const STREAM_JSON: &str = "stream-json";

/// A way to tell what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// bowline's own events.
    Bowline,
    /// The events of shelly's engine: its `EventFunc` and `EventNotifier` on one bus.
    Shelly,
    /// The events of pingu's runner.
    Pingu,
    /// The agent events of codalotl.
    Codalotl,
    /// The JSON lines of codalotl's `exec --json`.
    CodalotlHeadless,
    /// The server-sent events of agent-core, one to a line.
    AgentCore,
    /// The JSON lines of `codex exec --json`.
    Codex,
    /// The lines of Claude Code's `--output-format stream-json`.
    Claude,
    /// Of these only the result, as Claude Code's `--output-format json`.
    ClaudeResult,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 9] = [
        Self::Bowline,
        Self::Shelly,
        Self::Pingu,
        Self::Codalotl,
        Self::CodalotlHeadless,
        Self::AgentCore,
        Self::Codex,
        Self::Claude,
        Self::ClaudeResult,
    ];

    /// Returns the name by which it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bowline => "bowline",
            Self::Shelly => "shelly",
            Self::Pingu => "pingu",
            Self::Codalotl => "codalotl",
            Self::CodalotlHeadless => "codalotl-headless",
            Self::AgentCore => "agent-core",
            Self::Codex => "codex",
            Self::Claude => "claude",
            Self::ClaudeResult => "json",
        }
    }

    /// Makes a translator that has heard nothing yet.
    pub fn translator(self) -> Box<dyn Translator> {
        match self {
            Self::Bowline => Box::new(bowline::Bowline::default()),
            Self::Shelly => Box::new(shelly::Shelly::default()),
            Self::Pingu => Box::new(pingu::Pingu::default()),
            Self::Codalotl => Box::new(codalotl::Codalotl::default()),
            Self::CodalotlHeadless => Box::new(headless::Headless::default()),
            Self::AgentCore => Box::new(agent_core::AgentCore::default()),
            Self::Codex => Box::new(codex::Codex::default()),
            Self::Claude => Box::new(claude::Claude::default()),
            Self::ClaudeResult => Box::new(claude::Claude::only_result()),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    /// Finds a dialect by its name. `stream-json`, as Claude Code calls it, is `claude`.
    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        let name = if name == STREAM_JSON { Self::Claude.name() } else { name };
        let known = Self::ALL.into_iter().find(|dialect| dialect.name() == name);
        known.ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}

/// A name that no dialect has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no dialect is called {0:?}")]
pub struct UnknownDialect(String);

/// Tells events in another dialect.
///
/// It is total: whatever comes, in whatever order, it writes lines and never panics. Each run of
/// the session's first agent ends with exactly one line that says so.
pub trait Translator: fmt::Debug + Send {
    /// Tells where the runs from here on happen.
    fn set_scene(&mut self, _scene: &Scene) {}

    /// Writes the lines that follow from an event.
    fn event(&mut self, event: &Event, lines: &mut Lines);
}

/// What strangers say of a run and no event of ours tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scene {
    /// The directory in which the session works.
    pub cwd: Option<String>,
    /// The tools of the session's first agent.
    pub tools: Vec<String>,
}

impl Scene {
    /// Takes in what an entry of a session's log says of it; tells whether that was anything.
    pub fn learn(&mut self, session: SessionId, entry: &Entry) -> bool {
        if entry.agent != session.root() {
            return false;
        }
        match &entry.kind {
            EntryKind::Created(created) => self.cwd.clone_from(&created.cwd),
            EntryKind::RunStarted(RunStarted {
                tools: Recorded { value: Some(Tools(block)), .. },
                ..
            })
            | EntryKind::ToolsChanged(ToolsChanged { tools: Tools(block) }) => {
                self.tools = block.specs().iter().map(|spec| spec.name.clone()).collect();
            }
            _ => return false,
        }
        true
    }
}

/// Lines of a stream, each of them one JSON object without the line break.
#[derive(Debug, Default)]
pub struct Lines(Vec<String>);

impl Lines {
    /// Takes the lines out.
    pub fn drain(&mut self) -> impl Iterator<Item = String> {
        self.0.drain(..)
    }

    fn say(&mut self, line: &impl Serialize) {
        // Only a map whose keys are no strings cannot be written, and no line has one.
        self.0.extend(serde_json::to_string(line));
    }
}
