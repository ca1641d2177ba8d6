//! Who may write.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bowline_agent::journal::{JournalError, Pos, Store as _};
use bowline_store::conformance::{entry, prompt};
use pretty_assertions::assert_eq;
use rustix::fs::{FlockOperation, flock};

use crate::fixture::{Fixture, append};

#[tokio::test]
async fn the_lock_names_its_holder() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let lock = fixture.log().with_extension("lock");
    assert_eq!(fs::read_to_string(&lock).unwrap().trim(), std::process::id().to_string());
    let error = fixture.open().await.err().unwrap();
    let (id, pid) = (fixture.id, std::process::id());
    assert_eq!(error.to_string(), format!("session {id} is busy, held by pid {pid}"));
    drop(log);
    assert!(!lock.exists());
}

#[tokio::test]
async fn a_lock_that_a_dead_process_left_is_no_obstacle() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let lock = fixture.log().with_extension("lock");
    fs::write(&lock, "1\nand more\n").unwrap();
    let log = fixture.open().await.unwrap();
    assert_eq!(fs::read_to_string(&lock).unwrap(), format!("{}\n", std::process::id()));
    drop(log);
    assert!(!lock.exists());
}

#[tokio::test]
async fn what_a_dead_process_was_just_starting_does_not_keep_the_lock() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let lock = fixture.log().with_extension("lock");
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    fs::write(&lock, format!("{}\n", dead.id())).unwrap();
    let heir = fs::File::open(&lock).unwrap();
    flock(&heir, FlockOperation::LockExclusive).unwrap();
    let opened = tokio::spawn({
        let (files, id) = (fixture.again(), fixture.id);
        async move { files.open(id).await.map(drop) }
    });
    // It is about to try.
    tokio::task::yield_now().await;
    drop(heir);
    opened.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_lock_that_somebody_removed_is_not_removed_again() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let lock = fixture.log().with_extension("lock");
    let first = fixture.open().await.unwrap();
    fs::remove_file(&lock).unwrap();
    let second = fixture.open().await.unwrap();
    drop(first);
    assert!(lock.exists());
    assert!(matches!(fixture.open().await, Err(JournalError::Busy { .. })));
    drop(second);
    assert!(fixture.open().await.is_ok());
}

#[tokio::test]
async fn writers_that_come_and_go_never_meet() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (files, id) = (fixture.again(), fixture.id);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut appended = 0;
                while appended < 10 {
                    runtime.block_on(async {
                        let log = match files.open(id).await {
                            Ok(log) => log,
                            Err(JournalError::Busy { .. }) => return,
                            Err(error) => panic!("{error}"),
                        };
                        let Pos(length) = log.tip().0;
                        let one = [entry(id.root(), "one")];
                        append(&*log, id, length as usize, &one).await.unwrap();
                        appended += 1;
                    });
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(fixture.reread().await.unwrap().len(), 41);
}

#[tokio::test]
async fn reading_needs_no_lock() {
    let (fixture, all) = Fixture::with(&[1, 1]).await;
    let _log = fixture.open().await.unwrap();
    let other = fixture.again();
    let commits = other.read(fixture.id, Pos(0)).unwrap();
    let read: Vec<_> = commits.flat_map(|commit| commit.unwrap().entries).collect();
    assert_eq!(read, all);
    assert!(other.verify(fixture.id).unwrap().is_sound());
    assert_eq!(other.summary(fixture.id).unwrap().entries, 2);
}

/// Runs something that root's right to write everywhere does not help.
fn unprivileged(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            work();
        });
    });
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_told_in_one_line() {
    let (fixture, all) = Fixture::with(&[1]).await;
    let day = fixture.day();
    let access = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    access(fixture.folder.path(), 0o755);
    access(fixture.files.root(), 0o555);
    access(&day, 0o555);
    access(&fixture.log(), 0o644);
    unprivileged(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = |doing: &str, path: &Path, error: Option<JournalError>| {
            let error = error.unwrap().to_string();
            let expected = format!("{doing} {}: Permission denied", path.display());
            assert!(error.starts_with(&expected) && !error.contains('\n'), "{error}");
        };
        let open = runtime.block_on(fixture.open());
        told("open for writing", &fixture.log().with_extension("lock"), open.err());
        let epoch = uuid::Uuid::from_u128(1).into();
        let log = fixture.files.create(epoch);
        let created = runtime.block_on(append(&*log, epoch, 0, &[entry(epoch.root(), "")]));
        told("make folder", &fixture.files.root().join("1970-01-01"), created.err());
        let posted = runtime.block_on(fixture.files.inbox(fixture.id).post(prompt("a")));
        told("open for writing", &fixture.log().with_extension("inbox.jsonl"), posted.err());
        // What is there can still be read.
        let commits = fixture.files.read(fixture.id, Pos(0)).unwrap();
        assert_eq!(commits.map(|commit| commit.unwrap().entries).next(), Some(all));
    });
    access(&day, 0o755);
    access(fixture.files.root(), 0o755);
}
