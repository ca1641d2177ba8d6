//! Tasks as a model sees them.

use serde::Serialize;
use serde_json::{Map, Value};

use bowline_agent::crew::board::{TaskStatus, TaskView};

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    assignee: Option<&'a str>,
    blocked_by: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
    created_by: &'a str,
    created_at: String,
}

impl<'a> Shown<'a> {
    fn of(view: &'a TaskView) -> Self {
        let task = &view.task;
        Self {
            id: &task.id,
            title: &task.title,
            description: &task.description,
            status: task.status,
            assignee: task.assignee.as_deref(),
            blocked_by: &task.blocked_by,
            blocked: view.blocked.as_ref().map(ToString::to_string),
            metadata: &task.metadata,
            created_by: &task.created_by,
            created_at: task.created_at.to_string(),
        }
    }
}

/// Writes a task as JSON.
pub(super) fn show(view: &TaskView) -> String {
    written(&Shown::of(view))
}

/// Writes tasks as a JSON array with a line for each.
pub(super) fn show_all(views: &[TaskView]) -> String {
    let lines: Vec<String> = views.iter().map(show).collect();
    format!("[{}]", lines.join(",\n"))
}

fn written(shown: &Shown<'_>) -> String {
    // Neither text nor a map with texts as keys can fail to be written.
    serde_json::to_string(shown).unwrap_or_default()
}
