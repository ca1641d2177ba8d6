//! Finding files by name.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::GlobBuilder;
use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};

use super::Place;
use crate::workspace::Workspace;

/// The most files of a result.
const MAX_FILES: usize = 500;

/// The tool `glob`.
#[derive(Debug)]
pub struct Glob {
    workspace: Workspace,
}

/// Finds files by name pattern (src/**/*.rs, *.{ts,tsx}), newest first; ignored ones are left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct GlobInput {
    pattern: String,
    /// Folder to search.
    path: Option<String>,
}

impl Glob {
    /// Makes the tool for a workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    type Input = GlobInput;

    fn access(&self, input: &GlobInput) -> Access {
        let (folder, _) = split(input);
        Access::read(self.workspace.resolve(&folder))
    }

    fn recovery(&self, _: &GlobInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: GlobInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (folder, pattern) = split(&input);
        Place::search(&self.workspace, Some(&folder), cx, move |place| glob(place, &pattern)).await
    }
}

/// Separates the folder to search from the pattern: an absolute pattern brings its own.
fn split(input: &GlobInput) -> (String, String) {
    if !input.pattern.starts_with('/') {
        let pattern = input.pattern.strip_prefix("./").unwrap_or(&input.pattern);
        // A name alone is looked for everywhere.
        let everywhere = if input.pattern.contains('/') { "" } else { "**/" };
        let folder = input.path.clone().unwrap_or_else(|| ".".to_owned());
        return (folder, format!("{everywhere}{pattern}"));
    }
    let parts: Vec<&str> = input.pattern.split('/').collect();
    let is_plain = |part: &&&str| !part.contains(['*', '?', '[', '{']);
    let plain = parts.iter().take_while(is_plain).count().min(parts.len() - 1);
    let (folder, pattern) = parts.split_at(plain);
    let folder = if plain == 1 { "/".to_owned() } else { folder.join("/") };
    (folder, pattern.join("/"))
}

fn glob(place: &Place, pattern: &str) -> Result<String, ToolError> {
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| ToolError::Failed(format!("bad pattern: {error}")))?
        .compile_matcher();
    let asks_for_hidden = pattern.split('/').any(|part| part.starts_with('.'));
    let mut found: Vec<(Reverse<SystemTime>, PathBuf)> = Vec::new();
    for entry in place.walk(None, asks_for_hidden) {
        let path = entry.path().strip_prefix(&place.root).unwrap_or(Path::new(""));
        if entry.file_type().is_some_and(|kind| !kind.is_dir()) && matcher.is_match(path) {
            let modified = entry.metadata().ok().and_then(|meta| meta.modified().ok());
            let modified = modified.unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((Reverse(modified), entry.into_path()));
        }
    }
    found.sort();
    let mut listing = place.listing();
    for (_, path) in found.iter().take(MAX_FILES) {
        listing.push(&place.shown(path));
    }
    listing.left_out += found.len().saturating_sub(MAX_FILES);
    let text = listing.finish("older files", "use a narrower pattern");
    Ok(if text.is_empty() { "no files".to_owned() } else { text })
}
