//! Large bodies are kept by what they are.

use bowline_agent::journal::JournalError;

use super::{Opener, law, law_eq, open, small_session};

pub(super) async fn check(fresh: &impl Fn() -> Opener) {
    a_body_is_found_by_its_hash(&fresh()).await;
    what_is_no_hash_finds_nothing(&fresh()).await;
}

async fn a_body_is_found_by_its_hash(opener: &Opener) {
    const LAW: &str = "a body is kept once and found by its SHA-256, by the next process too";
    let id = small_session(&*opener()).await;
    let log = open(&*opener(), id).await;
    let large: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let bodies: [&[u8]; 3] = [b"abc", b"", &large];
    let mut hashes = Vec::new();
    for body in bodies {
        let hash = log.blobs().put(body).await.ok();
        law_eq!(LAW, log.blobs().put(body).await.ok(), hash);
        hashes.extend(hash);
    }
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    law_eq!(LAW, hashes.first().map(String::as_str), Some(known));
    law_eq!(LAW, hashes.len(), 3);
    drop(log);
    let log = open(&*opener(), id).await;
    for (hash, body) in hashes.iter().zip(bodies) {
        law!(LAW, log.blobs().get(hash).await.is_ok_and(|found| found == body));
    }
}

async fn what_is_no_hash_finds_nothing(opener: &Opener) {
    const LAW: &str = "what is no hash of a body finds nothing";
    let id = small_session(&*opener()).await;
    let log = open(&*opener(), id).await;
    law!(LAW, log.blobs().put(b"somebody's").await.is_ok());
    let nobodys = "0".repeat(64);
    for hash in [nobodys.as_str(), "", "..", "../../etc/passwd", &"g".repeat(64)] {
        law!(LAW, matches!(log.blobs().get(hash).await, Err(JournalError::NotFound(_))));
    }
}
