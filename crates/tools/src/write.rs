//! Writing whole files.

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};

use crate::files::{self, Loaded, Spot};
use crate::workspace::{Workspace, off_thread_if_large};

/// The tool `write`.
#[derive(Debug)]
pub struct Write {
    workspace: Workspace,
    is_only_for_new_files: bool,
}

/// Writes a whole file and makes its folders. An existing file must have been read first.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct WriteInput {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

impl Write {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, is_only_for_new_files: false }
    }

    /// Makes the tool so that it leaves alone what is there.
    pub fn of_new_files(workspace: Workspace) -> Self {
        Self { workspace, is_only_for_new_files: true }
    }
}

impl Tool for Write {
    const NAME: &'static str = "write";
    type Input = WriteInput;

    fn access(&self, input: &WriteInput) -> Access {
        Access::write(self.workspace.resolve(&input.path))
    }

    fn puts_secrets_back(&self) -> bool {
        true
    }

    async fn run(&self, input: WriteInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let workspace = self.workspace.clone();
        let cx = cx.clone();
        let path = self.workspace.resolve(&input.path);
        if self.is_only_for_new_files && path.symlink_metadata().is_ok() {
            let shown = workspace.shown(&path);
            return Err(ToolError::Failed(format!("{shown} is there already, and stays as it is")));
        }
        off_thread_if_large(path, move || write(&workspace, &input, &cx)).await
    }
}

fn write(
    workspace: &Workspace,
    input: &WriteInput,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let path = workspace.resolve(&input.path);
    let existing = Loaded::read(workspace, &path, cx)?;
    if let Some(existing) = &existing {
        existing.check_seen(workspace, cx)?;
    }
    let spot = Spot::to_write(workspace, existing.as_ref().map_or(&path, |file| &file.path), cx)?;
    let metadata = existing.as_ref().map(|file| &file.metadata);
    let shown = workspace.shown(&path);
    spot.replace(input.content.as_bytes(), metadata, None)
        .map_err(|error| ToolError::Failed(format!("cannot write {shown}: {error}")))?;
    files::remember(cx, &spot.path, input.content.as_bytes())?;
    let lines = input.content.lines().count();
    let done = if existing.is_some() { "wrote" } else { "created" };
    Ok(format!("{done} {shown} ({lines} lines)").into())
}
