//! The project around the working directory.

use std::path::{Path, PathBuf};

/// Returns the root of the git repository in which a directory lies.
pub fn git_root(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|folder| folder.join(".git").exists())
}

/// Returns the directories of the project, from its root down to this one. Without a repository
/// that is only this one.
pub fn path_to(cwd: &Path) -> Vec<&Path> {
    let root = git_root(cwd).unwrap_or(cwd);
    let mut folders: Vec<_> =
        cwd.ancestors().take_while(|folder| folder.starts_with(root)).collect();
    folders.reverse();
    folders
}

/// What other programs call the file in which a project names its MCP servers.
pub const MCP_FILE: &str = ".mcp.json";

/// Returns the project's `.mcp.json`: the nearest one between this directory and the root.
pub fn mcp_file(cwd: &Path) -> Option<PathBuf> {
    let candidates = path_to(cwd).into_iter().rev().map(|folder| folder.join(MCP_FILE));
    candidates.into_iter().find(|file| file.is_file())
}

/// Returns the project's `.bowline` folder: the nearest one between this directory and the root.
pub fn bowline_folder(cwd: &Path) -> Option<PathBuf> {
    let candidates = path_to(cwd).into_iter().rev().map(|folder| folder.join(".bowline"));
    candidates.into_iter().find(|folder| folder.is_dir())
}
