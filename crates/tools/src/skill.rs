//! Loading a skill: what to do for one kind of task, told when it is needed.

use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bowline_agent::tool::{Access, Recovery, Tool, ToolContext, ToolError, ToolOutput};
use bowline_agent::visible::name;
use bowline_llm::{CallId, text_of};

use crate::files;

/// The name under which an agent records what it has loaded.
const RECORD: &str = "skill";

/// How many files of a skill are told by name, and how deep they may lie.
const FILES: usize = 50;
const DEPTH: usize = 4;

/// A skill that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// The absolute path of its folder.
    pub folder: PathBuf,
    /// What it tells the model.
    pub text: String,
}

/// The tool `load_skill`. A skill whose text the conversation still shows is not sent again.
///
/// It is for agents that have skills, and so is not part of [`toolbox`](crate::toolbox): add it with
/// `toolbox.with(LoadSkill::new(cwd, skills))`.
#[derive(Debug)]
pub struct LoadSkill {
    cwd: PathBuf,
    skills: Vec<Skill>,
}

/// Loads a skill: what to do, and which files belong to it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct LoadSkillInput {
    name: String,
}

/// That a skill was loaded, by which call.
#[derive(Debug, Serialize, Deserialize)]
struct LoadedBy {
    name: String,
    call: CallId,
}

impl LoadSkill {
    /// Makes the tool for the folder in which work is done, and for what can be loaded.
    pub fn new(cwd: PathBuf, skills: Vec<Skill>) -> Self {
        Self { cwd, skills }
    }

    fn find(&self, name: &str) -> Result<&Skill, ToolError> {
        let names = || self.skills.iter().map(|skill| skill.name.as_str());
        let found = self.skills.iter().find(|skill| skill.name == name);
        found.ok_or_else(|| {
            let near = names().min_by_key(|known| files::distance(name, known));
            let near = near.filter(|near| files::distance(name, near) <= near.len().div_ceil(2));
            let hint = match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("there is {}", names().collect::<Vec<_>>().join(", ")),
            };
            ToolError::Failed(format!("there is no skill {name:?}; {hint}"))
        })
    }

    /// Says where the skill is and what else lies there.
    fn footer(&self, skill: &Skill) -> String {
        let folder = relative(&skill.folder, &self.cwd);
        let mut files = files_of(&skill.folder);
        let more = if files.len() > FILES { ", and more" } else { "" };
        files.truncate(FILES);
        match files.is_empty() {
            true => format!("[skill folder: {}]", name::shown(&folder)),
            false => format!(
                "[skill folder: {}; paths above are relative to it; its files: {}{more}]",
                name::shown(&folder),
                files.join(", "),
            ),
        }
    }
}

impl Tool for LoadSkill {
    const NAME: &'static str = "load_skill";
    type Input = LoadSkillInput;

    fn access(&self, _: &LoadSkillInput) -> Access {
        Access::none()
    }

    fn recovery(&self, _: &LoadSkillInput) -> Recovery {
        Recovery::Rerun
    }

    async fn run(&self, input: LoadSkillInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let skill = self.find(input.name.trim())?;
        let footer = self.footer(skill);
        let text = fitting(&skill.text, &footer, cx.output_bytes);
        if is_shown(skill, &text, cx) {
            let name = &skill.name;
            return Ok(format!("the skill {name} is loaded already; its text is above").into());
        }
        cx.record(RECORD, &LoadedBy { name: skill.name.clone(), call: cx.call.clone() })?;
        Ok(format!("{text}\n\n{footer}").into())
    }
}

/// Tells whether an earlier call loaded the skill and the conversation still shows its text.
fn is_shown(skill: &Skill, text: &str, cx: &ToolContext) -> bool {
    let loaded = cx.last_recorded(RECORD, |loaded| {
        loaded.read::<LoadedBy>().ok().filter(|loaded| loaded.name == skill.name)
    });
    let shown = loaded.and_then(|loaded| cx.shown_of(&loaded.call));
    shown.is_some_and(|shown| text_of(&shown).starts_with(text))
}

/// Returns as much of a text as the model gets to see beside the footer.
fn fitting(text: &str, footer: &str, output_bytes: u64) -> String {
    let text = text.trim();
    // The note at the end needs some room.
    let room =
        usize::try_from(output_bytes).unwrap_or(usize::MAX).saturating_sub(footer.len() + 100);
    if output_bytes == 0 || text.len() <= room {
        return text.to_owned();
    }
    let shown = &text[..text.floor_char_boundary(room)];
    let left = text.len() - shown.len();
    format!("{shown}\n[{left} more bytes are left out; read SKILL.md for all of it]")
}

/// Returns the files of a folder but for the skill's own text, those of its folders last.
fn files_of(folder: &Path) -> Vec<String> {
    let walk = WalkBuilder::new(folder)
        .standard_filters(false)
        .hidden(true)
        .max_depth(Some(DEPTH))
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .build();
    let files = walk.filter_map(Result::ok).filter(|entry| {
        entry.file_type().is_some_and(|kind| kind.is_file())
            && !(entry.depth() == 1 && entry.file_name().eq_ignore_ascii_case("SKILL.md"))
    });
    let paths = files.filter_map(|entry| {
        Some(name::shown(entry.path().strip_prefix(folder).ok()?).into_owned())
    });
    paths.take(FILES + 1).collect()
}

/// Returns the way from one absolute path to another, or the other path if that is shorter.
fn relative(to: &Path, from: &Path) -> PathBuf {
    let shared = to.components().zip(from.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(shared)).collect();
    match way.as_os_str().len() <= to.as_os_str().len() {
        true if way.as_os_str().is_empty() => PathBuf::from("."),
        true => way,
        false => to.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_folder_is_the_shorter_one() {
        let relative = |to: &str, from: &str| relative(Path::new(to), Path::new(from));
        assert_eq!(relative("/repo/.agents/skills/a", "/repo"), Path::new(".agents/skills/a"));
        assert_eq!(relative("/repo/skills/a", "/repo/src/deep"), Path::new("../../skills/a"));
        assert_eq!(relative("/home/me/s", "/repo/src/deep"), Path::new("/home/me/s"));
        assert_eq!(relative("/repo", "/repo"), Path::new("."));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_letters_and_says_so() {
        assert_eq!(fitting(" short\n", "[footer]", 0), "short");
        let text = fitting(&"é".repeat(300), "[footer]", 400);
        assert!(text.len() <= 400 - "[footer]".len() - 2, "{}", text.len());
        assert!(text.contains("é\n[308 more bytes are left out"), "{text}");
    }
}
