use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::time::{Duration, SystemTime};

use bowline_agent::crew::Reflections as _;
use bowline_agent::id::AgentId;
use bowline_llm::Secret;
use jiff::Timestamp;
use pretty_assertions::assert_eq;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

/// A folder for reflections that is not there yet.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("project/reflections")
    }

    fn reflections(&self) -> Reflections {
        Reflections::new(self.folder(), Redaction::default())
    }

    /// Puts a file into the folder that is `age` seconds old.
    fn put(&self, name: &str, text: impl AsRef<[u8]>, age: u64) {
        fs::create_dir_all(self.folder()).unwrap();
        let path = self.folder().join(name);
        fs::write(&path, text).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

const START: &str = "2026-11-22T09:00:00Z";

/// A failure of the `number`th agent, so many seconds after the start.
fn failure(number: u32, task: &str, summary: &str) -> Failure {
    let start: Timestamp = START.parse().unwrap();
    Failure {
        id: AgentId::from(Uuid::from_u128(0x0198_0000_u128 << 96 | u128::from(number))),
        agent: format!("coder-{number}"),
        at: start + Duration::from_secs(number.into()),
        task: task.to_owned(),
        approach: None,
        summary: summary.to_owned(),
        caveats: None,
        files_modified: Vec::new(),
    }
}

async fn note_all(reflections: &Reflections, failures: impl IntoIterator<Item = Failure>) {
    for failure in failures {
        reflections.note(failure).await;
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_failure_becomes_a_file_that_says_what_is_known_of_it() {
    let place = Place::new();
    let failure = Failure {
        agent: "coder-fix-1".into(),
        approach: Some("read {\"path\":\"src/a.rs\"}".into()),
        caveats: Some("Start with the lexer.".into()),
        files_modified: vec!["src/a.rs".into(), "src/b.rs".into()],
        ..failure(10, "Make the parser faster.\n", "It exhausted its iteration limit.")
    };
    place.reflections().note(failure.clone()).await;
    assert_eq!(place.names(), ["coder-fix-1-20261122-090010-0000000a.md"]);
    let file = place.folder().join("coder-fix-1-20261122-090010-0000000a.md");
    let text = "\
# coder-fix-1 failed

Time: 2026-11-22T09:00:10Z

## Task

Make the parser faster.

## What was done

read {\"path\":\"src/a.rs\"}

## Why it failed

It exhausted its iteration limit.

## Files changed

- src/a.rs
- src/b.rs

## What to try

Start with the lexer.
";
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!((mode(&file), mode(&place.folder())), (0o600, 0o750));
    let note = Note {
        name: "coder-fix-1-20261122-090010-0000000a".into(),
        file,
        time: failure.at,
        agent: Some("coder-fix-1".into()),
        task: "Make the parser faster.".into(),
        reason: Some("It exhausted its iteration limit.".into()),
        text: text.into(),
    };
    assert_eq!(place.reflections().list(), Listed { notes: vec![note], refused: Vec::new() });
}

#[tokio::test]
async fn agents_that_fail_in_the_same_second_have_a_file_each() {
    let place = Place::new();
    let reflections = place.reflections();
    let at = START.parse().unwrap();
    let same =
        |number| Failure { agent: "coder".into(), at, ..failure(number, "Parse it.", "No.") };
    futures::future::join_all((0..8).map(|number| reflections.note(same(number)))).await;
    assert_eq!(place.names().len(), 8, "{:?}", place.names());
}

#[tokio::test]
async fn a_failure_that_is_told_twice_is_one_file() {
    let place = Place::new();
    let first = failure(1, "Parse it.", "No.");
    let again = Failure { at: first.at + Duration::from_secs(60), ..first.clone() };
    note_all(&place.reflections(), [first, again]).await;
    assert_eq!(place.names(), ["coder-1-20261122-090001-00000001.md"]);
}

#[tokio::test]
async fn a_draft_of_a_process_that_died_is_no_note_and_does_not_stay() {
    let place = Place::new();
    place.put(".00000001.draft", "# half", 0);
    place.put(".hidden.md", "Make the parser faster", 0);
    assert_eq!(place.reflections().list(), Listed::default());
    place.reflections().note(failure(1, "Parse it.", "No.")).await;
    assert_eq!(place.names(), [".hidden.md", "coder-1-20261122-090001-00000001.md"]);
}

#[tokio::test]
async fn what_a_redaction_knows_is_neither_written_nor_told() {
    let place = Place::new();
    let secret = "sk-very-secret-value";
    let redaction = Redaction::new([("openai".to_owned(), Secret::from(secret))]);
    let reflections = Reflections::new(place.folder(), redaction);
    // One lies where a long text is cut off.
    let long = format!("{}{secret}{}", "x".repeat(6 * 1024 - 8), "y".repeat(9000));
    let failure = Failure {
        agent: format!("coder {secret}"),
        task: format!("Rotate the credential {secret}"),
        caveats: Some(long),
        files_modified: vec![format!("keys/{secret}")],
        ..failure(1, "", &format!("{secret} was refused"))
    };
    reflections.note(failure).await;
    let name = &place.names()[0];
    let text = fs::read_to_string(place.folder().join(name)).unwrap();
    assert!(text.contains("[secret openai] was refused"), "{text}");
    assert!(text.contains("- keys/[secret openai]"), "{text}");
    assert!(!name.contains("very") && !text.contains("sk-very"), "{name}: {text}");
    place.put("mine.md", format!("Rotate the credential: not {secret}"), 0);
    let told = reflections.prior("Rotate the credential").await.unwrap();
    assert!(told.contains("not [secret openai]") && !told.contains(secret), "{told}");
}

#[tokio::test]
async fn nothing_is_known_where_nothing_was_written() {
    let place = Place::new();
    let reflections = place.reflections();
    assert_eq!(reflections.prior("Make the parser faster").await, None);
    assert_eq!(reflections.list(), Listed::default());
    fs::create_dir_all(place.folder()).unwrap();
    assert_eq!(reflections.prior("Make the parser faster").await, None);
    place.put("mine.md", "Make the parser faster", 0);
    for empty in ["", "the", "…"] {
        assert_eq!(reflections.prior(empty).await, None, "{empty:?}");
    }
}

#[tokio::test]
async fn of_ten_notes_the_newest_five_are_told() {
    let place = Place::new();
    let reflections = place.reflections();
    let failures = (0..10).map(|n| failure(n, "Make the parser faster", &format!("reason {n}")));
    note_all(&reflections, failures).await;
    let told = reflections.prior("Make the parser even faster").await.unwrap();
    let told: Vec<_> = told.split("\n\n---\n\n").map(|note| note.lines().last().unwrap()).collect();
    assert_eq!(told, ["reason 9", "reason 8", "reason 7", "reason 6", "reason 5"]);
}

#[tokio::test]
async fn no_more_is_told_than_there_is_room_for() {
    let place = Place::new();
    for (age, name) in ["a", "b", "c"].into_iter().enumerate() {
        let text = format!("Make the parser faster {name}{}", ".".repeat(20_000));
        place.put(&format!("{name}.md"), text, age as u64);
    }
    place.put("small.md", "Make the parser faster, said a small one", 9);
    let told = place.reflections().prior("Make the parser faster").await.unwrap();
    assert!(told.len() <= TOLD_BYTES, "{}", told.len());
    let notes: Vec<_> = told.split("\n\n---\n\n").collect();
    assert_eq!(notes.len(), 2);
    // What does not fit leaves its place to what does.
    assert_eq!(notes.iter().filter(|note| note.contains("small one")).count(), 1);
}

#[tokio::test]
async fn what_an_agent_says_at_length_still_fits() {
    let place = Place::new();
    let reflections = place.reflections();
    let long = "words like ünïcödé ".repeat(2000);
    let failure = Failure {
        caveats: Some(long.clone()),
        files_modified: (0..2000).map(|n| format!("src/{n}.rs")).collect(),
        ..failure(1, &long, &long)
    };
    reflections.note(failure).await;
    let told = reflections.prior(&long).await.unwrap();
    assert!(told.len() <= TOLD_BYTES, "{}", told.len());
    assert_eq!(told.matches("\n[cut off]").count(), 4);
}

#[tokio::test]
async fn words_of_any_task_are_no_resemblance() {
    let place = Place::new();
    let reflections = place.reflections();
    let failures = [
        failure(1, "Write a test file for the login form", "no browser"),
        failure(2, "Run the tests and fix the file that fails", "timeout"),
        failure(3, "Update contest profiles in the filesystem", "no rights"),
    ];
    note_all(&reflections, failures).await;
    for noise in [
        "file test",
        "Create a file with a test",
        "Test the file upload of the billing service with large invoices",
        "test profile file",
        "Fix the form of the invoices that customers download",
    ] {
        assert_eq!(reflections.prior(noise).await, None, "{noise}");
    }
    let told = reflections.prior("Add a file with a test for the LOGIN FORM!").await.unwrap();
    assert!(told.contains("no browser") && !told.contains("timeout"), "{told}");
}

#[tokio::test]
async fn what_is_most_alike_is_told_however_old_and_of_that_the_newest_first() {
    let place = Place::new();
    let reflections = place.reflections();
    let failures = [
        failure(1, "Port the tokenizer benchmark to Windows", "oldest"),
        failure(2, "Port the installer to Windows", "newer"),
        failure(3, "Write the installer manual", "newest"),
    ];
    note_all(&reflections, failures).await;
    let told = reflections.prior("Port the tokenizer benchmark to Windows 11").await.unwrap();
    let order: Vec<_> = told.lines().filter(|line| ["oldest", "newer"].contains(line)).collect();
    assert_eq!(order, ["newer", "oldest"]);
    assert!(!told.contains("newest"), "{told}");
}

#[tokio::test]
async fn a_reason_counts_for_no_resemblance_and_the_same_is_told_once() {
    let place = Place::new();
    let reflections = place.reflections();
    let failures = [
        failure(1, "Make the parser faster", "it exhausted  its iteration limit"),
        failure(2, "Make the parser\nfaster", "it exhausted its iteration limit"),
        failure(3, "Make the parser faster", "the benchmark is missing"),
    ];
    note_all(&reflections, failures).await;
    let told = reflections.prior("Make the parser faster").await.unwrap();
    let who: Vec<_> = told.lines().filter(|line| line.starts_with("# ")).collect();
    assert_eq!(who, ["# coder-3 failed", "# coder-2 failed"]);
    assert_eq!(reflections.prior("Raise the iteration limit of the benchmark").await, None);
}

#[tokio::test]
async fn a_file_that_is_none_is_left_out_and_named() {
    let place = Place::new();
    let task = "Make the parser faster";
    place.put("good.md", format!("{task}: a good note"), 0);
    place.put("huge.md", format!("{task} {}", "x".repeat(TOLD_BYTES)), 1);
    place.put("latin.md", b"Make the parser faster \xff", 2);
    place.put("other.txt", task, 3);
    fs::write(place.0.path().join("secret.md"), format!("{task}: outside")).unwrap();
    symlink(place.0.path().join("secret.md"), place.folder().join("link.md")).unwrap();
    symlink(place.0.path().join("nowhere"), place.folder().join("dangling.md")).unwrap();
    fs::create_dir(place.folder().join("folder.md")).unwrap();
    let pipe = place.folder().join("pipe.md");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let told = place.reflections().prior(task).await;
    assert_eq!(told.as_deref(), Some("Make the parser faster: a good note"));
    let listed = place.reflections().list();
    let mut refused: Vec<_> = listed
        .refused
        .iter()
        .map(|refused| (note::name_of(&refused.file).unwrap(), refused.what.as_str()))
        .collect();
    refused.sort_unstable();
    let link = "is a link; put the file itself there";
    assert_eq!(
        refused,
        [
            ("dangling", link),
            ("folder", "is no file"),
            ("huge", "has more than the 32 KiB that are told"),
            ("latin", "is not UTF-8"),
            ("link", link),
            ("pipe", "is no file"),
        ]
    );
}

#[tokio::test]
async fn a_folder_that_is_a_link_is_neither_read_nor_written() {
    let place = Place::new();
    let elsewhere = place.0.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(place.0.path().join("project")).unwrap();
    fs::write(elsewhere.join("mine.md"), "Make the parser faster").unwrap();
    symlink(&elsewhere, place.folder()).unwrap();
    let reflections = place.reflections();
    assert_eq!(reflections.prior("Make the parser faster").await, None);
    reflections.note(failure(1, "Make the parser faster", "no")).await;
    assert!(!reflections.delete("mine").unwrap());
    assert_eq!(place.names(), ["mine.md"]);
}

#[tokio::test]
async fn the_newest_two_hundred_of_agents_are_kept_and_those_of_people_always() {
    let place = Place::new();
    let reflections = place.reflections();
    place.put("mine.md", "Never do that.", 60 * 60 * 24 * 365 * 50);
    let failures = (1..=KEPT as u32 + 3).map(|n| failure(n, "Make the parser faster", "no"));
    note_all(&reflections, failures).await;
    let names = place.names();
    assert_eq!(names.len(), KEPT + 1);
    assert!(names.contains(&"mine.md".to_owned()));
    for (number, is_kept) in [(1, false), (3, false), (4, true), (KEPT + 3, true)] {
        let is_there = names.iter().any(|name| name.starts_with(&format!("coder-{number}-")));
        assert_eq!(is_there, is_kept, "{number}");
    }
}

#[tokio::test]
async fn a_note_is_deleted_by_its_name_and_nothing_outside_the_folder() {
    let place = Place::new();
    let reflections = place.reflections();
    place.put("mine.md", "Make the parser faster", 0);
    let outside = place.0.path().join("project/outside.md");
    fs::write(&outside, "").unwrap();
    for none in ["../outside", "outside", "", ".", "mine.md"] {
        assert!(!reflections.delete(none).unwrap(), "{none:?}");
    }
    symlink(&outside, place.folder().join("link.md")).unwrap();
    assert!(reflections.delete("link").unwrap());
    assert!(reflections.delete("mine").unwrap());
    assert_eq!((place.names(), outside.exists()), (Vec::new(), true));
}

#[tokio::test]
async fn where_nothing_can_be_written_nothing_fails() {
    let place = Place::new();
    fs::write(place.0.path().join("project"), "a file in the way").unwrap();
    place.reflections().note(failure(1, "Make the parser faster", "no")).await;
    assert_eq!(place.reflections().list(), Listed::default());
}
