use std::time::{Duration, Instant};

use bowline_runtime::permission::shell::{self, Script};

/// No text makes the reader of commands panic, overflow the stack or take its time. What is quoted is read as
/// it was before it was quoted; of control characters, with which bash has trouble itself, it may be in
/// doubt.
pub fn shell(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let start = Instant::now();
    let _ = shell::read(&text);
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
    // A newline or a zero in a word is another law.
    let words: Vec<&str> = text.split(['\n', '\0']).collect();
    let command = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let script = shell::read(&format!("/a/program {command}"));
    let may_doubt = !script.doubts.is_empty() && command.contains(char::is_control);
    if !may_doubt {
        assert_eq!(known(&script), [&["/a/program"], &*words].concat(), "{command}");
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the words of the one program of a script.
fn known(script: &Script) -> Vec<&str> {
    match script.runs.as_slice() {
        [run] => run.words.iter().filter_map(|word| word.known()).collect(),
        _ => Vec::new(),
    }
}
