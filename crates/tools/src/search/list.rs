//! Listing folders.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};
use bowline_agent::visible::name;

use super::Place;
use crate::workspace::Workspace;

/// The most entries of a listing.
const MAX_ENTRIES: usize = 1000;

/// The tool `list`.
#[derive(Debug)]
pub struct List {
    workspace: Workspace,
}

/// Lists a folder as a tree, without ignored and hidden files.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct ListInput {
    path: Option<String>,
    /// Default 2.
    depth: Option<usize>,
}

impl List {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

impl Tool for List {
    const NAME: &'static str = "list";
    type Input = ListInput;

    fn access(&self, input: &ListInput) -> Access {
        Access::read(self.workspace.resolve(input.path.as_deref().unwrap_or(".")))
    }

    fn recovery(&self, _: &ListInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: ListInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let depth = input.depth.unwrap_or(2).max(1);
        Place::search(&self.workspace, input.path.as_deref(), cx, move |place| list(place, depth))
            .await
    }
}

fn list(place: &Place, depth: usize) -> Result<String, ToolError> {
    if !place.root.is_dir() {
        let shown = place.shown(&place.root);
        return Err(ToolError::Failed(format!("{shown} is a file; see it with read")));
    }
    let mut listing = place.listing();
    for (count, entry) in place.walk(Some(depth), false).skip(1).enumerate() {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let indent = "  ".repeat(entry.depth() - 1);
        let name = name::shown(Path::new(entry.file_name()));
        let mark = if is_folder { "/" } else { "" };
        if count >= MAX_ENTRIES {
            listing.left_out += 1;
        } else {
            listing.push(&format!("{indent}{name}{mark}"));
        }
    }
    let text = listing.finish("entries", "list a folder of it or a smaller depth");
    Ok(if text.is_empty() { "(nothing but ignored or hidden files)".to_owned() } else { text })
}
