//! Jobs that outlive the bowline that has started them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_agent::id::SystemSource;
use bowline_agent::tool::{DynTool, Recovery, ToolContext, ToolError};
use bowline_llm::CallId;
use bowline_tools::guard::{Confinement, Guard, Network, Reach, Want};
use bowline_tools::process::{Fate, Helper, Processes, Survivor};
use bowline_tools::{Bash, Job, Jobs};
use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::desk::{Desk, failure, helper, is_alive, pids, until, with_time_held};

/// How long a job that survives is watched before its call returns.
const START: Duration = Duration::from_millis(500);

/// A session, which outlives those who work on it.
struct Session {
    desk: Desk,
    bash: Arc<Bash>,
    job: Arc<Job>,
    ends: Ends,
}

/// What survives must not survive the tests.
struct Ends(PathBuf);

impl Session {
    fn new() -> Self {
        Self::of(Desk::new())
    }

    fn of(desk: Desk) -> Self {
        let ends = Ends(desk.root.path().join("session"));
        Self::with(desk, ends)
    }

    fn with(desk: Desk, ends: Ends) -> Self {
        let jobs = Arc::new(Jobs::default());
        let bash = Arc::new(Bash::new(desk.workspace.clone(), Arc::clone(&jobs)));
        Self { desk, bash, job: Arc::new(Job::new(jobs)), ends }
    }

    /// Ends everything that can end, and begins anew with the files alone.
    async fn restarted(self) -> Self {
        self.desk.workspace.end_session(self.desk.cx.session, Duration::ZERO).await;
        self.desk.workspace.processes.close().await;
        let Self { mut desk, ends, .. } = self;
        desk.workspace.processes = Arc::new(Processes::new(helper()));
        Self::with(desk, ends)
    }

    async fn survive(&self, command: &str) -> Result<String, ToolError> {
        let arguments = json!({ "command": command, "survive": true });
        self.desk.call_again(&self.bash, arguments).await
    }

    /// As [`Session::survive`], of a command that has come so far before it is left to itself.
    async fn survive_until(&self, command: &str, holds: impl Fn() -> bool) -> String {
        let call = self.survive(command);
        with_time_held(call, "it comes so far", holds, START).await.unwrap()
    }

    /// Tells whether so many jobs are there, and all of them over.
    fn are_over(&self, count: usize) -> bool {
        let all = self.survivors();
        all.len() == count && all.iter().all(|job| matches!(job.fate(), Fate::Over(_)))
    }

    async fn job(&self, arguments: Value) -> String {
        self.desk.call_again(&self.job, arguments).await.unwrap()
    }

    fn survivors(&self) -> Vec<Survivor> {
        Survivor::all_in(&self.desk.root.path().join("session"))
    }

    fn work(&self) -> &Path {
        &self.desk.workspace.cwd
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for pid in Survivor::all_in(&self.0).iter().filter_map(keeper_of) {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            if line.is_ok_and(|line| line.ends_with(b"keeper\0")) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }
}

/// Returns who keeps a job, or kept it.
fn keeper_of(survivor: &Survivor) -> Option<Pid> {
    let note = std::fs::read_to_string(survivor.note()).ok()?;
    let mut lines = note.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let pid = lines.find_map(|line| line["kept"]["pid"].as_i64())?;
    Pid::from_raw(pid.try_into().ok()?)
}

/// Replaces what depends on time.
fn timeless(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.parse::<u32>().is_ok() { "N" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_job_survives_and_is_found_and_killed() {
    let first = Session::new();
    let command = "echo $$ > pid; (setsid sleep 1000 & echo $! > child); echo said; sleep 1000";
    let output = first.desk.root.path().join("session/call.out");
    let has_said = || std::fs::read(&output).is_ok_and(|written| written == b"said\n");
    let text = first.survive_until(command, has_said).await;
    let started = "said\n[j1: running for N s]\n[it goes on when bowline ends; see how with job]";
    assert_eq!(timeless(&text), started);
    let members = pids(first.work(), ["pid", "child"]).await;
    let second = first.restarted().await;
    assert!(members.iter().all(|pid| is_alive(*pid)));
    let text = second.job(json!({ "action": "list" })).await;
    let (state, listed) = text.split_once(" s: ").unwrap();
    assert!(state.starts_with("j1: running for "), "{text}");
    assert_eq!(listed, format!("{command}\n"));
    let text = second.job(json!({ "action": "output", "id": "j1" })).await;
    assert_eq!(timeless(&text), "said\n[j1: running for N s]");
    let text = second.job(json!({ "action": "output" })).await;
    assert_eq!(timeless(&text), "(no new output)\n[j1: running for N s]");
    let write = json!({ "action": "write", "text": "a" });
    let written = second.desk.call_again(&second.job, write).await;
    assert_eq!(failure(written), "j1 has no standard input, since it survives");
    let text = second.job(json!({ "action": "kill", "id": "j1" })).await;
    assert_eq!(text, "(no new output)\n[j1: killed by signal 15]");
    assert!(members.iter().all(|pid| !is_alive(*pid)));
}

#[tokio::test]
async fn how_a_job_ended_while_nobody_was_there_is_known() {
    let first = Session::new();
    first
        .survive("echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3")
        .await
        .unwrap();
    let second = first.restarted().await;
    let survivor = second.survivors().remove(0);
    second.desk.put("go", "");
    survivor.over().await;
    let text = second.job(json!({ "action": "output" })).await;
    assert_eq!(text, "one\ntwo\n[j1: exit code 3]");
    let mut third = second.restarted().await;
    let text = third.job(json!({ "action": "output", "wait": 20 })).await;
    assert_eq!(text, "one\ntwo\n[j1: exit code 3]");
    third.desk.cx.call = CallId::from("other");
    let text = third.survive_until("exit 7", || third.are_over(2)).await;
    assert_eq!(text, "(no new output)\n[j2: exit code 7]");
}

#[tokio::test]
async fn what_a_job_leaves_behind_ends_with_it() {
    let session = Session::new();
    let command = "(setsid sleep 1000 & echo $! > child); sleep 0.1";
    let text = session.survive_until(command, || session.are_over(1)).await;
    assert!(text.contains("exit code 0"), "{text}");
    let [child] = pids(session.work(), ["child"]).await;
    until("it is gone", || !is_alive(child)).await;
}

#[tokio::test]
async fn a_job_whose_keeper_was_killed_is_lost_and_said_to_be() {
    let first = Session::new();
    first.survive("(env -i setsid sleep 1000 & echo $! > child); sleep 1000; true").await.unwrap();
    let [child] = pids(first.work(), ["child"]).await;
    let survivor = first.survivors().remove(0);
    kill_process(keeper_of(&survivor).unwrap(), Signal::KILL).unwrap();
    survivor.over().await;
    let session = first.restarted().await;
    let text = session.job(json!({ "action": "output" })).await;
    let lost = "lost: what kept it was killed, and nobody knows how it ended";
    assert_eq!(text, format!("(no new output)\n[j1: {lost}]"));
    // Who watches over the keeper has ended what that could not.
    assert!(!is_alive(child));
    session.job(json!({ "action": "kill" })).await;
    // A disk that was full has cut off a line in the middle of a letter of two bytes.
    let note = std::fs::read_to_string(survivor.note()).unwrap();
    let cut = [note.as_bytes(), b"{\"failed\":\"caf\xc3"].concat();
    std::fs::write(survivor.note(), cut).unwrap();
    assert_eq!(session.survivors().len(), 1);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(survivor.note(), note.replace(boot.trim(), "another")).unwrap();
    let text = session.job(json!({ "action": "list" })).await;
    assert!(text.starts_with("j1: lost: the machine was restarted"), "{text}");
}

#[tokio::test]
async fn a_call_that_runs_again_finds_what_it_had_started() {
    let first = Session::new();
    let command = "echo run >> count; sleep 1000";
    let count = first.desk.path("count");
    let has_run = || std::fs::read(&count).is_ok_and(|written| written == b"run\n");
    first.survive_until(command, has_run).await;
    let bash = Arc::clone(&first.bash);
    let recovery =
        |arguments: Value| Arc::clone(&bash).prepare(&arguments.to_string()).unwrap().recovery;
    assert_eq!(recovery(json!({ "command": "x", "survive": true })), Recovery::Reattach);
    assert_eq!(recovery(json!({ "command": "x" })), Recovery::Unknown);
    let second = first.restarted().await;
    let text = second.survive(command).await.unwrap();
    assert!(text.contains("[j1: running for "), "{text}");
    assert_eq!(second.desk.get("count"), "run\n");
    second.job(json!({ "action": "kill" })).await;
}

#[tokio::test]
async fn a_job_belongs_to_nobody_else() {
    let session = Session::new();
    session.survive("echo $$ > pid; sleep 1000; true").await.unwrap();
    let [pid] = pids(session.work(), ["pid"]).await;
    // Another session in the same folder, as nobody makes one.
    let folder = session.desk.cx.folder.clone();
    let mut other = Desk::new();
    other.cx = ToolContext::standalone(Arc::new(SystemSource), folder);
    let other = Session::of(other);
    assert_eq!(other.job(json!({ "action": "list" })).await, "no jobs");
    // One that was copied from this one has what was recorded, and a folder of its own.
    let mut fork = Session::of(Desk::new());
    let own = fork.desk.cx.folder.clone();
    fork.desk.cx = session.desk.cx.clone();
    fork.desk.cx.folder = own;
    let text = fork.job(json!({ "action": "kill", "id": "j1" })).await;
    assert!(
        text.ends_with("[j1: it belongs to the session from which this one was copied]"),
        "{text}"
    );
    assert!(is_alive(pid));
    session.job(json!({ "action": "kill" })).await;
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_timeout_holds_when_bowline_is_gone() {
    let first = Session::new();
    let arguments = json!({ "command": "trap '' TERM; sleep 1000", "survive": true, "timeout": 1 });
    first.desk.call_again(&first.bash, arguments).await.unwrap();
    let second = first.restarted().await;
    let text = second.job(json!({ "action": "output", "wait": 20 })).await;
    assert_eq!(text, "(no new output)\n[j1: killed by signal 9]");
}

#[tokio::test]
async fn what_cannot_survive_is_refused() {
    let mut session = Session::new();
    let mut meta = (*session.desk.cx.agent).clone();
    meta.depth = 1;
    session.desk.cx.agent = Arc::new(meta);
    let text = failure(session.survive("true").await);
    assert_eq!(text, "only the first agent of a session can start what survives it");
    let mut session = Session::new();
    session.desk.cx.folder = None;
    let text = failure(session.survive("true").await);
    assert_eq!(text, "of a session that is not kept no job survives");
    let session = Session::of(Desk::with(Helper::None));
    let text = failure(session.survive("true").await);
    assert_eq!(text, "there is no helper process, and nothing outlives bowline without one");
    let mut desk = Desk::new();
    desk.workspace.cwd.push("missing");
    let text = failure(Session::of(desk).survive("true").await);
    assert!(text.starts_with("cannot run /bin/bash in "), "{text}");
}

/// Confines every command to the working folder.
#[derive(Debug)]
struct Confines(Confinement);

impl Guard for Confines {
    fn check(&self, _: &CallId, _: &Path, _: Want) -> Result<(), String> {
        Ok(())
    }

    fn check_host(&self, _: &CallId, _: &str) -> Result<Reach, String> {
        Ok(Reach::Public)
    }

    fn names(&self, _: std::net::IpAddr) -> bool {
        false
    }

    fn confinement(&self, _: &CallId, _: &str) -> Result<Option<Confinement>, String> {
        Ok(Some(self.0.clone()))
    }
}

#[tokio::test]
async fn the_sandbox_holds_when_bowline_is_gone() {
    let mut desk = Desk::new();
    let writable = vec![desk.workspace.cwd.clone()];
    let network = Network::Hosts(vec!["example.com".to_owned()]);
    let confinement = Confinement { writable, network, ..Confinement::default() };
    desk.workspace.guard = Arc::new(Confines(confinement));
    let outside = desk.root.path().canonicalize().unwrap().join("outside");
    let first = Session::of(desk);
    let command = format!(
        "until [ -e go ]; do sleep 0.01; done; touch {0}; echo $?; touch inside; echo $?
        mktemp > made; kill -9 $PPID; echo $?; echo proxy $HTTP_PROXY; cat < /dev/tcp/127.0.0.1/3128",
        outside.display()
    );
    let text = first.survive(&command).await.unwrap();
    assert!(text.contains("it has no network"), "{text}");
    let second = first.restarted().await;
    second.desk.put("go", "");
    let text = second.job(json!({ "action": "output", "wait": 20 })).await;
    assert!(!outside.exists());
    assert!(second.desk.path("inside").exists());
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains(": ")).collect();
    assert_eq!(lines, ["1", "0", "1", "proxy"], "{text}");
    let made = second.desk.get("made");
    assert!(Path::new(made.trim()).starts_with(second.desk.root.path().canonicalize().unwrap()));
}
