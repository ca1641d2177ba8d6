use std::fs;
use std::path::Path;

use bowline_agent::conversation::Conversation;
use bowline_agent::id::SessionId;
use bowline_agent::journal::{JournalError, Pos, Store as _};
use bowline_store::{Durability, Files};
use sha2::{Digest as _, Sha256};

use crate::desk::in_memory;

/// The session that every input is the log of.
const SESSION: &str = "01a202ac1d9c7542b3c79096c1bccff5";

/// Reading a log changes nothing of it. What is read are its first lines, in their order; where it ends
/// early `verify` says at which line. Opening it to write cuts off a torn last line and nothing else, or
/// refuses it as it is: if it is damaged, or if a later version wrote it.
///
/// An input that begins with `#` is a log after that; of any other each line lacks only the hash, which
/// is put before it.
pub fn log(data: &[u8]) {
    let bytes = match data.strip_prefix(b"#") {
        Some(log) => log.to_vec(),
        None => with_hashes(data),
    };
    let root = in_memory();
    let path = root.path().join(format!("2024-12-20/{SESSION}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, &bytes).unwrap();
    let files = Files::new(root.path(), Durability::Process);
    let id: SessionId = SESSION.parse().unwrap();
    // An empty log is none.
    let Ok(report) = files.verify(id) else { return assert!(bytes.is_empty()) };
    let whole = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    let bad = report.problem.as_ref().map(|problem| problem.line);
    assert_eq!(report.commits, bad.map_or(whole, |line| line - 1), "{report:?}");
    let is_torn = bytes.last().is_some_and(|last| *last != b'\n');
    assert!(bad.is_some() || report.torn_line.is_some() == is_torn, "{report:?}");
    let _ = (files.summary(id), files.latest_start(id));
    let entries = read(&files, id);
    assert_eq!(entries.len() as u64, report.entries);
    let _ = Conversation::replay(&entries);
    assert_eq!(fs::read(&path).unwrap(), bytes, "it was only read");
    open(&files, id, &path, &bytes, bad.is_none());
}

fn read(files: &Files, id: SessionId) -> Vec<bowline_agent::entry::Entry> {
    let commits = files.read(id, Pos(0)).unwrap();
    commits.map_while(Result::ok).flat_map(|commit| commit.entries).collect()
}

fn open(files: &Files, id: SessionId, path: &Path, before: &[u8], is_sound: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let opened = runtime.block_on(files.open(id));
    let after = fs::read(path).unwrap();
    let sound = match before.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => before.get(..=end).unwrap_or_default(),
        None => &[],
    };
    match opened {
        Ok(_) => {
            assert!(is_sound, "it is damaged");
            assert_eq!(after, sound, "a torn line and nothing else was to go");
        }
        Err(error) => {
            let is_later = matches!(error, JournalError::ReadOnly { .. });
            assert!(!is_sound || sound.is_empty() || is_later, "{error}");
            assert_eq!(after, before, "it was refused");
        }
    }
}

/// Makes a log of its lines without hashes. A last line without an end stays one.
fn with_hashes(data: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    let mut last = [0; 32];
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        last = Sha256::new().chain_update(last).chain_update(content).finalize().into();
        let hash: String = last.iter().map(|byte| format!("{byte:02x}")).collect();
        log.extend_from_slice(format!("{{\"hash\":\"{hash}\",").as_bytes());
        log.extend_from_slice(line);
    }
    log
}
