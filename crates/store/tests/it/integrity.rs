//! Logs that are not what was written.

use std::fs;

use bowline_agent::journal::{JournalError, Pos, Store as _};
use bowline_store::conformance::entry;
use bowline_store::files::Problem;
use pretty_assertions::assert_eq;

use crate::fixture::{Fixture, append, names};

#[tokio::test]
async fn a_log_cut_anywhere_in_its_last_line_loses_that_commit_alone() {
    let (fixture, all) = Fixture::with(&[1, 2, 2]).await;
    let whole = fs::read(fixture.log()).unwrap();
    let last = 1 + whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    for length in last..whole.len() {
        fs::write(fixture.log(), &whole[..length]).unwrap();
        let report = fixture.files.verify(fixture.id).unwrap();
        assert_eq!((report.commits, report.entries, report.is_sound()), (2, 3, true));
        assert_eq!(report.torn_line, (length > last).then_some(3));
        // Reading repairs nothing, opening for writing does.
        assert_eq!(fs::read(fixture.log()).unwrap().len(), length);
        assert_eq!(fixture.reread().await.unwrap(), all[..3]);
        assert_eq!(fs::read(fixture.log()).unwrap(), whole[..last]);
    }
    fs::write(fixture.log(), &whole[..last + 100]).unwrap();
    let log = fixture.open().await.unwrap();
    append(&*log, fixture.id, 3, &all[3..]).await.unwrap();
    assert_eq!(fs::read(fixture.log()).unwrap(), whole);
}

#[tokio::test]
async fn a_session_whose_first_commit_was_cut_is_not_there() {
    let (fixture, all) = Fixture::with(&[2]).await;
    let whole = fs::read(fixture.log()).unwrap();
    for length in [0, 1, 100, whole.len() - 1] {
        fs::write(fixture.log(), &whole[..length]).unwrap();
        assert!(matches!(fixture.open().await, Err(JournalError::NotFound(_))));
        assert_eq!(fixture.files.list(None).unwrap().count(), 0);
        let log = fixture.again().create(fixture.id);
        append(&*log, fixture.id, 0, &all).await.unwrap();
        drop(log);
        assert_eq!(fs::read(fixture.log()).unwrap(), whole);
    }
    assert_eq!(names(&fixture.day()).len(), 1);
}

/// Checks that a log is corrupt at a line, in every way of looking at it, and stays as it is.
async fn assert_corrupt(fixture: &Fixture, line: u64) {
    let before = fs::read(fixture.log()).unwrap();
    let report = fixture.files.verify(fixture.id).unwrap();
    let Some(Problem { line: found, reason }) = report.problem else { panic!("{report:?}") };
    assert_eq!((found, report.commits), (line, line - 1), "{reason}");
    let error = fixture.open().await.err().unwrap();
    assert!(matches!(error, JournalError::Corrupt { .. }));
    let expected = format!("{} line {line} is corrupt: {reason}", fixture.log().display());
    assert_eq!(error.to_string(), expected);
    let read: Vec<_> = fixture.files.read(fixture.id, Pos(0)).unwrap().collect();
    assert_eq!(read.iter().filter(|commit| commit.is_ok()).count() as u64, line - 1);
    assert!(read.last().is_some_and(Result::is_err));
    assert_eq!(fs::read(fixture.log()).unwrap(), before);
    assert_eq!(names(&fixture.day()).len(), 1, "the lock is let go of");
}

#[tokio::test]
async fn a_dropped_doubled_or_moved_line_is_found() {
    let (fixture, _) = Fixture::with(&[1, 2, 1, 1]).await;
    let whole = fs::read_to_string(fixture.log()).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for (order, line) in [
        (&[1, 2, 3][..], 1),
        (&[0, 2, 3], 2),
        (&[0, 1, 3], 3),
        (&[0, 0, 1, 2, 3], 2),
        (&[0, 1, 2, 3, 3], 5),
        (&[1, 0, 2, 3], 1),
        (&[0, 1, 3, 2], 3),
    ] {
        fs::write(fixture.log(), order.iter().map(|n| lines[*n]).collect::<String>()).unwrap();
        assert_corrupt(&fixture, line).await;
    }
    let with_empty_line = format!("{}\n{}", lines[0], lines[1]);
    fs::write(fixture.log(), with_empty_line).unwrap();
    assert_corrupt(&fixture, 2).await;
}

#[tokio::test]
async fn every_altered_byte_is_reported() {
    let (fixture, _) = Fixture::with(&[1, 2]).await;
    let whole = fs::read(fixture.log()).unwrap();
    for at in 0..whole.len() {
        for mask in [0x01, 0x20, 0x80] {
            let mut altered = whole.clone();
            altered[at] ^= mask;
            fs::write(fixture.log(), &altered).unwrap();
            let report = fixture.files.verify(fixture.id).unwrap();
            let is_reported = report.problem.is_some() || report.torn_line.is_some();
            assert!(is_reported, "byte {at} ^ {mask}: {report:?}");
            // Only the end of the last line can pass for a commit that never happened.
            assert_eq!(report.problem.is_none(), at == whole.len() - 1, "byte {at} ^ {mask}");
        }
    }
}

#[tokio::test]
async fn a_line_whose_hash_was_made_to_fit_must_still_be_a_commit() {
    use sha2::{Digest as _, Sha256};
    let (fixture, _) = Fixture::with(&[1]).await;
    let first = fs::read_to_string(fixture.log()).unwrap();
    let entries = first.split_once(r#""entries":"#).unwrap().1.trim_end();
    for (body, reason) in [
        (format!(r#""pos":1,"entries":{entries}"#), "its pos is 1 where 0 comes next"),
        (r#""pos":0,"entries":[]}"#.to_owned(), "it holds no entries"),
        (r#""pos":0,"entries":[{}]}"#.to_owned(), "it does not parse: "),
        (format!(r#""pos":0,"more":1,"entries":{entries}"#), "it does not parse: "),
    ] {
        let digest = Sha256::digest([&[0; 32], body.as_bytes()].concat());
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(fixture.log(), format!("{{\"hash\":\"{hash}\",{body}\n")).unwrap();
        let problem = fixture.files.verify(fixture.id).unwrap().problem.unwrap();
        assert!(problem.reason.starts_with(reason), "{}", problem.reason);
        assert_corrupt(&fixture, 1).await;
    }
}

#[tokio::test]
async fn an_altered_body_is_not_given_out() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let hash = log.blobs().put(b"a body").await.unwrap();
    let path = log.folder().unwrap().join("blobs").join(&hash);
    fs::write(&path, b"another").unwrap();
    let error = log.blobs().get(&hash).await.unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { .. }));
    assert!(error.to_string().contains(&hash), "{error}");
    append(&*log, fixture.id, 1, &[entry(fixture.id.root(), "")]).await.unwrap();
}
