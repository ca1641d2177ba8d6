//! Finding, deleting and verifying sessions.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use bowline_agent::entry::{Entry, EntryKind, UserSaid, Via};
use bowline_agent::id::{AgentId, SessionId};
use bowline_agent::journal::{JournalError, Store as _};
use bowline_llm::{Part, Stored, StoredKind, UserMessage};
use bowline_store::conformance::{entry, prompt};
use bowline_store::files::ResolveError;
use pretty_assertions::assert_eq;

use crate::fixture::{Fixture, append, names};

#[tokio::test]
async fn a_session_is_found_by_the_beginning_of_its_id() {
    let fixture = Fixture::new();
    let ids = [0xa1, 0xa2, 0xb1].map(|n: u128| SessionId::from(uuid::Uuid::from_u128(n << 120)));
    for id in ids {
        let log = fixture.files.create(id);
        append(&*log, id, 0, &[entry(id.root(), "")]).await.unwrap();
    }
    let resolve = |prefix: &str| fixture.files.resolve(prefix);
    assert_eq!(resolve("a1").unwrap(), ids[0]);
    assert_eq!(resolve("B").unwrap(), ids[2]);
    assert_eq!(resolve(&ids[1].to_string()).unwrap(), ids[1]);
    let Err(ResolveError::Ambiguous { count: 2, .. }) = resolve("a") else { panic!() };
    for missing in ["", "c", "a10000f", "../a1", "a1.jsonl", &"0".repeat(32)] {
        assert!(matches!(resolve(missing), Err(ResolveError::Missing(_))), "{missing}");
    }
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_all_that_belongs_to_it() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let (files, id) = (&fixture.files, fixture.id);
    let log = fixture.open().await.unwrap();
    let inbox = files.inbox(id);
    inbox.post(prompt("a")).await.unwrap();
    log.blobs().put(b"body").await.unwrap();
    fs::write(log.folder().unwrap().join("output.txt"), "output").unwrap();
    assert!(matches!(files.delete(id), Err(JournalError::Busy { .. })));
    assert_eq!(names(&fixture.day()).len(), 5);
    drop(log);
    files.delete(id).unwrap();
    assert_eq!(names(&fixture.day()), [""; 0]);
    assert!(matches!(files.delete(id), Err(JournalError::NotFound(_))));
    assert!(matches!(inbox.post(prompt("b")).await, Err(JournalError::NotFound(_))));
    assert_eq!(names(&fixture.day()), [""; 0]);
    assert_eq!(files.list(None).unwrap().count(), 0);
}

/// An entry that refers to a large body.
fn referring(agent: AgentId, hash: &str) -> Entry {
    let stored = Stored {
        kind: StoredKind::Text,
        hash: hash.into(),
        bytes: 4,
        media_type: None,
        name: None,
    };
    let message = Arc::new(UserMessage { content: vec![Part::Stored(stored)] });
    let kind = EntryKind::User(UserSaid { message, via: Via::Prompt, op: None });
    Entry { kind, ..entry(agent, "") }
}

#[tokio::test]
async fn missing_and_altered_bodies_are_reported() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let mut hashes = Vec::new();
    for body in [&b"whole"[..], b"missing", b"altered"] {
        hashes.push(log.blobs().put(body).await.unwrap());
        let referring = [referring(fixture.id.root(), hashes.last().unwrap())];
        append(&*log, fixture.id, hashes.len(), &referring).await.unwrap();
    }
    let report = fixture.files.verify(fixture.id).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let blobs = log.folder().unwrap().join("blobs");
    fs::remove_file(blobs.join(&hashes[1])).unwrap();
    fs::write(blobs.join(&hashes[2]), "other").unwrap();
    let report = fixture.files.verify(fixture.id).unwrap();
    assert_eq!(report.missing_blobs, [hashes[1].clone()]);
    assert_eq!(report.altered_blobs, [hashes[2].clone()]);
    assert!(!report.is_sound() && report.problem.is_none());
}

#[tokio::test]
async fn all_sessions_are_verified_whatever_one_is_like() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let other = bowline_store::conformance::session();
    append(&*fixture.files.create(other), other, 0, &[entry(other.root(), "")]).await.unwrap();
    fs::write(fixture.log(), "nonsense\n").unwrap();
    let reports: Vec<_> = fixture.files.verify_all().unwrap().collect();
    assert_eq!(reports.len(), 2);
    for (id, report) in reports {
        assert_eq!(report.unwrap().is_sound(), id == other);
    }
}

#[tokio::test]
async fn a_fork_gets_the_bodies_it_refers_to() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let hash = log.blobs().put(b"body").await.unwrap();
    let copied = referring(fixture.id.root(), &hash);
    let hashes = copied.kind.bodies();
    assert_eq!(hashes, [hash.as_str()]);
    let fork = bowline_store::conformance::session();
    let forked = fixture.files.create(fork);
    for _ in 0..2 {
        fixture.files.copy_blobs(fixture.id, fork, &hashes).unwrap();
    }
    assert_eq!(forked.blobs().get(&hash).await.unwrap(), b"body");
    let inode = |log: &dyn bowline_agent::journal::SessionLog| {
        fs::metadata(log.folder().unwrap().join("blobs").join(&hash)).unwrap().ino()
    };
    assert_eq!(inode(&*log), inode(&*forked));
    let missing = fixture.files.copy_blobs(fixture.id, fork, &[&"0".repeat(64)]);
    assert!(matches!(missing, Err(JournalError::NotFound(_))));
    // The fork keeps them when what it comes from is deleted.
    drop(log);
    fixture.files.delete(fixture.id).unwrap();
    assert_eq!(forked.blobs().get(&hash).await.unwrap(), b"body");
    assert_eq!(fixture.files.blob(fork, &hash).unwrap(), b"body");
}
