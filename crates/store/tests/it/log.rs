//! The form of the log, and what is written when.

use std::fs;
use std::io::Write as _;

use bowline_agent::entry::{Custom, Entry, EntryKind};
use bowline_agent::journal::{JournalError, Pos, Seq, Store as _};
use bowline_llm::{CallId, RawJson};
use bowline_store::conformance::{entry, session};
use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};

use crate::fixture::{Fixture, append, names};

#[tokio::test]
async fn lines_have_the_form_of_the_law() {
    let (fixture, all) = Fixture::with(&[1, 3, 2]).await;
    let text = fs::read_to_string(fixture.log()).unwrap();
    let mut previous = [0; 32];
    let mut pos = 0;
    for line in text.lines() {
        let body = line.split_once(r#"","#).unwrap().1;
        assert!(body.starts_with(r#""pos":"#));
        let digest = Sha256::digest([&previous[..], body.as_bytes()].concat());
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let size = body.matches(r#"{"v":1,"#).count();
        let entries = serde_json::to_string(&all[pos..pos + size]).unwrap();
        assert_eq!(line, format!(r#"{{"hash":"{hash}","pos":{pos},"entries":{entries}}}"#));
        previous = digest.into();
        pos += size;
    }
    assert_eq!((pos, text.lines().count()), (6, 3));
    assert!(text.ends_with("}\n"));
}

#[tokio::test]
async fn nothing_is_on_the_disk_before_the_first_commit() {
    let fixture = Fixture::new();
    let log = fixture.files.create(fixture.id);
    assert_eq!(names(fixture.folder.path()), [""; 0]);
    let folder = log.folder().unwrap();
    append(&*log, fixture.id, 0, &[entry(fixture.id.root(), "")]).await.unwrap();
    let date = uuid::Uuid::from(fixture.id).get_timestamp().unwrap().to_unix().0;
    let date = jiff::Timestamp::from_second(date.try_into().unwrap()).unwrap();
    let day = fixture.files.root().join(date.strftime("%Y-%m-%d").to_string());
    assert_eq!(fixture.day(), day);
    assert_eq!(folder, day.join(fixture.id.to_string()));
    let id = fixture.id;
    assert_eq!(names(&day), [format!("{id}.jsonl"), format!("{id}.lock")]);
    drop(log);
    assert_eq!(names(&day), [format!("{id}.jsonl")]);
}

#[tokio::test]
async fn sessions_are_for_their_owners_eyes() {
    use std::os::unix::fs::PermissionsExt as _;
    let (fixture, _) = Fixture::with(&[1]).await;
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(fixture.log()), 0o600);
    assert_eq!(mode(fixture.day()), 0o700);
}

#[tokio::test]
async fn a_session_that_was_moved_to_another_day_is_found() {
    let (fixture, all) = Fixture::with(&[2]).await;
    fs::rename(fixture.day(), fixture.files.root().join("archive")).unwrap();
    assert_eq!(fixture.reread().await.unwrap(), all);
    assert_eq!(fixture.files.verify(fixture.id).unwrap().entries, 2);
}

#[tokio::test]
async fn ids_that_tell_no_time_have_a_place_too() {
    let fixture = Fixture::new();
    let id = uuid::Uuid::from_u128(7).into();
    let log = fixture.files.create(id);
    append(&*log, id, 0, &[entry(id.root(), "")]).await.unwrap();
    drop(log);
    assert!(fixture.again().open(id).await.is_ok());
}

#[tokio::test]
async fn a_newline_in_raw_json_does_not_end_the_line() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let data = RawJson::parse("{\n  \"a\": \"x\\ny\",\n  \"b\": 1.10\n}").unwrap();
    let kind = EntryKind::Custom(Custom { name: "raw".into(), call: None, data });
    let log = fixture.open().await.unwrap();
    append(&*log, fixture.id, 1, &[Entry { kind, ..entry(fixture.id.root(), "") }]).await.unwrap();
    drop(log);
    let all = fixture.reread().await.unwrap();
    let EntryKind::Custom(custom) = &all[1].kind else { panic!("{:?}", all[1]) };
    assert_eq!(custom.data.as_str(), "{   \"a\": \"x\\ny\",   \"b\": 1.10 }");
}

#[tokio::test]
async fn a_long_log_is_read_from_any_position() {
    let fixture = Fixture::new();
    let (root, child) = (fixture.id.root(), fixture.id.root().child(&CallId::from("c"), "1"));
    let log = fixture.files.create(fixture.id);
    let text = "x".repeat(1000);
    let mut seqs = [0, 0];
    let mut all = Vec::new();
    for n in 0..400 {
        let which = usize::from(n % 7 == 3);
        let agent = [root, child][which];
        let commit = vec![entry(agent, &text); 1 + n % 3];
        let commit: Vec<Entry> =
            commit.into_iter().map(|one| Entry { id: entry(agent, "").id, ..one }).collect();
        log.journal(agent).append(Seq(seqs[which]), &commit).await.unwrap();
        seqs[which] += commit.len() as u64;
        all.extend(commit);
    }
    let check = async |log: &dyn bowline_agent::journal::SessionLog| {
        for from in [1, 50, 51, 399, 400, 401, 700, all.len() - 1, all.len(), all.len() + 5] {
            let read = log.read(Pos(from as u64)).await.unwrap();
            let expected = all.iter().enumerate().skip(from);
            assert!(read.iter().map(|(pos, _)| pos.0 as usize).eq(expected.map(|(pos, _)| pos)));
            assert!(read.iter().map(|(_, entry)| entry).eq(all.iter().skip(from)));
        }
        let its = log.journal(child).read().await.unwrap();
        assert!(its.iter().all(|(pos, entry)| all[pos.0 as usize] == *entry));
        assert_eq!(its.len() as u64, seqs[1]);
    };
    check(&*log).await;
    drop(log);
    let log = fixture.open().await.unwrap();
    check(&*log).await;
    // Without the lock, commit by commit.
    for from in [0, 1, 401, all.len()] {
        let commits = fixture.files.read(fixture.id, Pos(from as u64)).unwrap();
        let commits: Vec<_> = commits.map(Result::unwrap).collect();
        let read: Vec<&Entry> = commits.iter().flat_map(|commit| &commit.entries).collect();
        let first = commits.first().map_or(all.len(), |commit| commit.pos.0 as usize);
        assert!(first <= from && from < first + 3 || from == all.len());
        assert!(read.into_iter().eq(&all[first..]));
    }
}

#[tokio::test]
async fn entries_of_which_a_part_is_there_are_no_repetition() {
    let (fixture, all) = Fixture::with(&[1, 2]).await;
    let log = fixture.open().await.unwrap();
    let new = entry(fixture.id.root(), "new");
    for (after, entries, result) in [
        (0, &[all[0].clone(), new.clone()][..], None),
        (2, &[all[2].clone(), new][..], None),
        (0, &all[..2], Some(Pos(0))),
        (2, &all[2..], Some(Pos(2))),
    ] {
        let appended = append(&*log, fixture.id, after, entries).await;
        assert_eq!(appended.as_ref().ok(), result.as_ref(), "{appended:?}");
    }
    assert_eq!(log.tip().0, Pos(3));
}

#[tokio::test]
async fn an_entry_of_another_agent_is_refused() {
    let (fixture, all) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let other = entry(session().root(), "");
    let error = append(&*log, fixture.id, 1, &[other]).await.unwrap_err();
    assert!(error.to_string().contains("is not of this agent"), "{error}");
    drop(log);
    assert_eq!(fixture.reread().await.unwrap(), all);
}

#[tokio::test]
async fn who_writes_without_the_lock_is_noticed() {
    let (fixture, _) = Fixture::with(&[1]).await;
    let log = fixture.open().await.unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(fixture.log()).unwrap();
    file.write_all(b"something\n").unwrap();
    let refused = append(&*log, fixture.id, 1, &[entry(fixture.id.root(), "")]).await;
    assert!(matches!(refused, Err(JournalError::Fenced(_))), "{refused:?}");
    fs::remove_file(fixture.log()).unwrap();
    file.set_len(0).unwrap();
    let refused = append(&*log, fixture.id, 1, &[entry(fixture.id.root(), "")]).await;
    assert!(matches!(refused, Err(JournalError::Corrupt { .. })), "{refused:?}");
}

#[tokio::test]
async fn syncing_succeeds_at_every_moment() {
    let fixture = Fixture::new();
    let log = fixture.files.create(fixture.id);
    log.sync().await.unwrap();
    log.blobs().put(b"body").await.unwrap();
    log.sync().await.unwrap();
    for n in 0..3 {
        append(&*log, fixture.id, n, &[entry(fixture.id.root(), "")]).await.unwrap();
        log.blobs().put(format!("body {n}").as_bytes()).await.unwrap();
        let (one, two) = tokio::join!(log.sync(), log.sync());
        one.and(two).unwrap();
    }
    // A body that was deleted before it was synced is nobody's loss.
    log.blobs().put(b"another").await.unwrap();
    fs::remove_dir_all(log.folder().unwrap()).unwrap();
    log.sync().await.unwrap();
}

#[test]
fn a_store_works_without_a_runtime_as_far_as_it_can() {
    let fixture = Fixture::new();
    let log = fixture.files.create(fixture.id);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let first = [entry(fixture.id.root(), "")];
    let mut append = std::pin::pin!(append(&*log, fixture.id, 0, &first));
    assert!(matches!(append.as_mut().poll(&mut cx), std::task::Poll::Ready(Ok(Pos(0)))));
    let mut sync = std::pin::pin!(log.sync());
    assert!(matches!(sync.as_mut().poll(&mut cx), std::task::Poll::Ready(Ok(()))));
}
