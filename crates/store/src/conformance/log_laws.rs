//! What is appended is read.

use std::collections::HashMap;

use bowline_agent::entry::{Entry, EntryKind};
use bowline_agent::id::AgentId;
use bowline_agent::journal::{JournalError, Pos, Seq};
use bowline_llm::{CallId, RawJson};

use super::{Opener, append, at, entries_of, entry, law, law_eq, open, session};

pub(super) async fn check(fresh: &impl Fn() -> Opener) {
    a_session_appears_with_its_first_commit(&fresh()).await;
    what_is_appended_is_read(&fresh()).await;
    each_agent_has_its_log(&fresh()).await;
    commits_of_many_agents_are_whole(&fresh()).await;
    unknown_kinds_are_kept(&fresh()).await;
    critical_unknown_kinds_forbid_writing(&fresh()).await;
    the_tip_moves_with_commits(&fresh()).await;
}

async fn a_session_appears_with_its_first_commit(opener: &Opener) {
    const LAW: &str = "a session appears with its first commit";
    let id = session();
    let log = opener().create(id);
    law_eq!(LAW, entries_of(&*log).await, Vec::new());
    law_eq!(LAW, log.tip().0, Pos(0));
    law!(LAW, log.journal(id.root()).read().await.is_ok_and(|entries| entries.is_empty()));
    law!(LAW, matches!(opener().open(id).await, Err(JournalError::NotFound(_))));
    drop(log);
    law!(LAW, matches!(opener().open(id).await, Err(JournalError::NotFound(_))));
    let log = opener().create(id);
    let first = [entry(id.root(), "first")];
    append(&*log, id.root(), 0, &first).await;
    drop(log);
    law_eq!(LAW, entries_of(&*open(&*opener(), id).await).await, at(0, &first));
}

async fn what_is_appended_is_read(opener: &Opener) {
    const LAW: &str = "what is appended is read, at once and by the next process, in order";
    let id = session();
    let root = id.root();
    let log = opener().create(id);
    let mut all = Vec::new();
    for size in [1, 3, 1, 2] {
        let commit: Vec<Entry> =
            (0..size).map(|n| entry(root, &format!("{n} of {size}\n\"\\\u{1f9f5}"))).collect();
        let pos = append(&*log, root, all.len() as u64, &commit).await;
        law_eq!(LAW, pos, Pos(all.len() as u64));
        all.extend(commit);
        law_eq!(LAW, entries_of(&*log).await, at(0, &all));
    }
    drop(log);
    let log = open(&*opener(), id).await;
    law_eq!(LAW, entries_of(&*log).await, at(0, &all));
    for from in 0..=all.len() {
        let tail = log.read(Pos(from as u64)).await.ok();
        law_eq!(LAW, tail, Some(at(0, &all).split_off(from)));
    }
    let more = [entry(root, "more")];
    law_eq!(LAW, append(&*log, root, all.len() as u64, &more).await, Pos(all.len() as u64));
    all.extend(more);
    law_eq!(LAW, entries_of(&*log).await, at(0, &all));
    drop(log);
    // What opening has read is not all once there is more.
    let log = open(&*opener(), id).await;
    let more = [entry(root, "even more")];
    append(&*log, root, all.len() as u64, &more).await;
    all.extend(more);
    law_eq!(LAW, log.journal(root).read().await.ok(), Some(at(0, &all)));
}

async fn each_agent_has_its_log(opener: &Opener) {
    const LAW: &str = "an agent reads its own log, and counts its own entries";
    let id = session();
    let root = id.root();
    let child = root.child(&CallId::from("call"), "1");
    let log = opener().create(id);
    let entries = [entry(root, "a"), entry(child, "b"), entry(root, "c"), entry(child, "d")];
    for (n, one) in entries.iter().enumerate() {
        let pos = append(&*log, one.agent, n as u64 / 2, std::slice::from_ref(one)).await;
        law_eq!(LAW, pos, Pos(n as u64));
    }
    drop(log);
    let log = open(&*opener(), id).await;
    for agent in [child, root] {
        let its: Vec<(Pos, Entry)> =
            at(0, &entries).into_iter().filter(|(_, entry)| entry.agent == agent).collect();
        // Twice, as a store may have kept what it read when it was opened.
        law_eq!(LAW, log.journal(agent).read().await.ok(), Some(its.clone()));
        law_eq!(LAW, log.journal(agent).read().await.ok(), Some(its));
    }
    law_eq!(LAW, entries_of(&*log).await, at(0, &entries));
    let stranger = root.child(&CallId::from("call"), "2");
    law_eq!(LAW, log.journal(stranger).read().await.ok(), Some(Vec::new()));
    append(&*log, child, 2, &[entry(child, "e")]).await;
    append(&*log, stranger, 0, &[entry(stranger, "f")]).await;
    append(&*log, root, 2, &[entry(root, "g")]).await;
}

async fn commits_of_many_agents_are_whole(opener: &Opener) {
    const LAW: &str = "commits of several agents at once are each whole and together gapless";
    let id = session();
    let log = opener().create(id);
    append(&*log, id.root(), 0, &[entry(id.root(), "root")]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let agent: AgentId = id.root().child(&CallId::from("call"), &n.to_string());
        let journal = log.journal(agent);
        tasks.spawn(async move {
            let mut positions = Vec::new();
            for turn in 0..10 {
                let commit = [entry(agent, "one"), entry(agent, "two")];
                let pos = journal.append(Seq(turn * 2), &commit).await;
                positions.extend(pos.ok().zip(Some(commit)));
                tokio::task::yield_now().await;
            }
            positions
        });
    }
    let appended: HashMap<Pos, [Entry; 2]> = tasks.join_all().await.into_iter().flatten().collect();
    law_eq!(LAW, appended.len(), 80);
    drop(log);
    let all = entries_of(&*open(&*opener(), id).await).await;
    law_eq!(LAW, all.len(), 161);
    for (pos, [one, two]) in appended {
        let there = all.iter().skip_while(|(at, _)| *at < pos).take(2);
        let there: Vec<&Entry> = there.map(|(_, entry)| entry).collect();
        law_eq!(LAW, there, [&one, &two]);
    }
    law!(LAW, all.iter().map(|(pos, _)| *pos).eq((0..161).map(Pos)));
}

fn unknown(agent: AgentId, critical: bool) -> Option<Entry> {
    // Keys in disorder, spaces, numbers that lose digits in a float.
    let text =
        r#"{"z": 1,  "a": 0.1000000000000000055511151231257827, "big": 123456789012345678901}"#;
    let kind =
        EntryKind::Unknown { kind: "from_the_future".into(), data: RawJson::parse(text).ok()? };
    Some(Entry { critical, kind, ..entry(agent, "") })
}

async fn unknown_kinds_are_kept(opener: &Opener) {
    const LAW: &str = "an unknown kind is kept byte for byte";
    let id = session();
    let log = opener().create(id);
    let commit: Vec<Entry> =
        unknown(id.root(), false).into_iter().chain([entry(id.root(), "known")]).collect();
    law_eq!(LAW, commit.len(), 2);
    append(&*log, id.root(), 0, &commit).await;
    drop(log);
    law_eq!(LAW, entries_of(&*open(&*opener(), id).await).await, at(0, &commit));
}

async fn critical_unknown_kinds_forbid_writing(opener: &Opener) {
    const LAW: &str = "a session with a critical unknown kind is not opened for writing";
    let id = session();
    let log = opener().create(id);
    let commit: Vec<Entry> = unknown(id.root(), true).into_iter().collect();
    append(&*log, id.root(), 0, &commit).await;
    drop(log);
    law!(LAW, matches!(opener().open(id).await, Err(JournalError::ReadOnly { .. })));
    // Being refused leaves nothing behind.
    law!(LAW, matches!(opener().open(id).await, Err(JournalError::ReadOnly { .. })));
}

async fn the_tip_moves_with_commits(opener: &Opener) {
    const LAW: &str = "the tip is the position after the last commit and a hash of all before it";
    let id = session();
    let log = opener().create(id);
    append(&*log, id.root(), 0, &[entry(id.root(), "a")]).await;
    let first = log.tip();
    append(&*log, id.root(), 1, &[entry(id.root(), "b"), entry(id.root(), "c")]).await;
    let second = log.tip();
    law_eq!(LAW, (first.0, second.0), (Pos(1), Pos(3)));
    law_eq!(LAW, first.1.is_some(), second.1.is_some());
    law!(LAW, first.1.is_none() || first.1 != second.1);
    law!(LAW, log.sync().await.is_ok());
    drop(log);
    law_eq!(LAW, open(&*opener(), id).await.tip(), second);
}
