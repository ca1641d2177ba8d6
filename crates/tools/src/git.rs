//! Git, as far as agents need it: what has changed, what was done, and keeping it.
//!
//! `git` is run without a shell, in the working directory. What only looks runs nothing that a
//! repository could name: no pager, no external diff, no text conversion, no file system monitor, no
//! check of signatures, no fetching of what is missing, no filters of its own, and nothing of its
//! submodules. Filters that the user has configured for all repositories, such as those of git-lfs, are
//! run: without them every file would seem changed. A commit runs the hooks, as it would for a person,
//! and is therefore decided about as a command.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{
    Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput, Toolbox, ToolboxError,
};
use bowline_agent::visible::name;

use crate::run::{Program, run};
use crate::workspace::Workspace;

/// The most commits that are listed.
const MOST: u32 = 1000;

/// Makes the tools for git.
///
/// # Errors
/// None in practice: the names differ.
pub(crate) fn toolbox(workspace: &Workspace) -> Result<Toolbox, ToolboxError> {
    Toolbox::default()
        .with(GitStatus(workspace.clone()))?
        .with(GitDiff(workspace.clone()))?
        .with(GitLog(workspace.clone()))?
        .with(GitCommit(workspace.clone()))
}

/// The tool `git_status`.
#[derive(Debug, Clone)]
pub struct GitStatus(pub Workspace);

/// Shows what has changed in the git working tree.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct GitStatusInput {
    short: Option<bool>,
}

/// The tool `git_diff`.
#[derive(Debug, Clone)]
pub struct GitDiff(pub Workspace);

/// Shows changes that are not committed, line by line.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct GitDiffInput {
    /// What the next commit would have.
    staged: Option<bool>,
    /// Only this file or folder.
    path: Option<String>,
}

/// The tool `git_log`.
#[derive(Debug, Clone)]
pub struct GitLog(pub Workspace);

/// Shows the latest commits.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct GitLogInput {
    /// How many; 10 by default.
    count: Option<u32>,
    format: Option<Format>,
}

// How commits are shown; a doc comment would only repeat to the model what it sees. No other formats
// than those that git names itself.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Oneline,
    Short,
    Medium,
    Full,
    Fuller,
    Reference,
    Email,
    Raw,
}

impl Format {
    fn as_str(self) -> &'static str {
        match self {
            Self::Oneline => "oneline",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Full => "full",
            Self::Fuller => "fuller",
            Self::Reference => "reference",
            Self::Email => "email",
            Self::Raw => "raw",
        }
    }
}

/// The tool `git_commit`.
#[derive(Debug, Clone)]
pub struct GitCommit(pub Workspace);

/// Commits what is staged, the given files, or all changes of known files.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct GitCommitInput {
    message: String,
    files: Option<Vec<String>>,
    all: Option<bool>,
}

/// Returns a path as git may get it; one that git has shown in quotes is what it stands for.
fn plain(path: &str) -> Result<Cow<'_, str>, ToolError> {
    let read = name::read(path).and_then(|path| path.into_os_string().into_string().ok());
    let path = read.map_or(Cow::Borrowed(path), Cow::Owned);
    let is_inside =
        |component: Component<'_>| matches!(component, Component::Normal(_) | Component::CurDir);
    let is_plain = !path.trim().is_empty()
        && !path.contains('\0')
        && Path::new(&*path).components().all(is_inside);
    match is_plain {
        true => Ok(path),
        false => Err(ToolError::Failed(format!(
            "{path:?} is no path below the working directory: it must be relative, without .."
        ))),
    }
}

/// Runs git to look, without the filters that the repository itself names.
async fn look(
    workspace: &Workspace,
    arguments: &[&str],
    cx: &ToolContext,
) -> Result<String, ToolError> {
    let mut whole = cx.clone();
    whole.output_bytes = 0;
    let list = ["config", "--list", "--name-only", "--show-scope", "--includes"];
    let settings = git(workspace, &list, &[], &whole).await?;
    let mut none: Vec<(String, &str)> = Vec::new();
    for filter in filters_of_repository(&settings) {
        let set = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
        none.extend(set.map(|(name, value)| (format!("filter.{filter}.{name}"), value)));
    }
    // Not to hold up who works in the same tree.
    let arguments = [&["--no-optional-locks"], arguments].concat();
    git(workspace, &arguments, &none, cx).await
}

/// Finds the filters that a repository names, among all settings with where they come from.
fn filters_of_repository(settings: &str) -> BTreeSet<&str> {
    let of_repository = |line: &str| matches!(line, "local" | "worktree");
    let lines = settings.lines().filter_map(|line| line.split_once('\t'));
    let own = lines.filter(|(scope, _)| of_repository(scope));
    own.filter_map(|(_, name)| Some(name.strip_prefix("filter.")?.rsplit_once('.')?.0)).collect()
}

/// Runs git, with more settings. What is given as paths is taken by its letters.
async fn git(
    workspace: &Workspace,
    arguments: &[&str],
    settings: &[(String, &str)],
    cx: &ToolContext,
) -> Result<String, ToolError> {
    let fixed = [
        "--no-pager",
        "--literal-pathspecs",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.pager=cat",
        // A repository could have names shown as they are, and what they do to a line.
        "-c",
        "core.quotePath=true",
        "-c",
        "color.ui=false",
        "-c",
        "log.showSignature=false",
        "-c",
        "safe.bareRepository=explicit",
    ];
    let Some(path) = workspace.environment.program("git") else {
        return Err(ToolError::failed("git is not installed"));
    };
    // Whatever would point git elsewhere, or have it run something, comes from nobody else.
    let variables = workspace.environment.variables().iter();
    let mut environment: Vec<_> =
        variables.filter(|(name, _)| !name.starts_with("GIT_")).cloned().collect();
    let own = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_EDITOR", ":"),
        ("GIT_PAGER", "cat"),
        ("GIT_NO_LAZY_FETCH", "1"),
    ];
    environment.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // As variables, since a name may hold a `=`.
    environment.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()));
    for (index, (name, value)) in settings.iter().enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{index}"), name.clone()));
        environment.push((format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned()));
    }
    let program = Program {
        path,
        arguments: fixed.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect(),
        environment,
        cwd: workspace.cwd.clone(),
        time: None,
    };
    run(workspace, program, cx).await
}

/// Says of a tool that it only looks.
macro_rules! looks {
    ($input:ident) => {
        type Input = $input;

        fn access(&self, _: &$input) -> Access {
            Access::read(self.0.cwd.clone())
        }

        fn recovery(&self, _: &$input) -> Recovery {
            Recovery::Rerun
        }

        fn deadline(&self) -> Deadline {
            Deadline::Own
        }
    };
}

impl Tool for GitStatus {
    const NAME: &'static str = "git_status";
    looks!(GitStatusInput);

    async fn run(&self, input: GitStatusInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let mut arguments = vec!["status", "--ignore-submodules=dirty"];
        if input.short.unwrap_or(false) {
            arguments.extend(["--short", "--branch"]);
        }
        Ok(look(&self.0, &arguments, cx).await?.into())
    }
}

impl Tool for GitDiff {
    const NAME: &'static str = "git_diff";
    looks!(GitDiffInput);

    async fn run(&self, input: GitDiffInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = input.path.as_deref().map(plain).transpose()?;
        let mut arguments = vec!["diff", "--no-ext-diff", "--no-textconv"];
        arguments.push("--ignore-submodules=dirty");
        if input.staged.unwrap_or(false) {
            arguments.push("--staged");
        }
        arguments.push("--");
        arguments.extend(path.as_deref());
        Ok(look(&self.0, &arguments, cx).await?.into())
    }
}

impl Tool for GitLog {
    const NAME: &'static str = "git_log";
    looks!(GitLogInput);

    async fn run(&self, input: GitLogInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let count = format!("--max-count={}", input.count.unwrap_or(10).clamp(1, MOST));
        let format = format!("--pretty={}", input.format.unwrap_or_default().as_str());
        let mut arguments = vec!["log", &count, &format, "--no-show-signature", "--no-ext-diff"];
        arguments.extend(["--no-textconv", "--abbrev-commit", "--"]);
        Ok(look(&self.0, &arguments, cx).await?.into())
    }
}

impl GitCommitInput {
    /// Checks what is asked for, and says which files are meant.
    fn checked(&self) -> Result<Vec<Cow<'_, str>>, ToolError> {
        let message = self.message.trim();
        if message.is_empty() || message.starts_with('-') || message.contains('\0') {
            return Err(ToolError::failed(
                "a commit needs a message, and one that does not begin with -",
            ));
        }
        let files = self.files.as_deref().unwrap_or_default();
        if !files.is_empty() && self.all.unwrap_or(false) {
            return Err(ToolError::failed("give files or all, not both"));
        }
        files.iter().map(|file| plain(file)).collect()
    }
}

impl Tool for GitCommit {
    const NAME: &'static str = "git_commit";
    type Input = GitCommitInput;

    fn access(&self, input: &GitCommitInput) -> Access {
        let files = input.files.iter().flatten();
        let files = files.fold(String::new(), |all, file| format!("{all} {file}"));
        let all = if input.all.unwrap_or(false) { " --all" } else { "" };
        Access::execute(format!("git commit{all} -m {:?}{files}", input.message))
    }

    fn recovery(&self, _: &GitCommitInput) -> Recovery {
        Recovery::Unknown
    }

    fn deadline(&self) -> Deadline {
        Deadline::Own
    }

    async fn run(&self, input: GitCommitInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let files = input.checked()?;
        let files: Vec<&str> = files.iter().map(|file| &**file).collect();
        if !files.is_empty() {
            // Git commits a file by its name only if it knows it.
            git(&self.0, &[&["add", "--"], &*files].concat(), &[], cx).await?;
        }
        let message = format!("--message={}", input.message);
        let mut arguments = vec!["commit", &message];
        if input.all.unwrap_or(false) {
            arguments.push("--all");
        }
        if !files.is_empty() {
            arguments.push("--");
            arguments.extend(files);
        }
        Ok(git(&self.0, &arguments, &[], cx).await?.into())
    }
}
