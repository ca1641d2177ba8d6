//! Commands, with real processes.

use std::io::BufRead;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Pid;
use serde_json::json;

use bowline_agent::event::AgentMeta;
use bowline_agent::on_end::OnEnd as _;
use bowline_agent::tool::ToolError;
use bowline_tools::Bash;
use bowline_tools::process::{Cause, Command, Helper, ProcessError, Processes, Status, ended};

use crate::desk::{Desk, failure, helper, is_alive, pids, until, with_time_held};

/// A command that leaves its group, its session and its parents in every known way.
const FAMILY: &str = "echo $$ > first
    sleep 1000 & echo $! > background
    (setsid bash -c 'bash -c \"echo \\$\\$ > daemon; exec sleep 1001\" &' &) > /dev/null 2>&1
    env -i PATH=$PATH setsid bash -c 'echo $$ > hidden; sleep 1002; true' &
    trap '' TERM
    wait; sleep 1003";

const MEMBERS: [&str; 4] = ["first", "background", "daemon", "hidden"];

fn command(desk: &Desk, text: &str) -> Command {
    Command {
        owner: "me/1".to_owned(),
        program: "/bin/bash".into(),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        cwd: desk.workspace.cwd.clone(),
        environment: desk.workspace.environment.variables().to_vec(),
        output: desk.path("out"),
        max_output: u64::MAX,
        stdin: false,
        confinement: None,
    }
}

async fn bash(desk: &Desk, command: &str) -> Result<String, ToolError> {
    desk.call(Bash::new(desk.workspace.clone(), Arc::default()), json!({ "command": command }))
        .await
}

#[tokio::test]
async fn output_comes_in_order_and_is_kept() {
    let desk = Desk::new();
    let text = bash(&desk, "echo one; echo two >&2; echo three; pwd").await.unwrap();
    assert_eq!(text, format!("one\ntwo\nthree\n{}\n", desk.workspace.cwd.display()));
    let session = desk.root.path().join("session");
    assert_eq!(std::fs::read_to_string(session.join("call.out")).unwrap(), text);
    assert_eq!(ended(&session.join("call.out")).unwrap().code, Some(0));
}

#[tokio::test]
async fn a_failing_command_is_no_failing_tool() {
    let desk = Desk::new();
    assert_eq!(bash(&desk, "printf no; exit 3").await.unwrap(), "no\n[exit code 3]");
    assert_eq!(bash(&desk, "kill -9 $$").await.unwrap(), "[killed by signal 9]");
    assert_eq!(bash(&desk, "true").await.unwrap(), "(no output)");
}

#[tokio::test]
async fn two_calls_with_one_id_keep_their_outputs_apart() {
    let desk = Desk::new();
    let (one, two) = tokio::join!(bash(&desk, "echo 1"), bash(&desk, "echo 2"));
    assert_eq!((one.unwrap(), two.unwrap()), ("1\n".to_owned(), "2\n".to_owned()));
}

#[tokio::test]
async fn a_command_gets_nothing_it_was_not_given() {
    let desk = Desk::new();
    let text = bash(&desk, "ls /proc/$$/fd; tty; env | cut -d= -f1 | sort").await.unwrap();
    let own = "BOWLINE_AGENT_ID\nBOWLINE_CALL_ID\nBOWLINE_COMMAND\nBOWLINE_SESSION_ID\n";
    // The descriptor 255 is bash's own, and the last three variables too.
    assert_eq!(
        text.replace("255\n", ""),
        format!("0\n1\n2\nnot a tty\n{own}PATH\nPWD\nSHLVL\n_\n")
    );
    let text = bash(&desk, "cat /proc/$PPID/environ; cat").await.unwrap();
    assert_eq!(text, "(no output)");
}

#[tokio::test]
async fn a_cancelled_command_leaves_nothing() {
    let desk = Desk::new();
    let call = bash(&desk, FAMILY);
    let cancel = async {
        let pids = pids(&desk.workspace.cwd, MEMBERS).await;
        desk.cx.cancel.cancel();
        pids
    };
    let (result, pids) = tokio::join!(call, cancel);
    assert!(failure(result).contains("canceled"));
    assert!(pids.into_iter().all(|pid| !is_alive(pid)));
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    let desk = Desk::new();
    let pids = tokio::select! {
        result = bash(&desk, FAMILY) => panic!("it ended: {result:?}"),
        pids = pids(&desk.workspace.cwd, MEMBERS) => pids,
    };
    until("nothing is left", || pids.iter().all(|pid| !is_alive(*pid))).await;
}

#[tokio::test]
async fn a_command_out_of_time_shows_what_it_had_said() {
    let desk = Desk::new();
    let tool = Bash::new(desk.workspace.clone(), Arc::default());
    let call = desk.call(tool, json!({ "command": "echo before; sleep 1000", "timeout": 1 }));
    let output = desk.root.path().join("session/call.out");
    let has_said = || std::fs::read(&output).is_ok_and(|written| written == b"before\n");
    match with_time_held(call, "it says so", has_said, Duration::from_secs(1)).await {
        Err(ToolError::TimedOut(text)) => {
            assert_eq!(text, "before\n[timed out after 1 s: the command was ended]");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_huge_output_is_shown_by_its_ends() {
    let desk = Desk::new();
    let text = bash(&desk, "yes 0123456 | head -c 200000000").await.unwrap();
    assert!(text.len() <= 65_536);
    // Of a slow machine it is said how long it took.
    let text = text.split_once("[took ").map_or(text.as_str(), |(text, _)| text);
    assert!(text.starts_with("0123456\n0123456\n") && text.ends_with("0123456\n0123456\n"));
    let shown = text.lines().filter(|line| *line == "0123456").count();
    let (lines, bytes) = (25_000_000 - shown, 200_000_000 - 8 * shown);
    assert!(text.contains(&format!("[… {lines} lines, {bytes} bytes cut here; full output: ")));
    let kept = desk.root.path().join("session/call.out");
    assert_eq!(kept.metadata().unwrap().len(), 200_000_000);
}

#[tokio::test]
async fn binary_output_is_not_shown() {
    let desk = Desk::new();
    let text = bash(&desk, "head -c 5000 /dev/zero").await.unwrap();
    assert!(text.starts_with("[binary output of 5000 bytes, kept in "), "{text}");
}

#[tokio::test]
async fn a_background_process_holds_up_nobody_and_ends_with_its_owner() {
    let desk = Desk::new();
    let text = bash(&desk, "sleep 1000 & echo $! | tee pid").await.unwrap();
    let [pid] = pids(&desk.workspace.cwd, ["pid"]).await;
    assert_eq!(text.trim(), pid.as_raw_pid().to_string());
    bash(&desk, "true").await.unwrap();
    assert!(is_alive(pid));
    let processes = &desk.workspace.processes;
    processes.end_owner("somebody else", Duration::ZERO).await;
    assert!(is_alive(pid));
    desk.workspace.end_session(desk.cx.session, Duration::from_secs(5)).await;
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn what_an_agent_has_left_ends_with_it() {
    let mut desk = Desk::new();
    bash(&desk, "sleep 1000 & echo $! > first").await.unwrap();
    let (root, session) = (Arc::clone(&desk.cx.agent), desk.cx.session);
    let id = root.id.child(&desk.cx.call, "0");
    let child = AgentMeta { id, parent: Some(root.id), depth: 1, ..(*root).clone() };
    desk.cx.agent = Arc::new(child.clone());
    bash(&desk, "sleep 1000 & echo $! > second").await.unwrap();
    let [first, second] = pids(&desk.workspace.cwd, ["first", "second"]).await;
    desk.workspace.on_end(session, &child).await;
    assert!(is_alive(first) && !is_alive(second));
    desk.workspace.on_end(session, &root).await;
    assert!(!is_alive(first));
}

#[tokio::test]
async fn closing_ends_everything() {
    let desk = Desk::new();
    bash(&desk, "sleep 1000 & echo $! > pid; (setsid sleep 1000 & echo $! > daemon)")
        .await
        .unwrap();
    let pids = pids(&desk.workspace.cwd, ["pid", "daemon"]).await;
    desk.workspace.processes.close().await;
    assert!(pids.into_iter().all(|pid| !is_alive(pid)));
    assert_eq!(bash(&desk, "echo again").await.unwrap(), "again\n");
}

#[tokio::test]
async fn orphans_do_not_stay_as_zombies() {
    let desk = Desk::new();
    let script =
        "(sleep 0.05 & echo $! > pid); while [ -e /proc/$(cat pid) ]; do :; done; echo gone";
    assert_eq!(bash(&desk, script).await.unwrap(), "gone\n");
}

#[tokio::test]
async fn a_killed_helper_is_reported_and_replaced() {
    let desk = Desk::new();
    let script = "echo before; echo $PPID > helper
        (setsid bash -c 'echo $$ > daemon; exec sleep 1004' > /dev/null &)
        bash -c 'echo $$ > child; sleep 1005; true' & wait";
    let call = bash(&desk, script);
    let kill = async {
        let [helper, rest @ ..] = pids(&desk.workspace.cwd, ["helper", "child", "daemon"]).await;
        rustix::process::kill_process(helper, rustix::process::Signal::KILL).unwrap();
        rest
    };
    let (result, pids) = tokio::join!(call, kill);
    let lost = "before\nthe helper process ended unexpectedly and took the command with it";
    assert_eq!(failure(result), lost);
    until("nothing is left", || pids.iter().all(|pid| !is_alive(*pid))).await;
    assert_eq!(bash(&desk, "echo again").await.unwrap(), "again\n");
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why() {
    let mut desk = Desk::new();
    desk.workspace.cwd.push("missing");
    let text = failure(bash(&desk, "true").await);
    assert!(text.starts_with("cannot run /bin/bash in "), "{text}");
    assert!(text.contains("No such file"), "{text}");
    let wrong = Desk::with(Helper::Program("/no/helper".into()));
    let text = failure(bash(&wrong, "true").await);
    assert!(text.starts_with("the helper process /no/helper cannot be started: "), "{text}");
    let stranger = Desk::with(Helper::Program("/bin/true".into()));
    assert!(failure(bash(&stranger, "true").await).contains("ended unexpectedly"));
}

#[tokio::test]
async fn a_runaway_output_is_stopped() {
    for helper in [helper(), Helper::None] {
        let desk = Desk::with(helper);
        let command = Command { max_output: 100_000, ..command(&desk, "yes & yes") };
        let mut running = desk.workspace.processes.start(command).await.unwrap();
        let status = running.exit().await.unwrap();
        assert_eq!((status.signal, status.cause), (Some(9), Some(Cause::Output)));
    }
}

#[tokio::test]
async fn a_command_can_be_written_to() {
    for helper in [helper(), Helper::None] {
        let desk = Desk::with(helper);
        let command = Command { stdin: true, ..command(&desk, "cat; echo done") };
        let mut running = desk.workspace.processes.start(command).await.unwrap();
        running.write("a".repeat(300_000), false).await;
        running.write("\n".to_owned(), true).await;
        assert_eq!(running.exit().await.unwrap().code, Some(0));
        assert_eq!(desk.get("out"), format!("{}\ndone\n", "a".repeat(300_000)));
    }
}

#[tokio::test]
async fn what_only_a_shell_runs_gets_all_of_its_arguments() {
    let desk = Desk::new();
    desk.put("script", "echo $#");
    let script = desk.path("script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let processes = Processes::new(helper());
    let command =
        Command { program: script, arguments: vec!["x".to_owned(); 20_000], ..command(&desk, "") };
    let mut running = processes.start(command).await.unwrap();
    assert_eq!(running.exit().await.unwrap().code, Some(0));
    assert_eq!(desk.get("out"), "20000\n");
    assert_eq!(bash(&desk, "echo again").await.unwrap(), "again\n");
}

#[tokio::test]
async fn a_command_inherits_nothing_that_bowline_has_inherited() {
    let desk = Desk::new();
    let root = desk.root.path().canonicalize().unwrap();
    // As one that reads which descriptors it has would leave its own.
    std::fs::create_dir(root.join("fd")).unwrap();
    let folder = std::fs::File::open(root.join("fd")).unwrap();
    rustix::io::fcntl_setfd(&folder, rustix::io::FdFlags::empty()).unwrap();
    let open = bash(&desk, "for fd in /proc/$$/fd/*; do readlink $fd; done").await.unwrap();
    assert!(open.contains("/dev/null") && !open.contains("/fd\n"), "{open}");
}

#[tokio::test]
async fn a_pipe_where_ends_are_written_down_holds_nobody_up() {
    let desk = Desk::new();
    let processes = Processes::new(helper());
    let script = format!("mkfifo {}", desk.path("ended.jsonl").display());
    for _ in 0..2 {
        let mut running = processes.start(command(&desk, &script)).await.unwrap();
        running.exit().await.unwrap();
    }
    assert_eq!(ended(&desk.path("out")), None);
    processes.close().await;
}

#[tokio::test]
async fn without_a_helper_commands_run_and_end_with_their_group() {
    let desk = Desk::with(Helper::None);
    assert_eq!(bash(&desk, "echo one; exit 2").await.unwrap(), "one\n[exit code 2]");
    assert_eq!(ended(&desk.root.path().join("session/call.out")).unwrap().code, Some(2));
    let call = bash(&desk, "trap '' TERM; sleep 1000 & echo $! > pid; echo $$ > first; wait");
    let cancel = async {
        let pids = pids(&desk.workspace.cwd, ["pid", "first"]).await;
        desk.cx.cancel.cancel();
        pids
    };
    let (result, pids) = tokio::join!(call, cancel);
    assert!(failure(result).contains("canceled"));
    assert!(pids.into_iter().all(|pid| !is_alive(pid)));
}

#[tokio::test]
async fn nothing_is_left_when_bowline_is_killed() {
    let desk = Desk::new();
    let mut bowline = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "commands::a_bowline_that_is_killed", "--ignored", "--nocapture"])
        .current_dir(&desk.workspace.cwd)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pids = pids(&desk.workspace.cwd, MEMBERS).await;
    bowline.kill().unwrap();
    soon_gone(&pids).await;
    bowline.wait().unwrap();
    // The output pipe that bowline had is not held by anybody either.
    let rest = std::io::BufReader::new(bowline.stdout.take().unwrap()).lines().count();
    assert!(rest < 100);
    let output = desk.path("out");
    until("its end is written down", || ended(&output).is_some()).await;
    let status = ended(&output).unwrap();
    assert_eq!((status.signal, status.cause), (Some(9), Some(Cause::Orphaned)));
}

/// Waits until none of these is left, which must be soon. How long the looking takes does not count.
async fn soon_gone(pids: &[Pid]) {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let began = Instant::now();
        let left: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
        if left.is_empty() {
            return;
        }
        assert!(began < deadline, "left after 2 s: {left:?}");
        tokio::task::yield_now().await;
    }
}

/// Plays the bowline of [`nothing_is_left_when_bowline_is_killed`].
#[tokio::test]
#[ignore = "runs until it is killed"]
async fn a_bowline_that_is_killed() {
    let mut desk = Desk::new();
    desk.workspace.cwd = std::env::current_dir().unwrap();
    let processes = Processes::new(helper());
    let mut running = processes.start(command(&desk, FAMILY)).await.unwrap();
    let result: Result<Status, ProcessError> = running.exit().await;
    panic!("it ended: {result:?}");
}
