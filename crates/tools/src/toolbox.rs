//! All tools of a workspace.

use std::sync::Arc;

use bowline_agent::tool::{Toolbox, ToolboxError};

use crate::ask::AskUser;
use crate::bash::Bash;
use crate::edit::Edit;
use crate::fetch::{Fetch, FetchConfig};
use crate::job::{Job, Jobs};
use crate::patch::ApplyPatch;
use crate::plan::UpdatePlan;
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

/// Makes the tools of a workspace. [`Fetch`] uses the proxies that commands see.
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
        .with(Job::new(jobs))?
        .with(Fetch::new(FetchConfig::with_proxies_of(&workspace.environment)))?
        .with(UpdatePlan)?
        .with(AskUser)
}

/// Makes the tools for a model too small to be trusted with more: they read, and make new files.
///
/// # Errors
/// None in practice: the names differ.
pub fn small_toolbox(workspace: &Workspace) -> Result<Toolbox, ToolboxError> {
    Toolbox::default()
        .with(Read::new(workspace.clone()))?
        .with(Write::of_new_files(workspace.clone()))?
        .with(List::new(workspace.clone()))?
        .with(Grep::new(workspace.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    fn workspace() -> Workspace {
        Workspace {
            cwd: "/work".into(),
            environment: Environment::default(),
            processes: Arc::default(),
            scratch: "/tmp".into(),
        }
    }

    #[test]
    fn the_tool_block_is_small() {
        let workspace = workspace();
        for editing in [Editing::Replace, Editing::Patch] {
            let block = toolbox(&workspace, editing).unwrap().block();
            let sizes = block.specs().iter().map(|spec| {
                let function = serde_json::json!({ "type": "function", "function": {
                    "name": spec.name, "description": spec.description, "parameters": spec.schema,
                }});
                println!("{} {function}", function.to_string().len());
                (spec.name.as_str(), function.to_string().len() + 1)
            });
            let sizes: Vec<(&str, usize)> = sizes.collect();
            let names: Vec<&str> = sizes.iter().map(|(name, _)| *name).collect();
            assert_eq!(names[6..], ["bash", "job", "fetch", "update_plan", "ask_user"]);
            let sum = |sizes: &[(&str, usize)]| sizes.iter().map(|(_, size)| size).sum::<usize>();
            assert!(sum(&sizes[..8]) <= 4500, "{sizes:?}");
            assert!(sum(&sizes) <= 6000, "{sizes:?}");
        }
    }

    #[test]
    fn schemas_say_nothing_twice() {
        let block = toolbox(&workspace(), Editing::Replace).unwrap().block();
        for spec in block.specs() {
            let schema = spec.schema.as_str();
            assert!(!schema.contains("null") && !schema.contains("minimum"), "{schema}");
        }
    }
}
