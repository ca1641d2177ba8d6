//! All tools of a workspace.

use std::sync::Arc;

use bowline_agent::tool::{Toolbox, ToolboxError};

use crate::bash::Bash;
use crate::edit::Edit;
use crate::job::{Job, Jobs};
use crate::patch::ApplyPatch;
use crate::read::Read;
use crate::search::{Glob, Grep, List};
use crate::workspace::Workspace;
use crate::write::Write;

/// How a model changes files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Editing {
    /// With `edit`, which most models do best.
    #[default]
    Replace,
    /// With `apply_patch`, for model families that were trained on it.
    Patch,
}

/// Makes the tools that touch the machine.
///
/// The agents of a session may share them: what is kept is kept by agent.
///
/// # Errors
/// None in practice: the names differ.
pub fn toolbox(workspace: &Workspace, editing: Editing) -> Result<Toolbox, ToolboxError> {
    let jobs = Arc::new(Jobs::default());
    let mut toolbox = Toolbox::default()
        .with(Read::new(workspace.clone()))?
        .with(Write::new(workspace.clone()))?;
    toolbox = match editing {
        Editing::Replace => toolbox.with(Edit::new(workspace.clone()))?,
        Editing::Patch => toolbox.with(ApplyPatch::new(workspace.clone()))?,
    };
    toolbox
        .with(List::new(workspace.clone()))?
        .with(Glob::new(workspace.clone()))?
        .with(Grep::new(workspace.clone()))?
        .with(Bash::new(workspace.clone(), Arc::clone(&jobs)))?
        .with(Job::new(jobs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    #[test]
    fn the_tool_block_is_small() {
        let workspace = Workspace {
            cwd: "/work".into(),
            environment: Environment::default(),
            processes: Arc::default(),
            scratch: "/tmp".into(),
        };
        let size = |editing| {
            let toolbox = toolbox(&workspace, editing).unwrap();
            let block = toolbox.block();
            let sizes = block.specs().iter().map(|spec| {
                let function = serde_json::json!({ "type": "function", "function": {
                    "name": spec.name, "description": spec.description, "parameters": spec.schema,
                }});
                println!("{} {function}", function.to_string().len());
                function.to_string().len() + 1
            });
            sizes.sum::<usize>()
        };
        let sizes = [Editing::Replace, Editing::Patch].map(size);
        assert!(sizes.iter().all(|size| *size <= 4500), "{sizes:?}");
    }
}
