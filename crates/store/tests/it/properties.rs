//! What holds for every log.

use std::fs;

use bowline_agent::entry::Entry;
use bowline_agent::journal::{Pos, Seq, SessionLog, Store as _};
use bowline_llm::CallId;
use bowline_store::conformance::entry;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::fixture::Fixture;

/// Commits as an agent's number and the texts of its entries.
type Commits = Vec<(u8, Vec<String>)>;

fn commits() -> impl Strategy<Value = Commits> {
    vec((0..3_u8, vec(any::<String>(), 1..4)), 1..12)
}

/// Writes commits and returns their entries and the bytes of the log after each commit.
async fn write(fixture: &Fixture, commits: &Commits) -> (Vec<Vec<Entry>>, Vec<u64>) {
    let log = fixture.files.create(fixture.id);
    let mut seqs = [0; 3];
    let mut written = Vec::new();
    let mut lengths = Vec::new();
    for (who, texts) in commits {
        let root = fixture.id.root();
        let agent = match who {
            0 => root,
            n => root.child(&CallId::from("call"), &n.to_string()),
        };
        let commit: Vec<Entry> = texts.iter().map(|text| entry(agent, text)).collect();
        let seq = &mut seqs[usize::from(*who)];
        log.journal(agent).append(Seq(*seq), &commit).await.unwrap();
        *seq += commit.len() as u64;
        written.push(commit);
        lengths.push(fixture.log().metadata().unwrap().len());
    }
    (written, lengths)
}

fn positioned(commits: &[Vec<Entry>]) -> Vec<(Pos, Entry)> {
    (0..).map(Pos).zip(commits.iter().flatten().cloned()).collect()
}

async fn check_reads(log: &dyn SessionLog, all: &[(Pos, Entry)], from: Pos) {
    assert_eq!(log.tip().0, Pos(all.len() as u64));
    let from_there = all.iter().filter(|(pos, _)| *pos >= from).cloned().collect::<Vec<_>>();
    assert_eq!(log.read(from).await.unwrap(), from_there);
    for (_, entry) in all {
        let its = all.iter().filter(|(_, other)| other.agent == entry.agent).cloned();
        assert_eq!(log.journal(entry.agent).read().await.unwrap(), its.collect::<Vec<_>>());
    }
    assert_eq!(log.read(Pos(0)).await.unwrap(), all);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_written_is_read(commits in commits(), from in any::<Index>()) {
        block_on(async {
            let fixture = Fixture::new();
            let (written, _) = write(&fixture, &commits).await;
            let all = positioned(&written);
            let from = Pos(from.index(all.len() + 1) as u64);
            check_reads(&*fixture.open().await.unwrap(), &all, from).await;
            let report = fixture.files.verify(fixture.id).unwrap();
            assert!(report.is_sound() && report.torn_line.is_none());
            assert_eq!((report.commits, report.entries), (written.len() as u64, all.len() as u64));
        });
    }

    #[test]
    fn a_log_cut_anywhere_is_a_log_of_fewer_commits(commits in commits(), cut in any::<Index>()) {
        block_on(async {
            let fixture = Fixture::new();
            let (written, lengths) = write(&fixture, &commits).await;
            let whole = fs::read(fixture.log()).unwrap();
            let cut = cut.index(whole.len());
            fs::write(fixture.log(), &whole[..cut]).unwrap();
            let left = lengths.iter().filter(|length| **length <= cut as u64).count();
            match fixture.open().await {
                Ok(log) => check_reads(&*log, &positioned(&written[..left]), Pos(0)).await,
                Err(error) => assert_eq!(left, 0, "{error}"),
            }
        });
    }

    #[test]
    fn an_altered_byte_is_reported(
        commits in commits(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        block_on(async {
            let fixture = Fixture::new();
            write(&fixture, &commits).await;
            let mut bytes = fs::read(fixture.log()).unwrap();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            fs::write(fixture.log(), bytes).unwrap();
            let report = fixture.files.verify(fixture.id).unwrap();
            prop_assert!(report.problem.is_some() || report.torn_line.is_some());
            Ok(())
        })?;
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..300)) {
        block_on(async {
            let (fixture, _) = Fixture::with(&[1]).await;
            fs::write(fixture.log(), &bytes).unwrap();
            let _ = fixture.files.summary(fixture.id);
            let _ = fixture.files.list(None).unwrap().count();
            assert!(fixture.open().await.is_err());
            fs::write(fixture.log().with_extension("inbox.jsonl"), &bytes).unwrap();
            let _ = fixture.files.inbox(fixture.id).take().await;
        });
    }
}
