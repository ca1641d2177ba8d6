//! The file of what was posted.

use std::fs;
use std::io::Write as _;

use bowline_agent::journal::{Inbox, JournalError, Store as _};
use bowline_agent::op::Op;
use bowline_store::conformance::{entry, prompt};
use pretty_assertions::assert_eq;

use crate::fixture::{Fixture, append, names};

fn lines(ops: &[Op]) -> String {
    ops.iter().map(|op| serde_json::to_string(op).unwrap() + "\n").collect()
}

#[tokio::test]
async fn a_post_is_a_line() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let path = fixture.log().with_extension("inbox.jsonl");
    let ops: Vec<Op> = ["a", "b", "c"].map(prompt).into();
    let inbox = fixture.files.inbox(fixture.id);
    for op in &ops {
        inbox.post(op.clone()).await.unwrap();
        inbox.post(ops[0].clone()).await.unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), lines(&ops));
    inbox.forget(&[ops[1].id]).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), lines(&[ops[0].clone(), ops[2].clone()]));
    inbox.forget(&[ops[0].id, ops[2].id]).await.unwrap();
    assert_eq!(names(&fixture.day()), [format!("{}.jsonl", fixture.id)]);
}

#[tokio::test]
async fn a_torn_post_is_not_taken_and_the_next_poster_repairs_it() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let path = fixture.log().with_extension("inbox.jsonl");
    let ops: Vec<Op> = ["a", "b", "c"].map(prompt).into();
    let whole = lines(&ops[..2]);
    let inbox = fixture.files.inbox(fixture.id);
    for length in lines(&ops[..1]).len()..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(inbox.take().await.unwrap(), ops[..1]);
        fixture.again().inbox(fixture.id).post(ops[2].clone()).await.unwrap();
        assert_eq!(inbox.take().await.unwrap(), [ops[0].clone(), ops[2].clone()]);
    }
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    inbox.forget(&[ops[0].id]).await.unwrap();
    assert_eq!(inbox.take().await.unwrap(), []);
}

#[tokio::test]
async fn what_is_no_operation_is_told_and_one_of_a_later_version_waits() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let path = fixture.log().with_extension("inbox.jsonl");
    let op = prompt("a");
    let inbox = fixture.files.inbox(fixture.id);
    let later = format!("{{\"id\":\"{}\",\"at\":\"soon\",\"kind\":\"x\"}}\n", prompt("").id);
    fs::write(&path, later.clone() + &lines(std::slice::from_ref(&op))).unwrap();
    assert_eq!(inbox.take().await.unwrap(), std::slice::from_ref(&op));
    inbox.forget(&[op.id]).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), later);
    fs::write(&path, lines(&[op]) + "garbage\n").unwrap();
    let error = inbox.take().await.unwrap_err().to_string();
    assert!(error.contains("inbox.jsonl line 2 is corrupt: it is no operation"), "{error}");
}

#[tokio::test]
async fn what_was_posted_to_a_session_that_never_came_to_be_is_gone() {
    let fixture = Fixture::new();
    let log = fixture.files.create(fixture.id);
    log.inbox().post(prompt("a")).await.unwrap();
    let elsewhere = fixture.again().inbox(fixture.id).post(prompt("b")).await;
    assert!(matches!(elsewhere, Err(JournalError::NotFound(_))));
    drop(log);
    assert_eq!(names(&fixture.day()), [""; 0]);
    let late = fixture.files.inbox(fixture.id).post(prompt("c")).await;
    assert!(matches!(late, Err(JournalError::NotFound(_))));
}

#[tokio::test]
async fn the_owner_is_not_woken_by_what_it_does_itself() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let inbox = log.inbox();
    let ops: Vec<Op> = ["a", "b"].map(prompt).into();
    for op in &ops {
        fixture.files.inbox(fixture.id).post(op.clone()).await.unwrap();
    }
    inbox.take().await.unwrap();
    append(&*log, fixture.id, 1, &[entry(fixture.id.root(), "")]).await.unwrap();
    for op in &ops {
        inbox.forget(&[op.id]).await.unwrap();
        assert!(!is_changed(&*inbox).await);
    }
    // What came between taking and forgetting is news, whatever was forgotten.
    fixture.files.inbox(fixture.id).post(ops[0].clone()).await.unwrap();
    inbox.take().await.unwrap();
    fixture.files.inbox(fixture.id).post(ops[1].clone()).await.unwrap();
    inbox.forget(&[ops[0].id]).await.unwrap();
    assert!(is_changed(&*inbox).await);
    assert!(is_changed(&*inbox).await, "until it is taken");
}

#[tokio::test]
async fn what_is_posted_while_the_owner_forgets_is_news() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let inbox = log.inbox();
    let poster = fixture.files.inbox(fixture.id);
    for _ in 0..500 {
        let ops: Vec<Op> = ["a", "b", "c"].map(prompt).into();
        poster.post(ops[0].clone()).await.unwrap();
        poster.post(ops[1].clone()).await.unwrap();
        assert_eq!(inbox.take().await.unwrap(), ops[..2]);
        // One is left, so the inbox is shortened and not removed.
        let first = [ops[0].id];
        let (forgot, posted) = tokio::join!(inbox.forget(&first), poster.post(ops[2].clone()));
        forgot.and(posted).unwrap();
        assert!(is_changed(&*inbox).await);
        assert_eq!(inbox.take().await.unwrap(), ops[1..]);
        inbox.forget(&[ops[1].id, ops[2].id]).await.unwrap();
    }
}

#[tokio::test]
async fn an_inbox_that_looks_like_one_that_is_gone_is_news() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let inbox = log.inbox();
    let poster = fixture.files.inbox(fixture.id);
    let ops: Vec<Op> = ["a", "b", "c"].map(prompt).into();
    poster.post(ops[0].clone()).await.unwrap();
    assert_eq!(inbox.take().await.unwrap(), ops[..1]);
    poster.post(ops[1].clone()).await.unwrap();
    inbox.forget(&[ops[0].id, ops[1].id]).await.unwrap();
    assert!(!is_changed(&*inbox).await, "nothing is left");
    // It is as long as the one that was taken, and may get its inode.
    poster.post(ops[2].clone()).await.unwrap();
    assert!(is_changed(&*inbox).await);
    assert_eq!(inbox.take().await.unwrap(), ops[2..]);
}

#[tokio::test]
async fn a_post_as_long_as_the_torn_one_that_it_replaces_is_news() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let inbox = log.inbox();
    let path = fixture.log().with_extension("inbox.jsonl");
    let (long, short) = (prompt("a long one"), prompt("short"));
    let length = lines(std::slice::from_ref(&short)).len();
    fs::write(&path, &lines(&[long])[..length]).unwrap();
    // Long ago, since some systems tell the time in steps.
    let torn = fs::File::options().write(true).open(&path).unwrap();
    torn.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(inbox.take().await.unwrap(), []);
    assert!(!is_changed(&*inbox).await);
    fixture.files.inbox(fixture.id).post(short.clone()).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), length as u64);
    assert!(is_changed(&*inbox).await);
    assert_eq!(inbox.take().await.unwrap(), [short]);
}

/// Tells whether it returns without having to wait.
async fn is_changed(inbox: &dyn Inbox) -> bool {
    tokio::select! {
        biased;
        () = inbox.changed() => true,
        () = tokio::task::yield_now() => false,
    }
}

#[tokio::test]
async fn an_inbox_written_to_by_hand_is_noticed() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let inbox = log.inbox();
    inbox.take().await.unwrap();
    let op = prompt("a");
    let by_hand = async {
        tokio::task::yield_now().await;
        let path = fixture.log().with_extension("inbox.jsonl");
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(lines(std::slice::from_ref(&op)).as_bytes()).unwrap();
    };
    tokio::join!(inbox.changed(), by_hand);
    assert_eq!(inbox.take().await.unwrap(), [op]);
}
