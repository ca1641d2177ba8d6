//! What commands leave running: gone with bowline, however that ends and whatever they try.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failure of the test")]

mod support;

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Home, PATIENCE, Provider, Reply, SOON, messages, results, until};

/// Tells the runs of one test program apart.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// How many of each kind of job there are: a hundred in all, and some that fork without end.
const EACH: usize = 20;

/// Starts jobs that leave their group, their session, their parents, their folder and their environment.
/// Each of them is told the mark, which this text does not hold in one piece.
fn hundred(mark: &str) -> String {
    let (one, other) = mark.split_at(4);
    format!(
        r#"mark={one}""{other}
echo '[ $EPOCHSECONDS -lt $2 ] && (setsid bash ./chain $1 $2 &)' > chain
for i in $(seq {EACH}); do
  setsid bash -c "exec -a $mark sleep 1000" &
  ( (bash -c "exec -a $mark sleep 1001" &) & )
  nohup bash -c "exec -a $mark sleep 1002" & disown
  (trap '' TERM HUP INT; exec -a $mark bash -c 'while :; do sleep 1003; done; true') &
  (cd /; env -i setsid bash -c "exec 0<&- 1>&- 2>&-; (exec -a $mark sleep 1004) & disown" &)
done
for i in 1 2 3; do (bash ./chain $mark $((EPOCHSECONDS + 30)) &); done
sleep 1005"#
    )
}

/// A bowline whose model has started the hundred jobs.
struct Running {
    home: Home,
    _provider: Provider,
    bowline: Child,
    mark: String,
}

impl Running {
    fn start(sandbox: &str) -> Self {
        let mark = format!("mark-{}-{}-{sandbox}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let command = hundred(&mark);
        let provider = Provider::answering(move |request| match results(request) {
            0 => Reply::Calls(vec![("a".to_owned(), "bash", json!({ "command": command }))]),
            _ => Reply::Text("over".to_owned()),
        });
        let home = Home::new(&provider);
        let mut command = home.bowline();
        command.args(["exec", "--sandbox", sandbox, "go"]);
        let bowline = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let running = Self { home, _provider: provider, bowline, mark };
        running.until("all jobs run", |left| left.len() >= 5 * EACH);
        running
    }

    /// Returns the processes that carry the mark.
    fn left(&self) -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        all.filter(|process| {
            process.file_name().is_some_and(|name| name.to_str().unwrap().parse::<u32>().is_ok())
        })
        .filter_map(|process| {
            let line = std::fs::read(process.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(&self.mark).then(|| format!("{}: {line}", process.display()))
        })
        .collect()
    }

    #[track_caller]
    fn until(&self, what: &str, holds: impl Fn(&[String]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.left();
            if holds(&left) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "never: {what}; there are {}: {left:#?}",
                left.len()
            );
            std::thread::yield_now();
        }
    }

    /// Says that nothing is left soon, and that nothing comes back.
    #[track_caller]
    fn leaves_nothing(&self) {
        let deadline = Instant::now() + SOON;
        let mut empty = 0;
        while empty < 5 {
            // What a slow look sees was there when it began.
            let began = Instant::now();
            let left = self.left();
            empty = if left.is_empty() { empty + 1 } else { 0 };
            assert!(empty > 0 || began < deadline, "left after {SOON:?}: {left:#?}");
        }
        self.home.wait_until_gone();
    }

    /// Returns the helper, and who watches over it: a child of bowline, and its child.
    fn helpers(&self) -> [Pid; 2] {
        let watcher = child_of(self.bowline.id(), "__bowline-helper");
        let helper = child_of(watcher.as_raw_nonzero().get().cast_unsigned(), "__bowline-helper");
        [helper, watcher]
    }
}

/// Returns the child of a process whose command line holds a word.
fn child_of(parent: u32, word: &str) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let is_it = |pid: &&str| {
        let line = std::fs::read_to_string(Path::new("/proc").join(pid).join("cmdline"));
        line.is_ok_and(|line| line.contains(word))
    };
    let child = children.unwrap().split_ascii_whitespace().find(is_it).unwrap().parse().unwrap();
    Pid::from_raw(child).unwrap()
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.bowline.kill();
        let _ = self.bowline.wait();
    }
}

#[test]
fn nothing_of_a_hundred_nested_jobs_is_left_by_kill_9() {
    for sandbox in ["workspace-write", "off"] {
        let mut running = Running::start(sandbox);
        running.bowline.kill().unwrap();
        running.bowline.wait().unwrap();
        running.leaves_nothing();
    }
}

#[test]
fn nothing_is_left_when_the_helper_or_its_watcher_is_killed() {
    for sandbox in ["workspace-write", "off"] {
        for which in [0, 1] {
            let running = Running::start(sandbox);
            kill_process(running.helpers()[which], Signal::KILL).unwrap();
            running.leaves_nothing();
        }
    }
}

#[test]
fn an_orderly_end_leaves_nothing_either() {
    for sandbox in ["workspace-write", "off"] {
        let running = Running::start(sandbox);
        let bowline = Pid::from_raw(running.bowline.id().cast_signed()).unwrap();
        kill_process(bowline, Signal::TERM).unwrap();
        running.until("nothing is left", <[String]>::is_empty);
        running.leaves_nothing();
    }
}

/// Says what the results of a request say, one after the other.
fn told(request: &Value) -> Vec<String> {
    let said = messages(request).iter().filter(|message| message["role"] == "tool");
    said.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// A home whose model starts a job that survives, and then does what the test wants of it.
fn surviving(next: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> (Home, Provider) {
    let command =
        "echo begun; touch begun; until [ -e go ]; do sleep 0.01; done; echo done; exit 3";
    let provider = Provider::answering(move |request| match results(request) {
        0 => {
            let arguments = json!({ "command": command, "survive": true });
            Reply::Calls(vec![("a".to_owned(), "bash", arguments)])
        }
        _ => next(request),
    });
    let home = Home::new(&provider);
    (home, provider)
}

/// Calls `job`.
fn job(id: &str, arguments: Value) -> Reply {
    Reply::Calls(vec![(id.to_owned(), "job", arguments)])
}

#[test]
fn a_job_that_survives_is_found_by_the_session_after_kill_9() {
    let (home, provider) = surviving(|request| match results(request) {
        1 => {
            let sleep = json!({ "command": "echo > asleep; sleep 1000" });
            Reply::Calls(vec![("b".to_owned(), "bash", sleep)])
        }
        2 => job("c", json!({ "action": "list" })),
        3 if messages(request).iter().any(|message| message["content"] == "and now?") => {
            job("d", json!({ "action": "output", "wait": 20 }))
        }
        _ => Reply::Text("over".to_owned()),
    });
    let mut command = home.bowline();
    command.args(["exec", "--allow", "survive", "go"]);
    let mut bowline = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the second command runs", || home.work().join("asleep").exists());
    bowline.kill().unwrap();
    bowline.wait().unwrap();
    let session = home.sessions().remove(0);
    let (code, out, _) = home.run(&["jobs", "list"]);
    assert!(code == 0 && out.contains("  j1  running for "), "{out}");

    let resume = format!("--resume={session}");
    let (code, _, errors) = home.run(&["exec", &resume]);
    assert_eq!(code, 0, "{errors}");
    let said = told(provider.requests().last().unwrap());
    // Whether it has said something by then depends on the machine.
    assert!(said[0].contains("\n[j1: running for "), "{said:#?}");
    assert!(said[2].starts_with("j1: running for "), "{said:#?}");

    // It minds an orderly end as little.
    let (code, _, errors) = home.run(&["sessions", "delete", &session]);
    assert_eq!(code, 2);
    let refused = format!("bowline jobs kill {session}");
    assert!(errors.contains(&refused), "{errors}");
    until("the job has begun", || home.work().join("begun").exists());
    std::fs::write(home.work().join("go"), "").unwrap();
    let (code, _, errors) = home.run(&["exec", &resume, "and now?"]);
    assert_eq!(code, 0, "{errors}");
    let said = told(provider.requests().last().unwrap());
    assert_eq!(said[3], "begun\ndone\n[j1: exit code 3]", "{said:#?}");
    let (_, out, _) = home.run(&["jobs", "list"]);
    assert!(out.contains("  j1  exit code 3  echo begun;"), "{out}");
}

#[test]
fn a_person_sees_and_ends_what_survives() {
    let (home, _provider) = surviving(|_| Reply::Text("over".to_owned()));
    let (code, _, errors) = home.run(&["exec", "--allow", "survive", "go"]);
    assert_eq!(code, 0, "{errors}");
    let session = home.sessions().remove(0);
    until("the job has begun", || home.work().join("begun").exists());
    let (code, out, _) = home.run(&["jobs", "output", &session]);
    assert_eq!((code, out.as_str()), (0, "begun\n"));
    let (code, out, _) = home.run(&["jobs", "list", &session, "--json"]);
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &line["job"], &line["running"]), (0, &json!("j1"), &json!(true)));
    assert!(!home.processes().is_empty());
    let (code, _, errors) = home.run(&["jobs", "kill", &session, "j2"]);
    assert_eq!(code, 2, "{errors}");
    let (code, out, _) = home.run(&["jobs", "kill", &session]);
    assert!(code == 0 && out.contains("  j1  killed by signal 15  echo begun;"), "{out}");
    home.wait_until_gone();
    let (code, _, errors) = home.run(&["sessions", "delete", &session]);
    assert_eq!(code, 0, "{errors}");
}

#[test]
fn to_survive_takes_a_rule() {
    let (home, provider) = surviving(|_| Reply::Text("over".to_owned()));
    for allowed in [&["exec", "go"][..], &["exec", "--allow", "bash", "--sandbox", "off", "go"]] {
        let (code, _, errors) = home.run(allowed);
        assert_eq!(code, 0, "{errors}");
        let said = told(provider.requests().last().unwrap());
        let denied = "survive: it would go on when bowline ends (permission mode auto); \
                      the user can allow it with --allow 'survive'";
        assert!(said[0].contains(denied), "{said:?}");
    }
    let (_, out, _) = home.run(&["jobs", "list"]);
    assert_eq!(out, "");
    home.wait_until_gone();
}
