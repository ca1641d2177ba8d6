//! Commands that go on after the call that started them.

use std::sync::Arc;
use std::time::Duration;

use bowline_agent::tool::{DynTool, Recovery, ToolError};
use bowline_tools::process::Processes;
use bowline_tools::{Bash, Job, Jobs};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::desk::{Desk, failure, is_alive, pids, until, with_time_held};

struct JobDesk {
    desk: Desk,
    bash: Arc<Bash>,
    job: Arc<Job>,
}

impl JobDesk {
    fn new() -> Self {
        Self::of(Desk::new())
    }

    fn of(desk: Desk) -> Self {
        let jobs = Arc::new(Jobs::default());
        let bash = Arc::new(Bash::new(desk.workspace.clone(), Arc::clone(&jobs)));
        Self { desk, bash, job: Arc::new(Job::new(jobs)) }
    }

    async fn bash(&self, arguments: Value) -> Result<String, ToolError> {
        self.desk.call_again(&self.bash, arguments).await
    }

    async fn job(&self, arguments: Value) -> Result<String, ToolError> {
        self.desk.call_again(&self.job, arguments).await
    }

    /// Tells whether the first command has written this so far.
    fn has_written(&self, text: &str) -> bool {
        let output = self.desk.root.path().join("session/call.out");
        std::fs::read(output).is_ok_and(|written| written == text.as_bytes())
    }
}

/// Replaces what depends on time.
fn timeless(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.parse::<u32>().is_ok() { "N" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_command_that_takes_too_long_goes_on_as_a_job() {
    let mut desk = JobDesk::new();
    let time = Duration::from_millis(300);
    desk.desk.cx.tool_time = Some(time);
    let command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3";
    let call = desk.bash(json!({ "command": command }));
    let text = with_time_held(call, "it writes", || desk.has_written("one\n"), time).await.unwrap();
    let running = "one\n[running for N s as job j1; see how it goes on with job]";
    assert_eq!(timeless(&text), running);
    let text = desk.job(json!({ "action": "output", "id": "j1" })).await.unwrap();
    assert_eq!(timeless(&text), "(no new output)\n[j1: running for N s]");
    desk.desk.put("go", "");
    desk.desk.cx.tool_time = None;
    let text = desk.job(json!({ "action": "output", "wait": 20 })).await.unwrap();
    assert_eq!(text, "two\n[j1: exit code 3]");
    let text = desk.job(json!({ "action": "list" })).await.unwrap();
    assert_eq!(text, format!("j1: exit code 3: {command}\n"));
}

#[tokio::test]
async fn a_background_command_can_be_written_to_and_killed() {
    let desk = JobDesk::new();
    let command = "echo $$ > pid; sleep 1000 & echo $! > child; while read x; do echo got $x; done";
    let text = desk.bash(json!({ "command": command, "background": true })).await.unwrap();
    assert_eq!(timeless(&text), "[running for N s as job j1; see how it goes on with job]");
    let text = desk.job(json!({ "action": "write", "id": "j1", "text": "a\n" })).await.unwrap();
    assert_eq!(text, "wrote 2 bytes to j1");
    until("it answers", || desk.has_written("got a\n")).await;
    let members = pids(&desk.desk.workspace.cwd, ["pid", "child"]).await;
    let text = desk.job(json!({ "action": "kill", "id": "j1" })).await.unwrap();
    assert_eq!(text, "got a\n[j1: killed by signal 15]");
    assert!(members.into_iter().all(|pid| !is_alive(pid)));
    let over = desk.job(json!({ "action": "write", "id": "j1", "text": "a\n" })).await;
    assert_eq!(failure(over), "j1 is over");
}

#[tokio::test]
async fn closing_the_input_ends_what_reads_it() {
    let desk = JobDesk::new();
    desk.bash(json!({ "command": "cat; echo end", "background": true })).await.unwrap();
    let write = json!({ "action": "write", "text": "last", "close": true });
    desk.job(write).await.unwrap();
    let text = desk.job(json!({ "action": "output", "wait": 20 })).await.unwrap();
    assert_eq!(text, "lastend\n[j1: exit code 0]");
}

#[tokio::test]
async fn a_background_command_that_fails_at_once_is_no_job() {
    let desk = JobDesk::new();
    let call = desk.bash(json!({ "command": "exit 7", "background": true }));
    let text = with_time_held(call, "it ends first", || false, Duration::ZERO).await.unwrap();
    assert_eq!(text, "[exit code 7]");
    assert_eq!(desk.job(json!({ "action": "list" })).await.unwrap(), "no jobs");
    let missing = failure(desk.job(json!({ "action": "kill", "id": "j4" })).await);
    assert_eq!(missing, "there is no job \"j4\"; there are: no jobs");
}

#[tokio::test]
async fn a_timeout_ends_a_job_too() {
    let mut desk = JobDesk::new();
    desk.desk.cx.tool_time = Some(Duration::from_millis(100));
    let text = desk.bash(json!({ "command": "sleep 1000", "timeout": 1 })).await.unwrap();
    assert!(text.contains("as job j1"), "{text}");
    desk.desk.cx.tool_time = None;
    let text = desk.job(json!({ "action": "output", "wait": 20 })).await.unwrap();
    assert_eq!(text, "(no new output)\n[j1: killed by signal 15]");
}

#[tokio::test]
async fn jobs_end_with_those_who_keep_them() {
    let JobDesk { desk, bash, job } = JobDesk::new();
    let arguments = json!({ "command": "echo $$ > pid; sleep 1000; true", "background": true });
    let prepared = Arc::clone(&bash).prepare(&arguments.to_string()).unwrap();
    (prepared.run)(desk.cx.clone()).await.unwrap();
    let [pid] = pids(&desk.workspace.cwd, ["pid"]).await;
    assert!(is_alive(pid));
    drop((bash, job));
    until("it is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn a_later_process_tells_what_became_of_a_job() {
    let first = JobDesk::new();
    let command = json!({ "command": "echo said; sleep 1000; true", "background": true });
    first.bash(command.clone()).await.unwrap();
    until("it is at work", || first.has_written("said\n")).await;
    first.desk.workspace.processes.close().await;
    // A new process has the log, and nothing in memory.
    let JobDesk { mut desk, .. } = first;
    desk.workspace.processes = Arc::new(Processes::default());
    let second = JobDesk::of(desk);
    let orphaned = "killed when the bowline process that had started it was gone";
    let text = second.job(json!({ "action": "output", "id": "j1" })).await.unwrap();
    assert_eq!(text, format!("said\n[j1: {orphaned}]"));
    let text = second.job(json!({ "action": "list" })).await.unwrap();
    assert_eq!(text, format!("j1: {orphaned}: echo said; sleep 1000; true\n"));
    std::fs::remove_file(second.desk.root.path().join("session/ended.jsonl")).unwrap();
    let text = second.job(json!({ "action": "output" })).await.unwrap();
    assert!(text.ends_with("nobody knows how]"), "{text}");
    let text = second.bash(command).await.unwrap();
    assert!(text.contains("as job j2"), "{text}");
}

#[test]
fn only_what_looks_at_a_job_is_done_again_after_a_crash() {
    let job = Arc::new(Job::new(Arc::default()));
    let recovery = |action: &str| {
        let arguments = json!({ "action": action, "text": "x" }).to_string();
        Arc::clone(&job).prepare(&arguments).unwrap().recovery
    };
    for action in ["list", "output"] {
        assert_eq!(recovery(action), Recovery::Rerun);
    }
    for action in ["write", "kill"] {
        assert_eq!(recovery(action), Recovery::Unknown);
    }
}
