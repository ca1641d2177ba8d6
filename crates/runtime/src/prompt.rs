//! What a model is told before the user says anything.
//!
//! The system text is made of [`sections`], which say nothing of the day, the directory or the project:
//! that goes with the first prompt, as [`context`]. `docs/prompt.md` says why.

mod dump;

use std::path::Path;

use jiff::Zoned;

pub use bowline_agent::prompt::{PromptParts, Section, join};
use bowline_agent::prompt::{SkillCard, Speech};
use bowline_tools::LoadSkill;

use crate::config::{AgentConfig, DEFAULT_AGENT, OutputMode};
use crate::reading;
use crate::skills::Skill;

pub use dump::{Dump, SectionSize, Size, ToolSize};

/// Returns the sections of an agent's system text, with the skills that it may use and what is to be
/// said of its place among others.
pub fn sections(agent: &AgentConfig, skills: &[&Skill], place: PromptParts) -> Vec<Section> {
    bowline_agent::prompt::sections(&parts(agent, skills, place))
}

fn parts(agent: &AgentConfig, skills: &[&Skill], place: PromptParts) -> PromptParts {
    // Nobody has given a name to an agent that nobody has described.
    let name = if agent.name == DEFAULT_AGENT { "bowline" } else { agent.name.as_str() };
    PromptParts {
        name: name.to_owned(),
        description: agent.description.clone(),
        speech: match agent.output {
            OutputMode::Text => Speech::Answer,
            OutputMode::MessageTool => Speech::Messages,
        },
        instructions: agent.instructions.clone(),
        behavioral_hints: agent.behavioral_hints.unwrap_or(true),
        skills: skills.iter().map(|skill| card(skill)).collect(),
        ..place
    }
}

fn card(skill: &Skill) -> SkillCard {
    let name = skill.name.clone();
    match &skill.description {
        Some(description) => SkillCard::OnDemand { name, description: description.clone() },
        None => SkillCard::Inline { name, text: skill.text.clone() },
    }
}

/// Makes the tool that loads skills, if there is one to load.
pub fn skill_tool(cwd: &Path, skills: &[&Skill]) -> Option<LoadSkill> {
    let on_demand = skills.iter().filter(|skill| skill.description.is_some());
    let loadable: Vec<_> = on_demand
        .map(|skill| bowline_tools::Skill {
            name: skill.name.clone(),
            folder: skill.folder.clone(),
            text: skill.text.clone(),
        })
        .collect();
    (!loadable.is_empty()).then(|| LoadSkill::new(cwd.to_owned(), loadable))
}

/// Returns the facts that change from session to session: they go before the first prompt, never
/// into the system text.
pub fn context(cwd: &Path, now: &Zoned, instructions: &str) -> String {
    let mut text = format!(
        "<environment>\ndirectory: {}\ndate: {}\nsystem: {}{}\n</environment>\n",
        cwd.display(),
        now.strftime("%Y-%m-%d (%A)"),
        std::env::consts::OS,
        match git_branch(cwd) {
            Some(branch) => format!("\ngit branch: {branch}"),
            None => String::new(),
        },
    );
    text.push_str(instructions);
    text
}

/// Reads the branch from git's own files: no process is worth this.
fn git_branch(cwd: &Path) -> Option<String> {
    let git = cwd.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let git = if git.is_dir() {
        git
    } else {
        // A worktree's `.git` is a file that names the folder.
        let text = reading::text_of(&git).ok()?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    };
    let head = reading::text_of(&git.join("HEAD")).ok()?;
    branch_of(head.trim_end())
}

/// Returns what the file `HEAD` says, if it says what git would write there: it may be a link to anything,
/// and what is in it is told to models.
fn branch_of(head: &str) -> Option<String> {
    let is_name = |name: &str| {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\<>".contains(c);
        !name.is_empty() && name.len() <= LONGEST_BRANCH && !name.contains(is_odd)
    };
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => is_name(branch).then(|| branch.to_owned()),
        None => {
            let is_commit =
                matches!(head.len(), 40 | 64) && head.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_commit.then(|| format!("detached at {}", &head[..12]))
        }
    }
}

/// The longest name of a branch, in bytes: that of a file.
const LONGEST_BRANCH: usize = 255;
