//! The system text of an agent: a pure function of plain facts.
//!
//! It is made of [sections](Section), each in a tag of its own, what changes least first. None of
//! them says anything volatile, and an agent is called by the name of its configuration: so all agents
//! made from one configuration have the same text, and providers find it in their cache.

use std::fmt::Write as _;

/// What a system text is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptParts {
    /// The name of the configuration, never that of one agent made from it.
    pub name: String,
    /// What the agent is for; empty for nothing.
    pub description: String,
    /// How many agents are above it; 0 for the one that takes the prompt.
    pub depth: u32,
    /// At this depth there is no further delegation; 0 for none at all.
    pub max_depth: u32,
    /// How it speaks to the user, if it is the one that does.
    pub speech: Speech,
    /// Whether it may hand its task to another agent.
    pub can_hand_off: bool,
    /// Whether it may ask the agent above it.
    pub can_ask: bool,
    /// Whether those to whom it delegates may ask it.
    pub interactive: bool,
    /// Whether it has the tools for shared notes.
    pub notes: bool,
    /// Its own instructions, told word for word; empty for none.
    pub instructions: String,
    /// Whether it is told how to work.
    pub behavioral_hints: bool,
    /// What it should know of the project; empty for nothing.
    pub project_context: String,
    /// The skills it may use, in the order in which they are told.
    pub skills: Vec<SkillCard>,
    /// The agents there are; it is not told of itself.
    pub agents: Vec<AgentCard>,
}

impl Default for PromptParts {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            depth: 0,
            max_depth: 0,
            speech: Speech::Answer,
            can_hand_off: false,
            can_ask: false,
            interactive: false,
            notes: false,
            instructions: String::new(),
            behavioral_hints: true,
            project_context: String::new(),
            skills: Vec::new(),
            agents: Vec::new(),
        }
    }
}

/// How an agent speaks to the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Speech {
    /// With the text of its last reply.
    #[default]
    Answer,
    /// With the tool `message` alone.
    Messages,
}

/// What an agent is told of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillCard {
    /// All of it.
    Inline {
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
    /// When to load it.
    OnDemand {
        /// Its name.
        name: String,
        /// What it does, and when it is of use.
        description: String,
    },
}

/// What an agent is told of another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentCard {
    /// The name of its configuration.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it is good at.
    pub skills: Vec<String>,
    /// What it costs, such as `cheap`; empty if nobody says.
    pub cost: String,
}

/// A part of a system text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its tag.
    pub tag: &'static str,
    /// What stands in it, neither empty nor with an end of line at its end.
    pub text: String,
}

impl Section {
    /// Returns it as it stands in the system text.
    pub fn tagged(&self) -> String {
        let Self { tag, text } = self;
        format!("<{tag}>\n{text}\n</{tag}>")
    }
}

/// Returns the system text that sections make.
pub fn join(sections: &[Section]) -> String {
    sections.iter().map(Section::tagged).collect::<Vec<_>>().join("\n")
}

const COMPLETION: &str = "\
You work for another agent. It sees what you report, not what you write on the way nor the output of \
your tools. When the task is done, or you find that you cannot do it, call task_complete once: status, \
summary, and where there are any files_modified, tests_run and caveats. If you are running out of steps, \
do not go on to the last one: report failed, with what is left to do in caveats, and note what the next \
one needs to know if you can write notes.";

const HANDOFF: &str = "\
If another agent is clearly better suited for the whole task, call handoff with the reason and all it \
needs to know: it goes on in your place. Do not hand off what you can do yourself, nor back to the one \
it came from.";

const INTERACTION: &str = "\
If you would have to guess something that decides what is right, ask the agent you work for with \
request_input: one question that can be answered by itself. Do not ask what you can find out, nor for \
permission to go on.";

const INTERACTIVE_DELEGATION: &str = "\
Delegate with mode interactive where a sub-agent may need to ask you, with mode blocking where it has \
all it needs. If delegate returns pending questions, answer all of them in one call of \
answer_delegation_questions, from what you know or can find out; their agents wait until you do.";

const NOTES: &str = "\
The agents of this project share notes that outlast a session. Where you would expect that something was \
found out or decided before, look with list_notes and read what fits. When you have learned something \
that others will need, write it down.";

const HOW_TO_WORK: &str = "\
- Look before you act: read the files that matter, search instead of guessing. Plan work of several steps \
first.
- Do what was asked, completely, and nothing else. Keep to the style of what is there.
- Make the smallest change that does the job. Read a file before you change it.
- Use the tool that fits best. Calls that do not depend on each other belong into one reply.
- When something fails, read the error, find its cause and try another way; do not repeat the same \
call. If a file is not where you thought, look where it is. If a call was interrupted, check what it did \
before you repeat it.
- If five calls have brought you no further, stop and think again. Near a limit do what matters most.
- Check your work by what can show it: run the tests, the program, the command that failed before.
- Never invent results. If you could not do or check something, say so.";

const PROJECT: &str = "\
This is known of the project. Use it as your own knowledge, and do not speak of where it comes from.";

const LOADING: &str = "\
Each of these skills is a procedure for one kind of task. Before you begin a task that one fits, load it \
with load_skill, and follow it.";

/// Makes the sections of a system text, in order; only those that say something.
pub fn sections(parts: &PromptParts) -> Vec<Section> {
    let is_below = parts.depth > 0;
    let can_delegate = parts.depth < parts.max_depth;
    let is_asked = can_delegate && parts.interactive;
    let (instructions, project) = (parts.instructions.clone(), parts.project_context.clone());
    let all = [
        ("identity", true, identity(parts)),
        ("completion_protocol", is_below, COMPLETION.to_owned()),
        ("handoff_protocol", is_below && parts.can_hand_off, HANDOFF.to_owned()),
        ("interaction_protocol", is_below && parts.can_ask, INTERACTION.to_owned()),
        ("interactive_delegation_protocol", is_asked, INTERACTIVE_DELEGATION.to_owned()),
        ("notes_protocol", parts.notes, NOTES.to_owned()),
        ("instructions", true, instructions),
        ("behavioral_constraints", parts.behavioral_hints, HOW_TO_WORK.to_owned()),
        ("project_context", true, below(PROJECT, project)),
        ("skills", true, inline(&parts.skills)),
        ("available_skills", true, below(LOADING, on_demand(&parts.skills))),
        ("available_agents", can_delegate, directory(parts)),
    ];
    let told = all.into_iter().filter(|(_, is_told, _)| *is_told);
    let sections = told.map(|(tag, _, text)| Section { tag, text: text.trim().to_owned() });
    sections.filter(|section| !section.text.is_empty()).collect()
}

fn identity(parts: &PromptParts) -> String {
    let PromptParts { name, description, .. } = parts;
    let mut text = format!(
        "You are {name}, an agent that works in a user's directory with the tools you are given, until \
         the task is done."
    );
    let description = description.trim();
    if !description.is_empty() {
        let _ = write!(text, " {description}");
    }
    // Who works for another agent does not speak to the user.
    if parts.depth == 0 {
        text.push_str(match parts.speech {
            Speech::Answer => {
                " The user sees your answer, not the output of your tools. When the task is done, answer \
                 with what you did and what you found, in as few words as it takes."
            }
            Speech::Messages => {
                " Speak to the user only with the tool `message`: nothing else that you write reaches \
                 them, and no output of your tools. Do not write text outside of it. When the task is \
                 done, send what you did and what you found, in as few words as it takes; then end \
                 without text."
            }
        });
    }
    text
}

/// Puts a text below what introduces it, if there is one.
fn below(introduction: &str, text: String) -> String {
    if text.trim().is_empty() { text } else { format!("{introduction}\n\n{text}") }
}

fn inline(skills: &[SkillCard]) -> String {
    let texts = skills.iter().filter_map(|skill| match skill {
        SkillCard::Inline { name, text } => Some(format!("### {name}\n\n{}", text.trim())),
        SkillCard::OnDemand { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn on_demand(skills: &[SkillCard]) -> String {
    let lines = skills.iter().filter_map(|skill| match skill {
        SkillCard::OnDemand { name, description } => Some(item(name, description)),
        SkillCard::Inline { .. } => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn directory(parts: &PromptParts) -> String {
    let others = parts.agents.iter().filter(|agent| !agent.name.eq_ignore_ascii_case(&parts.name));
    let lines = others.map(|agent| {
        let mut line = item(&agent.name, &agent.description);
        if !agent.skills.is_empty() {
            let _ = write!(line, " [skills: {}]", agent.skills.join(", "));
        }
        if !agent.cost.is_empty() {
            let _ = write!(line, " [cost: {}]", agent.cost);
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Writes a line of a list. A description is one line of text and cannot end its section.
fn item(name: &str, description: &str) -> String {
    let words: Vec<&str> = description.split_whitespace().collect();
    let description = words.join(" ").replace('<', "&lt;").replace('>', "&gt;");
    match description.is_empty() {
        true => format!("- **{name}**"),
        false => format!("- **{name}**: {description}"),
    }
}

#[cfg(test)]
mod tests;
