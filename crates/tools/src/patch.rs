//! Applying patches in the language that some models were trained on.

mod apply;
mod parse;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, PathSet, Tool, ToolContext, ToolError, ToolOutput};

use crate::workspace::Workspace;
use parse::{Change, FileChange};

/// The tool `apply_patch`.
#[derive(Debug)]
pub struct ApplyPatch {
    workspace: Workspace,
}

/// Changes files, all or none. A patch is *** Begin Patch; for each file *** Add File: PATH and lines
/// with +, *** Delete File: PATH, or *** Update File: PATH (then *** Move to: PATH to rename) and
/// chunks of @@ [line above], then context lines after a space and lines with - or +; *** End Patch.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct ApplyPatchInput {
    #[serde(alias = "input")]
    patch: String,
}

impl ApplyPatch {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

impl Tool for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    type Input = ApplyPatchInput;

    fn access(&self, input: &ApplyPatchInput) -> Access {
        // What cannot be read as a patch writes nothing.
        let changes = parse::parse(&input.patch).unwrap_or_default();
        let writes: PathSet = changes.iter().flat_map(|change| self.paths(change)).collect();
        // What stays of a file can be found where it is moved to, and in what is said of lines that are not.
        let updated = changes.iter().filter(|it| matches!(it.change, Change::Update { .. }));
        let reads = updated.map(|change| self.workspace.resolve(&change.path)).collect();
        Access { reads, writes, ..Access::none() }
    }

    fn puts_secrets_back(&self) -> bool {
        true
    }

    async fn run(&self, input: ApplyPatchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let workspace = self.workspace.clone();
        let cx = cx.clone();
        let done = tokio::task::spawn_blocking(move || {
            let changes = parse::parse(&input.patch).map_err(ToolError::Failed)?;
            apply::apply(&workspace, &changes, &cx)
        });
        let summary = done.await.unwrap_or_else(|error| Err(ToolError::Fatal(error.into())))?;
        Ok(summary.into())
    }
}

impl ApplyPatch {
    fn paths(&self, change: &FileChange) -> Vec<PathBuf> {
        let to = match &change.change {
            Change::Update { to, .. } => to.as_deref(),
            Change::Add(_) | Change::Delete => None,
        };
        [Some(change.path.as_str()), to]
            .into_iter()
            .flatten()
            .map(|path| self.workspace.resolve(path))
            .collect()
    }
}
