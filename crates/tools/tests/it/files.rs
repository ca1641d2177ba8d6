//! Reading, writing and editing files.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;

use bowline_agent::tool::{DynTool, ToolError};
use bowline_llm::Part;
use bowline_tools::{Edit, Read, Write};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::desk::{Desk, failure};

async fn read(desk: &Desk, arguments: Value) -> Result<String, ToolError> {
    desk.call(Read::new(desk.workspace.clone()), arguments).await
}

async fn write(desk: &Desk, path: &str, content: &str) -> Result<String, ToolError> {
    let arguments = json!({ "path": path, "content": content });
    desk.call(Write::new(desk.workspace.clone()), arguments).await
}

async fn edit(desk: &Desk, path: &str, old: &str, new: &str) -> Result<String, ToolError> {
    let arguments = json!({ "path": path, "old_string": old, "new_string": new });
    desk.call(Edit::new(desk.workspace.clone()), arguments).await
}

#[tokio::test]
async fn a_file_is_read_as_it_is() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n\ttwo\n");
    desk.put("b.txt", "\u{feff}one\r\ntwo");
    desk.put("empty", "");
    assert_eq!(read(&desk, json!({ "path": "a.txt" })).await.unwrap(), "one\n\ttwo\n");
    assert_eq!(read(&desk, json!({ "file_path": "b.txt" })).await.unwrap(), "one\ntwo");
    assert_eq!(read(&desk, json!({ "path": "empty" })).await.unwrap(), "(empty file)");
}

#[tokio::test]
async fn a_long_file_is_read_in_pages() {
    let mut desk = Desk::new();
    let content: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    desk.put("long", &content);
    let page = read(&desk, json!({ "path": "long", "offset": 10, "limit": 2 })).await.unwrap();
    assert_eq!(page, "line 10\nline 11\n[lines 10-11 of 5000; go on with offset 12]");
    let page = read(&desk, json!({ "path": "long" })).await.unwrap();
    assert!(page.ends_with("line 2000\n[lines 1-2000 of 5000; go on with offset 2001]"));
    let page = read(&desk, json!({ "path": "long", "offset": 4999 })).await.unwrap();
    assert_eq!(page, "line 4999\nline 5000\n");
    let beyond = failure(read(&desk, json!({ "path": "long", "offset": 5001 })).await);
    assert_eq!(beyond, "offset 5001 is beyond the end: there are 5000 lines");
    desk.cx.output_bytes = 1000;
    let page = read(&desk, json!({ "path": "long" })).await.unwrap();
    assert!(page.len() <= 1000 && page.contains("of 5000; go on with offset"), "{page}");
    desk.put("wide", "é".repeat(5000));
    let page = read(&desk, json!({ "path": "wide" })).await.unwrap();
    assert!(page.ends_with("\n[line 1 has 10000 bytes and is cut; see more of it with bash]"));
}

#[tokio::test]
async fn what_cannot_be_read_says_what_to_do() {
    let desk = Desk::new();
    desk.put("src/main.rs", "fn main() {}");
    desk.put("blob", [0, 1, 2, 3]);
    let text = |path: &str| read(&desk, json!({ "path": path }));
    assert_eq!(
        failure(text("src/mian.rs").await),
        "there is no src/mian.rs; did you mean src/main.rs?"
    );
    assert_eq!(
        failure(text("lib/x/main.rs").await),
        format!(
            "there is no lib/x/main.rs: its folder is missing; {} exists",
            desk.workspace.cwd.display()
        )
    );
    assert_eq!(failure(text("src").await), "src is a folder; see what is in it with list");
    assert!(failure(text("blob").await).starts_with("blob is binary (4 bytes); "));
    assert_eq!(failure(text("/dev/null").await), "/dev/null is no regular file");
}

#[tokio::test]
async fn an_image_is_shown() {
    let desk = Desk::new();
    desk.put("a.png", [0x89, b'P', b'N', b'G', 1, 2]);
    let tool = Read::new(desk.workspace.clone());
    let parts = desk.parts(&Arc::new(tool), json!({ "path": "a.png" })).await.unwrap();
    let [Part::Text(note), Part::Image(image)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!(note, "a.png: image/png, 6 bytes");
    assert_eq!((image.media_type.as_str(), &*image.data), ("image/png", "iVBORwEC"));
}

#[tokio::test]
async fn a_new_file_gets_its_folders() {
    let desk = Desk::new();
    assert_eq!(
        write(&desk, "a/b/c.txt", "one\ntwo\n").await.unwrap(),
        "created a/b/c.txt (2 lines)"
    );
    assert_eq!(desk.get("a/b/c.txt"), "one\ntwo\n");
    // What it has written it knows.
    assert_eq!(edit(&desk, "a/b/c.txt", "one", "1").await.unwrap(), "edited a/b/c.txt (line 1)");
    assert_eq!(write(&desk, "a/b/c.txt", "x").await.unwrap(), "wrote a/b/c.txt (1 lines)");
    assert_eq!(std::fs::read_dir(desk.path("a/b")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_file_nobody_read_is_not_overwritten() {
    let desk = Desk::new();
    desk.put("a", "mine");
    let unread = "a exists but you have not read it; read it first";
    assert_eq!(failure(write(&desk, "a", "yours").await), unread);
    assert_eq!(failure(edit(&desk, "a", "mine", "yours").await), unread);
    read(&desk, json!({ "path": "a" })).await.unwrap();
    desk.put("a", "mine again");
    let stale = "a has changed since you last read or wrote it; read it again first";
    assert_eq!(failure(write(&desk, "a", "yours").await), stale);
    assert_eq!(failure(edit(&desk, "a", "mine", "yours").await), stale);
    assert_eq!(desk.get("a"), "mine again");
    read(&desk, json!({ "path": "a" })).await.unwrap();
    assert_eq!(edit(&desk, "a", "mine", "yours").await.unwrap(), "edited a (line 1)");
    assert_eq!(desk.get("a"), "yours again");
}

#[tokio::test]
async fn an_edit_keeps_line_ends_mark_and_mode() {
    let desk = Desk::new();
    let path = desk.put("a", "\u{feff}one\r\ntwo\r\nthree");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
    read(&desk, json!({ "path": "a" })).await.unwrap();
    edit(&desk, "a", "one\ntwo\n", "1\n2\n2.5\n").await.unwrap();
    assert_eq!(desk.get("a"), "\u{feff}1\r\n2\r\n2.5\r\nthree");
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o750);
}

#[tokio::test]
async fn links_stay_links() {
    let desk = Desk::new();
    let real = desk.put("real/file", "one");
    symlink("real/file", desk.path("link")).unwrap();
    std::fs::hard_link(&real, desk.path("twin")).unwrap();
    read(&desk, json!({ "path": "link" })).await.unwrap();
    edit(&desk, "real/file", "one", "two").await.unwrap();
    write(&desk, "link", "three").await.unwrap();
    assert!(desk.path("link").is_symlink());
    // Another name of the file may be anywhere: it goes on naming what the file was.
    assert_eq!((desk.get("real/file"), desk.get("twin")), ("three".into(), "one".into()));
    symlink("real/new", desk.path("dangling")).unwrap();
    write(&desk, "dangling", "x").await.unwrap();
    assert!(desk.path("dangling").is_symlink());
    assert_eq!(desk.get("real/new"), "x");
}

#[tokio::test]
async fn a_full_disk_or_a_missing_right_loses_nothing() {
    let desk = Desk::new();
    let failed = failure(write(&desk, "/proc/nowhere/file", "x").await);
    assert!(failed.starts_with("cannot write /proc/nowhere/file: "), "{failed}");
    desk.put("a", "one");
    assert!(failure(write(&desk, "a/b", "x").await).contains("Not a directory"));
    assert_eq!(desk.get("a"), "one");
}

#[tokio::test]
async fn access_names_the_file_itself() {
    let desk = Desk::new();
    let tool = std::sync::Arc::new(Write::new(desk.workspace.clone()));
    let prepared = tool.prepare(r#"{"path": "x/../y/./z", "content": ""}"#).unwrap();
    assert_eq!(prepared.access.writes.paths(), [desk.path("y/z")]);
}
