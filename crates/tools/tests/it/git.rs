//! Git, in repositories of the test.

use std::process::Command;

use bowline_agent::tool::{DynTool, ToolError};
use bowline_tools::{GitCommit, GitDiff, GitLog, GitStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::desk::{Desk, failure};

struct Repository(Desk);

impl Repository {
    /// Makes a repository with one commit.
    fn new() -> Self {
        let mut desk = Desk::new();
        let home = desk.root.path().join("home");
        std::fs::create_dir(&home).unwrap();
        desk.workspace.environment.set("HOME", home.to_str().unwrap());
        let repository = Self(desk);
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.git(&["config", "user.name", "Ann"]);
        repository.git(&["config", "user.email", "ann@example.com"]);
        repository.0.put("a.txt", "one\n");
        repository.git(&["add", "a.txt"]);
        repository.git(&["commit", "--quiet", "--message=first"]);
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.0.workspace.cwd).env_clear();
        command.envs(self.0.workspace.environment.variables().iter().cloned());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a program that tells whether it was run.
    fn trap(&self) -> (String, impl Fn() -> bool + use<>) {
        let (script, mark) = (self.0.root.path().join("trap"), self.0.root.path().join("sprung"));
        let text = format!("#!/bin/sh\ntouch {}\ncat\n", mark.display());
        std::fs::write(&script, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        (script.to_str().unwrap().to_owned(), move || mark.exists())
    }

    async fn call(&self, tool: impl DynTool, arguments: Value) -> Result<String, ToolError> {
        self.0.call(tool, arguments).await
    }

    async fn commit(&self, arguments: Value) -> Result<String, ToolError> {
        self.call(GitCommit(self.0.workspace.clone()), arguments).await
    }

    async fn diff(&self, arguments: Value) -> Result<String, ToolError> {
        self.call(GitDiff(self.0.workspace.clone()), arguments).await
    }

    async fn log(&self, arguments: Value) -> Result<String, ToolError> {
        self.call(GitLog(self.0.workspace.clone()), arguments).await
    }
}

#[tokio::test]
async fn what_has_changed_is_shown() {
    let repository = Repository::new();
    let desk = &repository.0;
    desk.put("a.txt", "two\n");
    desk.put("b.txt", "new\n");
    let status = GitStatus(desk.workspace.clone());
    let short = repository.call(status.clone(), json!({ "short": true })).await.unwrap();
    assert_eq!(short, "## main\n M a.txt\n?? b.txt\n");
    let long = repository.call(status, json!({})).await.unwrap();
    assert!(long.contains("On branch main") && long.contains("modified:   a.txt"), "{long}");
    let diff = repository.diff(json!({})).await.unwrap();
    assert!(diff.ends_with("-one\n+two\n"), "{diff}");
    assert_eq!(repository.diff(json!({ "staged": true })).await.unwrap(), "(no output)");
    assert_eq!(repository.diff(json!({ "path": "b.txt" })).await.unwrap(), "(no output)");
    repository.git(&["add", "b.txt"]);
    let staged = repository.diff(json!({ "staged": true, "path": "b.txt" })).await.unwrap();
    assert!(staged.ends_with("+new\n"), "{staged}");
}

#[tokio::test]
async fn files_are_committed_or_all_that_git_knows() {
    let repository = Repository::new();
    let desk = &repository.0;
    desk.put("a.txt", "two\n");
    desk.put("b.txt", "new\n");
    desk.put("*.txt", "a name\n");
    repository.commit(json!({ "message": "second", "files": ["b.txt"] })).await.unwrap();
    assert_eq!(repository.git(&["show", "--name-only", "--format=%s"]), "second\n\nb.txt\n");
    // By its letters, it is one file.
    repository.commit(json!({ "message": "third", "files": ["*.txt"] })).await.unwrap();
    assert_eq!(repository.git(&["show", "--name-only", "--format=%s"]), "third\n\n*.txt\n");
    repository.commit(json!({ "message": "fourth\n\nwith a body", "all": true })).await.unwrap();
    assert_eq!(repository.git(&["show", "--name-only", "--format=%b"]), "with a body\n\n\na.txt\n");
    let nothing = failure(repository.commit(json!({ "message": "fifth" })).await);
    assert!(nothing.contains("nothing") && nothing.contains("[exit code 1]"), "{nothing}");
    let log = repository.log(json!({ "count": 2 })).await.unwrap();
    let subjects: Vec<_> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(subjects, ["fourth", "third"]);
    let medium = repository.log(json!({ "count": 1, "format": "medium" })).await.unwrap();
    assert!(medium.contains("Author: Ann <ann@example.com>"), "{medium}");
}

#[tokio::test]
async fn what_is_no_commit_or_leads_elsewhere_is_refused() {
    let repository = Repository::new();
    for message in ["", " \n", "-m x", " --amend"] {
        let why = failure(repository.commit(json!({ "message": message })).await);
        assert!(why.contains("needs a message"), "{message:?}: {why}");
    }
    let both = json!({ "message": "x", "files": ["a.txt"], "all": true });
    assert_eq!(failure(repository.commit(both).await), "give files or all, not both");
    for path in ["/etc/passwd", "../x", "a/../../x", "", "./.."] {
        let why = failure(repository.diff(json!({ "path": path })).await);
        assert!(why.contains("is no path below"), "{path:?}: {why}");
        let files = json!({ "message": "x", "files": ["a.txt", path] });
        assert!(failure(repository.commit(files).await).contains("is no path below"), "{path:?}");
    }
    for format in ["%H", "format:%s", "--exec"] {
        let why = failure(repository.log(json!({ "format": format })).await);
        assert!(why.contains("unknown variant"), "{format}: {why}");
    }
    let nowhere = Desk::new();
    let why = failure(nowhere.call(GitLog(nowhere.workspace.clone()), json!({})).await);
    assert!(why.contains("not a git repository"), "{why}");
    assert_eq!(repository.git(&["rev-list", "--count", "HEAD"]), "1\n");
}

#[tokio::test]
async fn nothing_that_a_repository_names_is_run_by_looking() {
    let mut repository = Repository::new();
    let (trap, sprung) = repository.trap();
    for key in [
        "core.pager",
        "core.fsmonitor",
        "core.editor",
        "diff.external",
        "diff.trap.textconv",
        "diff.trap.command",
        "pager.log",
        "pager.diff",
        "gpg.program",
        "interactive.diffFilter",
    ] {
        repository.git(&["config", key, &trap]);
    }
    repository.git(&["config", "log.showSignature", "true"]);
    repository.0.put(".gitattributes", "*.txt diff=trap\n");
    repository.0.put("a.txt", "two\n");
    // What points git elsewhere, or has it run something, does not come from the environment either.
    for (name, value) in [
        ("GIT_EXTERNAL_DIFF", trap.as_str()),
        ("GIT_PAGER", &trap),
        ("GIT_DIR", "/nowhere"),
        ("GIT_CONFIG_COUNT", "x"),
    ] {
        repository.0.workspace.environment.set(name, value);
    }
    let status = GitStatus(repository.0.workspace.clone());
    repository.call(status, json!({})).await.unwrap();
    assert!(repository.diff(json!({})).await.unwrap().ends_with("-one\n+two\n"));
    assert!(repository.log(json!({ "format": "full" })).await.unwrap().contains("first"));
    assert!(!sprung());
}

#[tokio::test]
async fn a_commit_runs_its_hooks_and_asks_for_no_editor() {
    let repository = Repository::new();
    let (trap, sprung) = repository.trap();
    repository.git(&["config", "core.editor", &trap]);
    repository.0.put("a.txt", "two\n");
    repository.commit(json!({ "message": "second", "all": true })).await.unwrap();
    assert!(!sprung());
    let hook = repository.0.path(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho not today\nexit 1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).unwrap();
    repository.0.put("a.txt", "three\n");
    let why = failure(repository.commit(json!({ "message": "third", "all": true })).await);
    assert_eq!(why, "not today\n[exit code 1]");
    // So it is decided about as a command.
    let tool = std::sync::Arc::new(GitCommit(repository.0.workspace.clone()));
    let prepared = tool.prepare(r#"{"message":"x","files":["a.txt"]}"#).unwrap();
    assert_eq!(prepared.access.execute.as_deref(), Some("git commit -m \"x\" a.txt"));
}

#[tokio::test]
async fn filters_that_only_the_repository_names_are_not_run() {
    let repository = Repository::new();
    let (trap, sprung) = repository.trap();
    // A name may hold anything but an end of a line.
    for name in ["trap", "a=b.c d", "Ünder"] {
        for kind in ["clean", "smudge", "process"] {
            repository.git(&["config", &format!("filter.{name}.{kind}"), &trap]);
        }
        repository.git(&["config", &format!("filter.{name}.required"), "true"]);
    }
    let more = repository.0.root.path().join("more");
    std::fs::write(&more, format!("[filter \"included\"]\nprocess = {trap}\n")).unwrap();
    repository.git(&["config", "include.path", more.to_str().unwrap()]);
    repository.git(&["config", "extensions.worktreeConfig", "true"]);
    repository.git(&["config", "--worktree", "filter.worktree.process", &trap]);
    for filter in ["trap", "included", "worktree"] {
        repository.0.put(".gitattributes", format!("*.txt filter={filter}\n"));
        repository.0.put("a.txt", format!("{filter}\n"));
        let status = GitStatus(repository.0.workspace.clone());
        assert!(repository.call(status, json!({})).await.unwrap().contains("a.txt"));
        assert!(repository.diff(json!({})).await.unwrap().contains("-one\n+"), "{filter}");
        assert!(!sprung(), "{filter}");
    }
    // What the user has configured for all repositories is the user's.
    repository.git(&["config", "--global", "filter.mine.clean", &trap]);
    repository.0.put(".gitattributes", "*.txt filter=mine\n");
    repository.diff(json!({})).await.unwrap();
    assert!(sprung());
}

#[tokio::test]
async fn nothing_of_a_submodule_is_run() {
    let repository = Repository::new();
    let (trap, sprung) = repository.trap();
    let inner = Repository::new();
    let origin = inner.0.workspace.cwd.to_str().unwrap();
    repository.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        origin,
        "sub",
    ]);
    repository.git(&["commit", "--quiet", "--message=sub"]);
    for key in ["filter.trap.process", "filter.trap.clean", "core.fsmonitor", "diff.external"] {
        repository.git(&["-C", "sub", "config", key, &trap]);
    }
    repository.0.put("sub/.gitattributes", "* filter=trap\n");
    repository.0.put("sub/a.txt", "two\n");
    let status = GitStatus(repository.0.workspace.clone());
    repository.call(status, json!({})).await.unwrap();
    repository.diff(json!({})).await.unwrap();
    assert!(!sprung());
}
