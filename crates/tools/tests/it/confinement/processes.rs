//! Other processes, and how much of the machine a command may use.

use std::process::{Child, Command};
use std::time::Duration;

use bowline_tools::guard::ResourceLimits;
use pretty_assertions::assert_eq;

use super::cell::Cell;
use crate::desk::{is_alive, pids, until};

/// A process of the same user that nobody confines, with a secret in its environment.
struct Bystander(Child);

impl Bystander {
    fn new(cell: &Cell) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        use std::os::unix::process::CommandExt as _;
        let owner = cell.work().metadata().unwrap().uid();
        let mut command = Command::new("/bin/sleep");
        command.arg("1000").env("KEY", "secret").uid(owner).gid(owner);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn no_process_outside_is_signalled() {
    for cell in Cell::all() {
        let mut bystander = Bystander::new(&cell);
        let (other, me) = (bystander.0.id(), std::process::id());
        for way in [
            format!("kill -0 {other}"),
            format!("kill -9 {other}"),
            format!("kill -0 {me}"),
            "kill -0 $PPID".to_owned(),
            "kill -0 1".to_owned(),
            format!("setsid -w bash -c 'kill -TERM {other}'"),
        ] {
            cell.bash(&way).await.is_kept();
        }
        // Only after it is sure that nobody outside hears it.
        let all = cell.bash("sleep 100 & kill -9 -1; wait; echo over").await;
        assert!(all.is_done().ends_with("over"), "{}", cell.kind);
        assert!(bystander.0.try_wait().unwrap().is_none(), "{}", cell.kind);
    }
}

#[tokio::test]
async fn nothing_of_a_process_outside_is_read() {
    for cell in Cell::all() {
        let bystander = Bystander::new(&cell);
        let others = [
            bystander.0.id().to_string(),
            std::process::id().to_string(),
            "$PPID".to_owned(),
            "1".to_owned(),
        ];
        for other in others {
            for name in ["environ", "maps", "mem", "io", "auxv", "stack", "syscall", "ns/mnt"] {
                let ran = cell.bash(&format!("exec 2>/dev/null; [ -n \"$(head -c 100 /proc/{other}/{name} | tr -d '\\0')\" ]")).await;
                ran.is_kept();
            }
            for name in ["cwd", "root", "exe", "fd/0", "ns/user"] {
                cell.bash(&format!("readlink /proc/{other}/{name}")).await.is_kept();
            }
            cell.bash(&format!("ls -L /proc/{other}/root")).await.is_kept();
        }
    }
}

#[tokio::test]
async fn commands_do_not_reach_into_one_another() {
    for cell in Cell::all() {
        let one = cell.command("/bin/bash", &["-c", "echo $$ > pid; read < <(sleep 100)"]);
        let one = bowline_tools::process::Command {
            environment: vec![
                ("KEY".to_owned(), "secret".to_owned()),
                ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ],
            ..one
        };
        let mut running = cell.processes.start(one).await.unwrap();
        let [pid] = pids(&cell.work(), ["pid"]).await;
        let pid = pid.as_raw_nonzero();
        cell.bash(&format!("cat /proc/{pid}/environ")).await.is_kept();
        cell.bash(&format!("head -c 1 /proc/{pid}/mem")).await.is_kept();
        cell.bash(&format!("kill -9 {pid}")).await.is_kept();
        running.end(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn no_limit_of_another_process_is_set() {
    for cell in Cell::all() {
        let bystander = Bystander::new(&cell);
        let call =
            format!("resource.prlimit({}, resource.RLIMIT_NOFILE, (3, 3))", bystander.0.id());
        assert_eq!(cell.errno(&call).await, "EPERM", "{}", cell.kind);
    }
}

#[tokio::test]
async fn whatever_leaves_its_group_is_ended() {
    for cell in Cell::all() {
        let script = "echo $$ > first
            (setsid bash -c 'bash -c \"echo \\$\\$ > daemon; exec sleep 1001\" &' &) > /dev/null 2>&1
            env -i PATH=$PATH setsid bash -c 'echo $$ > hidden; sleep 1002; true' &
            trap '' TERM; wait; sleep 1003";
        let mut running =
            cell.processes.start(cell.command("/bin/bash", &["-c", script])).await.unwrap();
        let members = pids(&cell.work(), ["first", "daemon", "hidden"]).await;
        running.end(Duration::ZERO).await;
        for pid in members {
            until("it is gone", || !is_alive(pid)).await;
        }
    }
}

#[tokio::test]
async fn a_command_dies_with_the_helper() {
    for cell in Cell::all() {
        let mut running =
            cell.processes
                .start(cell.command(
                    "/bin/bash",
                    &["-c", "echo $$ > pid; echo $PPID > helper; sleep 1000"],
                ))
                .await
                .unwrap();
        let [pid, helper] = pids(&cell.work(), ["pid", "helper"]).await;
        rustix::process::kill_process(helper, rustix::process::Signal::KILL).unwrap();
        assert!(running.exit().await.is_err());
        until("the command is gone", || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn limits_are_kept() {
    let limits = |limits: ResourceLimits| {
        Cell::all().into_iter().map(move |cell| cell.limits(limits.clone()))
    };
    for cell in limits(ResourceLimits { memory: Some(400 << 20), ..ResourceLimits::default() }) {
        cell.python("bytearray(800 << 20)").await.is_kept();
        cell.python("bytearray(8 << 20)").await.is_done();
    }
    for cell in limits(ResourceLimits { file_size: Some(1 << 20), ..ResourceLimits::default() }) {
        let ran = cell.bash("head -c 2M /dev/zero > big").await;
        assert_ne!(ran.code, Some(0), "{}", cell.kind);
        assert_eq!(cell.work().join("big").metadata().unwrap().len(), 1 << 20);
    }
    for cell in limits(ResourceLimits { open_files: Some(20), ..ResourceLimits::default() }) {
        assert_eq!(cell.errno("[os.open('.', os.O_RDONLY) for _ in range(30)]").await, "EMFILE");
        cell.bash("ulimit -n 30").await.is_kept();
    }
    for cell in limits(ResourceLimits { cpu_seconds: Some(1), ..ResourceLimits::default() }) {
        let ran = cell.bash("while :; do :; done").await;
        assert!(ran.signal.is_some(), "{ran:?}");
    }
    let none = Cell::new().bash("ulimit -c").await;
    assert_eq!(none.is_done(), "0");
}

#[tokio::test]
async fn a_fork_bomb_stays_small() {
    for cell in Cell::with_namespaces() {
        let cell = cell.limits(ResourceLimits { processes: Some(40), ..ResourceLimits::default() });
        let script = "import os, time\nmade = 0\ntry:\n    while made < 400:\n        if os.fork() == 0:\n            time.sleep(100)\n            os._exit(0)\n        made += 1\nexcept BlockingIOError:\n    print(made, flush=True)\n    os._exit(0)\ntime.sleep(100)";
        let ran = cell.python(script).await;
        // The kernel does not count the processes of root; the helper does.
        match rustix::process::geteuid().is_root() && cell.kind == "as it is" {
            true => assert_eq!((ran.code, ran.signal), (None, Some(9)), "{ran:?}"),
            false => assert!(ran.is_done().parse::<u32>().unwrap() < 60, "{ran:?}"),
        }
    }
}

#[tokio::test]
async fn what_hides_best_is_ended_with_its_owner() {
    for cell in Cell::with_namespaces() {
        // Neither group nor variables tell whose it is, and another command may have left it.
        let script =
            "(env -i setsid bash -c '(echo $BASHPID > hidden; exec sleep 1000) &' &) ; sleep 0.1";
        let (one, two) = tokio::join!(cell.bash(script), cell.bash("sleep 0.2"));
        one.is_done();
        two.is_done();
        let [pid] = pids(&cell.work(), ["hidden"]).await;
        cell.processes.end_owner("session", Duration::ZERO).await;
        until("it is gone", || !is_alive(pid)).await;
    }
}
