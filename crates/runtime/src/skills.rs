//! Skills: procedures that a model learns when it needs them, as the Agent Skills standard has them.
//!
//! A skill is a folder with a `SKILL.md`, and whatever belongs to it beside that. One with a
//! description is loaded by the model with `load_skill`; one without stands in the system text whole.
//! What is wrong with one is told in a line, and keeps nobody from working.
//!
//! They are looked for from the working directory up to the root of the repository, then with the user;
//! the first of a name is the one that counts. Those of a project count only when the project is trusted, as its
//! configuration does.

mod file;
mod header;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::nearest;
use crate::environment::{Environment, Folders};
use crate::project;

pub use file::LIMIT;
pub use header::INLINE_LIMIT;

/// A skill that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// Its name, which is that of its folder.
    pub name: String,
    /// What it does and when it is of use; without it the skill stands in the system text.
    pub description: Option<String>,
    /// Under which licence it comes.
    pub license: Option<String>,
    /// What it needs.
    pub compatibility: Option<String>,
    /// What else is known of it.
    pub metadata: BTreeMap<String, String>,
    /// The tools that its author would allow; this has no effect.
    pub allowed_tools: Option<String>,
    /// Whether a model is told of it.
    pub is_for_models: bool,
    /// Where it is.
    pub folder: PathBuf,
    /// What it tells the model.
    pub text: String,
    /// What the standard would not have, one line each.
    pub remarks: Vec<String>,
}

/// A skill that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its file.
    pub file: PathBuf,
    /// Why, and what to do.
    pub what: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", one_line(&self.file), self.what)
    }
}

/// Writes a path in one line: its names are whatever somebody liked.
fn one_line(path: &Path) -> String {
    path.display().to_string().replace(char::is_control, " ")
}

/// A skill that does not count because there is another of its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hidden {
    /// The name.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
    /// Where the one is that counts.
    pub behind: PathBuf,
}

/// A folder in which skills are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The folder, whether it is there or not.
    pub folder: PathBuf,
    /// The folder in which its skills must really lie; `None` for anywhere, as their owner likes.
    pub within: Option<PathBuf>,
    /// Whether what is there counts: what a project brings counts only when the project is trusted.
    pub is_applied: bool,
}

/// The skills of a working directory, and what is wrong with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    /// Those that count, by name.
    pub all: Vec<Skill>,
    /// Those that cannot be used.
    pub refused: Vec<Refused>,
    /// Those that others go before.
    pub hidden: Vec<Hidden>,
    /// The folders of a project that is not trusted.
    pub untrusted: Vec<PathBuf>,
}

/// Returns where skills are looked for, those that win first: from the working directory up to the root
/// of the repository, then with the user.
pub fn places(folders: &Folders, environment: &Environment, is_trusted: bool) -> Vec<Place> {
    let mut places = Vec::new();
    let home = environment.get("HOME").map(PathBuf::from);
    let near = project::path_to(&environment.cwd);
    let root = near.first().map(|root| root.to_path_buf());
    // What lies in the home folder is the user's, also if that is where the work is done.
    let near = near.into_iter().rev().filter(|folder| Some(*folder) != home.as_deref());
    for folder in near {
        for name in [".agents", ".bowline", ".claude"] {
            let folder = folder.join(name).join("skills");
            places.push(Place { folder, within: root.clone(), is_applied: is_trusted });
        }
    }
    let home = home.as_deref();
    let own = [
        home.map(|home| home.join(".agents/skills")),
        Some(folders.config.join("skills")),
        home.map(|home| home.join(".claude/skills")),
    ];
    let own = own.into_iter().flatten();
    places.extend(own.map(|folder| Place { folder, within: None, is_applied: true }));
    places
}

/// Tells whether there are skills in a folder.
pub(crate) fn has_any(folder: &Path) -> bool {
    !file::folders(folder).is_empty()
}

/// Reads the skills of some places, those that win first.
pub fn read(places: &[Place]) -> Skills {
    let mut skills = Skills::default();
    let mut by_name: BTreeMap<String, Skill> = BTreeMap::new();
    let mut seen = HashSet::new();
    for place in places {
        let mut is_there = false;
        for folder in file::folders(&place.folder) {
            is_there = true;
            // One may be linked from several places.
            let is_new = folder.canonicalize().is_ok_and(|real| seen.insert(real));
            if !place.is_applied || !is_new {
                continue;
            }
            match read_one(&folder, place.within.as_deref()) {
                Err(refused) => skills.refused.push(refused),
                Ok(skill) => match by_name.get(&skill.name) {
                    None => drop(by_name.insert(skill.name.clone(), skill)),
                    Some(first) => skills.hidden.push(Hidden {
                        name: skill.name,
                        folder,
                        behind: first.folder.clone(),
                    }),
                },
            }
        }
        if is_there && !place.is_applied {
            skills.untrusted.push(place.folder.clone());
        }
    }
    skills.all = by_name.into_values().collect();
    skills
}

/// Returns the names of all skills of some places, those that do not count among them: what has a name
/// is there, whatever else is wrong with it.
pub(crate) fn names(places: &[Place]) -> Vec<String> {
    let folders = places.iter().flat_map(|place| file::folders(&place.folder));
    let names = folders.map(|folder| match read_one(&folder, None) {
        Ok(skill) => skill.name,
        Err(_) => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// Reads every skill in a folder by itself: the folder's own, or those of the folders in it.
pub fn check(folder: &Path) -> Vec<Result<Skill, Refused>> {
    let folders = match file::has_skill(folder) {
        true => vec![folder.to_owned()],
        false => file::folders(folder),
    };
    folders.iter().map(|folder| read_one(folder, None)).collect()
}

/// Reads the skill of a folder, which must lie within another if one is given.
///
/// # Errors
/// [`Refused`] with what is wrong and what to do.
pub fn read_one(folder: &Path, within: Option<&Path>) -> Result<Skill, Refused> {
    let (file, text) = file::read(folder, within)?;
    header::skill(folder, &text).map_err(|what| Refused { file, what })
}

impl Skills {
    /// Returns the skills of an agent that names some: `None` or `*` for all.
    pub fn of(&self, names: Option<&[String]>) -> Vec<&Skill> {
        let is_named = |skill: &&Skill| match names {
            None => true,
            Some(names) => names.iter().any(|name| name == "*" || *name == skill.name),
        };
        self.all.iter().filter(|skill| skill.is_for_models).filter(is_named).collect()
    }

    /// Returns what a person should know of an agent that names some, one line each.
    pub fn missing(&self, agent: &str, names: Option<&[String]>) -> Vec<String> {
        let is_known = |name: &str| name == "*" || self.get(name).is_some();
        let missing = names.unwrap_or_default().iter().filter(|name| !is_known(name));
        missing.map(|name| format!("agents.{agent}.skills: {}", self.unknown(name))).collect()
    }

    /// Returns the skill of a name, also if models are not told of it.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.all.iter().find(|skill| skill.name == name)
    }

    /// Says that there is no skill of a name, and which one is meant.
    pub fn unknown(&self, name: &str) -> String {
        match nearest(name, self.all.iter().map(|skill| skill.name.as_str())) {
            Some(nearest) => format!("there is no skill {name:?}; did you mean {nearest:?}?"),
            None => format!("there is no skill {name:?}; see `bowline skills list`"),
        }
    }

    /// Returns what a person should know, one line each.
    pub fn notes(&self) -> Vec<String> {
        let refused = self.refused.iter().map(|refused| format!("skill left out: {refused}"));
        let hidden = self.hidden.iter().map(|Hidden { name, folder, behind }| {
            let (folder, behind) = (one_line(folder), one_line(behind));
            format!("skill {name} in {folder} is left out: the one in {behind} goes before")
        });
        refused.chain(hidden).collect()
    }
}

#[cfg(test)]
mod tests;
