//! Names that a repository chooses: none is two lines, none is shown as another, and tools take each as it
//! is shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::shown::is_harmless;
use super::support::{Home, Provider};
use super::{calls, told};

/// Names, as they are and as they are shown, in the order of their bytes.
const NAMES: [(&[u8], &str); 13] = [
    (b"\x1b]0;title\x07\x1b[2J", r#""\033]0;title\a\033[2J""#),
    (b"  indented", r#""  indented""#),
    (b"\"quoted\"", r#""\"quoted\"""#),
    (b"-rf", "-rf"),
    (b"12:needle is safe", "12:needle is safe"),
    (b"[9 more files; use a narrower pattern]", r#""[9 more files; use a narrower pattern]""#),
    (b"a\nREADME.md: nothing to see", r#""a\nREADME.md: nothing to see""#),
    (b"back\\nslash", r#""back\\nslash""#),
    (b"bad\xff\xfe", r#""bad\377\376""#),
    (b"c1\xc2\x9b2J", r#""c1\302\2332J""#),
    (b"gr\xc3\xb6\xc3\x9fe", "größe"),
    (b"l\xe2\x80\x8bs", r#""l\342\200\213s""#),
    (b"\xe2\x80\xaecod.exe", r#""\342\200\256cod.exe""#),
];

/// The same where it could be taken for a line of another file.
const AS_LINE: &str = "\"12:needle is safe\"";

/// Makes a repository with a file of each name, of which git knows none.
fn home(provider: &Provider) -> Home {
    let boxes = "[agents.default]\ntoolboxes = [\"filesystem\", \"search\", \"git\"]";
    let home = Home::with(provider, boxes);
    for (name, _) in NAMES {
        std::fs::write(home.work().join(OsStr::from_bytes(name)), "needle\n").unwrap();
    }
    let init = Command::new("git").args(["init", "--quiet"]).current_dir(home.work()).status();
    assert!(init.unwrap().success());
    home
}

#[test]
fn every_name_is_one_line_of_a_listing_and_only_its_own() {
    let calls = calls(vec![
        ("list", json!({})),
        ("glob", json!({ "pattern": "**/*" })),
        ("grep", json!({ "pattern": "needle" })),
        ("grep", json!({ "pattern": "needle", "files_only": true })),
        ("git_status", json!({ "short": true })),
    ]);
    let home = home(&calls);
    // Git would show names as they are.
    let config = home.work().join(".git/config");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\tquotePath = false\n")).unwrap();
    let told = told(&home, &calls, &[]);
    told.iter().for_each(|told| is_harmless(told));
    let names: Vec<&str> = NAMES.iter().map(|(_, shown)| *shown).collect();
    assert_eq!(told[0].lines().collect::<Vec<_>>(), names);
    // The newest first, and all of them are as new.
    let sorted = |lines: &str| {
        let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&told[1]), sorted(&names.join("\n")));
    let headings = names.iter().map(|name| name.replace("12:needle is safe", AS_LINE));
    let headings: Vec<String> = headings.collect();
    let matches: Vec<String> =
        headings.iter().flat_map(|name| [name.clone(), "1:needle".to_owned()]).collect();
    assert_eq!(told[2].lines().collect::<Vec<_>>(), matches);
    assert_eq!(told[3].lines().collect::<Vec<_>>(), headings);
    let untracked = told[4].lines().filter(|line| line.starts_with("?? "));
    assert_eq!(untracked.count(), NAMES.len(), "{}", told[4]);
}

#[test]
fn a_name_is_taken_as_it_is_shown() {
    let mut made: Vec<(&'static str, Value)> = Vec::new();
    for (_, shown) in NAMES {
        let changed = json!({ "path": shown, "old_string": "needle", "new_string": "thread" });
        made.extend([("read", json!({ "path": shown })), ("edit", changed)]);
        made.push(("grep", json!({ "pattern": "thread", "path": shown })));
        made.push(("git_diff", json!({ "path": shown })));
    }
    let calls = calls(made);
    let home = home(&calls);
    let add = Command::new("git").args(["add", "--all"]).current_dir(home.work()).status();
    assert!(add.unwrap().success());
    let told = told(&home, &calls, &[]);
    for ((name, shown), told) in NAMES.into_iter().zip(told.chunks(4)) {
        assert_eq!(told[0], "needle\n", "{shown}");
        assert!(told[1].contains(shown), "{shown}: {}", told[1]);
        assert!(told[2].ends_with("\n1:thread"), "{shown}: {}", told[2]);
        // What is no text cannot be an argument of a program here.
        let is_told = told[3].contains("\n-needle\n+thread");
        assert_eq!(is_told, str::from_utf8(name).is_ok(), "{shown}: {}", told[3]);
        told.iter().for_each(|told| is_harmless(told));
        let path = home.work().join(OsStr::from_bytes(name));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "thread\n", "{shown}");
    }
    assert_eq!(std::fs::read_dir(home.work()).unwrap().count(), NAMES.len() + 1);
    // What a person sees of it.
    let session = home.sessions().remove(0);
    for view in [
        &["diff", &session, "--stat"][..],
        &["diff", &session, "--json"],
        &["rewind", &session, "--list"],
    ] {
        let (code, out, err) = home.run(view);
        assert_eq!(code, 0, "{err}");
        is_harmless(&out);
        is_harmless(&err);
    }
}

/// Whoever looks at the arguments of a call, such as a hook, would look at another file.
#[test]
fn quotes_and_escapes_are_no_second_way_to_a_plain_name() {
    let written = [r#"".env""#, r#""\056env""#, r#""a\tb/../.env""#, r#""./\".env""#];
    let calls = calls(written.map(|path| ("read", json!({ "path": path }))).into());
    let home = home(&calls);
    std::fs::write(home.work().join(".env"), "PLAIN=words\n").unwrap();
    let told = told(&home, &calls, &["--mode", "bypass"]);
    assert!(told.iter().all(|told| !told.contains("words")), "{told:?}");
}
