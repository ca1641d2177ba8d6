//! Several processes at one session, and what is left when one dies.
//!
//! The other process is this test binary again, told to run one of the ignored tests here in the
//! folder of a fixture.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bowline_agent::id::SessionId;
use bowline_agent::journal::{JournalError, Pos, Store as _};
use bowline_agent::op::{Op, OpKind};
use bowline_store::conformance::{entry, prompt};
use bowline_store::{Durability, Files};
use pretty_assertions::assert_eq;

use crate::fixture::{Fixture, append};

const SESSION: &str = "session-under-test";

/// Starts a part of a test in its own process, by a shell that may have something to do first.
fn start(fixture: &Fixture, before: &str, part: &str) -> Child {
    let session = fixture.folder.path().join(SESSION);
    // Written once: another part may be reading it.
    if !session.exists() {
        fs::write(session, fixture.id.to_string()).unwrap();
    }
    Command::new("sh")
        .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &format!("processes::{part}")])
        .current_dir(fixture.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the store and the session of the test that started this process, if one did.
fn under_test() -> Option<(Files, SessionId)> {
    let id = fs::read_to_string(SESSION).ok()?;
    // A part that does nothing would succeed and leave the test to wait for it: a name that is not
    // whole must be a failure.
    let id = id.parse().unwrap();
    Some((Files::new(Path::new("sessions"), Durability::Process), id))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Says something to the test that started this process.
#[expect(clippy::print_stdout, reason = "it goes to the test that started this process")]
fn tell(what: impl std::fmt::Display) {
    println!("=> {what}");
}

/// Iterates over what a process tells, until it ends.
fn told(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let stdout = BufReader::new(child.stdout.take().unwrap());
    // The name of the test may stand before what it says first.
    stdout.lines().filter_map(|line| Some(line.unwrap().split_once("=> ")?.1.to_owned()))
}

#[test]
#[ignore = "a part of another test"]
fn append_until_killed() {
    let Some((files, id)) = under_test() else { return };
    block_on(async {
        let log = files.open(id).await.unwrap();
        for n in 0.. {
            let after = log.tip().0.0 as usize;
            append(&*log, id, after, &[entry(id.root(), &"x".repeat(n % 3000))]).await.unwrap();
            tell(after + 1);
        }
    });
}

#[tokio::test]
async fn what_a_killed_process_committed_is_there() {
    let (fixture, _) = Fixture::with(&[1]).await;
    for kill_after in [1, 7, 40] {
        let mut child = start(&fixture, "", "append_until_killed");
        let mut told = told(&mut child);
        let first = told.nth(kill_after - 1).unwrap();
        let Err(JournalError::Busy { pid, .. }) = fixture.open().await else { panic!() };
        assert_eq!(pid, child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        let last = told.last().unwrap_or(first).parse::<usize>().unwrap();
        assert!(fixture.log().with_extension("lock").exists());
        let entries = fixture.reread().await.unwrap().len();
        // One more may have been committed and not told.
        assert!((last..=last + 1).contains(&entries), "{entries} of {last}");
        assert!(!fixture.log().with_extension("lock").exists());
    }
}

#[test]
#[ignore = "a part of another test"]
fn post_fifty() {
    let Some((files, id)) = under_test() else { return };
    // All begin together.
    std::io::stdin().read_exact(&mut [0]).unwrap();
    block_on(async {
        let inbox = files.inbox(id);
        for n in 0..50 {
            let op = prompt(&format!("{n} of {}", std::process::id()));
            inbox.post(op.clone()).await.unwrap();
            inbox.post(op.clone()).await.unwrap();
            tell(op.id);
        }
    });
}

#[tokio::test]
async fn posts_of_several_processes_arrive_exactly_once() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let inbox = log.inbox();
    let mut posters: Vec<Child> = (0..4).map(|_| start(&fixture, "", "post_fifty")).collect();
    for poster in &mut posters {
        poster.stdin.take().unwrap().write_all(b"!").unwrap();
    }
    let mut got: Vec<Op> = Vec::new();
    while got.len() < 200 {
        tokio::time::timeout(Duration::from_secs(60), inbox.changed()).await.unwrap();
        let ops = inbox.take().await.unwrap();
        let ids: Vec<_> = ops.iter().map(|op| op.id).collect();
        inbox.forget(&ids).await.unwrap();
        for op in ops {
            // Posting again what was forgotten in between posts it anew: the log tells that it is
            // known.
            if got.iter().all(|known| known.id != op.id) {
                got.push(op);
            }
        }
    }
    let mut sent = Vec::new();
    for poster in &mut posters {
        let its: Vec<String> = told(poster).collect();
        assert!(poster.wait().unwrap().success());
        // In the order in which they were posted.
        let arrived = got.iter().map(|op| op.id.to_string()).filter(|id| its.contains(id));
        assert!(arrived.eq(its.iter().cloned()));
        sent.extend(its);
    }
    assert_eq!(sent.len(), 200);
    assert!(got.iter().all(|op| matches!(op.kind, OpKind::Prompt(_))));
}

#[test]
#[ignore = "a part of another test"]
fn fill_the_disk() {
    let Some((files, id)) = under_test() else { return };
    block_on(async {
        let log = files.open(id).await.unwrap();
        let root = id.root();
        let fits = entry(root, "fits");
        for n in 0.. {
            let before = log.tip();
            let large = [entry(root, &"x".repeat(9000))];
            let Err(error) = append(&*log, id, before.0.0 as usize, &large).await else {
                tell(format!("appended {n}"));
                continue;
            };
            assert!(matches!(error, JournalError::Io { .. }), "{error}");
            assert_eq!(log.tip(), before);
            tell(format!("failed: {error}"));
            // The failed write is cut back, and what is smaller still fits behind it.
            append(&*log, id, before.0.0 as usize, &[fits]).await.unwrap();
            let failed = files.inbox(id).post(prompt(&"x".repeat(70_000))).await;
            assert!(matches!(failed, Err(JournalError::Io { .. })));
            files.inbox(id).post(prompt("fits")).await.unwrap();
            let failed = log.blobs().put(&[0; 70_000]).await;
            assert!(matches!(failed, Err(JournalError::Io { .. })));
            break;
        }
        // Of a session whose first commit fails nothing is left.
        let other = bowline_store::conformance::session();
        let log = files.create(other);
        let large = [entry(other.root(), &"x".repeat(70_000))];
        assert!(append(&*log, other, 0, &large).await.is_err());
        assert_eq!(log.tip(), (Pos(0), None));
        assert!(matches!(
            files.open(other).await,
            Err(JournalError::NotFound(_) | JournalError::Busy { .. })
        ));
        drop(log);
        assert!(matches!(files.open(other).await, Err(JournalError::NotFound(_))));
    });
    tell("done");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_but_the_commit_that_did_not_fit() {
    let (fixture, _) = Fixture::with(&[1]).await;
    // 64 KiB for any file. Blocks are 512 or 1024 bytes, as the shell likes.
    let before = "trap '' XFSZ; ulimit -f 64;";
    let mut child = start(&fixture, before, "fill_the_disk");
    let told: Vec<String> = told(&mut child).collect();
    assert!(child.wait().unwrap().success(), "{told:?}");
    let [appended @ .., failed, done] = &told[..] else { panic!("{told:?}") };
    assert_eq!(done, "done");
    let expected = format!("failed: write to sessions/{}: ", relative_log(&fixture));
    assert!(failed.starts_with(&expected), "{failed}");
    let entries = fixture.reread().await.unwrap();
    assert_eq!(entries.len(), 1 + appended.len() + 1);
    assert_eq!(fixture.files.inbox(fixture.id).take().await.unwrap().len(), 1);
    let report = fixture.files.verify(fixture.id).unwrap();
    assert!(report.is_sound() && report.torn_line.is_none(), "{report:?}");
    let names = crate::fixture::names(&fixture.day());
    let id = fixture.id;
    assert_eq!(names, [format!("{id}.inbox.jsonl"), format!("{id}.jsonl")]);
}

fn relative_log(fixture: &Fixture) -> String {
    let log = fixture.log();
    log.strip_prefix(fixture.files.root()).unwrap().display().to_string()
}
