//! What is posted is delivered.

use std::time::Duration;

use tokio::time::timeout;

use bowline_agent::journal::{Inbox, JournalError};
use bowline_agent::op::Op;

use super::{
    Opener, append, broken, entry, law, law_eq, open, prompt, session, small_session, soon,
};

pub(super) async fn check(fresh: &impl Fn() -> Opener) {
    what_is_posted_is_taken_until_it_is_forgotten(&fresh()).await;
    posting_to_nothing_is_an_error(&fresh()).await;
    posts_survive(&fresh()).await;
    a_session_in_the_making_has_an_inbox(&fresh()).await;
    posts_are_noticed(&fresh()).await;
    posts_of_many_arrive_once(&fresh()).await;
}

async fn take(inbox: &dyn Inbox) -> Vec<Op> {
    inbox.take().await.unwrap_or_else(|error| broken("an inbox can be read", &error))
}

async fn post(inbox: &dyn Inbox, op: &Op) {
    let posted = inbox.post(op.clone()).await;
    posted.unwrap_or_else(|error| broken("one can post to a session that is there", &error));
}

async fn what_is_posted_is_taken_until_it_is_forgotten(opener: &Opener) {
    const LAW: &str = "what is posted is taken, in order and once, until it is forgotten";
    let store = opener();
    let id = small_session(&*store).await;
    let log = open(&*store, id).await;
    let inbox = log.inbox();
    law_eq!(LAW, take(&*inbox).await, Vec::new());
    let ops: Vec<Op> = ["a", "b\n\"", "c", "d"].map(prompt).into();
    for op in &ops {
        post(&*store.inbox(id), op).await;
        post(&*opener().inbox(id), op).await;
    }
    law_eq!(LAW, take(&*inbox).await, ops);
    law_eq!(LAW, take(&*inbox).await, ops);
    let [a, b, c, d] = ops.as_slice() else { return };
    law!(LAW, inbox.forget(&[c.id, a.id, prompt("unknown").id]).await.is_ok());
    law_eq!(LAW, take(&*inbox).await, [b.clone(), d.clone()]);
    law!(LAW, inbox.forget(&[]).await.is_ok());
    law!(LAW, inbox.forget(&[b.id, d.id]).await.is_ok());
    law_eq!(LAW, take(&*inbox).await, Vec::new());
    law!(LAW, inbox.forget(&[b.id]).await.is_ok());
    let late = prompt("late");
    post(&*store.inbox(id), &late).await;
    law_eq!(LAW, take(&*inbox).await, [late]);
}

async fn posting_to_nothing_is_an_error(opener: &Opener) {
    const LAW: &str = "nothing can be posted to a session that is not there";
    let id = session();
    let inbox = opener().inbox(id);
    law!(LAW, matches!(inbox.post(prompt("a")).await, Err(JournalError::NotFound(_))));
    law_eq!(LAW, take(&*inbox).await, Vec::new());
    law!(LAW, inbox.forget(&[prompt("a").id]).await.is_ok());
}

async fn posts_survive(opener: &Opener) {
    const LAW: &str = "a post survives the death of the process, and does not need the writer";
    let id = small_session(&*opener()).await;
    let op = prompt("a");
    post(&*opener().inbox(id), &op).await;
    law_eq!(LAW, take(&*opener().inbox(id)).await, std::slice::from_ref(&op));
    let log = open(&*opener(), id).await;
    law_eq!(LAW, take(&*log.inbox()).await, [op]);
}

async fn a_session_in_the_making_has_an_inbox(opener: &Opener) {
    const LAW: &str = "its own process can post to a session before its first commit";
    let store = opener();
    let id = session();
    let log = store.create(id);
    let ops: Vec<Op> = ["a", "b"].map(prompt).into();
    for (inbox, op) in [log.inbox(), store.inbox(id)].iter().zip(&ops) {
        post(&**inbox, op).await;
    }
    law_eq!(LAW, take(&*log.inbox()).await, ops);
    append(&*log, id.root(), 0, &[entry(id.root(), "")]).await;
    law_eq!(LAW, take(&*log.inbox()).await, ops);
}

async fn posts_are_noticed(opener: &Opener) {
    const LAW: &str = "the owner is told of every post since it took the last time";
    let id = small_session(&*opener()).await;
    let log = open(&*opener(), id).await;
    let inbox = log.inbox();
    // Before waiting, ...
    take(&*inbox).await;
    let first = prompt("first");
    post(&*opener().inbox(id), &first).await;
    soon(LAW, inbox.changed()).await;
    law_eq!(LAW, take(&*inbox).await, std::slice::from_ref(&first));
    // ... while a wait is given up, ...
    let _ = timeout(Duration::ZERO, inbox.changed()).await;
    post(&*opener().inbox(id), &prompt("second")).await;
    soon(LAW, inbox.changed()).await;
    law_eq!(LAW, take(&*inbox).await.len(), 2);
    // ... while waiting, for several rounds, in which it also forgets.
    law!(LAW, inbox.forget(&[first.id]).await.is_ok());
    for round in 0..4 {
        let waiting = async {
            while take(&*inbox).await.len() == round + 1 {
                inbox.changed().await;
            }
        };
        let poster = opener().inbox(id);
        let posting = async {
            tokio::task::yield_now().await;
            post(&*poster, &prompt("another")).await;
        };
        soon(LAW, async { tokio::join!(waiting, posting) }).await;
    }
}

async fn posts_of_many_arrive_once(opener: &Opener) {
    const LAW: &str = "of many who post while the owner forgets, every post arrives exactly once";
    const POSTERS: usize = 6;
    const POSTS: usize = 12;
    let id = small_session(&*opener()).await;
    let log = open(&*opener(), id).await;
    let inbox = log.inbox();
    let mut posters = tokio::task::JoinSet::new();
    let mut sent = Vec::new();
    for _ in 0..POSTERS {
        let poster = opener().inbox(id);
        let ops: Vec<Op> = (0..POSTS).map(|n| prompt(&n.to_string())).collect();
        sent.extend(ops.iter().map(|op| op.id));
        posters.spawn(async move {
            for op in &ops {
                post(&*poster, op).await;
                tokio::task::yield_now().await;
            }
        });
    }
    let mut got = Vec::new();
    soon(LAW, async {
        while got.len() < POSTERS * POSTS {
            let ops: Vec<_> = take(&*inbox).await.iter().map(|op| op.id).collect();
            law!(LAW, inbox.forget(&ops).await.is_ok());
            got.extend(ops);
            if got.len() < POSTERS * POSTS {
                inbox.changed().await;
            }
        }
    })
    .await;
    posters.join_all().await;
    law_eq!(LAW, take(&*inbox).await, Vec::new());
    sent.sort();
    got.sort();
    law_eq!(LAW, got, sent);
}
