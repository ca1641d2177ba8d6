//! What a model is told before the user says anything.

use std::path::Path;

use jiff::Zoned;

use crate::config::{AgentConfig, OutputMode};

/// What both system texts begin with.
macro_rules! how_to_work {
    () => {
        "\
You are bowline, an agent that works in a user's directory with the tools you are given, until the \
task is done.

How to work:
- Look before you act: read the files that matter, search instead of guessing.
- Do what was asked, completely, and nothing else. Keep to the style of what is there.
- Make the smallest change that does the job. Read a file before you change it.
- Calls that do not depend on each other belong into one reply.
- When something fails, read the error, find its cause and try another way; do not repeat the same \
call. If a call was interrupted, check what it did before you repeat it.
- Check your work by what can show it: run the tests, the program, the command that failed before.
- Never invent results. If you could not do or check something, say so.

"
    };
}

/// The system text: the same for everybody, so that providers find it in their cache.
pub const SYSTEM: &str = concat!(
    how_to_work!(),
    "\
When the task is done, answer with what you did and what you found, in as few words as it takes. \
The user sees your answer, not the output of your tools."
);

/// The system text of an agent that speaks with the tool `message`.
pub const SYSTEM_WITH_MESSAGES: &str = concat!(
    how_to_work!(),
    "\
Speak to the user only with the tool `message`: nothing else that you write reaches them, and no \
output of your tools. Do not write text outside of it. When the task is done, send what you did \
and what you found, in as few words as it takes; then end without text."
);

/// Returns the system text of an agent: the user's own instructions, or else ours.
pub fn system(agent: &AgentConfig) -> &str {
    if !agent.instructions.trim().is_empty() {
        return &agent.instructions;
    }
    match agent.output {
        OutputMode::Text => SYSTEM,
        OutputMode::MessageTool => SYSTEM_WITH_MESSAGES,
    }
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
        let text = std::fs::read_to_string(&git).ok()?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    };
    let head = std::fs::read_to_string(git.join("HEAD")).ok()?;
    let head = head.trim();
    Some(match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => branch.to_owned(),
        None => format!("detached at {}", head.get(..12).unwrap_or(head)),
    })
}
