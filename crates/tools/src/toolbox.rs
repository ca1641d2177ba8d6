//! All tools of a workspace.

use std::sync::Arc;

use bowline_agent::tool::{Toolbox, ToolboxError};

use crate::ask::AskUser;
use crate::bash::Bash;
use crate::edit::Edit;
use crate::fetch::{Fetch, FetchConfig};
use crate::git;
use crate::job::{Job, Jobs};
use crate::notes::{self, NotesPlace};
use crate::patch::ApplyPatch;
use crate::plan::UpdatePlan;
use crate::read::Read;
use crate::search::{Glob, Grep, List};
use crate::state::{self, StatePlace};
use crate::tasks;
use crate::workspace::Workspace;
use crate::write::Write;

/// The toolboxes that an agent may list by name, with the names of their tools.
///
/// Of `edit` and `apply_patch` an agent has one, as its model does better with. What is in `git`,
/// `notes`, `state` and `tasks` comes from [`listed_toolbox`], the rest from [`toolbox`].
pub const TOOLBOXES: [(&str, &[&str]); 9] = [
    ("ask", &["ask_user"]),
    ("filesystem", &["read", "write", "edit", "apply_patch", "list"]),
    ("exec", &["bash", "job"]),
    ("search", &["glob", "grep"]),
    ("git", &["git_status", "git_diff", "git_log", "git_commit"]),
    ("http", &["fetch"]),
    ("notes", &["write_note", "read_note", "list_notes"]),
    ("state", &["shared_state_get", "shared_state_set", "shared_state_list"]),
    (
        "tasks",
        &[
            "shared_tasks_create",
            "shared_tasks_list",
            "shared_tasks_get",
            "shared_tasks_claim",
            "shared_tasks_update",
            "shared_tasks_watch",
            "shared_tasks_cancel",
        ],
    ),
];

/// Returns the names of the tools in a toolbox of [`TOOLBOXES`].
pub fn tools_in(toolbox: &str) -> Option<&'static [&'static str]> {
    TOOLBOXES.iter().find(|(name, _)| *name == toolbox).map(|(_, tools)| *tools)
}

/// Makes the tools that an agent has only if it lists them: for git, for notes, for a state and a
/// task board that agents share.
///
/// # Errors
/// None in practice: the names differ.
pub fn listed_toolbox(
    workspace: &Workspace,
    notes: &NotesPlace,
    state: &StatePlace,
) -> Result<Toolbox, ToolboxError> {
    let mut all = git::toolbox(workspace)?;
    for more in [notes::toolbox(notes)?, state::toolbox(state)?, tasks::toolbox()?] {
        all.add_all(&more)?;
    }
    Ok(all)
}

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
        .with(Fetch::guarded(
            FetchConfig::with_proxies_of(&workspace.environment),
            Arc::clone(&workspace.guard),
        ))?
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
            guard: Arc::new(crate::guard::Open),
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

    fn listed() -> Toolbox {
        let notes = NotesPlace::Session(workspace());
        listed_toolbox(&workspace(), &notes, &StatePlace::Session).unwrap()
    }

    #[test]
    fn every_tool_is_in_one_toolbox() {
        let mut names: Vec<String> = Vec::new();
        let boxes =
            [Editing::Replace, Editing::Patch].map(|editing| toolbox(&workspace(), editing));
        for toolbox in boxes.into_iter().map(Result::unwrap).chain([listed()]) {
            names.extend(toolbox.names().map(str::to_owned));
        }
        names.sort();
        names.dedup();
        // A plan is an agent's own: every one has it.
        names.retain(|name| name != "update_plan");
        let mut inside: Vec<&str> =
            TOOLBOXES.iter().flat_map(|(_, tools)| *tools).copied().collect();
        inside.sort_unstable();
        assert_eq!(inside, names);
        assert_eq!(tools_in("exec"), Some(&["bash", "job"][..]));
        assert_eq!(tools_in("browser"), None);
    }

    #[test]
    fn the_tools_that_are_listed_are_told_of_in_few_words() {
        let block = listed().block();
        let sizes = block
            .specs()
            .iter()
            .map(|spec| spec.name.len() + spec.description.len() + spec.schema.as_str().len());
        let sum: usize = sizes.sum();
        assert!(sum <= 4500, "{sum}");
    }

    #[test]
    fn schemas_say_nothing_twice() {
        let block = toolbox(&workspace(), Editing::Replace).unwrap().block();
        let listed = listed().block();
        for spec in block.specs().iter().chain(listed.specs()) {
            let schema = spec.schema.as_str();
            assert!(!schema.contains("null") && !schema.contains("minimum"), "{schema}");
        }
    }
}
