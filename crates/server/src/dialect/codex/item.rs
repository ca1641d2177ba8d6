//! The items of a thread: what each of our calls is called there.

use std::collections::BTreeMap;

use bowline_agent::entry::CallStatus;
use bowline_agent::id::AgentId;
use bowline_llm::RawJson;
use serde::{Deserialize, Serialize};

use crate::dialect::calls::{Arguments, Call};
use crate::said::MESSAGE;

/// The entry that keeps a plan, as the tool `update_plan` records it.
pub(super) const PLAN: &str = "plan";

/// Where codex has MCP servers: whose tools are not the user's own.
const SERVER: &str = "bowline";

#[derive(Debug, Serialize)]
pub(super) struct Item {
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) details: Details,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Details {
    AgentMessage {
        text: String,
    },
    Reasoning {
        text: String,
    },
    CommandExecution {
        command: String,
        aggregated_output: String,
        exit_code: Option<i64>,
        status: Status,
    },
    FileChange {
        changes: Vec<Change>,
        status: Status,
    },
    McpToolCall {
        server: &'static str,
        tool: String,
        arguments: Arguments,
        result: Option<McpResult>,
        error: Option<McpError>,
        status: Status,
    },
    CollabToolCall(Collab),
    TodoList {
        items: Vec<TodoItem>,
    },
    Error {
        message: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    Failed,
    Declined,
}

#[derive(Debug, Serialize)]
pub(super) struct Change {
    path: String,
    kind: ChangeKind,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum ChangeKind {
    Add,
    Delete,
    Update,
}

#[derive(Debug, Serialize)]
pub(super) struct McpResult {
    content: [McpText; 1],
    structured_content: Option<RawJson>,
}

#[derive(Debug, Serialize)]
struct McpText {
    r#type: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
pub(super) struct McpError {
    message: String,
}

#[derive(Debug, Serialize)]
pub(super) struct TodoItem {
    text: String,
    completed: bool,
}

/// A sub-agent.
#[derive(Debug, Serialize)]
pub(super) struct Collab {
    tool: &'static str,
    sender_thread_id: AgentId,
    receiver_thread_ids: [AgentId; 1],
    prompt: Option<String>,
    agents_states: BTreeMap<String, CollabAgent>,
    status: Status,
}

#[derive(Debug, Serialize)]
pub(super) struct CollabAgent {
    pub(super) status: CollabState,
    pub(super) message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CollabState {
    Running,
    Completed,
    Errored,
    Shutdown,
}

impl Collab {
    pub(super) fn spawned(
        (sender, receiver): (AgentId, AgentId),
        prompt: Option<String>,
        state: CollabAgent,
    ) -> Self {
        let status = match state.status {
            CollabState::Running => Status::InProgress,
            CollabState::Completed => Status::Completed,
            CollabState::Errored | CollabState::Shutdown => Status::Failed,
        };
        Self {
            tool: "spawn_agent",
            sender_thread_id: sender,
            receiver_thread_ids: [receiver],
            prompt,
            agents_states: [(receiver.to_string(), state)].into(),
            status,
        }
    }
}

/// How far a call is.
pub(super) enum State<'a> {
    Running,
    Ended(CallStatus, &'a str),
}

impl State<'_> {
    fn status(&self) -> Status {
        match self {
            Self::Running => Status::InProgress,
            Self::Ended(CallStatus::Ok, _) => Status::Completed,
            Self::Ended(CallStatus::Denied, _) => Status::Declined,
            Self::Ended(_, _) => Status::Failed,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Running => "",
            Self::Ended(_, text) => text,
        }
    }
}

impl Details {
    /// Returns the item of a call; `None` for the calls that something else tells: a message, a plan.
    pub(super) fn of_call(call: &Call, state: &State<'_>) -> Option<Self> {
        match call.name.as_str() {
            MESSAGE | "update_plan" => None,
            "bash" => Some(Self::command(call, state)),
            "edit" | "write" | "apply_patch" => Some(Self::FileChange {
                changes: changes(call, state),
                // A change has nothing between done and failed.
                status: match state.status() {
                    Status::Declined => Status::Failed,
                    status => status,
                },
            }),
            _ => Some(Self::tool(call, state)),
        }
    }

    /// Tells whether the item is told when the call starts; a change of files only when it is done.
    pub(super) fn is_told_at_start(&self) -> bool {
        !matches!(self, Self::FileChange { .. })
    }

    fn command(call: &Call, state: &State<'_>) -> Self {
        #[derive(Default, Deserialize)]
        struct Input {
            command: String,
        }
        let input: Input = serde_json::from_str(&call.arguments).unwrap_or_default();
        let exit_code = match state {
            State::Ended(CallStatus::Ok, text) => exit_code(text),
            State::Ended(..) | State::Running => None,
        };
        let status = match state.status() {
            Status::Completed if exit_code.is_some_and(|code| code != 0) => Status::Failed,
            status => status,
        };
        let aggregated_output = state.text().to_owned();
        Self::CommandExecution { command: input.command, aggregated_output, exit_code, status }
    }

    fn tool(call: &Call, state: &State<'_>) -> Self {
        let text = state.text().to_owned();
        let (result, error) = match state {
            State::Running => (None, None),
            State::Ended(CallStatus::Ok, _) => {
                let content = [McpText { r#type: "text", text }];
                (Some(McpResult { content, structured_content: None }), None)
            }
            State::Ended(..) => (None, Some(McpError { message: text })),
        };
        Self::McpToolCall {
            server: SERVER,
            tool: call.name.clone(),
            arguments: call.arguments.as_str().into(),
            result,
            error,
            status: match state.status() {
                Status::Declined => Status::Failed,
                status => status,
            },
        }
    }
}

/// Returns the exit code of a command whose result the tool `bash` wrote; `None` of one that has not
/// ended, or not by itself.
fn exit_code(text: &str) -> Option<i64> {
    let mut notes = text.lines().rev().map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    let note = match notes.next().flatten() {
        Some(note) if note.starts_with("took ") => notes.next().flatten(),
        note => note,
    };
    let Some(note) = note else { return Some(0) };
    match note.strip_prefix("exit code ") {
        Some(code) => code.parse().ok(),
        None if NO_EXIT.iter().any(|other| note.starts_with(other)) => None,
        // The command's own last line.
        None => Some(0),
    }
}

/// How a result goes on that tells of another end than by itself, or of none yet.
const NO_EXIT: [&str; 3] = ["killed", "ended, nobody knows", "running for "];

fn changes(call: &Call, state: &State<'_>) -> Vec<Change> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Input {
        #[serde(alias = "file_path")]
        path: String,
        #[serde(alias = "input")]
        patch: String,
    }
    let input: Input = serde_json::from_str(&call.arguments).unwrap_or_default();
    if call.name == "apply_patch" {
        return patched(&input.patch);
    }
    let is_new = call.name == "write" && state.text().starts_with("created ");
    let kind = if is_new { ChangeKind::Add } else { ChangeKind::Update };
    vec![Change { path: input.path, kind }]
}

fn patched(patch: &str) -> Vec<Change> {
    let change = |line: &str| {
        let (what, path) = line.strip_prefix("*** ")?.split_once(" File: ")?;
        let kind = match what {
            "Add" => ChangeKind::Add,
            "Delete" => ChangeKind::Delete,
            "Update" => ChangeKind::Update,
            _ => return None,
        };
        Some(Change { path: path.trim().to_owned(), kind })
    };
    patch.lines().filter_map(change).collect()
}

/// Reads a plan as `update_plan` records it.
pub(super) fn todo(data: &RawJson) -> Option<Vec<TodoItem>> {
    #[derive(Deserialize)]
    struct Plan {
        steps: Vec<Step>,
    }
    #[derive(Deserialize)]
    struct Step {
        step: String,
        status: String,
    }
    let plan: Plan = data.read().ok()?;
    let item = |step: Step| TodoItem { text: step.step, completed: step.status == "completed" };
    Some(plan.steps.into_iter().map(item).collect())
}
