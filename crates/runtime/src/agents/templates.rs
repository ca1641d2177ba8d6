//! Agents to begin with: what `bowline init` writes into a project.

use std::fs;
use std::path::{Path, PathBuf};

use crate::config;
use crate::error::ConfigError;

/// Agents that go together, with their skills.
#[derive(Debug)]
pub struct Template {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its files: the path within `.bowline`, and the text.
    pub files: &'static [(&'static str, &'static str)],
}

/// What keeps to itself what is not for everybody who works on the project.
const IGNORE: &str = ".gitignore";

/// Lists the files of a template, which lie in a folder of its name.
macro_rules! files {
    ($template:literal: $($path:literal),* $(,)?) => {
        &[
            (IGNORE, include_str!("templates/gitignore")),
            $(($path, include_str!(concat!("templates/", $template, "/", $path)))),*
        ]
    };
}

static TEMPLATES: [Template; 3] = [
    Template {
        name: "assistant",
        about: "one agent for questions and small tasks",
        files: files!("assistant": "config.toml", "agents/assistant.md"),
    },
    Template {
        name: "dev-team",
        about: "a lead with an explorer, a planner, a coder and a reviewer",
        files: files!(
            "dev-team":
            "config.toml",
            "agents/lead.md",
            "agents/explorer.md",
            "agents/planner.md",
            "agents/coder.md",
            "agents/reviewer.md",
            "skills/leading/SKILL.md",
            "skills/exploring/SKILL.md",
            "skills/planning/SKILL.md",
            "skills/coding/SKILL.md",
            "skills/reviewing/SKILL.md",
        ),
    },
    Template {
        name: "indexer",
        about: "describes a project for agents, in files that they read",
        files: files!(
            "indexer":
            "config.toml",
            "agents/indexer.md",
            "agents/explorer.md",
            "skills/indexing/SKILL.md",
        ),
    },
];

/// Returns all templates.
pub fn all() -> &'static [Template] {
    &TEMPLATES
}

/// Returns a template by its name.
///
/// # Errors
/// What is probably meant, or what there is.
pub fn find(name: &str) -> Result<&'static Template, String> {
    let found = TEMPLATES.iter().find(|template| template.name == name);
    found.ok_or_else(|| {
        let known: Vec<_> = TEMPLATES.iter().map(|template| template.name).collect();
        format!("there is no template {name:?}{}", config::meant(name, &known))
    })
}

impl Template {
    /// Writes the files that are not there into a folder, and returns them. Unless `force` says so
    /// nothing is written at all if a file is there that says something else.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with such a file, [`ConfigError::Write`] if one cannot be written.
    pub fn write(&self, folder: &Path, force: bool) -> Result<Vec<PathBuf>, ConfigError> {
        let mut missing = Vec::new();
        for (path, text) in self.files {
            let path = folder.join(path);
            match fs::read(&path) {
                Ok(present) if present == text.as_bytes() => {}
                // What keeps files from others is nothing to be replaced.
                Ok(_) if path.ends_with(IGNORE) => {}
                Ok(_) if !force => {
                    let what = "is there already; nothing is written without --force".to_owned();
                    return Err(ConfigError::Invalid { path, what });
                }
                Ok(_) | Err(_) => missing.push((path, text)),
            }
        }
        for (path, text) in &missing {
            let failed = |source| ConfigError::Write { path: path.clone(), source };
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            fs::write(path, text).map_err(failed)?;
        }
        Ok(missing.into_iter().map(|(path, _)| path).collect())
    }
}
