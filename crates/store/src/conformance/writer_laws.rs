//! There is one writer, and it never writes twice.

use bowline_agent::journal::{JournalError, Pos, Seq};
use bowline_llm::CallId;

use super::{Opener, append, at, entries_of, entry, law, law_eq, open, prompt, session};

pub(super) async fn check(fresh: &impl Fn() -> Opener) {
    there_is_one_writer(&fresh()).await;
    creating_what_is_there_harms_nothing(&fresh()).await;
    an_append_elsewhere_is_fenced(&fresh()).await;
    a_repeated_append_changes_nothing(&fresh()).await;
}

async fn there_is_one_writer(opener: &Opener) {
    const LAW: &str = "a session has one writer, until its last handle is dropped";
    let store = opener();
    let id = session();
    let log = store.create(id);
    append(&*log, id.root(), 0, &[entry(id.root(), "a")]).await;
    let is_busy = async || {
        let by = |error| match error {
            JournalError::Busy { session, pid } => session == id && pid == std::process::id(),
            _ => false,
        };
        store.open(id).await.is_err_and(by) && opener().open(id).await.is_err_and(by)
    };
    law!(LAW, is_busy().await);
    let journal = log.journal(id.root());
    drop(log);
    law!(LAW, is_busy().await);
    drop(journal);
    let log = open(&*store, id).await;
    law!(LAW, is_busy().await);
    drop(log);
    // An inbox and large bodies are for everybody: they do not hold the session.
    let log = open(&*opener(), id).await;
    let _others = (log.inbox(), log.blobs(), store.inbox(id));
    drop(log);
    open(&*opener(), id).await;
}

async fn creating_what_is_there_harms_nothing(opener: &Opener) {
    const LAW: &str = "creating a session that is there harms nothing";
    let store = opener();
    let id = session();
    let log = store.create(id);
    let first = [entry(id.root(), "first")];
    append(&*log, id.root(), 0, &first).await;
    drop(log);
    let op = prompt("kept");
    law!(LAW, store.inbox(id).post(op.clone()).await.is_ok());
    let again = opener().create(id);
    let refused = again.journal(id.root()).append(Seq(0), &[entry(id.root(), "again")]).await;
    law!(LAW, matches!(refused, Err(JournalError::Fenced(agent)) if agent == id.root()));
    drop(again);
    drop(opener().create(id));
    law_eq!(LAW, store.inbox(id).take().await.ok(), Some(vec![op]));
    law_eq!(LAW, entries_of(&*open(&*opener(), id).await).await, at(0, &first));
}

async fn an_append_elsewhere_is_fenced(opener: &Opener) {
    const LAW: &str = "an append that expects another length is fenced and changes nothing";
    let id = session();
    let (root, child) = (id.root(), id.root().child(&CallId::from("call"), "1"));
    let log = opener().create(id);
    let first = [entry(root, "a"), entry(root, "b")];
    append(&*log, root, 0, &first).await;
    for (agent, after) in [(root, 0), (root, 1), (root, 3), (child, 1)] {
        let refused = log.journal(agent).append(Seq(after), &[entry(agent, "no")]).await;
        law!(LAW, matches!(refused, Err(JournalError::Fenced(fenced)) if fenced == agent));
    }
    law_eq!(LAW, entries_of(&*log).await, at(0, &first));
    law_eq!(LAW, append(&*log, child, 0, &[entry(child, "yes")]).await, Pos(2));
    law_eq!(LAW, append(&*log, root, 2, &[entry(root, "yes")]).await, Pos(3));
}

async fn a_repeated_append_changes_nothing(opener: &Opener) {
    const LAW: &str = "a repeated append changes nothing and returns the first position";
    let id = session();
    let (root, child) = (id.root(), id.root().child(&CallId::from("call"), "1"));
    let mut log = opener().create(id);
    let commits = [
        (root, 0, vec![entry(root, "a")]),
        (child, 0, vec![entry(child, "b"), entry(child, "c")]),
        (root, 1, vec![entry(root, "d"), entry(root, "e")]),
        (root, 3, vec![entry(root, "f")]),
    ];
    let firsts = [0, 1, 3, 5].map(Pos);
    for ((agent, after, commit), first) in commits.iter().zip(firsts) {
        for _ in 0..2 {
            law_eq!(LAW, append(&*log, *agent, *after, commit).await, first);
        }
    }
    let all = entries_of(&*log).await;
    law_eq!(LAW, all.len(), 6);
    for _ in 0..2 {
        for ((agent, after, commit), first) in commits.iter().zip(firsts) {
            law_eq!(LAW, append(&*log, *agent, *after, commit).await, first);
        }
        law_eq!(LAW, entries_of(&*log).await, all);
        drop(log);
        log = open(&*opener(), id).await;
    }
}
