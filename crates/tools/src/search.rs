//! Finding files and text, within the rules by which projects say what does not matter.

mod glob;
mod grep;
mod ignored;
mod list;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};

use bowline_agent::tool::{ToolContext, ToolError, ToolOutput};

use crate::excerpt::Bounds;
use crate::files;
use crate::guard::Want;
use crate::workspace::Workspace;

pub use glob::{Glob, GlobInput};
pub use grep::{Grep, GrepInput};
pub use list::{List, ListInput};

/// Where a search begins.
#[derive(Debug, Clone)]
struct Place {
    workspace: Workspace,
    root: PathBuf,
    /// The root, by the path that is really its.
    real: PathBuf,
    cx: ToolContext,
}

impl Place {
    /// Does a search away from the threads that serve others.
    async fn search(
        workspace: &Workspace,
        path: Option<&str>,
        cx: &ToolContext,
        work: impl FnOnce(&Self) -> Result<String, ToolError> + Send + 'static,
    ) -> Result<ToolOutput, ToolError> {
        let root = workspace.resolve(path.unwrap_or("."));
        let (workspace, cx) = (workspace.clone(), cx.clone());
        let done = tokio::task::spawn_blocking(move || {
            let Ok(real) = root.canonicalize() else {
                return Err(files::missing(&workspace, &root));
            };
            let place = Self { workspace, root, real, cx };
            place.check(&place.real).map_err(ToolError::Failed)?;
            work(&place)
        });
        let text = done.await.unwrap_or_else(|error| Err(ToolError::Fatal(error.into())))?;
        Ok(text.into())
    }

    /// Says whether the call may see what is in a file or folder, by the path that is really its.
    fn check(&self, real: &Path) -> Result<(), String> {
        self.workspace.guard.check(&self.cx.call, real, Want::Read)
    }

    /// Tells whether the call may see what is in a folder that the search has come to. On the way are no links.
    fn shows(&self, folder: &Path) -> bool {
        let below = folder.strip_prefix(&self.root).unwrap_or(folder);
        self.check(&self.real.join(below)).is_ok()
    }

    /// Walks over what is not ignored, in the order of names, and into no folder that the call may not see.
    fn walk(&self, depth: Option<usize>, with_hidden: bool) -> impl Iterator<Item = DirEntry> {
        let cancel = self.cx.cancel.clone();
        let mut builder = WalkBuilder::new(&self.root);
        let is_readable = self.root.ancestors().all(ignored::is_readable);
        let place = self.clone();
        builder
            .standard_filters(is_readable)
            .max_depth(depth)
            .hidden(!with_hidden)
            .require_git(false)
            // The user's own rules would have to be looked up in the environment.
            .git_global(false)
            .filter_entry(move |entry| {
                let is_root = entry.depth() == 0 || !is_readable;
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                entry.file_name() != ".git"
                    && (is_root || !is_folder || ignored::is_readable(entry.path()))
                    && (entry.depth() == 0 || !is_folder || place.shows(entry.path()))
            })
            .sort_by_file_name(std::ffi::OsStr::cmp);
        // What cannot be read is passed over, as a shell's tools do after a complaint.
        builder.build().take_while(move |_| !cancel.is_cancelled()).filter_map(Result::ok)
    }

    /// Returns a path relative to where the search began or, if that is not the working folder, as
    /// other tools take it.
    fn shown<'a>(&self, path: &'a Path) -> Cow<'a, str> {
        self.workspace.shown(path)
    }

    /// Starts a result that may become no longer than the model's limit.
    fn listing(&self) -> Listing {
        // The note at the end needs some room.
        let room = Bounds::new(self.cx.output_bytes).bytes().saturating_sub(150);
        Listing { text: String::new(), room, left_out: 0 }
    }
}

/// Lines as many as fit.
#[derive(Debug)]
struct Listing {
    text: String,
    room: usize,
    left_out: usize,
}

impl Listing {
    /// Adds a line unless there is no room.
    fn push(&mut self, line: &str) {
        if self.left_out > 0 || self.text.len() + line.len() >= self.room {
            self.left_out += 1;
        } else {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Adds a note on how many `things` are missing and what to do about it.
    fn finish(mut self, things: &str, advice: &str) -> String {
        if self.left_out > 0 {
            self.text.push_str(&format!("[{} more {things}; {advice}]", self.left_out));
        } else {
            self.text.pop();
        }
        self.text
    }
}
