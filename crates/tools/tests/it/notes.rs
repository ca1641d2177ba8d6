//! Notes, as several agents write them.

use std::sync::Arc;

use bowline_agent::event::AgentMeta;
use bowline_agent::id::SystemSource;
use bowline_agent::tool::{DynTool, ToolContext};
use bowline_tools::{ListNotes, NotesPlace, ReadNote, WriteNote};
use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::desk::{Desk, failure};

fn place(desk: &Desk) -> NotesPlace {
    NotesPlace::Folder(desk.path(".bowline/notes"))
}

/// Returns the desk of an agent with this name, which knows only what it has read itself.
fn become_agent(desk: &mut Desk, name: &str) {
    desk.cx = ToolContext::standalone(Arc::new(SystemSource), None);
    let agent = AgentMeta { name: name.to_owned(), ..(*desk.cx.agent).clone() };
    desk.cx.agent = Arc::new(agent);
}

async fn write(
    desk: &Desk,
    name: &str,
    content: &str,
) -> Result<String, bowline_agent::tool::ToolError> {
    desk.call(WriteNote(place(desk)), json!({ "name": name, "content": content })).await
}

// 125
#[tokio::test]
async fn notes_are_written_read_and_listed() {
    let mut desk = Desk::new();
    become_agent(&mut desk, "planner");
    assert_eq!(desk.call(ListNotes(place(&desk)), json!({})).await.unwrap(), "No notes found.");
    let long = format!("\n  {} end\nmore", "x".repeat(90));
    assert_eq!(write(&desk, "plan", &long).await.unwrap(), "note plan written");
    assert_eq!(write(&desk, "plan", "\nFirst\nsecond").await.unwrap(), "note plan replaced");
    write(&desk, "a-long_1", &long).await.unwrap();
    // A person's, with a head of its own; and what is no note.
    desk.put(".bowline/notes/human.md", "---\ntitle: x\n---\nhello");
    desk.put(".bowline/notes/other.txt", "no");
    desk.put(".bowline/notes/.hidden.md", "no");
    let listed = desk.call(ListNotes(place(&desk)), json!({})).await.unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(
        lines[0].starts_with(&format!("- a-long_1: {}… — planner, 20", "x".repeat(80))),
        "{listed}"
    );
    assert_eq!(lines[1], "- human: --- — author unknown");
    assert!(lines[2].starts_with("- plan: First — planner, 20"), "{listed}");
    assert_eq!(lines.len(), 3);
    let read = desk.call(ReadNote(place(&desk)), json!({ "name": "plan" })).await.unwrap();
    let (head, content) = read.split_once('\n').unwrap();
    assert!(head.starts_with("[planner, 20") && head.ends_with("Z]"), "{head}");
    assert_eq!(content, "\nFirst\nsecond");
    let human = desk.call(ReadNote(place(&desk)), json!({ "name": "human" })).await.unwrap();
    assert_eq!(human, "[author unknown]\n---\ntitle: x\n---\nhello");
    let missing = desk.call(ReadNote(place(&desk)), json!({ "name": "plam" })).await;
    assert_eq!(failure(missing), "there is no note plam; did you mean plan?");
}

// 125
#[tokio::test]
async fn no_name_leads_elsewhere() {
    let desk = Desk::new();
    for name in ["", "..", "../x", "a/b", "/etc/x", "a.b", "ä", "a b", &"x".repeat(101)] {
        assert!(failure(write(&desk, name, "x").await).contains("is no name of a note"), "{name}");
        let read = desk.call(ReadNote(place(&desk)), json!({ "name": name })).await;
        assert!(failure(read).contains("is no name of a note"), "{name}");
    }
    assert!(!desk.path(".bowline").exists());
}

#[tokio::test]
async fn no_note_is_lost_to_one_who_has_not_read_it() {
    let mut desk = Desk::new();
    become_agent(&mut desk, "one");
    write(&desk, "plan", "one's").await.unwrap();
    become_agent(&mut desk, "two");
    let why = failure(write(&desk, "plan", "two's").await);
    assert!(
        why.starts_with("there is a note plan that you have not read as it is now (one, "),
        "{why}"
    );
    desk.call(ReadNote(place(&desk)), json!({ "name": "plan" })).await.unwrap();
    assert_eq!(write(&desk, "plan", "one's and two's").await.unwrap(), "note plan replaced");
    // A call that a crash cut off after it had written.
    become_agent(&mut desk, "two");
    assert_eq!(write(&desk, "plan", "one's and two's").await.unwrap(), "note plan replaced");
}

#[test]
fn of_two_who_write_one_note_at_once_one_is_told() {
    let desk = Desk::new();
    let written: Vec<bool> = std::thread::scope(|scope| {
        let write = |n: usize| {
            let tool = Arc::new(WriteNote(place(&desk)));
            scope.spawn(move || {
                let mut cx = ToolContext::standalone(Arc::new(SystemSource), None);
                cx.agent =
                    Arc::new(AgentMeta { name: format!("agent-{n}"), ..(*cx.agent).clone() });
                let content = format!("{n}").repeat(100_000);
                let arguments = json!({ "name": "plan", "content": content }).to_string();
                let prepared = tool.prepare(&arguments).unwrap();
                (prepared.run)(cx).now_or_never().unwrap().is_ok()
            })
        };
        let all: Vec<_> = (0..6).map(write).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(written.iter().filter(|written| **written).count(), 1);
    let winner = written.iter().position(|written| *written).unwrap();
    let text = desk.get(".bowline/notes/plan.md");
    assert!(text.ends_with(&format!("---\n{}", winner.to_string().repeat(100_000))));
}

#[tokio::test]
async fn the_notes_of_a_session_are_with_the_session() {
    let desk = Desk::new();
    let place = NotesPlace::Session(desk.workspace.clone());
    desk.call(WriteNote(place), json!({ "name": "x", "content": "y" })).await.unwrap();
    assert!(desk.root.path().join("session/notes/x.md").is_file());
}

#[tokio::test]
async fn a_link_among_the_notes_leads_nowhere() {
    let mut desk = Desk::new();
    become_agent(&mut desk, "planner");
    let outside = desk.workspace.cwd.with_file_name("outside");
    std::fs::write(&outside, "hidden words\n").unwrap();
    desk.put(".bowline/notes/mine.md", "x");
    for (name, target) in [("link", outside.clone()), ("new", outside.with_file_name("made"))] {
        std::os::unix::fs::symlink(target, desk.path(&format!(".bowline/notes/{name}.md")))
            .unwrap();
    }
    let read = async |name: &str| desk.call(ReadNote(place(&desk)), json!({ "name": name })).await;
    assert!(failure(read("link").await).contains("it is a link"));
    for name in ["link", "new"] {
        assert!(failure(write(&desk, name, "mine").await).contains("it is a link"), "{name}");
    }
    let listed = desk.call(ListNotes(place(&desk)), json!({})).await.unwrap();
    assert_eq!(listed, "- mine: x — author unknown");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "hidden words\n");
    assert!(!outside.with_file_name("made").exists());
}

#[tokio::test]
async fn a_pipe_or_an_endless_file_among_the_notes_is_not_waited_for() {
    let mut desk = Desk::new();
    become_agent(&mut desk, "planner");
    desk.put(".bowline/notes/mine.md", "x");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    for pipe in ["pipe.md", ".lock"] {
        let path = desk.path(&format!(".bowline/notes/{pipe}"));
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    std::fs::File::create(desk.path(".bowline/notes/huge.md")).unwrap().set_len(1 << 40).unwrap();
    let listed = desk.call(ListNotes(place(&desk)), json!({})).await.unwrap();
    assert_eq!(listed, "- mine: x — author unknown");
    let read = async |name: &str| desk.call(ReadNote(place(&desk)), json!({ "name": name })).await;
    assert!(failure(read("pipe").await).contains("it is no file"));
    assert!(failure(read("huge").await).contains("it has more than 4 MiB"));
    assert!(failure(write(&desk, "other", "mine").await).contains("cannot write to"));
}
