//! Agents to begin with: what `bowline init` writes into a project.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config;
use crate::error::ConfigError;
use crate::reading;

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
    /// nothing is written at all if a file is there that says something else. Links are not followed:
    /// nobody knows where they lead.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with such a file, or what stands in the way of one, and nothing is written;
    /// [`ConfigError::Write`] if one cannot be written.
    pub fn write(&self, folder: &Path, force: bool) -> Result<Vec<PathBuf>, ConfigError> {
        let mut missing = Vec::new();
        for (path, text) in self.files {
            check_way(folder, path)?;
            let path = folder.join(path);
            match present(&path)? {
                Some(present) if present == text.as_bytes() => {}
                // What keeps files from others is nothing to be replaced.
                Some(_) if path.ends_with(IGNORE) => {}
                Some(_) if !force => {
                    let what = "is there already; nothing is written without --force";
                    return Err(in_the_way(path, what));
                }
                Some(_) | None => missing.push((path, text)),
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

/// Fails unless the folders on the way to a file are folders, as far as they are there.
fn check_way(folder: &Path, path: &str) -> Result<(), ConfigError> {
    let within = Path::new(path).ancestors().skip(1).map(|part| folder.join(part));
    for path in within {
        let found = fs::symlink_metadata(&path);
        if found.is_ok_and(|found| !found.is_dir()) {
            return Err(in_the_way(path, "is no folder; nothing is written"));
        }
    }
    Ok(())
}

/// Reads a file; `None` if there is none.
fn present(path: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => reading::bytes_of(path).map(Some).map_err(failed),
        Ok(_) => Err(in_the_way(path.to_owned(), "is no file; nothing is written")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn in_the_way(path: PathBuf, what: &str) -> ConfigError {
    ConfigError::Invalid { path, what: what.to_owned() }
}
