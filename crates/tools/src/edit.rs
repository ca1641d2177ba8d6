//! Replacing a piece of a file.

mod find;

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};

use crate::files::{self, Loaded, Spot};
use crate::lines::closest;
use crate::text::{Text, line_number};
use crate::workspace::{Workspace, off_thread_if_large};
use find::{Found, Match};

/// The tool `edit`.
#[derive(Debug)]
pub struct Edit {
    workspace: Workspace,
}

/// Replaces a piece of a file that has been read. old_string must occur exactly once.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct EditInput {
    #[serde(alias = "file_path")]
    path: String,
    old_string: String,
    new_string: String,
    /// Replace every occurrence.
    replace_all: Option<bool>,
}

impl Edit {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

impl Tool for Edit {
    const NAME: &'static str = "edit";
    type Input = EditInput;

    fn access(&self, input: &EditInput) -> Access {
        Access::write(self.workspace.resolve(&input.path))
    }

    fn puts_secrets_back(&self) -> bool {
        true
    }

    async fn run(&self, input: EditInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let workspace = self.workspace.clone();
        let cx = cx.clone();
        let path = self.workspace.resolve(&input.path);
        off_thread_if_large(path, move || edit(&workspace, &input, &cx)).await
    }
}

fn edit(
    workspace: &Workspace,
    input: &EditInput,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let path = workspace.resolve(&input.path);
    let file =
        Loaded::read(workspace, &path, cx)?.ok_or_else(|| files::missing(workspace, &path))?;
    file.check_seen(workspace, cx)?;
    let shown = workspace.shown(&path);
    let text = Text::parse(&file.content)
        .ok_or_else(|| ToolError::Failed(format!("{shown} is not UTF-8; change it with bash")))?;
    let all = input.replace_all.unwrap_or(false);
    let (content, summary) = replaced(&text.content, &input.old_string, &input.new_string, all)
        .map_err(|problem| ToolError::Failed(format!("{shown}: {problem}")))?;
    let bytes = text.with(content).to_bytes();
    Spot::to_write(workspace, &file.path, cx)?
        .replace(&bytes, Some(&file.metadata), None)
        .map_err(|error| ToolError::Failed(format!("cannot write {shown}: {error}")))?;
    files::remember(cx, &file.path, &bytes)?;
    Ok(format!("edited {shown} ({summary})").into())
}

/// Replaces `old` by `new` and says where; fails with what to do about it.
fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<(String, String), String> {
    // A file whose lines all end in \r\n has been read as if they ended in \n.
    let has_one_kind = !text.contains("\r\n");
    let unify =
        |text: &str| if has_one_kind { text.replace("\r\n", "\n") } else { text.to_owned() };
    let (old, new) = (unify(old), unify(new));
    if old.is_empty() {
        return Err("old_string is empty; use write for a whole file".to_owned());
    }
    if old == new {
        return Err("old_string and new_string are the same".to_owned());
    }
    let Found { pass, matches } = find::find(text, &old, &new);
    let lines: Vec<String> =
        matches.iter().map(|found| line_number(text, found.start).to_string()).collect();
    let lines = lines.join(", ");
    match matches.len() {
        0 => return Err(not_found(text, &old, &new)),
        1 => {}
        _ if all => {}
        count => {
            return Err(format!(
                "old_string occurs {count} times (lines {lines}); quote more lines around the one \
                 you mean, or set replace_all"
            ));
        }
    }
    let mut content = String::with_capacity(text.len() + new.len());
    let mut at = 0;
    for Match { start, end, new } in &matches {
        if *start < at {
            continue;
        }
        content.push_str(&text[at..*start]);
        content.push_str(new);
        at = *end;
    }
    content.push_str(&text[at..]);
    let place = if matches.len() == 1 { "line" } else { "lines" };
    let note = pass.note().map_or_else(String::new, |note| format!("; {note}"));
    Ok((content, format!("{place} {lines}{note}")))
}

fn not_found(text: &str, old: &str, new: &str) -> String {
    let done = if new.len() > 3 { text.find(new) } else { None };
    if let Some(at) = done {
        let line = line_number(text, at);
        return format!("old_string does not occur; new_string is already there at line {line}");
    }
    match closest(text, old) {
        Some(lines) => format!("old_string does not occur; the closest lines are:\n{lines}"),
        None => "old_string does not occur".to_owned(),
    }
}

#[cfg(test)]
mod tests;
