//! What bowline and its helper process say to each other: one JSON object a line.
//!
//! Both ends are the same build, so there is no version to agree on. A keeper is told one [`Keep`], and
//! answers nobody.
//!
//! A `Start` with [`Streams::Pipes`] carries three descriptors along with its first byte; they belong
//! to the requests in the order in which these come. So does the one that comes with `Listening`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::guard::Confinement;

/// Names a command on one connection.
pub(super) type CommandId = u64;

/// What bowline asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Run a command. Answered by `Exited` when it is over, or by `Refused`.
    Start(Box<Start>),
    /// Write to the command's standard input.
    Write { id: CommandId, text: String, close: bool },
    /// End a command with all it has started. Answered by `Ended`, also if it is over already.
    End { id: CommandId, grace_ms: u64 },
    /// End all commands of an owner with all they have started. Answered by `OwnerEnded`.
    EndOwner { ticket: u64, owner: String, grace_ms: u64 },
}

/// A command to run and to keep when bowline is gone.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Keep {
    pub(super) start: Start,
    /// After how long it is ended.
    pub(super) time_ms: Option<u64>,
}

/// A command to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) id: CommandId,
    /// Whose command it is; an owner `a` also owns what `a/b` owns.
    pub(super) owner: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) cwd: PathBuf,
    /// The whole environment.
    pub(super) environment: Vec<(String, String)>,
    pub(super) streams: Streams,
    pub(super) confinement: Option<Confinement>,
}

/// Tells whether an owner owns what another does.
pub(super) fn owns(owner: &str, other: &str) -> bool {
    let rest = other.strip_prefix(owner);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a command reads from and writes to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Streams {
    /// Files, which stay.
    Kept(Kept),
    /// Standard input, output and error are the three descriptors that come with the request.
    Pipes,
}

/// The output of a command, and its input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The file that takes standard output and standard error, in the order in which they come.
    pub(super) output: PathBuf,
    /// The size of the output file from which on the command is killed.
    pub(super) max_output: u64,
    /// Whether standard input is a pipe that `Write` writes to, or `/dev/null`.
    pub(super) stdin: bool,
}

/// What the helper answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The command could not be started.
    Refused { id: CommandId, error: String },
    /// The command's first process is over; what it started may live on.
    Exited { id: CommandId, status: Status },
    /// Nothing of the command is left.
    Ended { id: CommandId },
    /// Nothing of the owner's commands is left.
    OwnerEnded { ticket: u64 },
    /// Commands of the owner may talk to these hosts, and ask for them on the socket that comes along.
    Listening { owner: String, hosts: Vec<String> },
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The process that ran it.
    pub pid: i32,
    /// Its exit code, unless a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Why it was made to end, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// Why a command was made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Bowline asked for it.
    Asked,
    /// It had written more output than it may.
    Output,
    /// It had more processes than it may.
    Processes,
    /// The bowline process that had started it was gone.
    Orphaned,
}
